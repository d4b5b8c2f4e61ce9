import numpy as np
import pytest
from helpers.cases import raises

from lite.data import Bounded, NonTensor, Unbounded


def test_ragged_rows() -> None:
    rows = [np.zeros(n, np.int64) for n in (2, 4)]
    spec = Unbounded((2, -1), dtype=np.int64)
    assert spec.is_in(rows)
    assert spec.is_in([rows, rows])
    assert not Unbounded((3, -1), dtype=np.int64).is_in(rows)
    assert not Unbounded((2, 2), dtype=np.int64).is_in(rows)
    assert not spec.is_in([rows[0], rows[1].astype(np.int32)])
    assert not spec.is_in([1, 2])
    bounds = Bounded([[0], [5]], [[1], [6]], (2, -1), dtype=np.int64)
    assert bounds.is_in([rows[0], rows[1] + 5])
    assert not bounds.is_in([rows[0] + 5, rows[1]])


def test_dtypes() -> None:
    assert Unbounded().shape == (1,)
    assert Unbounded().dtype == np.float32
    assert not Unbounded(2).is_in(np.zeros(2))
    assert not Unbounded(2).is_in([0.0, 0.0])
    assert not Unbounded(2).is_in("ab")
    assert not Unbounded(2).is_in(None)
    for dtype in ("complex64", "U3", object):
        raises(TypeError, "dtype", Unbounded, 2, dtype=dtype)
    raises(ValueError, "device", lambda: Unbounded(2, "cuda"))


def test_bounds() -> None:
    spec = Bounded([0.0, 1.0], 3.0)
    assert spec.shape == (2,)
    np.testing.assert_array_equal(spec.low, [0, 1])
    np.testing.assert_array_equal(spec.high, [3, 3])
    assert spec.is_in(np.array([0, 1], np.float32))
    assert not spec.is_in(np.array([0, 0.5], np.float32))
    assert not spec.is_in(np.array([0, np.nan], np.float32))
    np.testing.assert_array_equal(spec.project(np.array([-1.0, 9.0])), np.array([0, 3], np.float32))
    drawn = spec.rand((1000,), rng=0)
    assert drawn.min(0) == pytest.approx([0, 1], abs=0.05)
    assert drawn.max(0) == pytest.approx([3, 3], abs=0.05)
    raises(ValueError, "low", lambda: Bounded(1, 0, (2,)))
    raises(ValueError, "shape", lambda: Bounded(0, 1))
    raises(ValueError, "shape", lambda: Bounded([0, 1, 2], 3, (2,)))
    raises(ValueError, "high", lambda: Bounded(0, 256, (2,), dtype=np.uint8))
    half = Bounded(0, np.inf, (2,))
    assert half.is_in(np.full(2, np.inf, np.float32))
    raises(ValueError, "finite", lambda: half.rand())


def test_drawing_reaches_every_integer() -> None:
    assert set(Bounded(-1, 1, (), dtype=np.int8).rand((200,), rng=0).tolist()) == {-1, 0, 1}
    assert (Unbounded((), dtype=np.int32).rand((200,), rng=0) >= 0).all()


def test_projection_keeps_its_input_and_does_not_mend_shapes() -> None:
    value = np.array([5.0, -5.0], np.float32)
    np.testing.assert_array_equal(Bounded(0, 1, (2,)).project(value), [1, 0])
    np.testing.assert_array_equal(value, [5, -5])
    assert Unbounded(2, dtype=np.int64).project(value).dtype == np.int64
    for spec in (Bounded(0, 1, (3,)), Unbounded(3), NonTensor((3,))):
        raises(ValueError, "shape", spec.project, value)
    raises(AssertionError, "Unbounded", lambda: Unbounded(3).assert_is_in(value))


def test_bounded_values_are_not_counted() -> None:
    assert Bounded(0, 3, (2,), dtype=np.int64).cardinality() == np.inf
