"""MCAdvantageSelector: the choice of episodes to learn from, out of a larger group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDictBase
from lite._arrays.public import belong_to
from lite.kernels._integer import integer
from lite.nn.values.entries import require_array

Bounds = tuple[float, float]
_STRATEGIES = ("first", "uniform", "balanced")


class MCAdvantageSelector:
    """Chooses episodes by their returns, for `MCAdvantage` with a `candidate_group_size`.

    Args:
        strategy: "first", the first to come; "uniform", returns from the lowest to the highest at equal
            distances in their order; "balanced", the episodes whose mean return is closest to the middle of
            the bounds, and of equal choices the one with the largest spread; "uniform" without bounds.
        max_combinations: the number of choices that "balanced" compares. If there are more, it exchanges the
            episodes of "uniform" one by one until their mean is within the bounds.
        in_keys: the entry of candidates that a subclass's `select` reads: "return", a number for each, or
            "trajectories", the episodes.

    Raises:
        ValueError: an unknown strategy, a `max_combinations` below 1, or no key.

    Source:
        torchrl.objectives.llm.MCAdvantageSelector.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import MCAdvantageSelector
        >>> candidates = TensorDict({"return": np.array([0.0, 0.0, 0.0, 1.0])}, [4])
        >>> MCAdvantageSelector().select(candidates, group_size=2, keep_return_bounds=(0.1, 0.9))
        [0, 3]
    """

    def __init__(
        self,
        strategy: Literal["first", "uniform", "balanced"] = "balanced",
        *,
        max_combinations: int = 100_000,
        in_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy must be one of {_STRATEGIES}, got {strategy!r}.")
        integer("max_combinations", max_combinations, least=1)
        if in_keys is not None and not in_keys:
            raise ValueError("in_keys must have at least one key.")
        self.strategy = strategy
        self.max_combinations = max_combinations
        self.in_keys: list[NestedKey] = ["return"] if in_keys is None else list(in_keys)

    def select(
        self, candidates: TensorDictBase, *, group_size: int, keep_return_bounds: Bounds | None = None
    ) -> list[int] | None:
        """Choose candidates.

        Args:
            candidates: a TensorDict with one element for each, with the first of `in_keys`.
            group_size: the number to choose.
            keep_return_bounds: the lowest and the highest mean return of the choice.

        Returns:
            Their indices, or None if no choice is within the bounds.

        Raises:
            ValueError: fewer candidates than are to be chosen, or not one number for each.
        """
        key = self.in_keys[0]
        array = require_array(candidates, key if isinstance(key, tuple) else (key,), type(self).__name__)
        values = np.asarray(array, np.float64).reshape(-1)
        if values.size != candidates.numel():
            raise ValueError(
                f"{key!r} must be a number for each of {candidates.numel()} candidates, got {array.shape}."
            )
        if len(values) < group_size:
            raise ValueError(f"{group_size} candidates are needed, got {len(values)}.")
        if len(values) == group_size or self.strategy == "first":
            return _within(values, list(range(group_size)), keep_return_bounds)
        evenly = _evenly(values, group_size)
        if self.strategy == "uniform" or keep_return_bounds is None:
            return _within(values, evenly, keep_return_bounds)
        if comb(len(values), group_size) <= self.max_combinations:
            return _closest(values, group_size, keep_return_bounds)
        return _exchanged(values, evenly, keep_return_bounds)


def mean_return(values: NDArray[Any]) -> float | None:
    """The mean of the finite returns; None if there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None


def _within(values: NDArray[Any], indices: list[int], bounds: Bounds | None) -> list[int] | None:
    """The indices, if the mean of their values is within the bounds."""
    if bounds is None:
        return indices
    mean = mean_return(values[indices])
    return indices if mean is not None and bounds[0] < mean < bounds[1] else None


def _evenly(values: NDArray[Any], count: int) -> list[int]:
    """Indices of values from the least to the greatest, at equal distances in their order."""
    order = np.argsort(values, kind="stable").tolist()
    if count == 1:
        return [order[len(order) // 2]]
    return [order[round(i * (len(order) - 1) / (count - 1))] for i in range(count)]


def _closest(values: NDArray[Any], count: int, bounds: Bounds) -> list[int] | None:
    """The choice whose mean is closest to the middle of the bounds, the first of those that spread most."""
    middle = 0.5 * (bounds[0] + bounds[1])
    best: tuple[tuple[float, float], list[int]] | None = None
    for choice in combinations(range(len(values)), count):
        indices = list(choice)
        if _within(values, indices, bounds) is None:
            continue
        chosen = values[indices]
        score = abs((mean_return(chosen) or 0.0) - middle), float(chosen.min() - chosen.max())
        if best is None or score < best[0]:
            best = score, indices
    return None if best is None else best[1]


def _exchanged(values: NDArray[Any], indices: list[int], bounds: Bounds) -> list[int] | None:
    """The choice after the fewest exchanges that bring its mean within the bounds; None if none do."""
    found = _within(values, indices, bounds)
    if found is not None:
        return found
    mean, sign = mean_return(values[indices]), 1
    if mean is not None and mean > bounds[0]:
        sign = -1  # lower ones in place of the greatest
    chosen = list(indices)
    outgoing = sorted(indices, key=lambda i: sign * values[i])
    order = np.argsort(values, kind="stable").tolist()
    for new in reversed(order) if sign > 0 else order:
        if new in chosen or not outgoing:
            continue
        chosen[chosen.index(outgoing.pop(0))] = new
        found = _within(values, chosen, bounds)
        if found is not None:
            return found
    return None


belong_to("lite.data", MCAdvantageSelector)
