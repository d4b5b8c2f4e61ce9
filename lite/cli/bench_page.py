"""The page of `lite bench --plot`: times and a chart."""

from __future__ import annotations

import math
from typing import Any

from lite._show.page import WIDE, escape, heading, page, svg, table

HEAD = ("kind", "case", "lite", "beside", "its time", "times faster")
_BAR, _LABEL, _NUMBER = 22, 400, 60  # heights and widths of the chart


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
