"""`lite learn` on a task that the embedded model was not trained for: right answers before and after.

`python bench/test_learn_grpo.py` runs the command of `models/README.md` for seeds 0 to 4, one by one:
words to write backwards, where the model was trained to reverse letters and digits. Each seed has an order of
the 2000 problems, samples and first adapters of its own; the 200 held-out problems are none of these. Time is
that of the whole process: imports, generation, learning, and evaluation before and after.

`--rounds 2` runs the first two seeds; without `--output` nothing is saved.
"""

import json
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

from side_by_side import arguments, heading, machine, place, show, whole_process

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))

SEEDS, MARK, SECONDS = 5, 0.9, 300
OPTIONS = [
    "--lr",
    "5e-3",
    "--targets",
    "*_proj",
    "--prompts",
    "16",
    "--steps",
    "50",
    "--max-new-tokens",
    "24",
]


def write_rows(folder: Path) -> tuple[str, str]:
    """The files of problems: to learn from, and held out."""
    from examples.grpo import problems

    tests = list(islice(problems(10_000), 200))
    others = islice(problems(0, without={one["prompt"] for one in tests}), 2000)
    names = []
    for name, rows in (("prompts", others), ("held_out", tests)):
        file = folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        names.append(str(file))
    return names[0], names[1]


def run(seed: int) -> dict[str, Any]:
    """One process."""
    with tempfile.TemporaryDirectory() as folder:
        prompts, held_out = write_rows(Path(folder))
        words = [
            "learn",
            prompts,
            "--held-out",
            held_out,
            "--output",
            f"{folder}/learnt",
            "--json",
            "--quiet",
        ]
        said, taken = whole_process("-m", "lite", *words, *OPTIONS, "--seed", str(seed))
    first, *_, last = map(json.loads, said.splitlines())
    return {"seed": seed, "before": first["held_out"], "after": last["held_out"], **taken}


def main() -> None:
    asked = arguments(__doc__, rounds=SEEDS, each="seeds").parse_args()
    about, rows = machine(), []
    for seed in range(asked.rounds):
        rows.append(run(seed))
        print(rows[-1], flush=True)
    there = sum(row["after"] > MARK and row["seconds"] <= SECONDS for row in rows)
    lines = [
        *heading("GRPO by `lite learn`", about),
        "200 held-out problems, answered greedily before and after 50 steps. Whole processes.",
        "",
        "| seed | right before | right after | seconds | of the processor | MB |",
        "|--:|--:|--:|--:|--:|--:|",
        *(
            f"| {r['seed']} | {r['before']:.1%} | {r['after']:.1%} | {r['seconds']:.1f} "
            f"| {r['processor_seconds']:.1f} | {r['megabytes']:.0f} |"
            for r in rows
        ),
        "",
        f"{there} of {len(rows)} seeds solved more than {MARK:.0%} within {SECONDS} s.",
    ]
    folder = place(asked, part=asked.rounds < SEEDS)
    show(folder, "learn_grpo", lines, {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
