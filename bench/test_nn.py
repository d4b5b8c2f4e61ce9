"""Overhead per call of lite's modules beside tensordict's, in one process.

    python bench/test_nn.py

Arrays of three floats, so that what is measured is everything but the computation. Both libraries run on
one thread and in turns; medians over rounds (minima in brackets), microseconds per call. A round lasts
about a third of a millisecond, less than a scheduler's time slice, so that on a busy machine few rounds are
interrupted.
torch runs under no_grad.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import tensordict  # noqa: E402
import tensordict.nn  # noqa: E402
import torch  # noqa: E402
from side_by_side import arguments, heading, machine, place, show  # noqa: E402

import lite  # noqa: E402
import lite.nn  # noqa: E402
from lite.nn.distributions import Normal  # noqa: E402

ROUNDS = 201
ROUND_SECONDS = 0.3e-3


def identity(x: Any) -> Any:
    return x


def swapping(source: Any, module: Any) -> Callable[[], None]:
    def swap() -> None:
        with source.to_module(module):
            pass

    return swap


def cases(td: Any, nn: Any, layers_of: Any, normal: Any, array: Any) -> dict[str, Callable[[], Any]]:
    """The same calls for either library."""
    one = nn.TensorDictModule(identity, ["x"], ["y"])
    nested = nn.TensorDictModule(identity, [("in", "x")], [("out", "y")])
    linear = layers_of.Linear
    names = ["x", "a", "b", "y"]
    three = nn.TensorDictSequential(
        *[nn.TensorDictModule(identity, [i], [o]) for i, o in itertools.pairwise(names)]
    )
    selected = nn.TensorDictModule(lambda x: (x, x), ["x"], ["y", "z"]).select_out_keys("z")
    layers = nn.TensorDictSequential(
        *[nn.TensorDictModule(linear(3, 3), [i], [o]) for i, o in itertools.pairwise(names)]
    )
    sampling = nn.ProbabilisticTensorDictModule(["loc", "scale"], ["x"], distribution_class=normal)
    drawing = nn.ProbabilisticTensorDictModule(
        ["loc", "scale"],
        ["x"],
        distribution_class=normal,
        default_interaction_type="random",
        return_log_prob=True,
    )
    moments = td({"loc": array, "scale": array})
    net = layers_of.Sequential(*[linear(3, 3) for _ in range(6)])
    params = td.from_module(net)
    data, deep, batch = td({"x": array}), td({"in": {"x": array}}), td({"x": array}, batch_size=[3])
    return {
        "identity TensorDictModule": lambda: one(data),
        "identity, batch size (3,)": lambda: one(batch),
        "identity, nested keys": lambda: nested(deep),
        "identity, selected output": lambda: selected(data),
        "3-module TensorDictSequential": lambda: three(data),
        "3 Linear(3, 3) in a TensorDictSequential": lambda: layers(data),
        "dispatch by keyword": lambda: one(x=array),
        "dispatch by position": lambda: one(array),
        "dispatch of a 3-module TensorDictSequential": lambda: three(x=array),
        "ProbabilisticTensorDictModule of a Normal": lambda: sampling(moments),
        "the same, drawn and scored": lambda: drawing(moments),
        "with params.to_module(m), 12 leaves": swapping(params, net),
        "the same, params locked": swapping(params.copy().lock_(), net),
        "the same, plain arrays": swapping(params.data, net),
    }


def per_call(function: Callable[[], Any], calls: int) -> float:
    """Seconds per call, over one round."""
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def calls_per_round(function: Callable[[], Any]) -> int:
    per_call(function, 50)  # warm up
    estimate = min(per_call(function, 5) for _ in range(20))
    return max(1, round(ROUND_SECONDS / estimate))


def main() -> None:
    asked = arguments(__doc__, ROUNDS).parse_args()
    torch.set_num_threads(1)
    array = np.ones(3, dtype=np.float32)
    mine = cases(lite.TensorDict, lite.nn, lite.nn, Normal, array)
    tensor = torch.from_numpy(array)
    theirs = cases(tensordict.TensorDict, tensordict.nn, torch.nn, torch.distributions.Normal, tensor)
    rows = []
    with torch.no_grad():
        for name, call in mine.items():
            pair = [(function, calls_per_round(function)) for function in (call, theirs[name])]
            times = [
                [per_call(function, calls) * 1e6 for function, calls in pair] for _ in range(asked.rounds)
            ]
            a, b = (statistics.median(column) for column in zip(*times, strict=True))
            least, least_b = (min(column) for column in zip(*times, strict=True))
            rows.append(
                {
                    "case": name,
                    "lite_us": round(a, 2),
                    "tensordict_us": round(b, 2),
                    "ratio": round(b / a, 1),
                    "lite_min_us": round(least, 2),
                    "tensordict_min_us": round(least_b, 2),
                }
            )
    about = machine(torch, tensordict) | {"threads": 1}
    show(place(asked), "nn", table(rows, about), {"about": about, "rows": rows})


def table(rows: list[dict[str, Any]], about: dict[str, Any]) -> list[str]:
    return [
        *heading("Modules", about),
        "Arrays of three floats.",
        "Medians of interleaved rounds in one process, in microseconds; minima in brackets.",
        "",
        "| call | lite | tensordict | times faster |",
        "|---|--:|--:|--:|",
        *(
            f"| {row['case']} | {row['lite_us']} ({row['lite_min_us']}) "
            f"| {row['tensordict_us']} ({row['tensordict_min_us']}) | {row['ratio']} |"
            for row in rows
        ),
    ]


if __name__ == "__main__":
    main()
