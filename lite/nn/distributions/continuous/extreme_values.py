"""Distributions of the largest or smallest of many numbers: Gumbel, Weibull, Pareto."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lite._arrays.formulas import log_gamma
from lite._arrays.special import xlogy
from lite.nn._modules.initial import Rng
from lite.nn.distributions.arrays import (
    as_shape,
    as_value,
    float_arrays,
    in_double,
    require,
    standard_exponential,
)
from lite.nn.distributions.distribution import EULER, Distribution
from lite.nn.distributions.support import GreaterThan, Interval, Real, Support


class Gumbel(Distribution):
    """Gumbel distributions, one for each number.

    Args:
        loc: modes.
        scale: scales, positive; broadcast against `loc`.
        validate_args: False leaves `scale` unchecked.

    Raises:
        ValueError: a `scale` is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Gumbel
        >>> dist = Gumbel(np.zeros(2), np.array([1.0, 2.0]))
        >>> dist.mean.round(4), dist.log_prob(np.zeros(2)).round(4)
        (array([0.5772, 1.1544]), array([-1.    , -1.6931]))

    Source:
        torch.distributions.Gumbel.
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
        return self.loc - self.scale * np.log(standard_exponential(rng, shape, self.loc.dtype))

    def log_prob(self, value: Any) -> Any:
        """Logarithm of the density of each number."""

        def density(x: Any, loc: Any, scale: Any) -> Any:
            y = (loc - x) / scale
            return y - np.exp(y) - np.log(scale)

        return in_double(density, as_value(value, self.loc.dtype), self.loc, self.scale)

    def entropy(self) -> Any:
        """Entropy of each number."""
        return np.log(self.scale) + (1 + EULER)

    def cdf(self, value: Any) -> Any:
        """Probability of numbers up to `value`."""

        def below(x: Any, loc: Any, scale: Any) -> Any:
            return np.exp(-np.exp((loc - x) / scale))

        return in_double(below, as_value(value, self.loc.dtype), self.loc, self.scale)

    def icdf(self, value: Any) -> Any:
        """The number up to which the probability is `value`."""

        def quantile(p: Any, loc: Any, scale: Any) -> Any:
            return loc - scale * np.log(-np.log(p))

        return in_double(quantile, as_value(value, self.loc.dtype), self.loc, self.scale)

    @property
    def mean(self) -> Any:
        """loc + scale times the Euler-Mascheroni constant."""
        return self.loc + self.scale * EULER

    deterministic_sample = mean

    @property
    def mode(self) -> Any:
        """`loc`."""
        return self.loc

    @property
    def stddev(self) -> Any:
        """π / √6 scale."""
        return self.scale * (math.pi / math.sqrt(6))

    @property
    def variance(self) -> Any:
        """Square of `stddev`."""
        return self.stddev * self.stddev

    @property
    def support(self) -> Support:
        """All real numbers."""
        return Real()


class Weibull(Distribution):
    """Weibull distributions: times to failure.

    Args:
        scale: scales, positive.
        concentration: shapes, positive; broadcast against `scale`.
        validate_args: False leaves both unchecked.

    Raises:
        ValueError: one of them is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Weibull
        >>> dist = Weibull(np.array([1.0, 2.0]), 2.0)
        >>> dist.cdf(np.array([1.0, 2.0])).round(4), dist.mode.round(4)
        (array([0.6321, 0.6321]), array([0.7071, 1.4142]))

    Source:
        torch.distributions.Weibull.
    """

    has_rsample = True
    _batched = ("scale", "concentration")

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = float_arrays(scale, concentration)
        if validate_args is not False:
            require(self.scale > 0, "scale must be positive", self.scale)
            require(self.concentration > 0, "concentration must be positive", self.concentration)
        super().__init__(self.scale.shape)

    def rsample(self, sample_shape: Any = (), *, rng: Rng = None) -> Any:
        """Draw positive numbers; see `Distribution.rsample`."""
        shape = (*as_shape(sample_shape), *self.batch_shape)
        waits = standard_exponential(rng, shape, self.scale.dtype)

        def failure(t: Any, scale: Any, shape: Any) -> Any:
            return scale * t ** (1 / shape)

        return in_double(failure, waits, self.scale, self.concentration)

    def log_prob(self, value: Any) -> Any:
        """Logarithm of the density; -inf for negative numbers."""

        def density(x: Any, scale: Any, shape: Any) -> Any:
            z = x / scale
            out = np.log(shape / scale) + xlogy(shape - 1, z) - z**shape
            return np.where(x < 0, -np.inf, out)

        return in_double(density, as_value(value, self.scale.dtype), self.scale, self.concentration)

    def entropy(self) -> Any:
        """Entropy of each number."""
        return EULER * (1 - 1 / self.concentration) + np.log(self.scale / self.concentration) + 1

    def cdf(self, value: Any) -> Any:
        """Probability of numbers up to `value`."""

        def below(x: Any, scale: Any, shape: Any) -> Any:
            return -np.expm1(-((np.maximum(x, 0) / scale) ** shape))

        return in_double(below, as_value(value, self.scale.dtype), self.scale, self.concentration)

    def icdf(self, value: Any) -> Any:
        """The number up to which the probability is `value`."""

        def quantile(p: Any, scale: Any, shape: Any) -> Any:
            return scale * (-np.log1p(-p)) ** (1 / shape)

        return in_double(quantile, as_value(value, self.scale.dtype), self.scale, self.concentration)

    @property
    def mean(self) -> Any:
        """scale gamma(1 + 1 / concentration)."""

        def mean(scale: Any, shape: Any) -> Any:
            return scale * np.exp(log_gamma(1 + 1 / shape))

        return in_double(mean, self.scale, self.concentration)

    deterministic_sample = mean

    @property
    def mode(self) -> Any:
        """The most probable number: 0 for concentrations up to 1."""
        shape = self.concentration
        return self.scale * np.maximum((shape - 1) / shape, 0) ** (1 / shape)

    @property
    def variance(self) -> Any:
        """Variance of each number."""

        def variance(scale: Any, shape: Any) -> Any:
            twice, once = log_gamma(1 + 2 / shape), log_gamma(1 + 1 / shape)
            return scale * scale * np.exp(2 * once) * np.expm1(twice - 2 * once)

        return in_double(variance, self.scale, self.concentration)

    @property
    def support(self) -> Support:
        """Numbers above 0."""
        return GreaterThan(0)


class Pareto(Distribution):
    """Pareto distributions: numbers above a bound, of which the logarithms are waiting times.

    Args:
        scale: the bounds, positive.
        alpha: rates at which the density falls, positive; broadcast against `scale`.
        validate_args: False leaves both unchecked.

    Raises:
        ValueError: one of them is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Pareto
        >>> dist = Pareto(1.0, np.array([1.0, 2.0, 3.0]))
        >>> dist.mean, dist.cdf(2.0)
        (array([inf, 2. , 1.5]), array([0.5  , 0.75 , 0.875]))

    Source:
        torch.distributions.Pareto.
    """

    has_rsample = True
    _batched = ("scale", "alpha")

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = float_arrays(scale, alpha)
        if validate_args is not False:
            require(self.scale > 0, "scale must be positive", self.scale)
            require(self.alpha > 0, "alpha must be positive", self.alpha)
        super().__init__(self.scale.shape)

    def rsample(self, sample_shape: Any = (), *, rng: Rng = None) -> Any:
        """Draw numbers from `scale` on; see `Distribution.rsample`."""
        shape = (*as_shape(sample_shape), *self.batch_shape)
        waits = standard_exponential(rng, shape, self.scale.dtype)

        def above(t: Any, scale: Any, alpha: Any) -> Any:
            return scale * np.exp(t / alpha)

        return in_double(above, waits, self.scale, self.alpha)

    def log_prob(self, value: Any) -> Any:
        """Logarithm of the density; -inf below `scale`."""

        def density(x: Any, scale: Any, alpha: Any) -> Any:
            out = np.log(alpha) + alpha * np.log(scale) - (alpha + 1) * np.log(x)
            return np.where(x < scale, -np.inf, out)

        return in_double(density, as_value(value, self.scale.dtype), self.scale, self.alpha)

    def entropy(self) -> Any:
        """Entropy of each number."""
        return np.log(self.scale / self.alpha) + 1 + 1 / self.alpha

    def cdf(self, value: Any) -> Any:
        """Probability of numbers up to `value`."""

        def below(x: Any, scale: Any, alpha: Any) -> Any:
            return -np.expm1(-alpha * np.log(np.maximum(x / scale, 1)))

        return in_double(below, as_value(value, self.scale.dtype), self.scale, self.alpha)

    def icdf(self, value: Any) -> Any:
        """The number up to which the probability is `value`."""

        def quantile(p: Any, scale: Any, alpha: Any) -> Any:
            return scale * np.exp(-np.log1p(-p) / alpha)

        return in_double(quantile, as_value(value, self.scale.dtype), self.scale, self.alpha)

    @property
    def mean(self) -> Any:
        """alpha scale / (alpha - 1), infinite for an `alpha` up to 1."""
        a = np.maximum(self.alpha, 1)
        with np.errstate(divide="ignore"):
            return a * self.scale / (a - 1)

    deterministic_sample = mean

    @property
    def mode(self) -> Any:
        """`scale`."""
        return self.scale

    @property
    def variance(self) -> Any:
        """Variance of each number, infinite for an `alpha` up to 2."""
        a = np.maximum(self.alpha, 2)
        with np.errstate(divide="ignore"):
            return self.scale * self.scale * a / ((a - 1) * (a - 1) * (a - 2))

    @property
    def support(self) -> Support:
        """Numbers from `scale` on."""
        return Interval(self.scale, np.inf)
