"""Distributions with heavy tails: Student's t and Cauchy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lite._arrays.special import digamma, log_beta
from lite.nn._modules.initial import Rng
from lite.nn.distributions.arrays import (
    as_shape,
    as_value,
    drawn_without_slope,
    float_arrays,
    generator_of,
    in_double,
    require,
)
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.support import Real, Support


class Cauchy(Distribution):
    """Cauchy distributions, one for each number: without mean, of infinite variance.

    Args:
        loc: medians.
        scale: half the width at half of the maximum, positive; broadcast against `loc`.
        validate_args: False leaves `scale` unchecked.

    Raises:
        ValueError: a `scale` is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Cauchy
        >>> dist = Cauchy(np.zeros(2), 1.0)
        >>> dist.cdf(np.array([0.0, 1.0])), dist.mean
        (array([0.5 , 0.75]), array([nan, nan]))

    Source:
        torch.distributions.Cauchy.
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
        wide = generator_of(rng).standard_cauchy((*as_shape(sample_shape), *self.batch_shape))
        return in_double(_moved, wide, self.loc, self.scale, dtype=self.loc.dtype)

    def log_prob(self, value: Any) -> Any:
        """Logarithm of the density of each number."""

        def density(x: Any, loc: Any, scale: Any) -> Any:
            z = (x - loc) / scale
            return -math.log(math.pi) - np.log(scale) - np.log1p(z * z)

        return in_double(density, as_value(value, self.loc.dtype), self.loc, self.scale)

    def entropy(self) -> Any:
        """Entropy of each number."""
        return math.log(4 * math.pi) + np.log(self.scale)

    def cdf(self, value: Any) -> Any:
        """Probability of numbers up to `value`."""
        z = (as_value(value, self.loc.dtype) - self.loc) / self.scale
        return np.arctan(z) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        """The number up to which the probability is `value`."""
        return np.tan(math.pi * (as_value(value, self.loc.dtype) - 0.5)) * self.scale + self.loc

    @property
    def mean(self) -> Any:
        """NaN, as it does not exist."""
        return np.full_like(self.loc, np.nan)

    @property
    def mode(self) -> Any:
        """`loc`."""
        return self.loc

    median = deterministic_sample = mode

    @property
    def variance(self) -> Any:
        """Infinite."""
        return np.full_like(self.loc, np.inf)

    @property
    def support(self) -> Support:
        """All real numbers."""
        return Real()


class StudentT(Distribution):
    """Student's t-distributions, one for each number.

    Args:
        df: degrees of freedom, positive.
        loc: medians; all are broadcast against each other.
        scale: factors of the distance from `loc`, positive.
        validate_args: False leaves `df` and `scale` unchecked.

    Raises:
        ValueError: a `df` or a `scale` is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import StudentT
        >>> dist = StudentT(np.array([1.0, 2.0, 4.0]))
        >>> dist.mean, dist.variance
        (array([nan,  0.,  0.]), array([nan, inf,  2.]))

    Source:
        torch.distributions.StudentT.
    """

    has_rsample = True
    _batched = ("df", "loc", "scale")

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = float_arrays(df, loc, scale)
        if validate_args is not False:
            require(self.df > 0, "df must be positive", self.df)
            require(self.scale > 0, "scale must be positive", self.scale)
        super().__init__(self.df.shape)

    def rsample(self, sample_shape: Any = (), *, rng: Rng = None) -> Any:
        """Draw numbers; see `Distribution.rsample`."""
        wide = drawn_without_slope(rng, "standard_t", sample_shape, self.df.astype(np.float64))
        return in_double(_moved, wide, self.loc, self.scale, dtype=self.loc.dtype)

    def log_prob(self, value: Any) -> Any:
        """Logarithm of the density of each number."""

        def density(x: Any, df: Any, loc: Any, scale: Any) -> Any:
            z = (x - loc) / scale
            norm = np.log(scale) + 0.5 * np.log(df) + log_beta(0.5 * df, np.full_like(df, 0.5))
            return -0.5 * (df + 1) * np.log1p(z * z / df) - norm

        return in_double(density, as_value(value, self.loc.dtype), self.df, self.loc, self.scale)

    def entropy(self) -> Any:
        """Entropy of each number."""

        def entropy(df: Any, scale: Any) -> Any:
            slope = 0.5 * (df + 1) * (digamma(0.5 * (df + 1)) - digamma(0.5 * df))
            return np.log(scale) + slope + 0.5 * np.log(df) + log_beta(0.5 * df, np.full_like(df, 0.5))

        return in_double(entropy, self.df, self.scale)

    @property
    def mean(self) -> Any:
        """`loc`, but NaN for up to one degree of freedom."""
        return np.where(self.df <= 1, self.loc.dtype.type(np.nan), self.loc)

    @property
    def mode(self) -> Any:
        """`loc`."""
        return self.loc

    median = deterministic_sample = mode

    @property
    def variance(self) -> Any:
        """scale² df / (df - 2), but infinite for up to two degrees of freedom, NaN for up to one."""
        kind = self.loc.dtype.type
        above = np.where(self.df > 2, self.df, kind(3))
        ratio = 1 + 2 / (above - 2)  # also for infinitely many
        out = np.where(self.df > 2, self.scale * self.scale * ratio, kind(np.inf))
        return np.where(self.df <= 1, kind(np.nan), out)

    @property
    def support(self) -> Support:
        """All real numbers."""
        return Real()


def _moved(z: Any, loc: Any, scale: Any) -> Any:
    return loc + scale * z
