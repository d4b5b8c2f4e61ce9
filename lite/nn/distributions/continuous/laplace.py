"""Laplace: an exponential distribution on both sides of the middle."""

from __future__ import annotations

import numpy as np

from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.arrays import Numbers, ShapeLike, as_shape, as_value, uniform
from lite.nn.distributions.distribution import LocScale


class Laplace(LocScale):
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

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw numbers; see `Distribution.rsample`."""
        shape = (*as_shape(sample_shape), *self.batch_shape)
        share = uniform(rng, shape, np.dtype(np.float64))  # float32 has few shares near 1
        return self._number_at(np.maximum(share, np.finfo(np.float64).tiny)).astype(self.loc.dtype)

    def _number_at(self, p: Array) -> Array:
        away = p - 0.5
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.loc - self.scale * np.sign(away) * np.log1p(-2 * np.abs(away))

    @staticmethod
    def _log_density(x: Array, loc: Array, scale: Array) -> Array:
        return -np.log(2 * scale) - np.abs(x - loc) / scale

    @staticmethod
    def _probability(x: Array, loc: Array, scale: Array) -> Array:
        half = 0.5 * np.exp(-np.abs(x - loc) / scale)
        return np.where(x > loc, 1 - half, half)

    def icdf(self, value: Numbers) -> Array:
        """The number up to which the probability is `value`."""
        return self._number_at(as_value(value, self.loc.dtype))

    def entropy(self) -> Array:
        """Entropy of each number."""
        return 1 + np.log(2 * self.scale)

    @property
    def mean(self) -> Array:
        """`loc`, which is the mode and the median, too."""
        return self.loc

    mode = median = deterministic_sample = mean

    @property
    def stddev(self) -> Array:
        """√2 scale."""
        return self.scale * 2**0.5

    @property
    def variance(self) -> Array:
        """2 scale²."""
        return 2 * self.scale * self.scale
