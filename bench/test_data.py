"""From environments to batches: collectors, replay buffers, samplers and estimators, beside torchrl's.

    python bench/test_data.py [--only CASE ...] [--rounds N] [--output DIR]

The cases are in `data_collect.py`, `data_replay.py`, `data_samplers.py` and `data_values.py`. `growth` draws
from 10^4 to 10^8 frames, and the plot shows the time against the capacity. `data_ray.py` stands alone, as Ray
takes the processors. The compiled samplers of torchrl 0.14.1 load beside torch 2.14, not beside 2.13.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data_collect
import data_replay
import data_samplers
import data_values
import tensordict
import torch
import torchrl
from side_by_side import arguments, machine, place, pyplot, report

Rows = list[dict[str, Any]]
CASES: dict[str, Callable[[int], Rows]] = {
    **data_collect.CASES,
    **data_replay.CASES,
    **data_samplers.CASES,
    **data_values.CASES,
}


def plot(uniform: Rows, rows: Rows, file: Path) -> None:
    """Time against capacity: uniform draws from mapped files, and slices while the buffer is written to."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    sizes = [line["capacity"] for line in uniform]
    left.loglog(sizes, [1e3 * line["median_ms"] for line in uniform], "o-", label="lite")
    left.set(
        title="sample(256) of 4 keys, mapped files", xlabel="frames", ylabel="microseconds", ylim=(1, 1e3)
    )
    slices = [line for line in rows if line["of"] == "slices"]
    for side in ("lite", "other"):
        times = [10 * line[f"{side}_ms"] for line in slices]  # of a hundred calls
        label = side if side == "lite" else "torchrl"
        right.loglog([line["capacity"] for line in slices], times, "o-", label=label)
    right.set(title="extend by 8 frames, draw 16 slices of 16", xlabel="frames", ylabel="microseconds")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(file, dpi=110)


def growth_table(growth: Rows) -> str:
    """The times of the left plot."""
    lines = [
        "",
        "Of 256 frames of 4 keys, drawn from mapped files; first calls meet pages that are not in memory:",
        "",
        "| frames | first calls | later ones |",
        "|---|--:|--:|",
        *(
            f"| 10^{math.log10(row['capacity']):.0f} | {row['first_ms']:.3g} ms | {row['median_ms']:.3g} ms |"
            for row in growth
        ),
        "",
        "![growth](data_growth.png)",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = arguments(__doc__, rounds=15)
    parser.add_argument(
        "--only", nargs="*", choices=[*CASES, "growth"], help="these; others keep their results"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of the other libraries
    about, folder = machine(torch, tensordict, torchrl), place(args)
    before = folder / "data.json"
    kept = json.loads(before.read_text()) if args.only and before.is_file() else {}
    found, growth = kept.get("rows", []), kept.get("growth", [])
    for name in args.only or [*CASES, "growth"]:
        load = round(os.getloadavg()[0], 1)
        if name == "growth":
            growth = data_replay.growth()
            continue
        lines = [{**line, "of": name, "load_before": load} for line in CASES[name](args.rounds)]
        order = list(CASES)
        found = sorted(
            [line for line in found if line["of"] != name] + lines, key=lambda line: order.index(line["of"])
        )
    title = "From environments to batches"
    report(folder, "data", title, found, about, below=growth_table(growth), growth=growth)
    plot(growth, found, folder / "data_growth.png")


if __name__ == "__main__":
    main()
