"""Functions without a rule run as a loop, with a warning."""

import warnings
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import vmap
from lite._transforms.vmap.loop import _warned


def test_loops_warn_once_and_name_the_function() -> None:
    _warned.discard("numpy.apply_over_axes")
    x = np.arange(12.0).reshape(2, 3, 2)
    with pytest.warns(UserWarning, match=r"no batching rule for this call of numpy\.apply_over_axes"):
        out = vmap(lambda v: np.apply_over_axes(np.sum, v, [0]))(x)
    np.testing.assert_array_equal(out, x.sum(1, keepdims=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(vmap(lambda v: np.apply_over_axes(np.sum, v, [0]))(x), out)


def test_loops_give_tuples_as_the_function_does() -> None:
    _warned.add("numpy.histogram")
    rows = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 4.0]])
    counts, edges = vmap(lambda row: np.histogram(row, 2))(rows)
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(counts[i], np.histogram(row, 2)[0])
        np.testing.assert_array_equal(edges[i], np.histogram(row, 2)[1])


def test_loops_need_results_of_one_shape() -> None:
    _warned.add("numpy.unique")
    with pytest.raises(ValueError, match=r"numpy\.unique gives arrays of different shapes"):
        vmap(np.unique)(np.array([[1, 1], [1, 2]]))
    np.testing.assert_array_equal(vmap(np.unique)(np.array([[2, 1], [1, 2]])), [[1, 2], [1, 2]])
    raises(ValueError, "size 0", lambda: vmap(np.unique)(np.zeros((0, 2))))


def test_loops_write_in_place() -> None:
    _warned.add("assignment through a mask")

    def fn(v: Any, new: Any) -> Any:
        v[v > 2] = new
        return v

    out = vmap(fn)(np.array([[1.0, 3.0], [4.0, 2.0]]), np.array([[7.0], [8.0]]))
    np.testing.assert_array_equal(out, [[1, 7], [8, 2]])
