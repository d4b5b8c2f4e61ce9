"""The page of `lite mismatch`: one file, its charts drawn as SVG in it, for light and dark screens alike."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

import numpy as np

from lite.models import Mismatch
from lite.models.comparison.differences import EDGES, Group

_STYLE = """
:root { color-scheme: light dark; --accent: #3b7dd8;
  --line: color-mix(in srgb, currentColor 25%, transparent); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; }
td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tr + tr td { border-top: 1px solid var(--line); }
.verdict { border-left: .3rem solid var(--accent); padding: .3rem 1rem; font-size: 1.05rem; }
svg { width: 100%; max-width: 46rem; height: auto; } svg text { fill: currentColor; font-size: 12px; }
svg .mark { fill: var(--accent); } svg .axis { stroke: var(--line); fill: none; }
code { overflow-wrap: anywhere; }
"""
_POINTS, _ROWS = 4000, 200  # most points and rows to show
_WIDE, _BAR, _LABEL, _NUMBER = 760, 22, 170, 90


def page(found: Mismatch, a: str, b: str, verdict: str) -> str:
    """The whole page; `a` and `b` name the sides."""
    numbers = found.estimates
    facts = [
        ("A", a),
        ("B, which drew the tokens", b),
        ("compared", f"{found.tokens:,} tokens of {len(found.rows):,} responses"),
        ("log A - log B", f"mean {numbers.mean:+.5f}, standard deviation {numbers.deviation:.5f}"),
        ("its size", f"mean {numbers.mean_abs:.5f}, largest {numbers.max_abs:.4f}"),
        *(
            (f"{p:g}% of tokens differ by at most", f"{value:.5f}")
            for p, value in numbers.percentiles.items()
        ),
        ("KL(B, A)", f"k1 {numbers.k1:.4g}, k3 {numbers.k3:.4g}"),
        ("chi-square", f"{numbers.chi_square:.4g}"),
        ("importance ratio A / B", f"mean {numbers.ratio_mean:.4f}, median {numbers.ratio_median:.4f}"),
        ("ratios outside [0.9, 1.1]", f"{numbers.outside:.2%}"),
    ]
    tried = [(cause.name, cause.detail, f"{cause.explained:.1%}") for cause in found.tried]
    sections = [
        f"<h1>Mismatch of log-probs</h1><p class=verdict>Likely cause: {escape(verdict)}</p>",
        _table(("", ""), facts),
        "<h2>Importance ratios A / B</h2>",
        _bars(
            "Number of tokens by importance ratio",
            list(zip(bin_names(), numbers.histogram, strict=True)),
            "{:,}",
        ),
        "<h2>Log-probs of the tokens</h2>",
        _scatter(found),
        "<h2>Mean size of the difference by position in the response</h2>",
        _of_groups("Mean size by position", found.by_position),
        "<h2>Mean size of the difference by the token's probability under A</h2>",
        _of_groups("Mean size by probability", found.by_probability),
    ]
    if tried:
        sections += [
            "<h2>What was tried</h2>",
            _table(("cause", "what B would have done", "explains"), tried),
        ]
    late = np.flatnonzero(found.first_divergence >= 0)
    sections.append(f"<h2>Responses that diverge: {len(late):,} of {len(found.rows):,}</h2>")
    shown = [
        (found.rows[i].where or f"row {i}", f"{found.first_divergence[i]}", f"{len(found.log_probs_a[i])}")
        for i in late[:_ROWS].tolist()
    ]
    if shown:
        sections.append(_table(("response", f"first beyond {found.divergence:g} at", "tokens"), shown))
    if len(late) > len(shown):
        sections.append(f"<p>and {len(late) - len(shown):,} more</p>")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Mismatch of log-probs</title>'
        f"<style>{_STYLE}</style><body>{''.join(sections)}</body></html>\n"
    )


def bin_names() -> list[str]:
    """Names of the bins of the ratios' histogram."""
    between = [f"{low:g} to {high:g}" for low, high in pairwise(EDGES)]
    return [f"below {EDGES[0]:g}", *between, f"from {EDGES[-1]:g}"]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; what looks like a number stands on the right."""
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


def _of_groups(title: str, groups: Sequence[Group]) -> str:
    entries = [(f"{g.low:g} to {g.high:g} ({g.tokens:,})", g.mean_abs) for g in groups]
    return _bars(title, entries, "{:.4f}")


def _bars(title: str, entries: Sequence[tuple[str, float]], form: str) -> str:
    """A bar for each entry, from left to right."""
    most = max((value for _, value in entries), default=0) or 1
    room = _WIDE - _LABEL - _NUMBER
    parts = []
    for i, (name, value) in enumerate(entries):
        y, width = i * _BAR, room * value / most
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="mark" x="{_LABEL}" y="{y + 3}" width="{width:.1f}" height="{_BAR - 6}"/>'
            f'<text x="{_LABEL + width + 6:.1f}" y="{y + 15}">{form.format(value)}</text>'
        )
    return _svg(title, len(entries) * _BAR, parts)


def _scatter(found: Mismatch) -> str:
    """A point for each token, or for some drawn at random: across under A, up under B."""
    a, b = np.concatenate(found.log_probs_a), np.concatenate(found.log_probs_b)
    if len(a) > _POINTS:
        chosen = np.random.default_rng(0).choice(len(a), _POINTS, replace=False)
        a, b = a[chosen], b[chosen]
    low = min(-0.1, float(max(np.minimum(a, b).min(), -30.0)))
    side, left = 400.0, 60.0

    def place(values: np.ndarray) -> np.ndarray:
        return side * (1 - np.maximum(values, low) / low)

    points = "".join(
        f'<circle cx="{left + x:.1f}" cy="{side - y:.1f}" r="1.5"/>'
        for x, y in zip(place(a), place(b), strict=True)
    )
    middle = left + side / 2
    return _svg(
        "Log-prob of each token under A and under B",
        int(side) + 40,
        [
            f'<path class="axis" d="M{left} 0V{side}H{left + side}M{left} {side}L{left + side} 0"/>',
            f'<g class="mark" fill-opacity=".45">{points}</g>',
            f'<text x="{left}" y="{side + 16}" text-anchor="middle">{low:.1f}</text>',
            f'<text x="{left + side}" y="{side + 16}" text-anchor="middle">0</text>',
            f'<text x="{middle}" y="{side + 32}" text-anchor="middle">log-prob under A</text>',
            f'<text x="{left - 8}" y="{side}" text-anchor="end">{low:.1f}</text>',
            f'<text x="{left - 8}" y="12" text-anchor="end">0</text>',
            f'<text x="{left - 8}" y="{side / 2}" text-anchor="end">under B</text>',
        ],
    )


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {_WIDE} {height}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
