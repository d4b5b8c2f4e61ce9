"""`lite bench`: times the cases of `on_this_machine`, and prints them as a table or JSON, or draws a page."""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import on_this_machine
import side_by_side

from lite._show.page import WIDE, escape, heading, page, svg, table

HEAD = ("kind", "case", "lite", "beside", "its time", "times faster")
_BAR, _LABEL, _NUMBER = 22, 400, 60  # heights and widths of the chart


def run(args: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Time the groups that are named, or all; `say` tells progress.

    Raises:
        ArgumentError: a group that there is not.
        FileNotFoundError: the folder of the page is missing.
    """
    known = on_this_machine.GROUPS
    if unknown := [name for name in args.name if name not in known]:
        raise argparse.ArgumentError(
            None, f"there is nothing to time called {', '.join(unknown)}; there are {', '.join(known)}"
        )
    if args.plot is not None and not Path(args.plot).is_dir():
        raise FileNotFoundError(f"--plot {args.plot}: there is no such folder")
    about = side_by_side.machine()
    if about["load_before"] > about["cores"] / 2:
        say(f"this machine is busy (load {about['load_before']:g}): the times will tell little")
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):  # the other libraries' own output
        warnings.simplefilter("ignore")
        rows = on_this_machine.measured(
            args.name or list(known), peers=args.peers, rounds=args.rounds, told=say
        )
    if args.plot is not None:
        file = Path(args.plot) / "bench.html"
        file.write_text(cases_page(about, rows), encoding="utf-8")
        say(f"the page is {file}")
    if args.json:
        print(json.dumps({"about": about, "rows": rows}))
    else:
        _print(about, rows)


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


def _time(milliseconds: float | None) -> str:
    if milliseconds is None:
        return ""
    if milliseconds < 1:
        return f"{1e3 * milliseconds:.3g} us"
    return f"{milliseconds:.3g} ms" if milliseconds < 1000 else f"{milliseconds / 1e3:.3g} s"


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """What stands below HEAD."""
    faster = row["times_faster"]
    return (
        row["group"],
        row["case"],
        _time(row["lite_ms"]),
        row["peer"] or "",
        row["note"] or _time(row["peer_ms"]),
        "" if faster is None else f"{faster:.2g}" if faster < 100 else f"{faster:.0f}",
    )


def cases_page(about: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The whole page."""
    compared = [row for row in rows if row["times_faster"]]
    sections = [table(("", ""), [(key, str(value)) for key, value in about.items()])]
    if compared:
        sections += [heading("Times faster, or slower: to the left of 1"), _chart(compared)]
    together = [
        [cell.replace(" ms", "\u00a0ms").replace(" us", "\u00a0us") for cell in cells(row)] for row in rows
    ]
    sections += [heading("Times per call"), table(HEAD, together)]
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
            f' height="{_BAR - 6}"/><text x="{max(one, end) + 6:.1f}" y="{y + 15}">{cells(row)[-1]}</text>'
        )
    return svg("Times faster", _BAR * len(rows), parts)
