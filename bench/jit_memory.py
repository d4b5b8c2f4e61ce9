"""Memory of a process that trains, for `bench/test_jit.py`: `jit_memory.py CASE jit` (plain, session)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from jit_steps import learning, regression

import lite
from lite import TensorDict, nn, optim

STEPS = 30


def perceptron() -> nn.Module:
    """8-64-64-4 with tanh."""
    return nn.MLP(8, 4, num_cells=[64, 64], activation_class=nn.Tanh)


def convolutions() -> nn.Module:
    """The network of Mnih et al. (2015) for frames of Atari games."""
    return nn.Sequential(
        *(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1)),
        *(nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6)),
    )


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "MLP, Adam, batch 256": (perceptron, (256, 8), 4),
    "Atari CNN, Adam, batch 32": (convolutions, (32, 4, 84, 84), 6),
}


def train(case: str, graph: bool) -> None:
    """Some steps."""
    make, shape, outputs = CASES[case]
    net, adam = make(), optim.Adam(1e-3)

    update = regression(net, adam)
    step = lite.jit(update, donate=("params", "state"), threads=1) if graph else update
    rng = np.random.default_rng(0)
    x, y = rng.random(shape, np.float32), rng.random((shape[0], outputs), np.float32)
    call = learning(step, TensorDict.from_module(net), adam, x, y)
    for _ in range(STEPS):
        call()


def session() -> None:
    """What a process has that runs one addition by onnxruntime."""
    step = lite.jit(lambda x: x + 1, threads=1)
    step(np.ones(2, np.float32))


def megabytes(case: str, form: str) -> float:
    """The largest resident set of a process of its own."""
    taken = subprocess.run([sys.executable, __file__, case, form], check=True, capture_output=True, text=True)
    return float(taken.stdout)


def table() -> str:
    """Lines for what was found."""
    lines = [
        "",
        "Largest resident set of a process that trains (a graph needs onnxruntime, which is in it):",
        "",
    ]
    lines += ["| case | lite | lite, plain | times |", "|---|--:|--:|--:|"]
    for case in CASES:
        graph, plain = megabytes(case, "jit"), megabytes(case, "plain")
        lines.append(f"| {case} | {graph:.0f} MB | {plain:.0f} MB | {graph / plain:.2f} |")
    lines.append(f"| one addition | {megabytes('', 'session'):.0f} MB | | |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    session() if sys.argv[2] == "session" else train(sys.argv[1], sys.argv[2] == "jit")
    # Not of getrusage: that begins with the memory of the process that started this one.
    largest = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert largest is not None
    print(int(largest[1]) * 1024 / 1e6)
