"""Laplace: an exponential distribution on both sides of the middle."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite.nn._modules.initial import Rng
from lite.nn.distributions.arrays import as_shape, as_value, float_arrays, in_double, require, uniform
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.support import Real, Support


class Laplace(Distribution):
    """Laplace distributions, one for each number.

    Args:
        loc: means.
        scale: mean distances from `loc`, positive; broadcast against `loc`.
        validate_args: False leaves `scale` unchecked.

    Raises:
        ValueError: a `scale` is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Laplace
        >>> dist = Laplace(np.zeros(2), 1.0)
        >>> dist.log_prob(np.array([0.0, 1.0])).round(4), dist.icdf(0.5)
        (array([-0.6931, -1.6931]), array([0., 0.]))

    Source:
        torch.distributions.Laplace.
    """

    has_rsample = True
    _batched = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = float_arrays(loc, scale)
        if validate_args is not False:
            require(self.scale > 0, "scale must be positive", self.scale)
        super().__init__(self.loc.shape)

    def rsample(self, sample_shape: Any = (), *, rng: Rng = None) -> Any:
        """Draw numbers; see `Distribution.rsample`."""
        shape = (*as_shape(sample_shape), *self.batch_shape)
        share = uniform(rng, shape, np.dtype(np.float64))  # float32 has few shares near 1
        share = np.maximum(share, np.finfo(np.float64).tiny)
        return self._quantile(share).astype(self.loc.dtype)

    def _quantile(self, p: Any) -> Any:
        away = p - 0.5
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.loc - self.scale * np.sign(away) * np.log1p(-2 * np.abs(away))

    def log_prob(self, value: Any) -> Any:
        """Logarithm of the density of each number."""

        def density(x: Any, loc: Any, scale: Any) -> Any:
            return -np.log(2 * scale) - np.abs(x - loc) / scale

        return in_double(density, as_value(value, self.loc.dtype), self.loc, self.scale)

    def entropy(self) -> Any:
        """Entropy of each number."""
        return 1 + np.log(2 * self.scale)

    def cdf(self, value: Any) -> Any:
        """Probability of numbers up to `value`."""

        def below(x: Any, loc: Any, scale: Any) -> Any:
            half = 0.5 * np.exp(-np.abs(x - loc) / scale)
            return np.where(x > loc, 1 - half, half)

        return in_double(below, as_value(value, self.loc.dtype), self.loc, self.scale)

    def icdf(self, value: Any) -> Any:
        """The number up to which the probability is `value`."""
        return self._quantile(as_value(value, self.loc.dtype))

    @property
    def mean(self) -> Any:
        """`loc`."""
        return self.loc

    mode = median = deterministic_sample = mean

    @property
    def stddev(self) -> Any:
        """√2 scale."""
        return self.scale * 2**0.5

    @property
    def variance(self) -> Any:
        """2 scale²."""
        return 2 * self.scale * self.scale

    @property
    def support(self) -> Support:
        """All real numbers."""
        return Real()
