"""`lite bench`: cases of the checkout's benchmarks, timed on this machine."""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import lite
from lite._show.page import WIDE, escape, heading, page, svg, table
from lite.cli.progress import say

_HEAD = ("kind", "case", "lite", "beside", "its time", "times faster")
_BAR, _LABEL, _NUMBER = 22, 400, 60  # heights and widths of the chart


def run(args: argparse.Namespace) -> int:
    """Time the kinds of cases that are named, or all; print a table or JSON; write a page for `--plot`."""
    folder = _benchmarks()
    if args.plot is not None and not Path(args.plot).is_dir():
        raise FileNotFoundError(f"--plot {args.plot}: there is no such folder")
    sys.path.insert(0, str(folder))
    try:
        cases, clock = import_module("on_this_machine"), import_module("side_by_side")
    finally:
        sys.path.remove(str(folder))
    if unknown := [name for name in args.name if name not in cases.GROUPS]:
        raise argparse.ArgumentError(
            None, f"there is nothing to time called {', '.join(unknown)}; there are {', '.join(cases.GROUPS)}"
        )
    about = clock.machine()
    if about["load_before"] > about["cores"] / 2:
        say(args, f"this machine is busy (load {about['load_before']:g}): the times will tell little")
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):  # what the other libraries have to say
        warnings.simplefilter("ignore")
        rows = cases.measured(
            args.name or list(cases.GROUPS),
            peers=args.peers,
            rounds=args.rounds,
            told=lambda name: say(args, name),
        )
    if args.plot is not None:
        file = Path(args.plot) / "bench.html"
        file.write_text(_page(about, rows), encoding="utf-8")
        say(args, f"the page is {file}")
    if args.json:
        print(json.dumps({"about": about, "rows": rows}))
    else:
        _print(about, rows)
    return 0


def _benchmarks() -> Path:
    """The folder of benchmarks, which is no part of an installed package."""
    root = Path(lite.__file__).resolve().parents[1]
    if not (root / "bench" / "on_this_machine.py").is_file() or not (root / "pyproject.toml").is_file():
        raise FileNotFoundError(
            "the benchmarks are in a checkout of the project and not in the installed package: in a checkout,"
            ' run pip install -e ".[llm]", then lite bench'
        )
    return root / "bench"


def _time(milliseconds: float | None) -> str:
    if milliseconds is None:
        return ""
    if milliseconds < 1:
        return f"{1e3 * milliseconds:.3g} us"
    return f"{milliseconds:.3g} ms" if milliseconds < 1000 else f"{milliseconds / 1e3:.3g} s"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    faster = row["times_faster"]
    return (
        row["group"],
        row["case"],
        _time(row["lite_ms"]),
        row["peer"] or "",
        row["note"] or _time(row["peer_ms"]),
        "" if faster is None else f"{faster:.2g}" if faster < 100 else f"{faster:.0f}",
    )


def _print(about: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    lines = [_HEAD, *map(_cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEAD))]
    for number, line in enumerate(lines):
        cells = zip(line, widths, strict=True)
        # Numbers stand on the right.
        texts = [
            cell.rjust(width) if i in (2, 4, 5) else cell.ljust(width)
            for i, (cell, width) in enumerate(cells)
        ]
        print("  ".join(texts).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * len(widths) - 2))
    print(f"\n{', '.join(f'{key} {value}' for key, value in about.items())}")
    print("Medians per call; alternatives take turns in one process, each with its own threads.")


def _page(about: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    compared = [row for row in rows if row["times_faster"]]
    sections = [table(("", ""), [(key, str(value)) for key, value in about.items()])]
    if compared:
        sections += [heading("Times faster, or slower: to the left of 1"), _chart(compared)]
    together = [
        [cell.replace(" ms", "\u00a0ms").replace(" us", "\u00a0us") for cell in _cells(row)] for row in rows
    ]
    sections += [heading("Times per call"), table(_HEAD, together)]
    return page("lite on this machine", sections)


def _chart(rows: list[dict[str, Any]]) -> str:
    """A bar for each row from 1 on, on a scale of powers of ten."""
    powers = [math.log10(row["times_faster"]) for row in rows]
    low, high = math.floor(min(0.0, *powers)), math.ceil(max(0.1, *powers))
    scale = (WIDE - _LABEL - _NUMBER) / (high - low)
    one = _LABEL + scale * -low
    parts = [f'<path class="axis" d="M{one:.1f} 0V{_BAR * len(rows)}"/>']
    for i, (row, power) in enumerate(zip(rows, powers, strict=True)):
        y, end, name = i * _BAR, one + scale * power, escape(f"{row['case']}, {row['peer']}")
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 15}" text-anchor="end">{name}</text>'
            f'<rect class="mark" x="{min(one, end):.1f}" y="{y + 3}" width="{abs(end - one):.1f}"'
            f' height="{_BAR - 6}"/><text x="{max(one, end) + 6:.1f}" y="{y + 15}">{_cells(row)[-1]}</text>'
        )
    return svg("Times faster", _BAR * len(rows), parts)
