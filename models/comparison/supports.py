"""Log-probs under temperatures and truncated supports, to find which of them someone used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 2**20  # logits to sort in one go


@dataclass(frozen=True)
class Support:
    """Which tokens are kept before drawing: those of `top_k`, `top_p` or `min_p`, after the temperature."""

    kind: str
    value: float


WHOLE = Support("", 0.0)

_VALUES: dict[str, tuple[float, ...]] = {
    "top_p": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99, 0.995),
    "top_k": (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 64, 80, 100, 200, 500, 1000),
    "min_p": (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7),
}
_STEPS = {"top_p": 0.005, "top_k": 1.0, "min_p": 0.005}
_MOST_BETWEEN = 120


def supports(vocab_size: int) -> tuple[Support, ...]:
    """Supports to begin with."""
    return tuple(
        Support(kind, value)
        for kind, values in _VALUES.items()
        for value in values
        if kind != "top_k" or value < vocab_size
    )


def finer(support: Support) -> tuple[Support, ...]:
    """Supports between the neighbours of one that `supports` gave, itself included; `WHOLE` for itself."""
    if support == WHOLE:
        return (WHOLE,)
    values = _VALUES[support.kind]
    at = values.index(support.value)
    low, high = values[max(at - 1, 0)], values[min(at + 1, len(values) - 1)]
    step = _STEPS[support.kind] * max(1, round((high - low) / _STEPS[support.kind] / _MOST_BETWEEN))
    between = np.round(np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step, 4)
    return tuple(Support(support.kind, float(v)) for v in sorted({*between.tolist(), support.value}) if v > 0)


def at_edge(support: Support) -> bool:
    """Whether it keeps least of all that are tried of its kind, so that one that keeps less may be nearer."""
    return support.value == {"top_p": _VALUES["top_p"][0], "min_p": _VALUES["min_p"][-1]}.get(support.kind)


def mildness(support: Support) -> tuple[int, float]:
    """A key by which the supports of a kind are sorted, the one that keeps most comes last."""
    kinds = ("min_p", "top_k", "top_p", "")
    return kinds.index(support.kind), -support.value if support.kind == "min_p" else support.value


class SupportFit:
    """How far given log-probs are from those under each temperature and support of a grid.

    Args:
        grid: the supports to try, by temperature.
        most: a larger difference of one token counts as this one.
    """

    def __init__(self, grid: Mapping[float, Sequence[Support]], most: float) -> None:
        self._grid = {temperature: _Supports(some) for temperature, some in grid.items()}
        self._most = most

    @property
    def left(self) -> dict[tuple[float, Support], float]:
        """The sum of the differences' sizes, by temperature and support."""
        return {
            (temperature, support): left
            for temperature, some in self._grid.items()
            for support, left in zip(some.all, some.left.tolist(), strict=True)
        }

    def add(self, logits: NDArray[np.float32], ids: NDArray[np.int64], given: NDArray[np.float64]) -> None:
        """Add tokens (n,) with their logits (n, V) and recorded log-probs (n,)."""
        size = max(1, _AT_ONCE // logits.shape[1])
        for start in range(0, len(logits), size):
            stop = start + size
            self._add(logits[start:stop], ids[start:stop], given[start:stop])

    def _add(self, logits: NDArray[np.float32], ids: NDArray[np.int64], given: NDArray[np.float64]) -> None:
        rows = np.arange(len(ids))[:, None]
        own = logits[rows, ids[:, None]]
        needed = (logits > own).sum(1, keepdims=True) + 1  # what was drawn was kept, whatever rounding says
        best = logits.max(1, keepdims=True)
        below = np.sort(best - logits, axis=1)  # from 0 up: the most probable first
        for temperature, some in self._grid.items():
            mass = np.cumsum(np.exp(-below / np.float32(temperature)), axis=1, dtype=np.float64)
            kept = np.clip(some.kept(below, mass, temperature), needed, logits.shape[1])
            values = (own - best) / temperature - np.log(mass[rows, kept - 1])
            some.left += np.minimum(np.abs(given[:, None] - values), self._most).sum(0)


class _Supports:
    """The supports of one temperature, sorted by kind."""

    def __init__(self, some: Sequence[Support]) -> None:
        self.all = tuple(some)
        self.left = np.zeros(len(self.all))
        self._at = {kind: [i for i, s in enumerate(self.all) if s.kind == kind] for kind in _VALUES}
        self._values = {kind: np.array([self.all[i].value for i in at]) for kind, at in self._at.items()}

    def kept(
        self, below: NDArray[np.float32], mass: NDArray[np.float64], temperature: float
    ) -> NDArray[np.int64]:
        """How many of the most probable tokens each support keeps in each row, (n, supports)."""
        kept = np.full((len(below), len(self.all)), below.shape[1])
        kept[:, self._at["top_k"]] = self._values["top_k"]
        if self._at["top_p"]:
            wanted = self._values["top_p"] * mass[:, -1:]
            kept[:, self._at["top_p"]] = [
                row.searchsorted(w) + 1 for row, w in zip(mass, wanted, strict=True)
            ]
        if self._at["min_p"]:
            deepest = -temperature * np.log(self._values["min_p"])
            kept[:, self._at["min_p"]] = [row.searchsorted(deepest, side="right") for row in below]
        return kept
