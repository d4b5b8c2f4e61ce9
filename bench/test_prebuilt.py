"""Kernels compiled beforehand beside the same ones compiled by Numba, in one process; and first calls.

    python -m lite.kernels.prebuild --output DIR
    python bench/test_prebuilt.py DIR [--rounds N] [--output DIR]

Numba compiles for exactly this processor, the library for its level. Kernels change places between rounds.
"""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["LITE_KERNELS"] = "numba"  # before lite is imported: the library is loaded below

import numpy as np
from side_by_side import arguments, machine, measure, place, report, row

import lite.kernels as k
from lite.kernels import _layers, _optimizers
from lite.kernels.backends import prebuilt
from lite.kernels.prebuild.signatures import SIGNATURES

FIRST = """
import time
import numpy as np
import lite.kernels as k
reward, done = np.ones((1, 128), np.float32), np.zeros((1, 128), bool)
wall, cpu = time.perf_counter(), time.process_time()
k.gae(reward, reward, reward, done, gamma=0.99, lmbda=0.95)
print(time.perf_counter() - wall, time.process_time() - cpu)
"""
Kernels = list[tuple[Any, str, Any]]


def both(library: prebuilt.Library) -> dict[str, Kernels]:
    """Where kernels are, and what may stand there: what Numba compiles, and what the library holds."""
    found: dict[str, Kernels] = {"lite": [], "Numba": []}
    for name in SIGNATURES:
        file, _, function = name.partition(".")
        module = importlib.import_module(f"lite.kernels.cpu.{file}")
        compiled = getattr(module, function)
        found["Numba"].append((module, function, compiled))
        found["lite"].append((module, function, library.entry(name, compiled)))
    return found


def cases() -> list[tuple[str, int, Callable[[], Any]]]:
    """Names, how often a round calls, and the calls."""
    rng = np.random.default_rng(0)

    def floats(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    r, v, n, done = floats(1, 128), floats(1, 128), floats(1, 128), rng.random((1, 128)) < 0.05
    short, ends = floats(1, 32), rng.random((1, 32)) < 0.05
    long, stops = floats(64, 1000), rng.random((64, 1000)) < 0.05
    values, following = floats(64, 1000), floats(64, 1000)
    tree = k.sum_tree(1 << 16)
    k.update_sum_tree(tree, np.arange(1 << 16), rng.random(1 << 16))
    mass = rng.random(32) * tree[1]
    logits, tokens = floats(64, 32_000), rng.integers(0, 32_000, 64)
    few, seeds = floats(8, 32_000) * 3, np.arange(8)
    x = floats(1 << 20)
    leaf = [[floats(1 << 20) for _ in range(4)] + [np.empty(0, np.float32)]]
    numbers = np.full(8, 0.5, np.float32)
    return [
        ("gae, 1x128", 200, lambda: k.gae(r, v, n, done, gamma=0.99, lmbda=0.95)),
        ("multistep_return, 1x32, n=3", 200, lambda: k.multistep_return(short, ends, gamma=0.99, n_steps=3)),
        ("search_sum_tree, 32 of 65,536", 200, lambda: k.search_sum_tree(tree, mass)),
        ("gae, 64x1000", 5, lambda: k.gae(long, values, following, stops, gamma=0.99, lmbda=0.95)),
        ("multistep_return, 64x1000, n=3", 5, lambda: k.multistep_return(long, stops, gamma=0.99, n_steps=3)),
        ("token_log_probs, 64x32000", 3, lambda: k.token_log_probs(logits, tokens)),
        ("masked_log_softmax, 64x32000", 1, lambda: k.masked_log_softmax(logits)),
        ("sample_tokens, 8x32000, top-p", 5, lambda: k.sample_tokens(few, seeds, top_p=0.9)),
        ("gelu, 1,048,576", 5, lambda: _layers.pointwise("gelu", x)),
        (
            "layer norm, 1024x1024",
            5,
            lambda: _layers.layer_norm(x.reshape(1024, 1024), None, None, 1024, 1e-5),
        ),
        ("adam, 1,048,576", 3, lambda: _optimizers.advance("adam", leaf, numbers)),
    ]


def repeated(kernels: Kernels, times: int, call: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        for module, name, kernel in kernels:
            setattr(module, name, kernel)
        for _ in range(times):
            call()

    return run


def first_calls(rounds: int) -> dict[str, Any]:
    """Of a kernel in new processes: out of the library, and out of Numba's cache."""
    taken: dict[str, list[tuple[float, float]]] = {"lite": [], "Numba": []}
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    for _ in range(rounds + 1):
        for name, backend in (("lite", "prebuilt"), ("Numba", "numba")):
            done = subprocess.run(
                [sys.executable, "-c", FIRST],
                env=environment | {"LITE_KERNELS": backend}, capture_output=True, text=True, check=True,
            )  # fmt: skip
            wall, cpu = map(float, done.stdout.split())
            taken[name].append((1e3 * wall, 1e3 * cpu))
    found = {}
    for name, times in taken.items():
        wall, cpu = np.array(times[1:]).T  # the first of all filled the caches
        found[name] = {"median_ms": np.median(wall), "min_ms": wall.min(), "cpu_ms": cpu.min()}
    return found


def main() -> None:
    parser = arguments(__doc__, rounds=101)
    parser.add_argument("folder", nargs="?", help="of libraries (LITE_KERNELS_PATH, or what is installed)")
    asked = parser.parse_args()
    if asked.folder is not None:
        os.environ["LITE_KERNELS_PATH"] = asked.folder
    reasons: list[str] = []
    library = prebuilt.find(None, reasons)
    if library is None:
        how = "python -m lite.kernels.prebuild --output DIR makes one, and LITE_KERNELS_PATH=DIR names it"
        sys.exit("\n".join([*reasons, f"error: no library fits: {how}"]))
    k.set_num_threads(1)
    about = machine() | {"level": library.level, "threads": 1, "library_bytes": library.path.stat().st_size}
    kernels = both(library)
    rows = []
    for name, times, call in cases():
        alternatives = {side: repeated(found, times, call) for side, found in kernels.items()}
        result = measure(alternatives, asked.rounds, pause=0)
        each = {side: {key: t / times for key, t in r.items()} for side, r in result.items()}
        rows.append(row(name, "Numba", each))
        time.sleep(0.1)
    rows.append(row("first call of a process, gae, 1x128", "Numba's cache", _named(first_calls(9))))
    report(place(asked), "prebuilt", "Kernels compiled beforehand, beside Numba", rows, about)


def _named(result: dict[str, Any]) -> dict[str, Any]:
    return {"lite": result["lite"], "Numba's cache": result["Numba"]}


if __name__ == "__main__":
    main()
