"""Sorting and looking up as operators, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.graphs import check, numbers

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def test_sorting() -> None:
    x = numbers(5, 4)
    check(lambda x: (np.sort(x), np.sort(x, 0), np.argsort(x, 1), np.sort(x, None)), x)


def test_ties_are_stable() -> None:
    check(lambda x: np.argsort(x, -1, stable=True), np.float32([[1, 0, 1, 0], [2, 2, 1, 1]]))


def test_lookups() -> None:
    x, ids = numbers(5, 4), np.int64([[0, 3], [1, -1], [2, 2], [0, 0], [3, 1]])
    check(lambda x, ids: (np.take_along_axis(x, ids % 4, 1), np.take(x, [1, 3], 1)), x, ids)
    with pytest.raises(NotImplementedError, match="use functions that NumPy dispatches"):
        check(lambda ids: np.take(np.arange(4.0), ids), ids)  # NumPy looks at the table alone


def test_places_between_edges() -> None:
    edges = np.float32([-1, 0, 1])
    check(lambda x: (np.searchsorted(edges, x), np.digitize(x, edges)), numbers(5, 3))
    check(lambda x: np.searchsorted(edges, x, side="right"), np.float32([[-1, 0], [1, 2]]))


@pytest.mark.parametrize("function", [np.unique, np.nonzero, np.flatnonzero, np.argwhere])
def test_shapes_that_depend_on_numbers_are_refused(function) -> None:
    with pytest.raises(NotImplementedError, match="the shape of the result depends on numbers"):
        check(function, numbers(5))
