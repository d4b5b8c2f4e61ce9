"""Rules of ufuncs, generalised ones and their methods."""

import numpy as np
import pytest
from helpers.vmap_cases import Case, add_in_place, b, check_mapped, f, for_each, i, written

from lite import vmap

CASES: list[Case] = [
    ("add", lambda x, y: x + y, (f(3, 4), f(4))),
    ("add of a number", lambda x: 2 - x, (f(3),)),
    ("add of a list", lambda x: x + [1, 2, 3], (f(3),)),
    ("add without dimensions", lambda x, y: x * y, (f(), f(2, 3))),
    ("floor_divide", lambda x, y: x // y, (f(3), f(2, 1))),
    ("divmod", lambda x, y: np.divmod(x, y), (f(3), f(3))),
    ("modf", lambda x: np.modf(x), (f(3),)),
    ("comparison", lambda x, y: x < y, (f(3), f(3))),
    ("invert", lambda x: ~x, (b(3),)),
    ("power", lambda x, y: np.abs(x) ** y, (f(3), i(3))),
    ("exp", lambda x: np.exp(x), (f(2, 2),)),
    ("where of a ufunc", lambda x, m: np.add(x, 1, where=m, out=np.zeros_like(x + m)), (f(3), b(3))),
    ("out of a ufunc", lambda x, y: np.add(x, y, out=np.zeros_like(x + y)), (f(3), f(3))),
    ("out of a ufunc of one array", lambda x: np.exp(x, out=np.zeros_like(x)), (f(3),)),
    ("dtype of a ufunc", lambda x: np.add(x, 1, dtype=np.float32), (f(3),)),
    ("in place", add_in_place, (f(2, 3), f(3))),
    ("ufunc.outer", lambda x, y: np.subtract.outer(x, y), (f(2), f(3, 2))),
    ("ufunc.at", written(lambda x, k, y: np.add.at(x, k, y)), (f(4), i(3), f(3))),
    ("assign columns by ufunc.at", written(lambda x, y: np.add.at(x, (slice(None), [1, 0, 1]), y)),
        (f(2, 4), f(3))),
    ("assign by ufunc.at, split", written(lambda x, y: np.add.at(x, ([0, 0], ..., [1, 1]), y)),
        (f(2, 4, 3), f(2, 4))),
    ("assign columns by ufunc.at, others each", written(lambda x, k: np.add.at(x, (slice(None), k), 2)),
        (f(2, 4), i(3))),
    ("negate by ufunc.at", lambda x, k: written(np.negative.at)(x + 0 * k, k), (f(3), i(3))),
    ("assign rows by ufunc.at", written(lambda x, k, y: np.add.at(x, k, y)), (f(4, 2), i(3), f(3, 2))),
    ("assign rows by ufunc.at, of one", written(lambda x, k, y: np.add.at(x, k, y)),
        (f(4, 2), i(3), f(2))),
    ("add.reduce", lambda x: np.add.reduce(x), (f(3, 2),)),
    ("maximum.reduce of all", lambda x: np.maximum.reduce(x, axis=None), (f(3, 2),)),
    ("multiply.accumulate", lambda x: np.multiply.accumulate(x, 1), (f(3, 4),)),
    ("add.reduceat", lambda x: np.add.reduceat(x, [0, 2], 1), (f(3, 4),)),
    ("logaddexp.reduce", lambda x: np.logaddexp.reduce(x, -1, keepdims=True), (f(3, 4),)),
    ("vecdot", lambda x, y: np.vecdot(x, y), (f(3, 4), f(4))),
    ("vecdot along the first axis", lambda x, y: np.vecdot(x, y, axis=0), (f(4, 3), f(4, 3))),
    ("vecdot, out", lambda x, y: np.vecdot(x, y, out=np.zeros_like((x * y)[..., 0])), (f(3, 4), f(3, 4))),
    ("out of two results", lambda x, y: np.divmod(x, y, out=(None, np.zeros_like(x + y))), (f(3), f(3))),
    ("matvec", lambda x, y: np.matvec(x, y), (f(2, 3, 4), f(4))),
    ("vecmat", lambda x, y: np.vecmat(x, y), (f(2, 3), f(3, 4))),
]  # fmt: skip


def test_maps_equal_loops() -> None:
    for_each(check_mapped, CASES)


def test_at_does_not_write_into_a_shared_array() -> None:
    shared = np.zeros(3)
    with pytest.raises(RuntimeError, match=r"numpy.add.at into an array that all elements"):
        vmap(lambda k: np.add.at(shared, k, 1.0))(np.array([0, 1]))
    np.testing.assert_array_equal(shared, 0)
