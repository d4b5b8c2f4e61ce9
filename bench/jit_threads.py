"""Steps of `lite.jit` on one thread and on two: `python bench/jit_threads.py`; writes results/jit_threads.md.

What `lite.jit` chooses by default (`lite/_transforms/jit/threads.py`) is the last column.
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy and torch are imported
os.environ["TORCHDYNAMO_DISABLE"] = "1"  # nothing of torch is timed here

import time  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import jit_losses  # noqa: E402
import jit_networks  # noqa: E402
import numpy as np  # noqa: E402
from jit_networks import numbers, steps, tanh_network  # noqa: E402
from side_by_side import machine  # noqa: E402

import lite  # noqa: E402
from lite import nn  # noqa: E402
from lite._transforms.jit.runner import Runner  # noqa: E402

SECONDS = 4.0  # of each case
RESULTS = Path(__file__).parent / "results" / "jit_threads.md"


def _mlp(batch: int, threads: Any) -> Callable[[], Any]:
    return steps(tanh_network(nn, 4), numbers(batch, 8), numbers(batch, 4, seed=1), threads)["lite"]


def _wide(batch: int, threads: Any) -> Callable[[], Any]:
    net = nn.MLP(16, 4, num_cells=[256, 256], activation_class=nn.Tanh)
    return steps(net, numbers(batch, 16), numbers(batch, 4, seed=1), threads)["lite"]


def _of_rows(function: Callable[[Any], Any], rows: int, threads: Any) -> Callable[[], Any]:
    x, call = numbers(rows, 1024), lite.jit(function, threads=threads)
    return lambda: call(x)


CASES: dict[str, Callable[[Any], Callable[[], Any]]] = {
    **{f"MLP 8-64-64-4, Adam, batch {n}": lambda t, n=n: _mlp(n, t) for n in (32, 256, 1024, 4096)},
    **{f"MLP 16-256-256-4, Adam, batch {n}": lambda t, n=n: _wide(n, t) for n in (64, 256)},
    "DQN update, batch 64": lambda t: jit_losses.dqn(t)["lite"],
    "PPO update, batch 64": lambda t: jit_losses.ppo(t)["lite"],
    "SAC update, 64 cells, batch 64": lambda t: jit_losses.sac(64, 64, t)["lite"],
    "SAC update, 256 cells, batch 256": lambda t: jit_losses.sac(256, 256, t)["lite"],
    "64 critics, Adam, batch 64": lambda t: jit_networks.ensemble(64, t)["lite"],
    "GRU, 32 steps, Adam, batch 32": lambda t: jit_networks.recurrent(32, t)["lite"],
    "Atari CNN, Adam, batch 4": lambda t: jit_networks.convolutions(4, t)["lite"],
    "Atari CNN, Adam, batch 32": lambda t: jit_networks.convolutions(32, t)["lite"],
    **{f"tanh of {n} x 1024": lambda t, n=n: _of_rows(np.tanh, n, t) for n in (64, 256, 1024)},
    **{
        f"x - max by rows, exp, of {n} x 1024": lambda t, n=n: _of_rows(
            lambda x: np.exp(x - x.max(1, keepdims=True)), n, t
        )
        for n in (64, 256, 1024)
    },
}


def main() -> None:
    warnings.simplefilter("ignore")
    opened: list[Any] = []
    opening = Runner._open

    def noting(runner: Runner) -> None:
        opened.append(runner.program.threads)
        opening(runner)

    Runner._open = noting  # type: ignore[method-assign]
    lines = []
    for case, make in CASES.items():
        calls = {threads: make(threads) for threads in (1, 2)}
        for call in calls.values():
            call()
        start = time.perf_counter()
        calls[1]()
        times = max(1, int(0.01 / (time.perf_counter() - start)))
        taken: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end or len(taken[2]) < 7:
            for threads, call in calls.items():
                wall, processor = time.perf_counter(), time.process_time()
                for _ in range(times):
                    call()
                found = time.perf_counter() - wall, time.process_time() - processor
                taken[threads].append((found[0] / times * 1e3, found[1] / times * 1e3))
        one, two = (np.median(taken[threads], axis=0) for threads in (1, 2))
        least_one, least_two = (np.min(taken[threads], axis=0) for threads in (1, 2))
        lines.append(
            f"| {case} | {one[0]:.3g} ms ({least_one[0]:.3g}) | {two[0]:.3g} ms ({least_two[0]:.3g}) | "
            f"{one[0] / two[0]:.2f} | {two[1] / one[1]:.2f} | {opened[-1] or 'one per core'} |"
        )
        print(lines[-1], flush=True)
    head = [
        *("# Threads of steps as graphs", ""),
        f"Written by `python bench/jit_threads.py`: {', '.join(f'{k} {v}' for k, v in machine().items())}.",
        "Medians of interleaved rounds in one process; minima in brackets. Processor time is of all threads.",
        "",
        "| case | one thread | two | times faster on two | times the processor time | by default |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    RESULTS.write_text("\n".join([*head, *lines, ""]))


if __name__ == "__main__":
    main()
