"""Supports: the values that a distribution can give."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite._arrays.types import Array, as_array


class Support:
    """A set of values.

    Attributes:
        is_discrete: whether the values are isolated.
        event_dim: dimensions of one value.
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether values lie in the set, one bool for each event."""
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
    """Array | float from `low` to `high`, both included.

    Example:
        >>> from lite.nn.distributions.support import Interval
        >>> Interval(0, 1).check([-1, 0, 1]).tolist()
        [False, True, True]
    """

    def __init__(self, low: Array | float, high: Array | float) -> None:
        self.low = low
        self.high = high

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether low <= value <= high."""
        array = as_array(value)
        return as_array((array >= self.low) & (array <= self.high))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(low={self.low}, high={self.high})"


class GreaterThan(Support):
    """Array | float above `low`."""

    def __init__(self, low: Array | float) -> None:
        self.low = low

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether value > low."""
        return as_array(as_array(value) > self.low)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(low={self.low})"


class IntegerInterval(Interval):
    """Whole numbers from `low` to `high`, both included."""

    is_discrete = True

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether a value is whole, and low <= value <= high."""
        array = as_array(value)
        with np.errstate(invalid="ignore"):  # infinity has no remainder
            return as_array(super().check(array) & (array % 1 == 0))


class OneHot(Support):
    """Vectors with a single 1 and zeros."""

    is_discrete = True
    event_dim = 1

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether the last axis holds one 1 and zeros."""
        array = as_array(value)
        return as_array(((array == 0) | (array == 1)).all(-1) & (array.sum(-1) == 1))


class Simplex(Support):
    """Vectors of numbers that are not negative and have the sum 1, to a millionth.

    Example:
        >>> from lite.nn.distributions.support import Simplex
        >>> Simplex().check([[0.5, 0.5], [0.5, 0.6], [1.5, -0.5]]).tolist()
        [True, False, False]
    """

    event_dim = 1

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether the last axis holds shares of 1."""
        array = as_array(value)
        # the sum of many numbers of low precision is off by more than a millionth
        eps = float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else 0.0
        slack = max(1e-6, array.shape[-1] * eps)
        near, negative = np.abs(array.sum(-1) - 1) < slack, array < 0
        if type(negative) is np.ndarray and not np.count_nonzero(negative):  # quicker than any(-1)
            return as_array(near)
        return as_array(near & ~negative.any(-1))


class Counts(Support):
    """Vectors of whole numbers that are not negative and have the sum `total`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, total: int) -> None:
        self.total = total

    def check(self, value: ArrayLike) -> NDArray[np.bool_]:
        """Whether the last axis holds counts of `total` things."""
        array = as_array(value)
        whole = IntegerInterval(0, np.inf).check(array).all(-1)
        return as_array(whole & (array.sum(-1) == self.total))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(total={self.total})"


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
