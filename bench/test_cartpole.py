"""CartPole to a mean return of 475, by the examples: seconds, frames and memory of whole processes.

`python bench/test_cartpole.py` runs `tests/examples/cartpole_dqn.py` and `cartpole_ppo.py` with seeds 0 to 4,
one after the other, each with and without `lite.jit`. Time is that of the whole process, with imports,
evaluation and export; memory is the largest resident set.

What runs the kernels is named in each row: what lite finds, or what LITE_KERNELS says. With Numba the first
process compiles, unless there is a cache.

`--only dqn` runs one of them, `--rounds 2` the first two seeds; without `--output` either saves nothing.
"""

import re
from pathlib import Path
from typing import Any

from side_by_side import arguments, heading, machine, place, show, whole_process

from lite.kernels import backend

ROOT = Path(__file__).parents[1]
MARK, SECONDS, MEGABYTES = 475, 150, 200
SEEDS = 5


def run(example: str, seed: int, graph: int) -> dict[str, Any]:
    """One process."""
    program = ROOT / "tests" / "examples" / f"cartpole_{example}.py"
    said, taken = whole_process(*map(str, (program, seed, MARK, SECONDS, graph)))
    found = re.search(r"mean return ([\d.]+) after (\d+) frames", said)
    if found is None:
        raise RuntimeError(f"{program} seed {seed} gave no mean return: {said}")
    return {
        "example": f"{example}, jit" if graph else example,
        "kernels": backend(),
        "seed": seed,
        "return": float(found[1]),
        "frames": int(found[2]),
        **taken,
    }


def main() -> None:
    parser = arguments(__doc__, rounds=SEEDS, each="seeds of each example")
    parser.add_argument("--only", choices=["dqn", "ppo"], help="this one alone")
    asked = parser.parse_args()
    about, rows = machine(), []
    for example in [asked.only] if asked.only else ["dqn", "ppo"]:
        for seed in range(asked.rounds):
            for graph in (0, 1):
                rows.append(run(example, seed, graph))
                print(rows[-1], flush=True)
    lines = [
        *heading("CartPole", about),
        f"Mean returns of 100 episodes of the exported policy; training stops at {MARK}. Whole processes.",
        "",
        "| example | kernels | seed | mean return | frames | seconds | of the processor | MB |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for r in rows:
        lines.append(
            f"| {r['example']} | {r['kernels']} | {r['seed']} | {r['return']:.1f} | {r['frames']} "
            f"| {r['seconds']:.1f} | {r['processor_seconds']:.1f} | {r['megabytes']:.0f} |"
        )
    lines.append("")
    for example in dict.fromkeys(r["example"] for r in rows):
        own = [r for r in rows if r["example"] == example]
        there = sum(r["return"] >= MARK and r["seconds"] <= SECONDS for r in own)
        largest = max(r["megabytes"] for r in own)
        lines.append(
            f"{example}: {there} of {len(own)} seeds reached {MARK} within {SECONDS} s; the largest "
            f"process had {largest:.0f} MB, the goal is {MEGABYTES}."
        )
    folder = place(asked, part=bool(asked.only) or asked.rounds < SEEDS)
    show(folder, "cartpole", lines, {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
