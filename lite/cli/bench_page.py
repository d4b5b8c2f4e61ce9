"""The pages of `lite bench --plot`: quick cases with a chart, or README's figures beside this machine's."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from lite._show.page import WIDE, escape, heading, page, svg, table

HEAD = ("kind", "case", "lite", "beside", "its time", "times faster")
_BAR, _LABEL, _NUMBER = 22, 400, 60  # heights and widths of the chart
_TOP, _LINE = 22, 48  # heights of that of claims
_STYLE = (
    "svg .claim{fill:currentColor;fill-opacity:.45}svg .mark{fill-opacity:.7}"
    "svg .power{stroke:var(--line);stroke-dasharray:2 4}"
)


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
    """The whole page of quick cases."""
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


def claims_page(
    about: dict[str, Any],
    scripts: Sequence[Sequence[str]],
    claims: Sequence[Sequence[str]],
    drawn: Sequence[tuple[str, Sequence[tuple[str, str]]]],
) -> str:
    """The whole page of claims.

    Args:
        about: this machine.
        scripts: what ran: name, and what became of it.
        claims: what is compared, the figures of README, those of this machine.
        drawn: what is compared, and pairs of those figures: "1.4", "1.4 to 4.3", "5, 1.3".
    """
    sections = [table(("", ""), [(key, str(value)) for key, value in about.items()])]
    if drawn:
        legend = "Grey, above: README. In colour, below: this machine. To the left of 1 lite is slower."
        sections += [heading("Times faster"), f"<p>{legend}</p>", _lanes(drawn)]
    sections += [heading("Figures"), table(("what", "README says", "on this machine"), claims)]
    if scripts:
        sections += [heading("Scripts"), table(("script", "what became of it"), scripts)]
    return page("README's figures on this machine", sections, _STYLE)


def _ranges(text: str) -> list[tuple[float, float]]:
    """The least and the greatest of each figure.

    Example:
        >>> _ranges("5, 1.4 to 4.3")
        [(5.0, 5.0), (1.4, 4.3)]
    """
    found = re.findall(r"(\d+(?:\.\d+)?)(?: to (\d+(?:\.\d+)?))?", text)
    return [(float(low), float(high or low)) for low, high in found]


def _lanes(drawn: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> str:
    """Two rows of marks for each thing, on one scale of powers of ten."""
    every = [
        [[one for text in side for one in _ranges(text)] for side in zip(*pairs, strict=True)]
        for _, pairs in drawn
    ]
    ends = [end for sides in every for side in sides for both in side for end in both]
    low, high = math.floor(math.log10(min(1, *ends))), math.ceil(math.log10(max(10, *ends)))
    scale, bottom = WIDE / (high - low), _TOP + _LINE * len(drawn)
    parts = []
    for power in range(low, high + 1):
        at, anchor = scale * (power - low), "start" if power == low else "end" if power == high else "middle"
        style = "axis" if power == 0 else "power"
        parts.append(f'<path class="{style}" d="M{at:.1f} {_TOP}V{bottom}"/>')
        parts.append(f'<text x="{at:.1f}" y="{_TOP - 6}" text-anchor="{anchor}">{10.0**power:g}</text>')
    for i, ((what, _), sides) in enumerate(zip(drawn, every, strict=True)):
        y = _TOP + _LINE * i
        parts.append(f'<text x="4" y="{y + 16}">{escape(what)}</text>')
        for lane, (style, side) in enumerate(zip(("claim", "mark"), sides, strict=True)):
            for least, most in side:
                x, wide = scale * (math.log10(least) - low), max(3.0, scale * math.log10(most / least))
                place = f'x="{x:.1f}" y="{y + 21 + 11 * lane}" width="{wide:.1f}" height="8"'
                parts.append(f'<rect class="{style}" {place}/>')
    return svg("Times faster, by README and on this machine", bottom, parts)
