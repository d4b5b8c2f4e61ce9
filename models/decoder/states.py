"""States of fixed size: what layers with a convolution keep of a row, as others keep keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.models.graph.tensors import ELEMENT_TYPES


class StateTensor(NamedTuple):
    """A state: its names as input (`""` of a graph that only reads prompts) and output, sizes and type."""

    past: str
    present: str
    shape: tuple[int, ...]
    type: str


class States:
    """The states of all rows of a cache. A run takes those of its rows and gives new ones.

    Attributes:
        rows: those of the run to come, in its order; set by the caller that starts it.
    """

    def __init__(self, tensors: Sequence[StateTensor], rows: int) -> None:
        self.rows: Sequence[int] | NDArray[np.int64] = range(rows)
        self._values = [
            np.zeros((rows, *tensor.shape), ELEMENT_TYPES[tensor.type].name) for tensor in tensors
        ]

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in self._values)

    def taken(self) -> list[NDArray[np.generic]]:
        """Copies of the states of the run's rows."""
        return [values[self.rows] for values in self._values]

    def put(self, given: Sequence[NDArray[np.generic]]) -> None:
        """Keep the new states of the run's rows."""
        for values, new in zip(self._values, given, strict=True):
            values[self.rows] = new

    def fork(self, source: int, target: int) -> None:
        for values in self._values:
            values[target] = values[source]

    def reset(self, row: int) -> None:
        for values in self._values:
            values[row] = 0

    def resize(self, rows: int) -> None:
        self._values = [
            np.concatenate([values, np.zeros((max(0, rows - len(values)), *values.shape[1:]), values.dtype)])
            for values in self._values
        ]
