"""Supports: the values that a distribution can give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite._arrays.types import as_array


class Support:
    """A set of values.

    Attributes:
        is_discrete: whether the values are isolated.
        event_dim: dimensions of one value.
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether values lie in the set, one answer for each event."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Real(Support):
    """All numbers but NaN."""

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """False for NaN."""
        array = as_array(value)
        return as_array(array == array)


class Interval(Support):
    """Numbers from `low` to `high`, both included.

    Example:
        >>> from lite.nn.distributions.support import Interval
        >>> Interval(0, 1).check([-1, 0, 1]).tolist()
        [False, True, True]
    """

    def __init__(self, low: Any, high: Any) -> None:
        self.low = low
        self.high = high

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether low <= value <= high."""
        array = as_array(value)
        return as_array((array >= self.low) & (array <= self.high))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(low={self.low}, high={self.high})"


class IntegerInterval(Interval):
    """Whole numbers from `low` to `high`, both included."""

    is_discrete = True

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether a value is whole, and low <= value <= high."""
        array = as_array(value)
        return as_array(super().check(array) & (array % 1 == 0))


class OneHot(Support):
    """Vectors with a single 1 and zeros."""

    is_discrete = True
    event_dim = 1

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether the last axis holds one 1 and zeros."""
        array = as_array(value)
        return as_array(((array == 0) | (array == 1)).all(-1) & (array.sum(-1) == 1))


class IndependentSupport(Support):
    """Values of a set, with the last `dims` more dimensions read as one event."""

    def __init__(self, base: Support, dims: int) -> None:
        self.base = base
        self.is_discrete = base.is_discrete
        self.event_dim = base.event_dim + dims
        self._dims = dims

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether all parts of an event lie in the set."""
        return as_array(self.base.check(value).all(tuple(range(-self._dims, 0))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r}, {self._dims})"
