"""`vmap` of a network with 3 linear layers over 64 stacked parameter sets, beside a loop and torch.vmap.

    python bench/vmap.py

Columns: `lite.vmap` of a function that puts the parameters into the module; the loop over the 64 modules
with a stack of the results; the loop over the 64 parameter sets of the stacked TensorDict, each put into
one module; the computation written by hand with np.matmul on the stacked arrays; torch.vmap of
functional_call, and torch.vmap with tensordict's to_module. All on one thread. Results go to
bench/results/vmap.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import tensordict  # noqa: E402
import torch  # noqa: E402
from side_by_side import arguments, machine, measure, place, report, rows_of  # noqa: E402

import lite  # noqa: E402
import lite.nn  # noqa: E402

SETS = 64
ACTIVATIONS = {"ReLU": lambda x: np.maximum(x, 0), "Tanh": np.tanh}
LAYERS = ("0", "2", "4")


def network(nn: Any, width: int, activation: str) -> Any:
    act = getattr(nn, activation)
    return nn.Sequential(
        nn.Linear(width, width), act(), nn.Linear(width, width), act(), nn.Linear(width, width)
    )


def cases(width: int, batch: int, activation: str) -> dict[str, Callable[[], Any]]:
    """The same computation in each way; all results are equal."""
    modules = [network(lite.nn, width, activation) for _ in range(SETS)]
    params, module = lite.from_modules(*modules), network(lite.nn, width, activation)
    x = np.random.default_rng(0).standard_normal((batch, width)).astype(np.float32)

    def call(params: Any, x: Any) -> Any:
        with params.to_module(module):
            return module(x)

    mapped = lite.vmap(call, (0, None))
    arrays = [(params[i, "weight"].swapaxes(1, 2), params[i, "bias"][:, None]) for i in LAYERS]
    act = ACTIVATIONS[activation]

    def by_hand() -> Any:
        out: Any = x
        for layer, (weight, bias) in enumerate(arrays):
            out = np.matmul(out, weight) + bias
            if layer < 2:
                out = act(out)
        return out

    other = network(torch.nn, width, activation)
    theirs = tensordict.TensorDict(
        {
            i: {name: torch.from_numpy(np.array(params[i, name])) for name in ("weight", "bias")}
            for i in LAYERS
        },
        batch_size=[SETS],
    )
    flat = dict(theirs.flatten_keys(".").items())
    tensor = torch.from_numpy(x)
    functional = torch.vmap(lambda p, x: torch.func.functional_call(other, p, (x,)), (0, None))

    def swapped(params: Any, x: Any) -> Any:
        with params.to_module(other):
            return other(x)

    through = torch.vmap(swapped, (0, None))
    return {
        "lite": lambda: mapped(params, x),
        "loop over modules": lambda: np.stack([m(x) for m in modules]),
        "loop over parameters": lambda: np.stack([call(params[i], x) for i in range(SETS)]),
        "by hand": by_hand,
        "torch.vmap": lambda: functional(flat, tensor),
        "torch.vmap, to_module": lambda: through(theirs, tensor),
    }


def main() -> None:
    asked = arguments(__doc__, rounds=25).parse_args()
    torch.set_num_threads(1)
    about = machine(torch, tensordict) | {"sets": SETS, "threads": 1}
    rows = []
    with torch.no_grad():
        for activation in ACTIVATIONS:
            for batch, width in (
                (1, 64),
                (16, 16),
                (16, 64),
                (256, 4),
                (256, 8),
                (256, 16),
                (256, 32),
                (256, 64),
                (256, 128),
            ):
                calls = cases(width, batch, activation)
                results = {name: np.asarray(call()) for name, call in calls.items()}
                for result in results.values():
                    np.testing.assert_allclose(result, results["by hand"], rtol=1e-3, atol=1e-4)
                name = f"{activation}, batch {batch}, width {width}"
                rows += rows_of(name, measure(calls, asked.rounds, pause=0))
    report(place(asked), "vmap", "vmap of a 3-layer network over 64 parameter sets", rows, about)


if __name__ == "__main__":
    main()
