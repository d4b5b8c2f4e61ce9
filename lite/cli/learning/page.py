"""The page of `lite learn --html`: how losses, rewards and the rest went along the steps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lite._show.page import WIDE, escape, heading, page, svg, table

_HIGH, _LEFT, _RIGHT, _TOP, _BELOW = 170, 60, 14, 12, 34
_CURVES = (
    ("held_out", "Held-out rows"), ("reward", "Mean reward of the responses"), ("loss", "Loss"),
    ("rewards_accuracies", "Share of pairs whose chosen response gained more"),
    ("rewards_margins", "By how much, beta times log-ratios"), ("kl", "KL divergence"),
    ("clip_fraction", "Share of clipped tokens"), ("gradient_norm", "Norm of the gradient, before clipping"),
    ("tokens_per_second", "Tokens per second"),
)  # fmt: skip
_STYLE = "svg .curve{fill:none;stroke:var(--accent);stroke-width:2}"


def learn_page(records: Sequence[Mapping[str, Any]], run: Mapping[str, Any]) -> str:
    """The whole page.

    Args:
        records: what was told of each step.
        run: the options of the run, by name.
    """
    sections = []
    for name, title in _CURVES:
        points = [(record["step"], float(record[name])) for record in records if name in record]
        if points:
            sections += [heading(title), curve(title, points)]
    options = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in run.items()]
    sections += [heading("Options"), table(("", ""), options)]
    return page("What was learnt, step by step", sections, _STYLE)


def curve(title: str, points: Sequence[tuple[int, float]]) -> str:
    """Values over the numbers of steps, as a line with dots."""
    values, steps = [value for _, value in points], [step for step, _ in points]
    low, high = min([0.0, *values]), max(values)
    if high <= low:
        high = low + 1
    first, last = steps[0], max(steps[-1], steps[0] + 1)
    wide, tall = WIDE - _LEFT - _RIGHT, _HIGH - _TOP - _BELOW
    bottom = _TOP + tall

    def x(step: int) -> float:
        return _LEFT + wide * (step - first) / (last - first)

    def y(value: float) -> float:
        return _TOP + tall * (high - value) / (high - low)

    parts = [f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{_LEFT + wide}"/>']
    for value in (low, high):
        parts.append(f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    for step in sorted({first, steps[-1]}):
        parts.append(f'<text x="{x(step):.1f}" y="{bottom + 16}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{_LEFT + wide / 2}" y="{bottom + 30}" text-anchor="middle">step</text>')
    line = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in points)
    parts.append(f'<polyline class="curve" points="{line}"/>')
    parts += [
        f'<circle class="mark" cx="{x(step):.1f}" cy="{y(value):.1f}" r="3">'
        f"<title>{escape(f'step {step}: {value:.6g}')}</title></circle>"
        for step, value in points
    ]
    return svg(title, _HIGH, parts)
