"""MetaArray: shape and dtype without data; names of devices."""

import numpy as np
from helpers.cases import each_case, raises

from lite.nn import MetaArray
from lite.nn._modules.meta import check_device


def test_shapes_and_dtypes() -> None:
    array = MetaArray((2, 3), "float16")
    assert (array.shape, array.ndim, array.size, array.nbytes, len(array)) == ((2, 3), 2, 6, 12, 2)
    assert array.T.shape == (3, 2)
    assert array.astype(np.float64).dtype == np.float64
    raises(TypeError, "unsized", lambda: len(MetaArray((), "float32")))


@each_case("use", [lambda a: a + 1, lambda a: a[0], np.asarray, np.exp, list, bool, lambda a: a.sum()])
def test_there_is_nothing_to_compute_with(use) -> None:  # type: ignore[no-untyped-def]
    raises(RuntimeError, "no data", lambda: use(MetaArray((2,), "float32")))


def test_devices() -> None:
    assert [check_device(name) for name in (None, "cpu", "cpu:0", "meta")] == ["cpu", "cpu", "cpu", "meta"]
    raises(RuntimeError, "on the CPU", lambda: check_device("cuda:1"))
    raises(RuntimeError, "unknown device 'tpux'", lambda: check_device("tpux"))
    raises(TypeError, "must be a string", lambda: check_device(3))
