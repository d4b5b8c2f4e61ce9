"""The map that squashes numbers between bounds with tanh, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lite._arrays.formulas import softplus
from lite._arrays.types import Array, computed
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import value_of, with_node
from lite.nn.distributions.distribution import LOG_2, Numbers, limits, require


def bound(value: Numbers, dtype: np.dtype[Any]) -> Array:
    """A bound as it is computed with: Python numbers stay, arrays take the dtype."""
    given = computed(value)
    return given.astype(dtype, copy=False) if hasattr(given, "dtype") else given


def check_bounds(low: Numbers, high: Numbers, error: type[Exception]) -> None:
    """Raise `error` unless every `high` is above its `low`."""
    above = np.asarray(high > low)
    if np.count_nonzero(above) != above.size:  # the text of an array takes longer than the distribution
        require(above, f"high must be above low={low}", high, error)


def log_derivative_of_tanh(z: Array) -> Array:
    """log(1 - tanh(z)²), with all digits also where tanh is next to 1."""
    return 2.0 * (LOG_2 - z - softplus(-2.0 * z))


def edge_of_tanh(dtype: np.dtype[Any]) -> float:
    """The number below 1 up to which tanh can be inverted."""
    return 1.0 - float(limits(dtype).resolution)


class TanhMap:
    """tanh, then a shift and a factor that make the result lie between two bounds.

    Args:
        low: lower bounds.
        high: upper bounds.
        dtype: dtype of the numbers, whose precision limits the distance to the bounds.
        safe: stay as far from the bounds as the inverse needs.
        error: what to raise if a bound is not above the other.
    """

    def __init__(
        self, low: Numbers, high: Numbers, dtype: np.dtype[Any], safe: bool, error: type[Exception]
    ) -> None:
        check_bounds(low, high, error)
        self.low, self.high = bound(low, dtype), bound(high, dtype)
        self.middle = (self.high + self.low) / 2
        self.half = (self.high - self.low) / 2
        plain = np.asarray((low == -1) & (high == 1))
        self.is_plain = np.count_nonzero(plain) == plain.size
        self._edge = edge_of_tanh(dtype) if safe else 1.0

    def forward(self, z: Array) -> Array:
        """From any number to between the bounds."""
        inside = value_of(z)
        near = np.clip(np.tanh(inside), -self._edge, self._edge)
        y = near
        if isinstance(z, TracedArray):  # at the edge the derivative is small, but not 0, as in torchrl
            y = with_node(near, (z, lambda g: g * (1 - near * near)))
        return y if self.is_plain else y * self.half + self.middle

    def inverse(self, value: Array) -> Array:
        """The inverse map, from the interval to all numbers; values outside the interval are clipped."""
        y = value if self.is_plain else (value - self.middle) / self.half
        with np.errstate(divide="ignore"):  # the bound itself, where it can be reached
            inside = np.clip(value_of(y), -self._edge, self._edge)
            z = np.arctanh(inside)
        return with_node(z, (y, lambda g: g / (1 - inside * inside))) if isinstance(y, TracedArray) else z

    def log_derivative(self, z: Array) -> Array:
        """Logarithm of the derivative of `forward` at z."""
        inside = value_of(z)
        derivative = log_derivative_of_tanh(inside)
        if isinstance(z, TracedArray):
            derivative = with_node(derivative, (z, lambda g: -2 * g * np.tanh(inside)))
        if self.is_plain:
            return derivative
        return derivative + (math.log(self.half) if isinstance(self.half, float) else np.log(self.half))
