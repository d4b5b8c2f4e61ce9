"""What parts of calls take, and NumPy's calls below them: times that explain those of the other scripts.

    python bench/bounds.py [--only PATTERN]

On one thread, beside no other library. `--only` times the parts whose names match, and saves nothing.
"""

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
from side_by_side import arguments, machine, measure, place, save  # noqa: E402

from lite import TensorDict, grad, vmap  # noqa: E402
from lite import kernels as k  # noqa: E402
from lite.nn.distributions import Normal  # noqa: E402

Ways = dict[str, Callable[[], Any]]
ROUND_SECONDS = 2e-3  # that a round of a way takes at least
CHAIN = 20  # NumPy's calls in one function, so that what is around them counts little


class Own(np.ndarray[Any, Any]):
    """A subclass that adds nothing."""


def tensordicts() -> Iterator[tuple[str, float, Ways]]:
    """Name, how many of the thing are in one call, and the ways to do it."""
    leaf = np.random.default_rng(0).random((32, 4), np.float32)
    hundred = {str(i): leaf for i in range(100)}
    yield (
        "a TensorDict",
        1,
        {"empty": lambda: TensorDict({}, []), "of 100 arrays": lambda: TensorDict(hundred, [32])},
    )
    yield (
        "a sum of 128 numbers",
        1,
        {"all": lambda: np.add.reduce(leaf, None), "along an axis": lambda: np.add.reduce(leaf, 0)},
    )
    shape, strides = (3, 32, 4), (0, *leaf.strides)

    def view() -> None:
        np.ndarray(shape, leaf.dtype, leaf, 0, strides).setflags(False)  # type: ignore[call-arg]

    yield "a repeated view", 1, {"np.broadcast_to": lambda: np.broadcast_to(leaf, shape), "np.ndarray": view}
    parts = [leaf] * 100
    yield "an array joined to 99 others", 100, {"np.concatenate": lambda: np.concatenate(parts)}
    three = np.ones(3, np.float32)
    own = three.view(Own)
    yield (
        "a sum of three numbers",
        1,
        {
            "arrays": lambda: three + three,
            "a subclass": lambda: own + own,
            "a subclass, the result an array": lambda: (own + own).view(np.ndarray),
        },
    )


def transforms() -> Iterator[tuple[str, float, Ways]]:
    """NumPy's calls, alone and seen by `vmap` and `grad`."""
    x = np.random.default_rng(0).random((64, 16), np.float32)

    def chain(x: Any) -> Any:
        for _ in range(CHAIN):
            x = x * 0.5
        return x

    slope = grad(lambda x: chain(x).sum())
    yield (
        "x * 0.5, 64 x 16 numbers",
        CHAIN,
        {
            "NumPy": lambda: chain(x),
            "under vmap": lambda: vmap(chain)(x),
            "under grad, and back": lambda: slope(x),
        },
    )
    yield "a call under vmap", 1, {"a function that does nothing": lambda: vmap(lambda x: x)(x)}


def distributions() -> Iterator[tuple[str, float, Ways]]:
    """What a module that draws makes in each call."""
    ones = np.ones(3, np.float32)
    yield (
        "a Normal of three numbers",
        1,
        {
            "checked": lambda: Normal(ones, ones),
            "unchecked": lambda: Normal(ones, ones, validate_args=False),
        },
    )


def returns() -> Iterator[tuple[str, float, Ways]]:
    """Kernels of sequences."""
    rng = np.random.default_rng(0)

    def given(*shape: int) -> tuple[Any, ...]:
        return *rng.normal(size=(3, *shape)).astype(np.float32), rng.random(shape) < 0.01

    few, many, long = given(1, 128), given(1024, 128), given(64, 1000)
    factors = {"gamma": 0.99, "lmbda": 0.95}
    from lite.kernels.cpu.returns import short_advantages

    flat = [np.ascontiguousarray(array.reshape(-1)) for array in few]
    memory, out = np.empty(4 * 128 + 1), np.empty((2, 128), np.float32)
    yield (
        "gae of 1 x 128",
        1,
        {
            "the call": lambda: k.gae(*few, **factors),
            "its compiled code": lambda: short_advantages(*flat, flat[3], 0.99, 0.95, *out, memory, 128),
        },
    )
    # A step of gae reads three numbers and a flag and writes two; a copy reads and writes.
    moved = np.zeros(many[0].size * (3 * 4 + 1 + 2 * 4) // 2, np.uint8)
    copied = np.empty_like(moved)
    yield (
        "gae of 1024 x 128",
        1,
        {
            "the call": lambda: k.gae(*many, **factors),
            "a copy that moves as many bytes": lambda: np.copyto(copied, moved),
        },
    )

    def windows(array: tuple[Any, ...], steps: int) -> Callable[[], Any]:
        return lambda: k.multistep_return(array[0], array[3], gamma=0.99, n_steps=steps)

    yield "multistep_return of 64 x 1000", 1, {f"n_steps {n}": windows(long, n) for n in (3, 10, 100, 1000)}
    endless = (rng.normal(size=(2, 100_000)).astype(np.float32), None, None, np.zeros((2, 100_000), bool))
    yield (
        "multistep_return of 2 x 100,000, without ends",
        1,
        {f"n_steps {n}": windows(endless, n) for n in (3, 1000, 100_000)},
    )


def logits() -> Iterator[tuple[str, float, Ways]]:
    """Kernels of logits beside reading them."""
    rng = np.random.default_rng(0)
    for shape in ((8, 50257), (512, 32000)):
        given, tokens = rng.normal(size=shape).astype(np.float32), rng.integers(0, shape[1], shape[0])
        rows, cols = shape
        yield (
            f"16 logits of {rows} x {cols}",
            rows * cols / 16,
            {
                "token_log_probs": lambda g=given, t=tokens: k.token_log_probs(g, t),
                "NumPy's maximum": lambda g=given: g.max(),
            },
        )


def pages() -> Iterator[tuple[str, float, Ways]]:
    """Pages of 4096 bytes of a mapped file that is new."""
    size = 16 << 20
    zeros = bytes(1 << 20)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "file")

        def touched(ahead: bool) -> None:
            file.unlink(missing_ok=True)
            with file.open("wb+") as opened:
                opened.truncate(size)
                if ahead:
                    for start in range(0, size, len(zeros)):
                        os.pwrite(opened.fileno(), zeros, start)
            np.memmap(file, np.uint8, "r+")[::4096] = 1

        yield (
            "a page of a new mapped file",
            size / 4096,
            {
                "touched": lambda: touched(ahead=False),
                "written ahead, then touched": lambda: touched(ahead=True),
            },
        )


def timed(ways: Ways, count: float, rounds: int) -> Iterator[dict[str, Any]]:
    """Microseconds of one of the `count` things that a call does, way by way."""
    loops = {}
    for name, call in ways.items():
        call()
        start = time.perf_counter()
        call()
        loops[name] = max(1, round(ROUND_SECONDS / (time.perf_counter() - start)))

    def looped(name: str) -> Callable[[], None]:
        def run() -> None:
            for _ in range(loops[name]):
                ways[name]()

        return run

    for name, taken in measure({name: looped(name) for name in ways}, rounds, pause=0).items():
        scale = 1e3 / loops[name] / count
        yield {"way": name, "us": taken["median_ms"] * scale, "min_us": taken["min_ms"] * scale}


def main() -> None:
    parser = arguments(__doc__, rounds=101)
    parser.add_argument("--only", default="", metavar="PATTERN", help="of the names of parts")
    asked = parser.parse_args()
    k.set_num_threads(1)
    about = {**machine(), "threads": 1, "kernels": k.backend()}
    rows = []
    for group in (tensordicts, transforms, distributions, returns, logits, pages):
        for name, count, ways in group():
            if re.search(asked.only, name):
                rows += [{"case": name, **row} for row in timed(ways, count, asked.rounds)]
    lines = [
        "# What bounds",
        "",
        ", ".join(f"{key} {value}" for key, value in about.items()) + ".",
        "Medians of interleaved rounds in one process, in microseconds; minima in brackets.",
        "",
        "| what | how | microseconds |",
        "|---|---|--:|",
        *(f"| {r['case']} | {r['way']} | {r['us']:.3g} ({r['min_us']:.3g}) |" for r in rows),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    save(place(asked, part=bool(asked.only)), "bounds", text, {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
