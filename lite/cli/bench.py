"""`lite bench`: cases of the checkout on this machine, lite alone or beside what is installed."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lite
from lite.cli.bench_page import HEAD, cases_page, cells
from lite.cli.progress import say

_FILES = ("on_this_machine", "side_by_side")


def run(args: argparse.Namespace) -> int:
    """Time the kinds of cases that are named, or all; print a table or JSON; write a page for `--plot`."""
    bench = _benchmarks()
    known = bench.on_this_machine.GROUPS
    if unknown := [name for name in args.name if name not in known]:
        raise argparse.ArgumentError(
            None, f"there is nothing to time called {', '.join(unknown)}; there are {', '.join(known)}"
        )
    if args.plot is not None and not Path(args.plot).is_dir():
        raise FileNotFoundError(f"--plot {args.plot}: there is no such folder")
    about = bench.side_by_side.machine()
    if about["load_before"] > about["cores"] / 2:
        say(args, f"this machine is busy (load {about['load_before']:g}): the times will tell little")
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):  # what the other libraries have to say
        warnings.simplefilter("ignore")
        rows = bench.on_this_machine.measured(
            args.name or list(known),
            peers=args.peers,
            rounds=args.rounds,
            told=lambda name: say(args, name),
        )
    if args.plot is not None:
        file = Path(args.plot) / "bench.html"
        file.write_text(cases_page(about, rows), encoding="utf-8")
        say(args, f"the page is {file}")
    if args.json:
        print(json.dumps({"about": about, "rows": rows}))
    else:
        _print(about, rows)
    return 0


def _benchmarks() -> SimpleNamespace:
    """Files of the folder of benchmarks, which is no part of an installed package."""
    root = Path(lite.__file__).resolve().parents[1]
    if not (root / "bench" / "on_this_machine.py").is_file() or not (root / "pyproject.toml").is_file():
        raise FileNotFoundError(
            "the benchmarks are in a checkout of the project and not in the installed package: in a checkout,"
            ' run pip install -e ".[llm]", then lite bench'
        )
    folder = str(root / "bench")
    sys.path.insert(0, folder)
    try:
        return SimpleNamespace(**{name: import_module(name) for name in _FILES})
    finally:
        sys.path.remove(folder)


def _print(about: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    lines = [HEAD, *map(cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    for number, line in enumerate(lines):
        # Numbers stand on the right.
        texts = [
            cell.rjust(width) if i in (2, 4, 5) else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(texts).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * len(widths) - 2))
    print(f"\n{', '.join(f'{key} {value}' for key, value in about.items())}")
    print("Medians per call; alternatives take turns in one process, each with its own threads.")
