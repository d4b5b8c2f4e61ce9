"""TruncatedNormal: a normal distribution cut off at bounds."""

from __future__ import annotations

import numpy as np

from lite._arrays.formulas import erf, normal_quantile
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.continuous.normal import BoundedNormal, bounded_loc
from lite.nn.distributions.continuous.tanh import check_bounds
from lite.nn.distributions.distribution import (
    HALF_LOG_2PI,
    Numbers,
    ShapeLike,
    as_float,
    as_shape,
    float_arrays,
    sum_rightmost,
    uniform,
)

_EDGE = 1e-6  # the smallest probability and distance from the bounds that are distinguished


class TruncatedNormal(BoundedNormal):
    """Normal distributions, given that the value lies between bounds.

    Args:
        loc: means before the cut.
        scale: standard deviations before the cut; at least 1e-6 is taken.
        upscale: bound of the means where `tanh_loc` is set.
        low: lower bounds.
        high: upper bounds.
        tanh_loc: replace the means by ``upscale * tanh(loc / upscale)``.
        a: another name for `low`, which makes the distribution elementwise.
        b: another name for `high`, likewise.
        event_dims: the number of dimensions of one value; by default 1, or 0 if `a` and `b` are given.

    Raises:
        RuntimeError: a `high` is not above its `low`.
        ValueError: a `b` is not above its `a`, or only one of them is given.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import TruncatedNormal
        >>> dist = TruncatedNormal(np.zeros((3, 2)), np.ones((3, 2)))
        >>> dist.log_prob(np.zeros((3, 2))).shape, bool((abs(dist.sample(rng=0)) <= 1).all())
        ((3,), True)
        >>> TruncatedNormal(np.zeros(2), np.ones(2), a=-1.0, b=1.0).log_prob(np.array([0.0, 2.0])).round(4)
        array([-0.5372,    -inf])

    Source:
        torchrl.modules.TruncatedNormal; with `a` and `b`, tensordict.nn.TruncatedNormal.
        Burkardt (2014), The Truncated Normal Distribution.
    """

    has_rsample = True
    _batched = (
        *("loc", "scale", "_low", "_high"),
        *("_below", "_inside", "_log_inside", "_mean", "_variance", "_entropy"),
    )

    def __init__(
        self,
        loc: Numbers,
        scale: Numbers,
        upscale: Numbers = 5.0,
        low: Numbers = -1.0,
        high: Numbers = 1.0,
        tanh_loc: bool = False,
        *,
        a: Numbers | None = None,
        b: Numbers | None = None,
        event_dims: int | None = None,
    ) -> None:
        if (a is None) != (b is None):
            raise ValueError(f"a and b must be given together, got a={a!r} and b={b!r}")
        elementwise = a is not None
        self.low, self.high = (low, high) if a is None or b is None else (a, b)
        check_bounds(self.low, self.high, ValueError if elementwise else RuntimeError)
        self.upscale = upscale
        self.tanh_loc = tanh_loc
        self._event_dims = (0 if elementwise else 1) if event_dims is None else event_dims
        self.update(loc, scale)

    def update(self, loc: Numbers, scale: Numbers) -> None:
        """Replace the parameters."""
        if self.tanh_loc:
            loc = bounded_loc(as_float(loc), self.upscale)
        loc, scale, self._low, self._high = float_arrays(loc, scale, self.low, self.high)
        self.loc, self.scale = loc, np.maximum(scale, _EDGE)
        # float64, because float32 would lose the differences of small probabilities
        a, b = (self._standard(end).astype(np.float64, copy=False) for end in (self._low, self._high))
        self._below = _probability_below(a)
        self._inside = np.clip(_probability_below(b) - self._below, _EDGE, 1 - _EDGE)
        at_a, at_b = _density(a), _density(b)
        shift = (at_a - at_b) / self._inside
        # infinite bounds have no density
        curve = (at_b * _finite(b) - at_a * _finite(a)) / self._inside
        log_inside = np.log(self._inside)
        entropy = 0.5 + HALF_LOG_2PI + log_inside - 0.5 * curve
        self._log_inside = self._narrow(log_inside)
        self._mean = self.loc + self.scale * self._narrow(shift)
        self._variance = self._narrow(1 - curve - shift * shift) * self.scale * self.scale
        self._entropy = self._narrow(entropy) + np.log(self.scale)
        self._set_shapes()

    def _standard(self, value: Array) -> Array:
        return (value - self.loc) / self.scale

    def _narrow(self, value: Array) -> Array:
        return value.astype(self.loc.dtype, copy=False)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw values; see `Distribution.rsample`."""
        shape = (*as_shape(sample_shape), *self.loc.shape)
        return self._quantile(uniform(rng, shape, self.loc.dtype))

    def log_prob(self, value: Array) -> Array:
        """Logarithm of the density; -inf for an event outside the bounds."""
        inside = (value >= self._low) & (value <= self._high)
        z = self._standard(np.clip(value, self._low + _EDGE, self._high - _EDGE))
        out = -0.5 * z * z - HALF_LOG_2PI - self._log_inside - np.log(self.scale)
        out = np.where(inside, out, out.dtype.type(-np.inf))
        return sum_rightmost(out, self._event_dims)

    def entropy(self) -> Array:
        """Entropy, of shape `batch_shape`."""
        return sum_rightmost(self._entropy, self._event_dims)

    def cdf(self, value: Numbers) -> Array:
        """Probability of numbers up to `value`, for each number of an event."""
        below = _probability_below(self._standard(as_float(value, self.loc.dtype)).astype(np.float64))
        return self._narrow(np.clip((below - self._below) / self._inside, 0, 1))

    def icdf(self, value: Numbers) -> Array:
        """The number up to which the probability is `value`, for each number of an event."""
        return self._quantile(as_float(value, self.loc.dtype))

    def _quantile(self, p: Array) -> Array:
        p = np.clip(self._below + p * self._inside, _EDGE, 1 - _EDGE)
        return np.clip(self._narrow(normal_quantile(p)) * self.scale + self.loc, self._low, self._high)

    @property
    def mean(self) -> Array:
        """The expected value, between the bounds."""
        return self._mean

    deterministic_sample = mean

    @property
    def mode(self) -> Array:
        """`loc`, or the bound next to it (less 1e-6, where the density is defined)."""
        return np.clip(self.loc, self._low + _EDGE, self._high - _EDGE)

    @property
    def variance(self) -> Array:
        """Variance of each number."""
        return self._variance


def _density(x: Array) -> Array:
    return np.exp(-0.5 * x * x - HALF_LOG_2PI)


def _probability_below(x: Array) -> Array:
    return np.clip(0.5 * (1 + erf(x * 0.5**0.5)), _EDGE, 1 - _EDGE)


def _finite(x: Array) -> Array:
    return np.where(np.isinf(x), 0, x)
