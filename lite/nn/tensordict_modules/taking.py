"""Taking a value from a distribution in the way that an interaction type says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lite.nn.distributions.distribution import Distribution, deterministic_sample
from lite.nn.settings import InteractionType

if TYPE_CHECKING:
    import numpy as np


def take(
    dist: Any,
    how: InteractionType,
    sample_shape: tuple[int, ...] = (),
    estimate: int = 1000,
    rng: np.random.Generator | None = None,
) -> Any:
    """A value, or a tuple of values, of a distribution.

    Args:
        dist: the distribution.
        how: which value.
        sample_shape: how many to draw, where values are drawn.
        estimate: how many to draw where a mean has to be estimated.
        rng: what draws; by default the generator that the process shares.

    Raises:
        TypeError: `dist` is not a `Distribution`.
        NotImplementedError: it has no such value.
    """
    if not isinstance(dist, Distribution):
        raise TypeError(f"Expected Distribution, but got {type(dist)}")
    if how is InteractionType.DETERMINISTIC:
        return deterministic_sample(dist)
    if how is InteractionType.RANDOM:
        return _draw(dist, sample_shape, rng)
    if how is InteractionType.MEAN:
        try:
            return dist.mean
        except (AttributeError, NotImplementedError):
            return _draw(dist, (estimate,), rng).mean(0)
    try:
        return dist.mode if how is InteractionType.MODE else dist.median
    except AttributeError as err:
        raise NotImplementedError(f"method {type(dist)}.{how.value} is not implemented") from err


def _draw(dist: Distribution, shape: tuple[int, ...], rng: np.random.Generator | None) -> Any:
    draw = dist.rsample if dist.has_rsample else dist.sample
    # A distribution from elsewhere may not know `rng`.
    return draw(shape) if rng is None else draw(shape, rng=rng)
