"""Scripts of tests/scripts over seeds: what they learn, in what time, beside the same text on TorchRL.

    python bench/scripts_learning.py                          # all of RUNS
    python bench/scripts_learning.py --only reinforce dqn_cartpole --rounds 3

Each script runs with the arguments of `RUNS`, by turns on lite, on lite with `compile=True` (its update is a
graph, by `lite.jit`), and on TorchRL, in one process on one core. Those without arguments are pages that show
what there is: they run from their first line to the last, and learn nothing that is told.
A script that is run takes the place of its row in the results, which are saved after each run; others stay.
`scripts_on_torchrl.py` has how the text runs on TorchRL, and which of its lines differ there: they are
counted, without imports.

A return is what a script tells last: an evaluation without exploration, of one episode or, in DQN, of ten,
or the longest episode that it met (`LONGEST`). "while training" is the mean of the last fifth of the returns
that it met on the way; offline there are none.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import logging
import os
import statistics
import tempfile
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
_OFFLINE = {"gradient_steps": 300, "frames": 2000}
_OFF_POLICY = {"total_frames": 1400, "init_random_frames": 1000, "frames_per_batch": 200}
RUNS: dict[str, dict[str, Any] | None] = {
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
    "crossq": {**_OFF_POLICY, "total_frames": 1050, "frames_per_batch": 50},
    "redq": {**_OFF_POLICY, "total_frames": 1060, "frames_per_batch": 20},
    "discrete_iql": {**_OFF_POLICY, "total_frames": 1100, "frames_per_batch": 50},
    "iql": {"name": "iql", **_OFFLINE},
    "cql": {"name": "cql", **_OFFLINE},
    "td3_bc": {"name": "td3_bc", **_OFFLINE},
    "mappo": {"name": "mappo", "total_frames": 6000},
    "dqn_with_rnn": {"total_frames": 1250},
    "getting_started_training": {"total_frames": 3000, "init_rand_steps": 1000, "long_enough": 500},
    **dict.fromkeys(
        ("getting_started_envs", "getting_started_modules", "getting_started_optim")
        + ("getting_started_storage", "getting_started_logging", "replay_buffers")
        + ("recurrent_sequences", "trajectories")
    ),
}
FILES = {**dict.fromkeys(("iql", "cql", "td3_bc"), "offline"), "mappo": "mappo_ippo"}  # others by their names
LONGEST = ("dqn_with_rnn", "getting_started_training")
SIDES = ("lite", "compiled", "torchrl")
_COLUMNS = (
    *("script", "frames", "seeds", "lines", "lite", "compiled", "TorchRL", "times faster", "compiled"),
    *("return", "compiled", "TorchRL's", "while training", "compiled", "TorchRL's"),
)


def run(name: str, side: str, seed: int) -> dict[str, float]:
    """One run: seconds, seconds of the processor, and returns."""
    torch.manual_seed(seed)
    given = RUNS[name]
    told: tuple[Any, ...] = ()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        start, start_cpu = time.perf_counter(), time.process_time()
        module = script(FILES.get(name, name), torchrl=side == "torchrl")
        if given is not None:
            start, start_cpu = time.perf_counter(), time.process_time()
            options = {"compile": True} if side == "compiled" else {}
            told = module.main(**given, **options, seed=seed)
        seconds, processor = time.perf_counter() - start, time.process_time() - start_cpu
    found = {"seconds": round(seconds, 3), "processor_seconds": round(processor, 3)}
    if told:
        found["return"] = round(float(told[0]), 2)
    if told and isinstance(told[1], list):
        last = told[1][-max(1, len(told[1]) // 5) :]
        found["training_return"] = round(statistics.fmean(last), 2)
    return found


def new_row(name: str) -> dict[str, Any]:
    """The row of a script before its runs."""
    return {
        "script": name,
        "arguments": RUNS[name],
        "changed_lines": changed_lines(FILES.get(name, name), array=False),
        "changed_lines_of_arrays": changed_lines(FILES.get(name, name), array=True),
        **{side: [] for side in SIDES},
    }


def sides_of(name: str) -> list[str]:
    """What a script runs on: one without a function for its update is not compiled."""
    if RUNS[name] is None:
        return ["lite", "torchrl"]
    main = script(FILES.get(name, name), torchrl=False).main
    compiles = "compile" in inspect.signature(main).parameters
    return [side for side in SIDES if compiles or side != "compiled"]


def _band(values: list[float]) -> str:
    if not values:
        return "-"
    digits = 0 if max(map(abs, values)) >= 5 else 2
    return f"{statistics.fmean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value:.2f} s"


def _frames(given: dict[str, Any] | None) -> str:
    given = given or {}
    return str(given.get("total_frames", given.get("frames", "-")))


def _median(runs: list[dict[str, float]], what: str) -> float:
    return statistics.median(run[what] for run in runs)


def text(rows: list[dict[str, Any]], about: dict[str, Any]) -> str:
    """The page of results."""
    lines = [
        *heading("TorchRL's scripts on lite, and the same text on TorchRL", about),
        "By turns in one process, on one core. Lines: those of the script that TorchRL does not take as",
        "they stand, imports aside; those of arrays in brackets. Seconds: medians of processor time.",
        "Returns: means over seeds, the lowest and the highest: of an evaluation at the end, and of the last",
        f"fifth of those met while training. The first is the longest episode in {' and '.join(LONGEST)}.",
        "Frames of iql, cql and td3_bc are recorded ones. Rows without frames are pages, which do not learn.",
        "In crossq and redq no episode ends after learning has begun: those of training are random ones.",
        "The prioritized sampler and `Resize` of replay_buffers run on what scripts_on_torchrl.py gives",
        "TorchRL where the extension of its wheel or torchvision does not load.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|---{'|--:' * (len(_COLUMNS) - 1)}|",
    ]
    for r in rows:
        seconds = {side: _median(r[side], "processor_seconds") for side in SIDES if r[side]}
        faster = {side: f"{seconds['torchrl'] / x:.2f}" for side, x in seconds.items()}
        bands = [
            _band([x[what] for x in r[side] if what in x])
            for what in ("return", "training_return")
            for side in SIDES
        ]
        lines.append(
            f"| {r['script']} | {_frames(r['arguments'])} | {len(r['lite'])} "
            f"| {r['changed_lines']} ({r['changed_lines_of_arrays']}) "
            f"| {' | '.join(_seconds(seconds[side]) if side in seconds else '-' for side in SIDES)} "
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
    logging.getLogger("torchrl").setLevel(logging.WARNING)
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
