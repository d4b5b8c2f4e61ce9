"""How the cost grows with the number of leaves and with the depth: `python bench/growth.py`."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensordict
import torch
from side_by_side import arguments, heading, machine, measure, place, pyplot, show

import lite

LEAVES = (1, 3, 10, 30, 100, 300, 1000)
DEPTHS = (1, 2, 5, 10, 20, 50)
FIXED_LEAVES = 1000
STACKED = 4


def tree(leaves: int, depth: int, leaf: Any) -> dict[str, Any]:
    """Nested dicts, one below the other, with the leaves spread evenly over the levels."""
    root: dict[str, Any] = {}
    node = root
    for level in range(depth):
        for i in range(level, leaves, depth):
            node[f"leaf{i}"] = leaf
        if level + 1 < depth:
            node["below"] = node = {}
    return root


def operations(lib: Any, stack: Callable[[Any], Any], leaf: Any, leaves: int, depth: int) -> dict[str, Any]:
    entries = tree(leaves, depth, leaf)
    td = lib.TensorDict(entries, [8])
    several = [td.clone() for _ in range(STACKED)]
    return {
        "construct": lambda: lib.TensorDict(entries, [8]),
        "index": lambda: td[0],
        "stack": lambda: stack(several),
        "clone": lambda: td.clone(),
    }


def times(leaves: int, depth: int, rounds: int) -> dict[str, dict[str, float]]:
    """Operation -> library -> least microseconds."""
    array = np.ones((8, 2), np.float32)
    ours = operations(lite, lite.stack, array, leaves, depth)
    theirs = operations(tensordict, torch.stack, torch.from_numpy(array), leaves, depth)
    loops = max(1, 200 // leaves)
    out = {}
    for name in ours:
        result = measure({"lite": ours[name], "tensordict": theirs[name]}, rounds, times=loops)
        out[name] = {side: 1e3 * taken["min_ms"] for side, taken in result.items()}
    return out


def main() -> None:
    asked = arguments(__doc__, rounds=15).parse_args()
    warnings.simplefilter("ignore")  # of the other library
    torch.set_num_threads(1)
    about = machine(torch, tensordict)
    by_leaves = [{"leaves": n, "us": times(n, 1, asked.rounds)} for n in LEAVES]
    by_depth = [{"depth": d, "us": times(FIXED_LEAVES, d, asked.rounds)} for d in DEPTHS]
    slopes = {}
    for name in by_leaves[0]["us"]:
        taken = [row["us"][name]["lite"] for row in by_leaves]
        # The largest sizes, where the constant part no longer counts.
        exponent = float(np.polyfit(np.log(LEAVES[-3:]), np.log(taken[-3:]), 1)[0])
        deep = by_depth[-1]["us"][name]["lite"] / by_depth[0]["us"][name]["lite"]
        slopes[name] = {"us_per_leaf": taken[-1] / LEAVES[-1], "exponent": exponent, "deep_over_flat": deep}
    folder = place(asked)
    found = {"about": about, "summary": slopes, "by_leaves": by_leaves, "by_depth": by_depth}
    show(folder, "growth", table(found), found)
    plot(by_leaves, by_depth, folder / "growth.png")


def table(found: dict[str, Any]) -> list[str]:
    """What the plot shows at its ends."""
    lines = [
        *heading("Growth", found["about"]),
        f"Minima, in microseconds. The exponent is that of the number of leaves, from {LEAVES[-3]} on.",
        "",
        f"| | 1 leaf | {FIXED_LEAVES} leaves | each | exponent | times as long in {DEPTHS[-1]} levels |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    few, many = (found["by_leaves"][end]["us"] for end in (0, -1))
    for name, slope in found["summary"].items():
        cells = [few[name]["lite"], many[name]["lite"], slope["us_per_leaf"], slope["exponent"]]
        shown = [f"{value:.3g}" for value in (*cells, slope["deep_over_flat"])]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return [*lines, "", "![growth](growth.png)"]


def plot(by_leaves: list[dict[str, Any]], by_depth: list[dict[str, Any]], file: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    panels = (("leaves", by_leaves, "one level"), ("depth", by_depth, f"{FIXED_LEAVES} leaves"))
    for axis, (what, rows, title) in zip(axes, panels, strict=True):
        for i, name in enumerate(rows[0]["us"]):
            for side, style in (("lite", "o-"), ("tensordict", "x:")):
                values = [row["us"][name][side] for row in rows]
                axis.loglog(
                    [row[what] for row in rows], values, style, color=f"C{i}", label=f"{name}, {side}"
                )
        axis.set(xlabel=what, ylabel="microseconds", title=title)
        axis.grid(alpha=0.3)
    axes[1].set_ylim(bottom=1)
    axes[0].legend(fontsize=7)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
