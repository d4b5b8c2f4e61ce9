"""The range of a spec's numbers: `spec.space`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from lite._arrays.public import belong_to


@dataclass(frozen=True, eq=False)
class ContinuousBox:
    """Numbers from `low` to `high`, arrays of the spec's shape and dtype.

    Example:
        >>> from lite.data import Bounded
        >>> Bounded(-1, 1, (2,)).space.high
        array([1., 1.], dtype=float32)
    """

    low: NDArray[Any]
    high: NDArray[Any]

    def __iter__(self) -> Any:
        yield self.low
        yield self.high


@dataclass(frozen=True)
class CategoricalBox:
    """The classes 0 to n - 1.

    Example:
        >>> from lite.data import OneHot
        >>> OneHot(4).space.n
        4
    """

    n: int


@dataclass(frozen=True)
class BoxList:
    """One box after the other, along the last dimension.

    Example:
        >>> from lite.data import MultiCategorical
        >>> [box.n for box in MultiCategorical([2, 3]).space]
        [2, 3]
    """

    boxes: list[Any]

    def __iter__(self) -> Any:
        return iter(self.boxes)

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, item: Any) -> Any:
        return self.boxes[item]


belong_to("lite.data", ContinuousBox, CategoricalBox, BoxList)
