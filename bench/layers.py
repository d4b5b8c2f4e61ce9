"""Layers beside torch's, with the same weights, on one thread; and stacked parameters under vmap.

    python -m lite.kernels.prebuild --output KERNELS
    LITE_KERNELS_PATH=KERNELS python bench/layers.py [--only PATTERN] [--rounds N] [--output DIR]

Kernels compiled beforehand are those of wheels. Without the first line Numba compiles those of large arrays,
and NumPy computes small ones. float32, evaluation mode, torch under no_grad. Results go to
bench/results/layers.md; `--only` times the layers whose names match, and saves nothing.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402
from side_by_side import arguments, machine, measure, place, report, row  # noqa: E402

from lite import from_modules, nn, vmap  # noqa: E402
from lite.kernels import backend  # noqa: E402

COPIES = 16

Case = tuple[str, tuple[Any, ...], dict[str, Any], list[tuple[int, ...]]]
BATCH_FIRST = {"batch_first": True}
CASES: list[Case] = [
    ("Linear", (128, 512), {}, [(512, 128)]),
    ("Conv1d", (16, 32, 5), {}, [(16, 16, 256)]),
    ("Conv2d", (3, 16, 3), {}, [(8, 3, 64, 64)]),
    ("Conv2d", (32, 64, 3), {"padding": 1}, [(8, 32, 32, 32)]),
    ("Conv2d", (4, 32, 8), {"stride": 4}, [(32, 4, 84, 84)]),
    ("Conv2d", (32, 32, 3), {"groups": 32}, [(8, 32, 32, 32)]),
    ("MaxPool2d", (2,), {}, [(8, 16, 64, 64)]),
    ("AvgPool2d", (2,), {}, [(8, 16, 64, 64)]),
    ("LayerNorm", (128,), {}, [(16, 32, 128)]),
    ("GELU", (), {}, [(16, 32, 512)]),
    ("GELU", ("tanh",), {}, [(16, 32, 512)]),
    ("GELU", (), {}, [(64, 64)]),
    ("LayerNorm", (64,), {}, [(64, 64)]),
    ("SiLU", (), {}, [(16, 32, 512)]),
    ("Softmax", (-1,), {}, [(16, 32, 512)]),
    ("GRUCell", (32, 64), {}, [(32, 32)]),
    ("GRU", (32, 64), {}, [(20, 32, 32)]),
    ("GRU", (32, 64), {}, [(20, 32)]),
    ("GRU", (64, 64), {"num_layers": 2, "bidirectional": True}, [(20, 32, 64)]),
    ("LSTM", (32, 64), {}, [(20, 32, 32)]),
    ("LSTM", (128, 256), {}, [(50, 16, 128)]),
    ("MultiheadAttention", (128, 8), BATCH_FIRST, [(16, 32, 128)] * 3),
    ("TransformerEncoderLayer", (128, 8, 512), BATCH_FIRST, [(16, 32, 128)]),
    ("TransformerEncoderLayer", (64, 4, 128), BATCH_FIRST, [(1, 10, 64)]),
    ("TransformerDecoderLayer", (128, 8, 512), BATCH_FIRST, [(16, 32, 128), (16, 32, 128)]),
]
MAPPED: list[Case] = [
    ("Conv2d", (3, 8, 3), {}, [(4, 3, 16, 16)]),
    ("GRU", (16, 32), {}, [(10, 4, 16)]),
    ("LSTM", (16, 32), {}, [(10, 4, 16)]),
    ("TransformerEncoderLayer", (32, 4, 64), {}, [(10, 4, 32)]),
]


def name_of(case: Case) -> str:
    name, args, options, shapes = case
    inside = ", ".join([*map(str, args), *(f"{key}={value}" for key, value in options.items())])
    return f"{name}({inside}) of {shapes[0]}"


def first(out: Any) -> Any:
    return out[0] if isinstance(out, tuple) else out


def beside_torch(case: Case) -> dict[str, Callable[[], Any]]:
    """The same call of both libraries, after a look at what comes out."""
    name, args, options, shapes = case
    theirs = getattr(torch.nn, name)(*args, **options).eval()
    ours = getattr(nn, name)(*args, **options).eval()
    ours.load_state_dict(theirs.state_dict())
    arrays = [np.random.default_rng(0).random(shape, np.float32) for shape in shapes]
    if name == "MultiheadAttention":
        arrays = [arrays[0]] * 3  # self-attention, for which both have a shorter way
    tensors = (
        [torch.from_numpy(arrays[0])] * 3
        if name == "MultiheadAttention"
        else list(map(torch.from_numpy, arrays))
    )
    np.testing.assert_allclose(first(ours(*arrays)), first(theirs(*tensors)).numpy(), rtol=1e-4, atol=1e-4)
    return {"lite": lambda: ours(*arrays), "torch": lambda: theirs(*tensors)}


def beside_a_loop(case: Case) -> dict[str, Callable[[], Any]]:
    """Stacked parameters of several modules under vmap, and the modules one after the other."""
    name, args, options, (shape,) = case
    modules = [getattr(nn, name)(*args, **options).eval() for _ in range(COPIES)]
    params, x = from_modules(*modules), np.random.default_rng(0).random(shape, np.float32)

    def run(p: Any) -> Any:
        with p.to_module(modules[0]):
            return first(modules[0](x))

    mapped = vmap(run)
    return {
        "lite": lambda: mapped(params),
        "a loop over lite's modules": lambda: np.stack([first(module(x)) for module in modules]),
    }


def main() -> None:
    parser = arguments(__doc__, rounds=51)
    parser.add_argument("--only", default="", metavar="PATTERN", help="of the names of layers")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    about = machine(torch) | {"kernels": backend(), "threads": 1}
    rows = []
    with torch.no_grad():
        for case in (case for case in CASES if re.search(asked.only, name_of(case))):
            rows.append(row(name_of(case), "torch", measure(beside_torch(case), asked.rounds)))
        for case in (case for case in MAPPED if re.search(asked.only, name_of(case))):
            result = measure(beside_a_loop(case), asked.rounds)
            rows.append(row(f"vmap, {COPIES} x {name_of(case)}", "a loop over lite's modules", result))
    report(place(asked, part=bool(asked.only)), "layers", "Layers", rows, about)


if __name__ == "__main__":
    main()
