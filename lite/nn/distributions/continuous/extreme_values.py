"""Distributions of the largest or smallest of many numbers: Gumbel, Weibull, Pareto."""

from __future__ import annotations

import math

import numpy as np

from lite._arrays.formulas import log_gamma
from lite._arrays.special import replaced, xlogy
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import (
    EULER,
    Elementwise,
    LocScale,
    Numbers,
    ShapeLike,
    as_shape,
    in_double,
    standard_exponential,
)
from lite.nn.distributions.support import GreaterThan, Interval, Support


class Gumbel(LocScale):
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

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw numbers; see `Distribution.rsample`."""
        shape = (*as_shape(sample_shape), *self.batch_shape)
        return self.loc - self.scale * np.log(standard_exponential(rng, shape, self.loc.dtype))

    @staticmethod
    def _log_density(x: Array, loc: Array, scale: Array) -> Array:
        y = (loc - x) / scale
        return y - np.exp(y) - np.log(scale)

    @staticmethod
    def _probability(x: Array, loc: Array, scale: Array) -> Array:
        return np.exp(-np.exp((loc - x) / scale))

    @staticmethod
    def _quantile(p: Array, loc: Array, scale: Array) -> Array:
        return loc - scale * np.log(-np.log(p))

    def entropy(self) -> Array:
        """Entropy of each number."""
        return np.log(self.scale) + (1 + EULER)

    @property
    def mean(self) -> Array:
        """loc + scale times the Euler-Mascheroni constant."""
        return self.loc + self.scale * EULER

    deterministic_sample = mean

    @property
    def mode(self) -> Array:
        """`loc`."""
        return self.loc

    @property
    def stddev(self) -> Array:
        """π / √6 scale."""
        return self.scale * (math.pi / math.sqrt(6))

    @property
    def variance(self) -> Array:
        """Square of `stddev`."""
        return self.stddev * self.stddev


class Weibull(Elementwise):
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
    _batched = _positive = ("scale", "concentration")
    support = GreaterThan(0)

    def __init__(self, scale: Numbers, concentration: Numbers, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = self._parameters(validate_args, scale, concentration)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw numbers; see `Distribution.rsample`."""
        shape = (*as_shape(sample_shape), *self.batch_shape)
        waits = standard_exponential(rng, shape, self.scale.dtype)
        return in_double(
            lambda t, scale, shape: scale * t ** (1 / shape), waits, self.scale, self.concentration
        )

    @staticmethod
    def _log_density(x: Array, scale: Array, shape: Array) -> Array:
        z = x / scale
        out = np.log(shape / scale) + xlogy(shape - 1, z) - z**shape
        return replaced(x < 0, -np.inf, out)

    @staticmethod
    def _probability(x: Array, scale: Array, shape: Array) -> Array:
        return -np.expm1(-((np.maximum(x, 0) / scale) ** shape))

    @staticmethod
    def _quantile(p: Array, scale: Array, shape: Array) -> Array:
        return scale * (-np.log1p(-p)) ** (1 / shape)

    def entropy(self) -> Array:
        """Entropy of each number."""
        return EULER * (1 - 1 / self.concentration) + np.log(self.scale / self.concentration) + 1

    @property
    def mean(self) -> Array:
        """scale Γ(1 + 1 / concentration)."""
        return self._in_double(lambda scale, shape: scale * np.exp(log_gamma(1 + 1 / shape)))

    deterministic_sample = mean

    @property
    def mode(self) -> Array:
        """The most probable number: 0 for concentrations up to 1."""
        shape = self.concentration
        return self.scale * np.maximum((shape - 1) / shape, 0) ** (1 / shape)

    @property
    def variance(self) -> Array:
        """Variance of each number."""

        def variance(scale: Array, shape: Array) -> Array:
            twice, once = log_gamma(1 + 2 / shape), log_gamma(1 + 1 / shape)
            return scale * scale * np.exp(2 * once) * np.expm1(twice - 2 * once)

        return self._in_double(variance)


class Pareto(Elementwise):
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
    _batched = _positive = ("scale", "alpha")

    def __init__(self, scale: Numbers, alpha: Numbers, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = self._parameters(validate_args, scale, alpha)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw numbers; see `Distribution.rsample`."""
        waits = standard_exponential(rng, (*as_shape(sample_shape), *self.batch_shape), self.scale.dtype)
        return in_double(lambda t, scale, alpha: scale * np.exp(t / alpha), waits, self.scale, self.alpha)

    @staticmethod
    def _log_density(x: Array, scale: Array, alpha: Array) -> Array:
        out = np.log(alpha) + alpha * np.log(scale) - (alpha + 1) * np.log(x)
        return replaced(x < scale, -np.inf, out)

    @staticmethod
    def _probability(x: Array, scale: Array, alpha: Array) -> Array:
        return -np.expm1(-alpha * np.log(np.maximum(x / scale, 1)))

    @staticmethod
    def _quantile(p: Array, scale: Array, alpha: Array) -> Array:
        return scale * np.exp(-np.log1p(-p) / alpha)

    def entropy(self) -> Array:
        """Entropy of each number."""
        return np.log(self.scale / self.alpha) + 1 + 1 / self.alpha

    @property
    def mean(self) -> Array:
        """alpha scale / (alpha - 1); infinite for an alpha up to 1."""
        a = np.maximum(self.alpha, 1)
        with np.errstate(divide="ignore"):
            return a * self.scale / (a - 1)

    deterministic_sample = mean

    @property
    def mode(self) -> Array:
        """`scale`, the least number."""
        return self.scale

    @property
    def variance(self) -> Array:
        """scale² alpha / ((alpha - 1)² (alpha - 2)); infinite for an alpha up to 2."""
        a = np.maximum(self.alpha, 2)
        with np.errstate(divide="ignore"):
            return self.scale * self.scale * a / ((a - 1) * (a - 1) * (a - 2))

    @property
    def support(self) -> Support:
        """Numbers from `scale`."""
        return Interval(self.scale, np.inf)
