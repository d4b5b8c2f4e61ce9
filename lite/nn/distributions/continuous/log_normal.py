"""LogNormal: numbers of which the logarithm has a normal distribution."""

from __future__ import annotations

import numpy as np

from lite._arrays.types import Array
from lite.nn.distributions.arrays import Numbers, in_double
from lite.nn.distributions.continuous.normal import Normal
from lite.nn.distributions.number_transforms import ExpTransform
from lite.nn.distributions.transformed import TransformedDistribution


class LogNormal(TransformedDistribution):
    """Exponentials of normally distributed numbers.

    Args:
        loc: means of the logarithms.
        scale: standard deviations of the logarithms, positive; broadcast against `loc`.
        validate_args: False leaves `scale` unchecked.

    Raises:
        ValueError: a `scale` is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import LogNormal
        >>> dist = LogNormal(np.zeros(2), 1.0)
        >>> dist.mean.round(4), dist.median, dist.log_prob(np.array([1.0, -1.0])).round(4)
        (array([1.6487, 1.6487]), array([1., 1.]), array([-0.9189,    -inf]))

    Source:
        torch.distributions.LogNormal.
    """

    base_dist: Normal

    def __init__(self, loc: Numbers, scale: Numbers, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform())

    @property
    def loc(self) -> Array:
        """Means of the logarithms."""
        return self.base_dist.loc

    @property
    def scale(self) -> Array:
        """Standard deviations of the logarithms."""
        return self.base_dist.scale

    def entropy(self) -> Array:
        """Entropy of each number."""
        return self.base_dist.entropy() + self.loc

    @property
    def mean(self) -> Array:
        """exp(loc + scale² / 2)."""
        return in_double(lambda loc, scale: np.exp(loc + scale * scale / 2), self.loc, self.scale)

    deterministic_sample = mean

    @property
    def mode(self) -> Array:
        """exp(loc - scale²)."""
        return in_double(lambda loc, scale: np.exp(loc - scale * scale), self.loc, self.scale)

    @property
    def variance(self) -> Array:
        """(exp(scale²) - 1) exp(2 loc + scale²)."""

        def variance(loc: Array, scale: Array) -> Array:
            square = scale * scale
            return np.expm1(square) * np.exp(2 * loc + square)

        return in_double(variance, self.loc, self.scale)
