"""`lite bench`: what the checkout's benchmarks find on this machine, beside what README says."""

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
from lite.cli.bench_scripts import compare, list_scripts, make_folder, run_scripts
from lite.cli.progress import say

_ROUNDS = 15
_FILES = ("catalogue", "on_this_machine", "readme_table", "side_by_side")


def run(args: argparse.Namespace) -> int:
    """Time the kinds of cases that are named, or all; print a table or JSON; write a page for `--plot`.

    With `--full` scripts run instead, `--compare` shows what they have found, `--list` which there are.
    """
    bench = _benchmarks()
    if args.list:
        return list_scripts(args, bench)
    _check_names(args, bench)
    if args.full:
        make_folder(args, bench)  # in which the page may stand
    if args.plot is not None and not Path(args.plot).is_dir():
        raise FileNotFoundError(f"--plot {args.plot}: there is no such folder")
    if args.compare is not None:
        return compare(args, bench)
    about = bench.side_by_side.machine()
    if about["load_before"] > about["cores"] / 2:
        say(args, f"this machine is busy (load {about['load_before']:g}): the times will tell little")
    return run_scripts(args, bench, about) if args.full else _time_cases(args, bench, about)


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


def _check_names(args: argparse.Namespace, bench: SimpleNamespace) -> None:
    cases, scripts = bench.on_this_machine.GROUPS, bench.catalogue.SCRIPTS
    known, others, flag = (scripts, cases, "without --full") if args.full else (cases, scripts, "with --full")
    if unknown := [name for name in args.name if name not in known]:
        raise argparse.ArgumentError(
            None,
            f"there is nothing to time called {', '.join(unknown)}; there are {', '.join(known)};"
            f" {flag} {', '.join(others)}",
        )


def _time_cases(args: argparse.Namespace, bench: SimpleNamespace, about: dict[str, Any]) -> int:
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):  # what the other libraries have to say
        warnings.simplefilter("ignore")
        rows = bench.on_this_machine.measured(
            args.name or list(bench.on_this_machine.GROUPS),
            peers=args.peers,
            rounds=args.rounds or _ROUNDS,
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
