"""The page of `lite mismatch`: its charts, drawn as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lite._show import page as html
from lite._show.page import bars, escape, heading, svg, table
from lite.models import Mismatch
from lite.models.comparison.mismatch import EDGES, Group

_POINTS, _ROWS = 4000, 200  # most points and rows to show


def page(mismatch: Mismatch, a: str, b: str, verdict: str) -> str:
    """The page as HTML; `a` and `b` name the sides."""
    numbers = mismatch.estimates
    facts = [
        ("A", a),
        ("B, which drew the tokens", b),
        ("compared", f"{mismatch.tokens:,} tokens of {len(mismatch.rows):,} responses"),
        ("log A - log B", f"mean {numbers.mean:+.5f}, standard deviation {numbers.deviation:.5f}"),
        ("its size", f"mean {numbers.mean_abs:.5f}, largest {numbers.max_abs:.4f}"),
        *(
            (f"{p:g}% of tokens differ by at most", f"{value:.5f}")
            for p, value in numbers.percentiles.items()
        ),
        ("KL(B, A)", f"k1 {numbers.k1:z.4g}, k3 {numbers.k3:z.4g}"),
        ("chi-square", f"{numbers.chi_square:z.4g}"),
        ("importance ratio A / B", f"mean {numbers.ratio_mean:.4f}, median {numbers.ratio_median:.4f}"),
        ("ratios outside [0.9, 1.1]", f"{numbers.outside:.2%}"),
    ]
    tried = [(cause.name, cause.detail, f"{cause.explained:.1%}") for cause in mismatch.tried]
    sections = [
        f"<p class=verdict>Likely cause: {escape(verdict)}</p>",
        table(("", ""), facts),
        heading("Importance ratios A / B"),
        bars(
            "Number of tokens by importance ratio",
            list(zip(bin_names(), numbers.histogram, strict=True)),
            "{:,}",
        ),
        heading("Log-probs of the tokens"),
        _scatter(mismatch),
        heading("Mean size of the difference by position in the response"),
        _of_groups("Mean size by position", mismatch.by_position),
        heading("Mean size of the difference by the token's probability under A"),
        _of_groups("Mean size by probability", mismatch.by_probability),
    ]
    if tried:
        sections += [heading("What was tried"), table(("cause", "what B would have done", "explains"), tried)]
    late = np.flatnonzero(mismatch.first_divergence >= 0)
    sections.append(heading(f"Responses that diverge: {len(late):,} of {len(mismatch.rows):,}"))
    shown = [
        (
            mismatch.rows[i].where or f"row {i}",
            f"{mismatch.first_divergence[i]}",
            f"{len(mismatch.log_probs_a[i])}",
        )
        for i in late[:_ROWS].tolist()
    ]
    if shown:
        sections.append(table(("response", f"first beyond {mismatch.divergence:g} at", "tokens"), shown))
    if len(late) > len(shown):
        sections.append(f"<p>and {len(late) - len(shown):,} more</p>")
    return html.page("Mismatch of log-probs", sections)


def bin_names() -> list[str]:
    """Names of the bins of the ratios' histogram."""
    between = [f"{low:g} to {high:g}" for low, high in pairwise(EDGES)]
    return [f"below {EDGES[0]:g}", *between, f"from {EDGES[-1]:g}"]


def _of_groups(title: str, groups: Sequence[Group]) -> str:
    entries = [(f"{g.low:g} to {g.high:g} ({g.tokens:,})", g.mean_abs) for g in groups]
    return bars(title, entries, "{:.4f}")


def _scatter(mismatch: Mismatch) -> str:
    """A point for each token, or for a random sample: x is its log-prob under A, y under B."""
    a, b = np.concatenate(mismatch.log_probs_a), np.concatenate(mismatch.log_probs_b)
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
    return svg(
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
