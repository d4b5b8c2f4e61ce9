"""Arrays of one shape in one array."""

from __future__ import annotations

import numpy as np
import pytest

from lite._arrays.joining import stacked


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3), (2, 0)])
def test_as_stack(shape: tuple[int, ...], host: bool) -> None:
    arrays = [np.full(shape, i, dtype) for i, dtype in enumerate(("int8", "int32", "float32"))]
    for dim in range(len(shape) + 1):
        expected = np.stack(arrays, dim)
        out = stacked(arrays, dim, host)
        assert out is not None
        assert out.dtype == expected.dtype
        np.testing.assert_array_equal(out, expected)
        assert not any(np.shares_memory(out, array) for array in arrays)


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize(
    "shapes", [((2,), (3,)), ((), (1,)), ((0, 3), (0, 4)), ((2, 3), (3, 2)), ((2, 3), (2,)), ((0,), (0, 2))]
)
def test_different_shapes_give_none(shapes: tuple[tuple[int, ...], ...], host: bool) -> None:
    assert stacked([np.zeros(shape) for shape in shapes], 0, host) is None


def test_arrays_that_are_not_in_order() -> None:
    arrays = [np.arange(6.0).reshape(2, 3).T, np.arange(6.0).reshape(3, 2)[::-1]]
    np.testing.assert_array_equal(stacked(arrays, 0, True), np.stack(arrays))
