"""Uniform: every number of an interval is as probable as the others."""

from __future__ import annotations

import numpy as np

from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import (
    Distribution,
    Numbers,
    ShapeLike,
    as_float,
    as_shape,
    float_arrays,
    require,
    uniform,
)
from lite.nn.distributions.support import Interval, Support


class Uniform(Distribution):
    """Independent uniform distributions on [low, high), one for each number.

    Args:
        low: lower bounds.
        high: upper bounds; broadcast against `low`.
        validate_args: False leaves the bounds unchecked.

    Raises:
        ValueError: a `high` is not above its `low`.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Uniform
        >>> Uniform(np.zeros(2), 4.0).log_prob(np.array([1.0, 5.0])).round(4)
        array([-1.3863,    -inf])

    Source:
        torch.distributions.Uniform.
    """

    has_rsample = True
    _batched = ("low", "high")

    def __init__(self, low: Numbers, high: Numbers, validate_args: bool | None = None) -> None:
        self.low, self.high = float_arrays(low, high)
        if self._is_checked(validate_args):
            require(self.high > self.low, "high must be above low", self.high)
        self.batch_shape = self.low.shape
        self.event_shape = ()

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw numbers; see `Distribution.rsample`."""
        share = uniform(rng, (*as_shape(sample_shape), *self.batch_shape), self.low.dtype)
        return self.low + share * (self.high - self.low)

    def log_prob(self, value: Array) -> Array:
        """Logarithm of the density of each number: -inf below `low`, and from `high` on."""
        inside = (value >= self.low) & (value < self.high)
        out = -np.log(self.high - self.low)
        return np.where(inside, out, out.dtype.type(-np.inf))

    def entropy(self) -> Array:
        """Entropy of each number."""
        return np.log(self.high - self.low)

    def cdf(self, value: Array) -> Array:
        """Probability of numbers up to `value`."""
        return np.clip((value - self.low) / (self.high - self.low), 0, 1)

    def icdf(self, value: Numbers) -> Array:
        """The number up to which the probability is `value`."""
        return self.low + as_float(value, self.low.dtype) * (self.high - self.low)

    @property
    def mean(self) -> Array:
        """The middle."""
        return (self.low + self.high) / 2

    median = deterministic_sample = mean

    @property
    def mode(self) -> Array:
        """NaN: no number is more probable than the others."""
        return np.full_like(self.low, np.nan)

    @property
    def variance(self) -> Array:
        """Variance of each number."""
        return (self.high - self.low) ** 2 / 12

    @property
    def support(self) -> Support:
        """From `low` to `high`."""
        return Interval(self.low, self.high)
