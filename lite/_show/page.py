"""HTML pages: one self-contained file each, without scripts and external resources.

All data in HTML goes through `escape`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_STYLE = """
:root { color-scheme: light dark; --accent: #3b7dd8;
  --line: color-mix(in srgb, currentColor 25%, transparent); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
td:last-child { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tr + tr td { border-top: 1px solid var(--line); }
.verdict { border-left: .3rem solid var(--accent); padding: .3rem 1rem; font-size: 1.05rem; }
svg { width: 100%; max-width: 46rem; height: auto; } svg text { fill: currentColor; font-size: 12px; }
@media (max-width: 40rem) { svg text { font-size: 17px; } }
svg .mark { fill: var(--accent); } svg .axis { stroke: var(--line); fill: none; }
"""
WIDE = 760  # of a drawing, in its own units
_BAR, _LABEL, _NUMBER = 22, 170, 90
# Characters that HTML or UTF-8 cannot hold, and control characters, which a terminal would interpret.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def escape(text: str) -> str:
    """Text for elements and quoted attributes; control characters and lone surrogates become visible.

    Example:
        >>> escape("<b title='x'>\\x1b")
        '&lt;b title=&#x27;x&#x27;&gt;\\\\x1b'
    """
    from html import escape as standard  # imported on use, so that `import lite` stays fast

    return standard(_UNPRINTABLE.sub(_visible, text))


def _visible(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def page(title: str, sections: Sequence[str], style: str = "") -> str:
    """The whole page; sections are HTML in which data is escaped."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        # A second line of defence: data that escaped `escape` could run no script and load nothing.
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style></head>"
        f"<body><h1>{escape(title)}</h1>{''.join(sections)}</body></html>\n"
    )


def heading(text: str) -> str:
    """A section's heading."""
    return f"<h2>{escape(text)}</h2>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; columns of numbers are aligned right."""
    numbers = [
        bool(rows)
        and len(head) > 2
        and all(row[i].rstrip("%").replace(".", "").lstrip("-").isdigit() for row in rows)
        for i in range(len(head))
    ]

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=number' if number else ''}>{escape(text)}</{tag}>"
            for text, number in zip(row, numbers, strict=True)
        )

    top = f"<tr>{cells(head, 'th')}</tr>" if any(head) else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table>{top}{body}</table>"


def bars(title: str, entries: Sequence[tuple[str, float]], form: str) -> str:
    """A horizontal bar chart: the name, the bar and the formatted number of each entry."""
    most = max((value for _, value in entries), default=0) or 1
    room = WIDE - _LABEL - _NUMBER
    parts = []
    for i, (name, value) in enumerate(entries):
        y, width = i * _BAR, room * value / most
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="mark" x="{_LABEL}" y="{y + 3}" width="{width:.1f}" height="{_BAR - 6}"/>'
            f'<text x="{_LABEL + width + 6:.1f}" y="{y + 15}">{form.format(value)}</text>'
        )
    return svg(title, len(entries) * _BAR, parts)


def svg(title: str, height: int, parts: Sequence[str]) -> str:
    """A drawing `WIDE` wide."""
    return (
        f'<svg role="img" viewBox="0 0 {WIDE} {height}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
