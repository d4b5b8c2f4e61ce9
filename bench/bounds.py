"""What parts of calls take, and NumPy's calls below them: times that explain those of the other scripts.

    python bench/bounds.py [--only PATTERN] [--rounds N] [--output DIR]

On one thread, beside no other library. `--only` times the parts whose names match, and saves nothing.
"""

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
from side_by_side import arguments, heading, machine, measure, place, repeated, show  # noqa: E402

from lite import TensorDict, grad, vmap  # noqa: E402
from lite import kernels as k  # noqa: E402
from lite.kernels.cpu.returns import short_advantages  # noqa: E402
from lite.nn.distributions import Normal  # noqa: E402

ROUND_SECONDS = 2e-3  # that a round of a way takes at least
CHAIN = 20  # NumPy's calls in one function, so that what is around them counts little


@dataclass(frozen=True)
class Part:
    """Ways to do one thing, which a call does `count` times."""

    name: str
    ways: dict[str, Callable[[], Any]]
    count: float = 1


class Own(np.ndarray[Any, Any]):
    """A subclass that adds nothing."""


def tensordicts() -> Iterator[Part]:
    """Containers of leaves (32, 4), and what NumPy takes for one leaf."""
    leaf = np.random.default_rng(0).random((32, 4), np.float32)
    hundred, parts = {str(i): leaf for i in range(100)}, [leaf] * 100
    shape, strides = (3, 32, 4), (0, *leaf.strides)
    three = np.ones(3, np.float32)
    own = three.view(Own)

    def view() -> None:
        np.ndarray(shape, leaf.dtype, leaf, 0, strides).setflags(False)  # type: ignore[call-arg]

    made = {"empty": lambda: TensorDict({}, []), "of 100 arrays": lambda: TensorDict(hundred, [32])}
    yield Part("a TensorDict", made)
    sums = {"all": lambda: np.add.reduce(leaf, None), "along an axis": lambda: np.add.reduce(leaf, 0)}
    yield Part("a sum of 128 numbers", sums)
    views = {"np.broadcast_to": lambda: np.broadcast_to(leaf, shape), "np.ndarray, read-only": view}
    yield Part("a repeated view", views)
    yield Part("an array joined to 99 others", {"np.concatenate": lambda: np.concatenate(parts)}, 100)
    added = {
        "arrays": lambda: three + three,
        "a subclass": lambda: own + own,
        "a subclass, the result an array": lambda: (own + own).view(np.ndarray),
    }
    yield Part("an addition of three numbers", added)


def transforms() -> Iterator[Part]:
    """NumPy's calls, alone and seen by `vmap` and `grad`."""
    x = np.random.default_rng(0).random((64, 16), np.float32)

    def chain(x: Any) -> Any:
        for _ in range(CHAIN):
            x = x * 0.5
        return x

    mapped, slope = vmap(chain), grad(lambda x: chain(x).sum())
    ways = {
        "NumPy": lambda: chain(x),
        "under vmap": lambda: mapped(x),
        "under grad, and back": lambda: slope(x),
    }
    yield Part("x * 0.5 of 64 x 16 numbers", ways, CHAIN)
    nothing = vmap(lambda x: x)
    yield Part("a call under vmap", {"a function that does nothing": lambda: nothing(x)})


def distributions() -> Iterator[Part]:
    """What a module that draws makes in each call."""
    ones = np.ones(3, np.float32)
    ways = {
        "checked": lambda: Normal(ones, ones),
        "unchecked": lambda: Normal(ones, ones, validate_args=False),
    }
    yield Part("a Normal of three numbers", ways)


def returns() -> Iterator[Part]:
    """Kernels of sequences."""
    rng = np.random.default_rng(0)

    def given(*shape: int, ends: float = 0.01) -> tuple[Any, ...]:
        return *rng.normal(size=(3, *shape)).astype(np.float32), rng.random(shape) < ends

    few, many = given(1, 128), given(1024, 128)
    flat = [array.reshape(-1) for array in few]
    memory, out = np.empty(4 * 128 + 1), np.empty((2, 128), np.float32)
    ways = {
        "the call": lambda: k.gae(*few, gamma=0.99, lmbda=0.95),
        "its compiled code": lambda: short_advantages(*flat, flat[3], 0.99, 0.95, *out, memory, 128),
    }
    yield Part("gae of 1 x 128", ways)
    # A step of gae reads three numbers and a flag and writes two numbers; a copy reads as much as it writes.
    source = np.zeros(1024 * 128 * (3 * 4 + 1 + 2 * 4) // 2, np.uint8)
    target = np.empty_like(source)
    ways = {
        "the call": lambda: k.gae(*many, gamma=0.99, lmbda=0.95),
        "a copy that moves as many bytes": lambda: np.copyto(target, source),
    }
    yield Part("gae of 1024 x 128", ways)

    def windows(array: tuple[Any, ...], steps: int) -> Callable[[], Any]:
        return lambda: k.multistep_return(array[0], array[3], gamma=0.99, n_steps=steps)

    long, endless = given(64, 1000), given(2, 100_000, ends=0)
    ways = {f"n_steps {n}": windows(long, n) for n in (3, 10, 100, 1000)}
    yield Part("multistep_return of 64 x 1000", ways)
    ways = {f"n_steps {n}": windows(endless, n) for n in (3, 1000, 100_000)}
    yield Part("multistep_return of 2 x 100000, without ends", ways)


def logits() -> Iterator[Part]:
    """Kernels of logits beside reading them."""
    rng = np.random.default_rng(0)
    for shape in ((8, 50257), (512, 32000)):
        given, tokens = rng.normal(size=shape).astype(np.float32), rng.integers(0, shape[1], shape[0])
        ways = {
            "token_log_probs": lambda given=given, tokens=tokens: k.token_log_probs(given, tokens),
            "NumPy's maximum": lambda given=given: given.max(),
        }
        yield Part(f"1000 logits of {shape[0]} x {shape[1]}", ways, given.size / 1000)


def pages() -> Iterator[Part]:
    """Pages of 4096 bytes of a mapped file that is new."""
    size, zeros = 16 << 20, bytes(1 << 20)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "file")

        def touched(ahead: bool) -> None:
            with file.open("wb+") as opened:
                opened.truncate(size)
                for start in range(0, size if ahead else 0, len(zeros)):
                    os.pwrite(opened.fileno(), zeros, start)
            np.memmap(file, np.uint8, "r+")[::4096] = 1
            file.unlink()

        ways = {"touched": lambda: touched(False), "written ahead, then touched": lambda: touched(True)}
        yield Part("a page of a new mapped file", ways, size / 4096)


def timed(part: Part, rounds: int) -> Iterator[dict[str, Any]]:
    """Microseconds of one of the things that a call does, way by way."""
    loops = {}
    for name, call in part.ways.items():
        call()
        start = time.perf_counter()
        call()
        loops[name] = max(1, round(ROUND_SECONDS / (time.perf_counter() - start)))
    runs = {name: repeated(call, loops[name]) for name, call in part.ways.items()}
    for name, taken in measure(runs, rounds, pause=0).items():
        scale = 1e3 / loops[name] / part.count
        times = {"us": taken["median_ms"] * scale, "min_us": taken["min_ms"] * scale}
        yield {"case": part.name, "way": name, **times}


def main() -> None:
    parser = arguments(__doc__, rounds=101)
    parser.add_argument("--only", default="", metavar="PATTERN", help="of the names of parts")
    asked = parser.parse_args()
    k.set_num_threads(1)
    about = {**machine(), "threads": 1, "kernels": k.backend()}
    rows = []
    for group in (tensordicts, transforms, distributions, returns, logits, pages):
        for part in group():
            if re.search(asked.only, part.name):
                rows += timed(part, asked.rounds)
    lines = [
        *heading("What bounds", about),
        "Medians of interleaved rounds in one process, in microseconds; minima in brackets.",
        "",
        "| what | how | microseconds |",
        "|---|---|--:|",
        *(f"| {r['case']} | {r['way']} | {r['us']:.3g} ({r['min_us']:.3g}) |" for r in rows),
    ]
    show(place(asked, part=bool(asked.only)), "bounds", lines, {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
