"""What the arrays inside a mapped function are, and what they refuse."""

from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import rows

from lite import vmap


def branch(v: Any) -> Any:
    return v if v.sum() > 1 else -v


def test_errors_of_mapped_arrays() -> None:
    for fn, error, match in [
        (branch, RuntimeError, "branches on an array"),
        (lambda v: float(v[0]), RuntimeError, "takes a float of"),
        (lambda v: int(v[0]), RuntimeError, "takes an int of"),
        (lambda v: complex(v[0]), RuntimeError, "takes a complex number of"),
        (lambda v: v[0].item(), RuntimeError, "item"),
        (lambda v: v.tolist(), RuntimeError, "makes a list of"),
        (lambda v: [1, 2][v[0].astype(int)], RuntimeError, "indexes, or counts, with"),
        (lambda v: np.asarray(v), TypeError, "cannot become an ndarray"),
        (lambda v: np.zeros(2).dot(v), TypeError, r"np\.dot\(a, x\) for a\.dot\(x\)"),
        (lambda v: len(v[0]), TypeError, "unsized"),
        (lambda v: v.sum(axis=1), np.exceptions.AxisError, "axis 1 is out of bounds"),
        (lambda v: v.reshape(3), ValueError, "cannot reshape array of size 2 into shape"),
        (lambda v: v[5], IndexError, "out of bounds"),
        (lambda v: v[:, 0], IndexError, "too many indices"),
        (lambda v: v @ np.ones(3), ValueError, "matmul"),
        (lambda v: v.__iadd__(np.ones(rows().shape)), ValueError, "more dimensions than its out"),
        (lambda v: v[0].view(np.int8), ValueError, "keeps its itemsize"),
    ]:
        with pytest.raises(error, match=match):
            vmap(fn)(rows())


def add_to_shared(v: Any, s: Any) -> Any:
    s += v
    return s


def write_to_shared(v: Any, s: Any) -> Any:
    s[0] = v[0]
    return s


def test_shared_arrays_take_no_mapped_values() -> None:
    for fn in (add_to_shared, write_to_shared):
        shared = np.zeros(2)
        with pytest.raises(RuntimeError, match="all elements along the mapped dimension share"):
            vmap(fn, (0, None))(rows(), shared)
        np.testing.assert_array_equal(shared, 0)


def test_shared_arrays_take_what_is_not_mapped() -> None:
    def written(v: Any, s: Any) -> Any:
        s[1] = 7.0
        return v * s.dot(np.ones(2)) + s.take(1) + sum(v.flat)

    shared = np.arange(2.0)
    out = vmap(written, (0, None))(rows(), shared)
    np.testing.assert_allclose(out, rows() * 7 + 7 + rows().sum(-1, keepdims=True))
    np.testing.assert_array_equal(shared, [0, 7])


def test_methods_of_shared_arrays_take_mapped_indices() -> None:
    table = np.arange(12.0).reshape(3, 4)
    for options in ({}, {"axis": 1}, {"axis": 0, "mode": "wrap"}):
        got = vmap(lambda i, table, options=options: table.take(i, **options), (0, None))(
            np.array([3, 1]), table
        )
        np.testing.assert_array_equal(got, [table.take(i, **options) for i in (3, 1)])


def test_attributes_are_those_of_an_element() -> None:
    seen: dict[str, Any] = {}

    def look(v: Any) -> Any:
        seen.update(shape=v.shape, ndim=v.ndim, size=v.size, dtype=v.dtype, nbytes=v.nbytes, length=len(v))
        seen["text"] = repr(v)
        assert isinstance(v.flags.writeable, bool)
        assert [np.shape(item) for item in v] == [()] * 2
        return v

    vmap(look)(rows().astype(np.float32))
    assert seen.pop("text").startswith("BatchedArray(shape=(2,), dtype=float32, size=3, level=")
    assert seen == {
        "shape": (2,), "ndim": 1, "size": 2, "dtype": np.dtype(np.float32), "nbytes": 8, "length": 2,
    }  # fmt: skip


def test_writes_into_a_mapped_argument_reach_it_as_in_a_loop() -> None:
    x = rows()

    def fn(v: Any) -> Any:
        v[0] = 9
        return v

    np.testing.assert_array_equal(vmap(fn)(x)[:, 0], 9)
    np.testing.assert_array_equal(x[:, 0], 9)


def test_views_as_another_dtype() -> None:
    x = rows()
    np.testing.assert_array_equal(vmap(lambda v: v.view(np.int8))(x), x.view(np.int8))
    same = np.dtype(f"i{x.itemsize}")
    np.testing.assert_array_equal(vmap(lambda v: v[0].view(same))(x), x.view(same)[:, 0])
