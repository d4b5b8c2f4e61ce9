"""Transforms of numbers: affine, powers, exponentials, and maps to an interval."""

from __future__ import annotations

import math

import numpy as np

from lite._arrays.formulas import sigmoid, softplus
from lite._arrays.types import Array, computed
from lite.nn.distributions.continuous.tanh import edge_of_tanh, log_derivative_of_tanh
from lite.nn.distributions.distribution import Numbers, as_float, limits, sum_rightmost
from lite.nn.distributions.support import GreaterThan, IndependentSupport, Interval, Real
from lite.nn.distributions.transforms import Transform

_REAL = Real()
_POSITIVE = GreaterThan(0)


class AffineTransform(Transform):
    """loc + scale x.

    Args:
        loc: the added number or array.
        scale: the factor, a number or an array.
        event_dim: number of dimensions of one value.
        cache_size: 1 gives it a cache.
    """

    bijective = True
    _compared = ("loc", "scale")

    def __init__(self, loc: Numbers, scale: Numbers, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = computed(loc), computed(scale)
        self.domain = self.codomain = IndependentSupport(_REAL, event_dim) if event_dim else _REAL

    @property
    def sign(self) -> int | Array:
        """The sign of `scale`."""
        return int(np.sign(self.scale)) if isinstance(self.scale, int | float) else np.sign(self.scale)

    def _call(self, x: Array) -> Array:
        return self.loc + self.scale * x

    def _inverse(self, y: Array) -> Array:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log |scale|."""
        if isinstance(self.scale, int | float):
            derivative = np.full_like(x, math.log(abs(self.scale)))
        else:
            derivative = np.broadcast_to(
                np.log(np.abs(self.scale)), np.broadcast_shapes(x.shape, self.scale.shape)
            )
        return sum_rightmost(derivative, self.event_dim)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Broadcast with `loc` and `scale`."""
        return np.broadcast_shapes(shape, np.shape(self.loc), np.shape(self.scale))

    inverse_shape = forward_shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(loc={self.loc}, scale={self.scale})"


class PowerTransform(Transform):
    """Positive numbers to a power.

    Args:
        exponent: the power, a number or an array.
        cache_size: 1 gives it a cache.
    """

    bijective = True
    domain = codomain = _POSITIVE
    _compared = ("exponent",)

    def __init__(self, exponent: Numbers, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = as_float(exponent)

    @property
    def sign(self) -> int | Array:
        """The sign of `exponent`."""
        return np.sign(self.exponent)

    def _call(self, x: Array) -> Array:
        return x**self.exponent

    def _inverse(self, y: Array) -> Array:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log |exponent y / x|."""
        return np.log(np.abs(self.exponent * y / x))

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Broadcast with `exponent`."""
        return np.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class _Plain(Transform):
    """A map of single numbers that rises and has no parameters."""

    bijective = True
    sign = 1
    _compared = ()


class ExpTransform(_Plain):
    """exp(x)."""

    codomain = _POSITIVE

    def _call(self, x: Array) -> Array:
        return np.exp(x)

    def _inverse(self, y: Array) -> Array:
        return np.log(y)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """x."""
        return x


class SigmoidTransform(_Plain):
    """1 / (1 + exp(-x)), but never 0 or 1."""

    codomain = Interval(0, 1)

    def _call(self, x: Array) -> Array:
        return _within(sigmoid(x))

    def _inverse(self, y: Array) -> Array:
        y = _within(y)
        return np.log(y) - np.log1p(-y)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log(y (1 - y))."""
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Plain):
    """log(1 + exp(x))."""

    codomain = _POSITIVE

    def _call(self, x: Array) -> Array:
        return softplus(x)

    def _inverse(self, y: Array) -> Array:
        return np.log(-np.expm1(-y)) + y

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log(1 / (1 + exp(-x)))."""
        return -softplus(-x)


class TanhTransform(_Plain):
    """tanh(x).

    For actions it needs ``cache_size=1``, or `SafeTanhTransform`: a number that tanh made 1 has no inverse.
    """

    codomain = Interval(-1.0, 1.0)

    def _call(self, x: Array) -> Array:
        return np.tanh(x)

    def _inverse(self, y: Array) -> Array:
        return np.arctanh(y)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """log(1 - tanh(x)²)."""
        return log_derivative_of_tanh(x)


class SafeTanhTransform(TanhTransform):
    """tanh(x), kept as far from -1 and 1 as its inverse needs.

    Source:
        torchrl.modules.distributions.continuous.SafeTanhTransform.
    """

    def _call(self, x: Array) -> Array:
        return _off_one(np.tanh(x))

    def _inverse(self, y: Array) -> Array:
        return np.arctanh(_off_one(y))


class AbsTransform(Transform):
    """|x|. Of the two numbers that give the same, the inverse is the positive one."""

    codomain = _POSITIVE
    _compared = ()

    def _call(self, x: Array) -> Array:
        return np.abs(x)

    def _inverse(self, y: Array) -> Array:
        return y


def _within(share: Array) -> Array:
    end = limits(share.dtype)
    return np.clip(share, end.tiny, 1 - end.eps)


def _off_one(y: Array) -> Array:
    edge = edge_of_tanh(y.dtype)
    return np.clip(y, -edge, edge)
