"""Collectors in two processes beside one in this process: what the other core brings.

    python bench/collectors.py [--rounds N] [--output DIR]

Batches of 2,000 frames of Pendulum, whose actions are those of a policy of two layers of 64. On a busy
machine the clock on the wall says what is left of the cores; processor time says what a batch takes where the
cores are free: of one collector its own, of two that of the slower process and of this one, which joins.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from functools import partial
from typing import Any

from side_by_side import arguments, heading, machine, place, show

from lite.data import Collector, MultiSyncCollector
from lite.envs import GymEnv
from lite.nn import MLP, TensorDictModule

PROCESSES, FRAMES = 2, 2000


def measured(rounds: int) -> list[dict[str, float]]:
    """Milliseconds of batches, by turns; the first ones are not counted."""
    policy = TensorDictModule(MLP(3, 1, num_cells=[64, 64]), ["observation"], ["action"])
    make = partial(GymEnv, "Pendulum-v1")
    one = Collector(make, policy, frames_per_batch=FRAMES)
    several = MultiSyncCollector(make, policy, num_workers=PROCESSES, frames_per_batch=FRAMES)
    others = multiprocessing.active_children()
    found = []
    for _ in range(rounds + 1):
        alone, alone_cpu, _ = _timed(one, [])
        joint, joint_cpu, slowest = _timed(several, others)
        found.append(
            {
                "one_ms": alone,
                "one_cpu_ms": alone_cpu,
                "several_ms": joint,
                "joining_cpu_ms": joint_cpu,
                "slowest_cpu_ms": slowest,
            }
        )
    several.shutdown()
    one.shutdown()
    return found[1:]


def _timed(collector: Any, others: list[Any]) -> tuple[float, float, float]:
    """Milliseconds of a batch: on the wall, of this process, and of the one of the others that took most."""
    before = [_processor_seconds(process) for process in others]
    start, start_cpu = time.perf_counter(), time.process_time()
    collector.next()
    wall, mine = time.perf_counter() - start, time.process_time() - start_cpu
    spent = [_processor_seconds(p) - past for p, past in zip(others, before, strict=True)]
    return 1e3 * wall, 1e3 * mine, 1e3 * max(spent, default=0.0)


def _processor_seconds(process: Any) -> float:
    """What Linux tells of another process: its clock has a number that follows from the process's."""
    return time.clock_gettime(~process.pid << 3 | 2)


def main() -> None:
    asked = arguments(__doc__, rounds=15, each="batches of each").parse_args()
    about = machine()
    rounds = measured(asked.rounds)
    middle = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    alone, joint = middle["one_cpu_ms"], middle["joining_cpu_ms"] + middle["slowest_cpu_ms"]
    lines = [
        *heading(f"A collector in this process, and one in each of {PROCESSES}", about),
        f"Medians of {len(rounds)} batches of {FRAMES} frames of Pendulum with a policy of two layers of 64,",
        f"by turns. Processor time of {PROCESSES}: of the one that joins batches, and of the slower other.",
        "",
        f"| | one process | {PROCESSES} processes | times faster |",
        "|---|--:|--:|--:|",
        f"| processor time | {alone:.0f} ms | {joint:.0f} ms | {alone / joint:.2f} |",
    ]
    alone, joint = middle["one_ms"], middle["several_ms"]
    lines.append(f"| on the wall | {alone:.0f} ms | {joint:.0f} ms | {alone / joint:.2f} |")
    show(place(asked), "collectors", lines, {"about": about, "medians": middle, "rounds": rounds})


if __name__ == "__main__":
    main()
