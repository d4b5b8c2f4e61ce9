"""Figures of several machines side by side: `results/machines.md`.

    python bench/full.py jit nn ... --output DIR         # or any script of catalogue.py, on the machine
    python bench/machines.py --keep NAME --results DIR   # keeps its ratios as results/machines/NAME.json
    python bench/machines.py                             # writes the page of all that are kept

A ratio is how many times as fast as its peer lite was there, by medians of interleaved rounds. So machines
compare by what they do to the ratio: where Python's overhead counts, where wide vectors do.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import side_by_side

KEPT = side_by_side.RESULTS / "machines"
# The results that are compared, and the peer of those whose rows name none.
SCRIPTS = {
    "tensordict": "tensordict",
    "nn": "tensordict",
    "jit": "",
    "envs": "",
    "transforms": "",
    "layers": "",
}


def ratios(name: str, found: dict[str, Any]) -> list[tuple[str, str, float]]:
    """Case, peer and ratio of each row of a script's results; of TensorDict's, means of its groups."""
    if name == "tensordict":
        groups: dict[str, list[float]] = {}
        for row in found["rows"]:
            groups.setdefault(row["group"], []).append(math.log(row["ratio"]))
        means = [(key, math.exp(sum(logs) / len(logs))) for key, logs in groups.items()]
        return [
            ("all, mean", SCRIPTS[name], found["geometric_mean"]),
            *((f"{key}, mean", SCRIPTS[name], mean) for key, mean in means),
        ]
    return [(row["case"], row.get("against") or SCRIPTS[name], row["ratio"]) for row in found["rows"]]


def kept_of(results: Path) -> dict[str, Any]:
    """What is kept of a folder of results: for each script the day, the versions and the ratios."""
    scripts = {}
    for name in SCRIPTS:
        file = results / f"{name}.json"
        if file.is_file():
            found = json.loads(file.read_text(encoding="utf-8"))
            rows = [(case, peer, float(f"{ratio:.3g}")) for case, peer, ratio in ratios(name, found)]
            scripts[name] = {"about": found["about"], "rows": rows}
    return scripts


def page(machines: dict[str, dict[str, Any]]) -> str:
    """The page: a table of the machines, and one for each script, a column for each machine."""
    return "\n".join([*_head(machines), *(line for name in SCRIPTS for line in _table(name, machines))])


def _head(machines: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield from (
        "# Machines side by side",
        "",
        "Written by `python bench/machines.py`, of `results/machines/*.json`: how many times as fast",
        "as its peer lite is. Medians of interleaved rounds in one process, each with the lite of its days.",
        "Of epyc-2026-11-28 it was not noted whether OPENBLAS_CORETYPE was set, which can double the time of",
        "NumPy's products: compare its rows of layers and large steps with care.",
        "",
        "| machine | processor | cores | Python | numpy | days | load_before at most |",
        "|---|---|--:|---|---|---|--:|",
    )
    for name, scripts in machines.items():
        about = [script["about"] for script in scripts.values()]
        shown = [
            ", ".join(sorted({str(one[key]) for one in about}))
            for key in ("processor", "cores", "python", "numpy", "date")
        ]
        yield f"| {name} | {' | '.join(shown)} | {max(one['load_before'] for one in about):g} |"
    yield ""


def _table(name: str, machines: dict[str, dict[str, Any]]) -> Iterator[str]:
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for machine, scripts in machines.items():
        for case, peer, ratio in scripts.get(name, {"rows": ()})["rows"]:
            rows.setdefault((case, peer), {})[machine] = ratio
    yield from (
        f"## [{name}]({name}.md)",
        "",
        f"| case | beside | {' | '.join(machines)} |",
        "|---|---|" + "--:|" * len(machines),
    )
    for (case, peer), found in rows.items():
        yield f"| {case} | {peer} | {' | '.join(f'{found[m]:g}' if m in found else '' for m in machines)} |"
    yield ""


def machines_in(folder: Path) -> dict[str, dict[str, Any]]:
    """The machines that a folder keeps, by name."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}


def main() -> None:
    """Keep a machine's ratios, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", metavar="NAME", help="keep the ratios of --results under this name")
    parser.add_argument("--results", type=Path, default=side_by_side.RESULTS, metavar="DIR")
    asked = parser.parse_args()
    if asked.keep:
        side_by_side.save(KEPT, asked.keep, None, kept_of(asked.results))
    (side_by_side.RESULTS / "machines.md").write_text(page(machines_in(KEPT)), encoding="utf-8")


if __name__ == "__main__":
    main()
