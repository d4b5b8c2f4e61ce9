"""Distributions with heavier tails than normal ones: Student's t, Cauchy's and Laplace's."""

from __future__ import annotations

import math

import numpy as np

from lite._arrays.special import digamma, log_beta
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import (
    Elementwise,
    LocScale,
    Numbers,
    ShapeLike,
    as_shape,
    as_value,
    drawn_without_gradient,
    generator_of,
    in_double,
    uniform,
)
from lite.nn.distributions.support import Real

_HALF = np.array(0.5)


class Cauchy(LocScale):
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

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw numbers; see `Distribution.rsample`."""
        wide = generator_of(rng).standard_cauchy((*as_shape(sample_shape), *self.batch_shape))
        return in_double(_moved, wide, self.loc, self.scale, dtype=self.loc.dtype)

    @staticmethod
    def _log_density(x: Array, loc: Array, scale: Array) -> Array:
        z = (x - loc) / scale
        return -math.log(math.pi) - np.log(scale) - np.log1p(z * z)

    def entropy(self) -> Array:
        """Entropy of each number."""
        return math.log(4 * math.pi) + np.log(self.scale)

    def cdf(self, value: Numbers) -> Array:
        """Probability of numbers up to `value`."""
        z = (as_value(value, self.loc.dtype) - self.loc) / self.scale
        return np.arctan(z) / math.pi + 0.5

    def icdf(self, value: Numbers) -> Array:
        """The number up to which the probability is `value`."""
        return np.tan(math.pi * (as_value(value, self.loc.dtype) - 0.5)) * self.scale + self.loc

    @property
    def mean(self) -> Array:
        """NaN: there is none."""
        return np.full_like(self.loc, np.nan)

    @property
    def mode(self) -> Array:
        """`loc`, which is the median, too."""
        return self.loc

    median = deterministic_sample = mode

    @property
    def variance(self) -> Array:
        """Infinity."""
        return np.full_like(self.loc, np.inf)


class StudentT(Elementwise):
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
    _positive = ("df", "scale")
    support = Real()

    def __init__(
        self, df: Numbers, loc: Numbers = 0.0, scale: Numbers = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = self._parameters(validate_args, df, loc, scale)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw numbers; see `Distribution.rsample`."""
        wide = drawn_without_gradient(rng, "standard_t", sample_shape, self.df.astype(np.float64))
        return in_double(_moved, wide, self.loc, self.scale, dtype=self.loc.dtype)

    @staticmethod
    def _log_density(x: Array, df: Array, loc: Array, scale: Array) -> Array:
        z = (x - loc) / scale
        norm = np.log(scale) + 0.5 * np.log(df) + log_beta(0.5 * df, _HALF)
        return -0.5 * (df + 1) * np.log1p(z * z / df) - norm

    def entropy(self) -> Array:
        """Entropy of each number."""

        def entropy(df: Array, loc: Array, scale: Array) -> Array:
            difference = 0.5 * (df + 1) * (digamma(0.5 * (df + 1)) - digamma(0.5 * df))
            return np.log(scale) + difference + 0.5 * np.log(df) + log_beta(0.5 * df, _HALF)

        return self._in_double(entropy)

    @property
    def mean(self) -> Array:
        """`loc`; NaN for a df up to 1."""
        return np.where(self.df <= 1, self.loc.dtype.type(np.nan), self.loc)

    @property
    def mode(self) -> Array:
        """`loc`, which is the median, too."""
        return self.loc

    median = deterministic_sample = mode

    @property
    def variance(self) -> Array:
        """scale² df / (df - 2); infinite for a df up to 2, NaN up to 1."""
        kind = self.loc.dtype.type
        above = np.where(self.df > 2, self.df, kind(3))
        ratio = 1 + 2 / (above - 2)  # also for infinitely many
        out = np.where(self.df > 2, self.scale * self.scale * ratio, kind(np.inf))
        return np.where(self.df <= 1, kind(np.nan), out)


def _moved(z: Array, loc: Array, scale: Array) -> Array:
    return loc + scale * z


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
