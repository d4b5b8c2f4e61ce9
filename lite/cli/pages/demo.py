"""The page of `lite demo --plot`: rewards and n-step returns along the tokens of each response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lite._show.page import WIDE, escape, heading, page, svg
from lite.models.text.to_html import STYLE, chips, legend

_COLOURS = ("#3b7dd8", "#d8663b", "#2f9e5b", "#a04bc4", "#b58a1b", "#1f9aa8", "#c43b6f", "#6b7280")
_HIGH, _LEFT, _RIGHT, _TOP, _BELOW = 170, 46, 14, 12, 34
_STYLE = (
    ".prompt{white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;font-size:1.05rem}"
    "svg .return{fill:none}.sample{display:flex;gap:.8rem;align-items:baseline}"
    ".sample b{white-space:nowrap;font-variant-numeric:tabular-nums;font-weight:normal}"
)
_MOST = 100  # prompts to show


@dataclass(frozen=True)
class Sample:
    """A response of the demo.

    Attributes:
        prompt: what it responds to.
        tokens: the texts of its tokens.
        log_probs: their log-probs.
        rewards: the reward that each token got.
        returns: the n-step return from each token on.
        alternatives: the most probable tokens in each place with their log-probs, where they are known.
    """

    prompt: str
    tokens: Sequence[str]
    log_probs: Sequence[float]
    rewards: Sequence[float]
    returns: Sequence[float]
    alternatives: Sequence[Sequence[tuple[str | int, float]]] | None = None


def demo_page(prompts: Sequence[Sequence[Sample]], gamma: float, n_steps: int) -> str:
    """The whole page: a drawing for each prompt, with the tokens of its samples below."""
    explained = (
        f"Lines are {n_steps}-step returns, gamma {gamma:g}, from each token on; dots are the rewards, which"
        " the last token gets. Tokens are coloured by their probability; hovering tells the numbers,"
        " and what was most probable in the place of a token."
    )
    sections = [f"<p>{explained}</p>", legend()]
    for samples in prompts[:_MOST]:
        sections += [
            f'<h2 class="prompt">{escape(samples[0].prompt)}</h2>',
            _drawing(samples),
            *(_tokens(sample, _COLOURS[i % len(_COLOURS)]) for i, sample in enumerate(samples)),
        ]
    if len(prompts) > _MOST:
        sections.append(heading(f"and {len(prompts) - _MOST:,} more prompts"))
    return page("Rewards and returns along tokens", sections, STYLE + _STYLE)


def _drawing(samples: Sequence[Sample]) -> str:
    """Returns as lines and rewards as dots, over the number of the token."""
    values = [value for sample in samples for value in (*sample.rewards, *sample.returns)]
    low, high = min([0.0, *values]), max([1.0, *values])
    longest = max(len(sample.tokens) for sample in samples)
    wide, tall = WIDE - _LEFT - _RIGHT, _HIGH - _TOP - _BELOW

    def x(token: int) -> float:
        return _LEFT + wide * token / max(longest - 1, 1)

    def y(value: float) -> float:
        return _TOP + tall * (high - value) / (high - low)

    bottom = _TOP + tall
    parts = [f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{_LEFT + wide}"/>']
    for value in (low, high):
        parts.append(f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for token in sorted({0, (longest - 1) // 2, longest - 1} - {-1}):
        parts.append(f'<text x="{x(token):.1f}" y="{bottom + 16}" text-anchor="middle">{token}</text>')
    parts.append(f'<text x="{_LEFT + wide / 2}" y="{bottom + 30}" text-anchor="middle">token</text>')
    # Lines that coincide lie on top of each other, the first and thinnest last, so that all can be seen.
    for i, sample in reversed(list(enumerate(samples))):
        colour, wider = _COLOURS[i % len(_COLOURS)], 1.5 * min(i, 6)
        points = " ".join(f"{x(t):.1f},{y(value):.1f}" for t, value in enumerate(sample.returns))
        dots = "".join(
            f'<circle cx="{x(t):.1f}" cy="{y(value):.1f}" r="{4 + wider}"><title>'
            f"sample {i}, token {t}: reward {value:g}</title></circle>"
            for t, value in enumerate(sample.rewards)
            if value or t == len(sample.rewards) - 1
        )
        parts.append(
            f'<g class="sample-{i}" fill="{colour}">'
            f'<polyline class="return" stroke="{colour}" stroke-width="{2 + 2 * wider}" points="{points}"/>'
            f"{dots}</g>"
        )
    return svg("Returns and rewards by token", _HIGH, parts)


def _tokens(sample: Sample, colour: str) -> str:
    told = [
        f"reward {reward:g}, return {value:.4f}"
        for reward, value in zip(sample.rewards, sample.returns, strict=True)
    ]
    total = sum(sample.rewards)
    return (
        f'<div class="sample"><b><span style="color:{colour}">&#9632;</span> reward {total:.2f}</b>'
        f"{chips(sample.tokens, sample.log_probs, told, sample.alternatives)}</div>"
    )
