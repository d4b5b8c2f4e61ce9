"""Scripts of tests/scripts over seeds: what they learn, in what time, beside the same text on TorchRL.

    python bench/scripts_learning.py                          # all of RUNS
    python bench/scripts_learning.py --only reinforce dqn_cartpole --rounds 3

Each script runs with the arguments of `RUNS`, by turns on lite, on lite with `compile=True` (its update is a
graph, by `lite.jit`), and on TorchRL, in one process on one core.
A script that is run takes the place of its row in the results, which are saved after each run; others stay.
`scripts_on_torchrl.py` has how the text runs on TorchRL, and which of its lines differ there: they are
counted, without imports.

A return is what a script tells last: an evaluation without exploration, of one episode or, in DQN, of ten.
"while training" is the mean of the last fifth of the returns that it met on the way.
"""

from __future__ import annotations

import inspect
import json
import os
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

if hasattr(os, "sched_setaffinity"):  # libraries ask for the number of cores as they are loaded
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import torch
from scripts_on_torchrl import changed_lines, script
from side_by_side import arguments, heading, machine, place, save

import lite  # noqa: F401  # what the first import takes is no part of a run

# Far fewer frames than the scripts' own arguments, as TorchRL's runs take minutes: they show what a step
# costs, and that returns of both are of one kind, not who learns better.
_OFF_POLICY = {"total_frames": 1400, "init_random_frames": 1000, "frames_per_batch": 200}
RUNS: dict[str, dict[str, Any]] = {
    "reinforce": {"total_frames": 3000, "frames_per_batch": 200},
    "a2c": {"total_frames": 1920},
    "ppo_continuous": {"total_frames": 2048, "frames_per_batch": 1024, "epochs": 3},
    "dqn_cartpole": {
        "total_frames": 4000,
        "init_random_frames": 500,
        "frames_per_batch": 250,
        "num_updates": 50,
    },
    "td3": {**_OFF_POLICY, "utd_ratio": 0.5},
    "ddpg": {**_OFF_POLICY, "total_frames": 1200},
    "sac": {**_OFF_POLICY, "total_frames": 1200},
    "discrete_sac": {**_OFF_POLICY, "utd_ratio": 0.5},
}
SIDES = ("lite", "compiled", "torchrl")
_COLUMNS = (
    *("script", "frames", "seeds", "lines", "lite", "compiled", "TorchRL", "times faster", "compiled"),
    *("return", "compiled", "TorchRL's", "while training", "compiled", "TorchRL's"),
)


def run(name: str, side: str, seed: int) -> dict[str, float]:
    """One run: seconds, seconds of the processor, and returns."""
    torch.manual_seed(seed)
    module = script(name, torchrl=side == "torchrl")
    start, start_cpu = time.perf_counter(), time.process_time()
    options = {"compile": True} if side == "compiled" else {}
    tested, trained, *_ = module.main(**RUNS[name], **options, seed=seed)
    seconds, processor = time.perf_counter() - start, time.process_time() - start_cpu
    last = trained[-max(1, len(trained) // 5) :]
    return {
        "seconds": round(seconds, 2),
        "processor_seconds": round(processor, 2),
        "return": round(float(tested), 2),
        "training_return": round(statistics.fmean(last), 2),
    }


def new_row(name: str) -> dict[str, Any]:
    """The row of a script before its runs."""
    return {
        "script": name,
        "arguments": RUNS[name],
        "changed_lines": changed_lines(name, array=False),
        "changed_lines_of_arrays": changed_lines(name, array=True),
        **{side: [] for side in SIDES},
    }


def sides_of(name: str) -> list[str]:
    """What a script runs on: one without a function for its update is not compiled."""
    compiles = "compile" in inspect.signature(script(name, torchrl=False).main).parameters
    return [side for side in SIDES if compiles or side != "compiled"]


def _band(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{statistics.fmean(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def _median(runs: list[dict[str, float]], what: str) -> float:
    return statistics.median(run[what] for run in runs)


def text(rows: list[dict[str, Any]], about: dict[str, Any]) -> str:
    """The page of results."""
    lines = [
        *heading("TorchRL's scripts on lite, and the same text on TorchRL", about),
        "By turns in one process, on one core. Lines: those of the script that TorchRL does not take as",
        "they stand, imports aside; those of arrays in brackets. Seconds: medians of processor time.",
        "Returns: means over seeds, the lowest and the highest: of an evaluation at the end, and of the last",
        "fifth of those met while training.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|---{'|--:' * (len(_COLUMNS) - 1)}|",
    ]
    for r in rows:
        seconds = {side: _median(r[side], "processor_seconds") for side in SIDES if r[side]}
        faster = {side: f"{seconds['torchrl'] / x:.2f}" for side, x in seconds.items()}
        bands = [
            _band([x[what] for x in r[side]]) for what in ("return", "training_return") for side in SIDES
        ]
        lines.append(
            f"| {r['script']} | {r['arguments']['total_frames']} | {len(r['lite'])} "
            f"| {r['changed_lines']} ({r['changed_lines_of_arrays']}) "
            f"| {' | '.join(f'{seconds[side]:.1f} s' if side in seconds else '-' for side in SIDES)} "
            f"| {faster['lite']} | {faster.get('compiled', '-')} | {' | '.join(bands)} |"
        )
    return "\n".join(lines) + "\n"


def _kept(folder: Path | None) -> dict[str, dict[str, Any]]:
    path = None if folder is None else folder / "scripts_learning.json"
    if path is None or not path.exists():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {r["script"]: {"compiled": [], **r} for r in rows if r["script"] in RUNS}


def main() -> None:
    """Run one seed of each script after the other; print and save after each run."""
    parser = arguments(__doc__, 5, "seeds of each script")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), help="some of the scripts")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of TorchRL's, whose lines are many
    torch.set_num_threads(1)
    about = {**machine(), "torch": torch.__version__}
    for package in ("tensordict", "torchrl", "gymnasium"):
        about[package] = __import__(package).__version__
    folder = place(asked)
    rows = {**_kept(folder), **{name: new_row(name) for name in asked.only}}
    for seed in range(asked.rounds):
        for name in asked.only:
            found = {side: run(name, side, seed) for side in sides_of(name)}
            for side in found:
                rows[name][side].append(found[side])
                print(name, side, seed, found[side], flush=True)
            ordered = [rows[name] for name in RUNS if name in rows and rows[name]["lite"]]
            page = text(ordered, about)
            save(folder, "scripts_learning", page, {"about": about, "rows": ordered})
    print(page)


if __name__ == "__main__":
    main()
