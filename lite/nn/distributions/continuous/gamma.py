"""Gamma distributions and those of their kind: exponential and chi-square."""

from __future__ import annotations

import numpy as np

from lite._arrays.formulas import log_gamma
from lite._arrays.special import digamma, gamma_below, replaced, xlogy
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import (
    Elementwise,
    Numbers,
    ShapeLike,
    as_float,
    as_shape,
    as_value,
    drawn_without_gradient,
    in_double,
    limits,
    require,
    standard_exponential,
)
from lite.nn.distributions.support import Interval

NOT_NEGATIVE = Interval(0, np.inf)


class Exponential(Elementwise):
    """Waiting times at a given rate.

    Args:
        rate: events per unit of time, positive.
        validate_args: False leaves `rate` unchecked.

    Raises:
        ValueError: a `rate` is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Exponential
        >>> dist = Exponential(np.array([0.5, 2.0]))
        >>> dist.mean, dist.log_prob(np.array([1.0, -1.0])).round(4)
        (array([2. , 0.5]), array([-1.1931,    -inf]))

    Source:
        torch.distributions.Exponential.
    """

    has_rsample = True
    _batched = _positive = ("rate",)
    support = NOT_NEGATIVE

    def __init__(self, rate: Numbers, validate_args: bool | None = None) -> None:
        (self.rate,) = self._parameters(validate_args, rate)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw numbers; see `Distribution.rsample`."""
        shape = (*as_shape(sample_shape), *self.batch_shape)
        return standard_exponential(rng, shape, self.rate.dtype) / self.rate

    @staticmethod
    def _log_density(x: Array, rate: Array) -> Array:
        return replaced(x < 0, -np.inf, np.log(rate) - rate * x)

    def entropy(self) -> Array:
        """Entropy of each number."""
        return 1 - np.log(self.rate)

    def cdf(self, value: Numbers) -> Array:
        """Probability of numbers up to `value`."""
        return -np.expm1(-self.rate * np.maximum(as_value(value, self.rate.dtype), 0))

    def icdf(self, value: Numbers) -> Array:
        """The number up to which the probability is `value`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return -np.log1p(-as_value(value, self.rate.dtype)) / self.rate

    @property
    def mean(self) -> Array:
        """1 / rate, which is the standard deviation, too."""
        return 1 / self.rate

    stddev = deterministic_sample = mean

    @property
    def mode(self) -> Array:
        """0."""
        return np.zeros_like(self.rate)

    @property
    def variance(self) -> Array:
        """1 / rate²."""
        return self.mean / self.rate


class Gamma(Elementwise):
    """Gamma distributions: for whole concentrations, sums of so many waiting times.

    Args:
        concentration: the shape, positive.
        rate: events per unit of time, positive; broadcast against `concentration`.
        validate_args: False leaves both unchecked.

    Raises:
        ValueError: one of them is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Gamma
        >>> dist = Gamma(np.array([1.0, 3.0]), 2.0)
        >>> dist.mean, dist.cdf(np.array([0.5, 1.5])).round(4)
        (array([0.5, 1.5]), array([0.6321, 0.5768]))

    Source:
        torch.distributions.Gamma.
    """

    has_rsample = True
    _batched = _positive = ("concentration", "rate")
    support = NOT_NEGATIVE

    def __init__(self, concentration: Numbers, rate: Numbers, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = self._parameters(validate_args, concentration, rate)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw numbers; see `Distribution.rsample`."""
        dtype = self.rate.dtype
        wide = drawn_without_gradient(
            rng, "standard_gamma", sample_shape, self.concentration.astype(np.float64)
        )
        return np.maximum(in_double(np.divide, wide, self.rate, dtype=dtype), limits(dtype).tiny)

    @staticmethod
    def _log_density(x: Array, shape: Array, rate: Array) -> Array:
        out = xlogy(shape, rate) + xlogy(shape - 1, x) - rate * x - log_gamma(shape)
        return replaced(x < 0, -np.inf, out)

    @staticmethod
    def _probability(x: Array, shape: Array, rate: Array) -> Array:
        return gamma_below(shape, rate * np.maximum(x, 0))

    def entropy(self) -> Array:
        """Entropy of each number."""

        def entropy(shape: Array, rate: Array) -> Array:
            return shape - np.log(rate) + log_gamma(shape) + (1 - shape) * digamma(shape)

        return self._in_double(entropy)

    @property
    def mean(self) -> Array:
        """concentration / rate."""
        return self.concentration / self.rate

    deterministic_sample = mean

    @property
    def mode(self) -> Array:
        """(concentration - 1) / rate; 0 for a concentration below 1."""
        return np.maximum((self.concentration - 1) / self.rate, 0)

    @property
    def variance(self) -> Array:
        """concentration / rate²."""
        return self.mean / self.rate


class Chi2(Gamma):
    """Chi-square distributions: sums of squares of so many standard normal numbers.

    Args:
        df: degrees of freedom, positive.
        validate_args: False leaves `df` unchecked.

    Raises:
        ValueError: `df` is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Chi2
        >>> dist = Chi2(np.array([1.0, 4.0]))
        >>> dist.mean, dist.cdf(np.array([3.841, 9.488])).round(3)
        (array([1., 4.]), array([0.95, 0.95]))

    Source:
        torch.distributions.Chi2.
    """

    def __init__(self, df: Numbers, validate_args: bool | None = None) -> None:
        freedom = as_float(df)
        if self._is_checked(validate_args):
            require(freedom > 0, "df must be positive", freedom)
        super().__init__(freedom / 2, 0.5, validate_args=False)

    @property
    def df(self) -> Array:
        """Degrees of freedom."""
        return self.concentration * 2
