"""Normal distributions, elementwise and over vectors, of absolute values, and of logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.formulas import erf, normal_cdf, normal_quantile
from lite._arrays.special import replaced
from lite._arrays.types import Array
from lite._transforms.grad.tape import is_traced, unbroadcast, value_of, with_node
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import (
    HALF_LOG_2PI,
    LOG_2,
    Distribution,
    Elementwise,
    Numbers,
    ShapeLike,
    as_float,
    as_shape,
    float_arrays,
    in_double,
    require,
    standard_normal,
)
from lite.nn.distributions.independent import Independent
from lite.nn.distributions.number_transforms import ExpTransform
from lite.nn.distributions.support import IndependentSupport, Interval, Real, Support
from lite.nn.distributions.transformed import TransformedDistribution

_REAL = Real()


class Normal(Distribution):
    """Independent normal distributions, one for each number.

    Args:
        loc: means.
        scale: standard deviations; broadcast against `loc`.
        validate_args: False leaves `scale` unchecked.

    Raises:
        ValueError: a `scale` is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Normal
        >>> dist = Normal(np.zeros(2), 1.0)
        >>> dist.log_prob(np.array([0.0, 1.0])).round(4), dist.sample((5,), rng=0).shape
        (array([-0.9189, -1.4189]), (5, 2))

    Source:
        torch.distributions.Normal.
    """

    has_rsample = True
    _batched = ("loc", "scale")

    def __init__(self, loc: Numbers, scale: Numbers, validate_args: bool | None = None) -> None:
        self.loc, self.scale = float_arrays(loc, scale)
        if self._is_checked(validate_args):
            require(self.scale > 0, "scale must be positive", self.scale)
        self.batch_shape = self.loc.shape
        self.event_shape = ()

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw numbers; see `Distribution.rsample`."""
        noise = standard_normal(rng, (*as_shape(sample_shape), *self.batch_shape), self.loc.dtype)
        return self.loc + self.scale * noise

    def log_prob(self, value: Array) -> Array:
        """Logarithm of the density of each number."""
        loc, scale = self.loc, self.scale
        plain = type(loc) is np.ndarray and type(value) is np.ndarray and type(scale) is np.ndarray
        if not plain and is_traced(value, loc, scale):
            return self._recorded(value)
        z = (value - loc) / scale
        return -0.5 * z * z - np.log(scale) - HALF_LOG_2PI

    def _recorded(self, value: Array) -> Array:
        """The log-prob as one node."""
        loc, scale = value_of(self.loc), value_of(self.scale)
        z = (value_of(value) - loc) / scale
        out = -0.5 * z * z - np.log(scale) - HALF_LOG_2PI
        steep = z / scale
        return with_node(
            out,
            (value, lambda g: unbroadcast(-g * steep, value.shape)),
            (self.loc, lambda g: unbroadcast(g * steep, loc.shape)),
            (self.scale, lambda g: unbroadcast(g * (z * steep - 1 / scale), scale.shape)),
        )

    def entropy(self) -> Array:
        """Entropy of each number."""
        return 0.5 + HALF_LOG_2PI + np.log(self.scale)

    def cdf(self, value: Array) -> Array:
        """Probability of numbers up to `value`."""
        return normal_cdf((value - self.loc) / self.scale)

    def icdf(self, value: Numbers) -> Array:
        """The number up to which the probability is `value`."""
        return self.loc + self.scale * normal_quantile(as_float(value, self.loc.dtype))

    @property
    def mean(self) -> Array:
        """`loc`."""
        return self.loc

    mode = median = deterministic_sample = mean

    @property
    def stddev(self) -> Array:
        """`scale`."""
        return self.scale

    @property
    def variance(self) -> Array:
        """Square of `scale`."""
        return self.scale * self.scale

    support = _REAL


class HalfNormal(Elementwise):
    """Absolute values of normally distributed numbers with the mean 0.

    Args:
        scale: standard deviations of the numbers with their sign, positive.
        validate_args: False leaves `scale` unchecked.

    Raises:
        ValueError: a `scale` is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import HalfNormal
        >>> dist = HalfNormal(np.ones(2))
        >>> dist.log_prob(np.array([0.0, -1.0])).round(4), dist.mean.round(4)
        (array([-0.2258,    -inf]), array([0.7979, 0.7979]))

    Source:
        torch.distributions.HalfNormal.
    """

    has_rsample = True
    _batched = _positive = ("scale",)
    support = Interval(0, np.inf)

    def __init__(self, scale: Numbers, validate_args: bool | None = None) -> None:
        (self.scale,) = self._parameters(validate_args, scale)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw numbers; see `Distribution.rsample`."""
        noise = standard_normal(rng, (*as_shape(sample_shape), *self.batch_shape), self.scale.dtype)
        return np.abs(self.scale * noise)

    @staticmethod
    def _log_density(x: Array, scale: Array) -> Array:
        z = x / scale
        return replaced(x < 0, -np.inf, -0.5 * z * z - np.log(scale) + (LOG_2 - HALF_LOG_2PI))

    @staticmethod
    def _probability(x: Array, scale: Array) -> Array:
        return erf(np.maximum(x, 0) / (scale * math.sqrt(2.0)))

    @staticmethod
    def _quantile(p: Array, scale: Array) -> Array:
        return scale * normal_quantile((p + 1) / 2)

    def entropy(self) -> Array:
        """Entropy of each number."""
        return np.log(self.scale) + (0.5 + HALF_LOG_2PI - LOG_2)

    @property
    def mean(self) -> Array:
        """√(2 / π) scale."""
        return self.scale * math.sqrt(2 / math.pi)

    deterministic_sample = mean

    @property
    def mode(self) -> Array:
        """Zeros."""
        return np.zeros_like(self.scale)

    @property
    def variance(self) -> Array:
        """(1 - 2 / π) scale²."""
        return self.scale * self.scale * (1 - 2 / math.pi)


def scale_for(loc: Array, scale: Numbers | Callable[[Array], Numbers]) -> Numbers:
    """A scale given as an array, a number, or a function of `loc` (such as `np.ones_like`)."""
    return scale(loc) if callable(scale) else scale


class BoundedNormal(Distribution):
    """Base of distributions of numbers between `low` and `high` that have a place and a scale."""

    loc: Array
    low: Any
    high: Any
    _event_dims: int

    def _set_shapes(self) -> None:
        cut = self.loc.ndim - self._event_dims
        super().__init__(self.loc.shape[:cut], self.loc.shape[cut:])

    @property
    def support(self) -> Support:
        """From `low` to `high`."""
        interval = Interval(self.low, self.high)
        return IndependentSupport(interval, self._event_dims) if self._event_dims else interval


def bounded_loc(loc: Array, upscale: Numbers) -> Array:
    """A location kept between -upscale and upscale."""
    return np.tanh(loc / upscale) * upscale


class IndependentNormal(Independent):
    """A normal distribution over vectors with independent numbers.

    Args:
        loc: means, (*batch, n).
        scale: standard deviations: an array, a number, or a function of `loc`.
        upscale: bound of the means where `tanh_loc` is set.
        tanh_loc: replace the means by ``upscale * tanh(loc / upscale)``.
        event_dim: number of dimensions of a vector.
        validate_args: False leaves `scale` unchecked.

    Raises:
        ValueError: a `scale` is not positive, or `loc` has fewer dimensions than `event_dim`.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import IndependentNormal
        >>> dist = IndependentNormal(np.zeros((3, 4)), scale=np.ones_like)
        >>> dist.log_prob(np.zeros((3, 4))).shape
        (3,)

    Source:
        torchrl.modules.IndependentNormal.
    """

    def __init__(
        self,
        loc: Numbers,
        scale: Numbers | Callable[[Array], Numbers],
        upscale: float = 5.0,
        tanh_loc: bool = False,
        event_dim: int = 1,
        validate_args: bool | None = None,
    ) -> None:
        self.upscale = upscale
        self.tanh_loc = tanh_loc
        self._event_dim = event_dim
        self._validate_args = validate_args
        self.update(loc, scale)

    def update(self, loc: Numbers, scale: Numbers | Callable[[Array], Numbers]) -> None:
        """Replace the parameters."""
        loc = as_float(loc)
        if self.tanh_loc:
            loc = bounded_loc(loc, self.upscale)
        base = Normal(loc, scale_for(loc, scale), validate_args=self._validate_args)
        Independent.__init__(self, base, self._event_dim)


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
