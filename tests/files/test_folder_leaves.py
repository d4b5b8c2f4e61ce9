"""What arrays become in a folder: byte orders, dtypes; and what is refused."""

import ml_dtypes
import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict


def test_byte_orders_and_layouts(tmp_path):
    big = np.arange(6, dtype=">i4").reshape(2, 3)
    td = TensorDict(
        {"big": big, "turned": big.T[::-1].astype("<f4"), "part": np.arange(20).reshape(4, 5)[::2, 1::2]}
    )
    out = td.memmap(tmp_path / "td")
    for found in (out, TensorDict.load_memmap(tmp_path / "td")):
        for key in td.keys():  # noqa: SIM118
            np.testing.assert_array_equal(found[key], td[key])
            assert found[key].flags.c_contiguous
    assert out["big"].dtype == np.dtype("<i4")


def test_extension_floats(tmp_path):
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        td = TensorDict({"x": np.array([1.0, -2.0], dtype)})
        path = tmp_path / np.dtype(dtype).name
        td.memmap(path)
        found = TensorDict.load_memmap(path)["x"]
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, td["x"])
        td.save(path.with_suffix(".npz"))
        np.testing.assert_array_equal(TensorDict.load(path.with_suffix(".npz"))["x"], td["x"])


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="that of float64")
def test_dtypes_without_a_name(tmp_path):
    with pytest.raises(ValueError, match="cannot be saved"):
        TensorDict({"x": np.zeros(2, np.longdouble)}).memmap(tmp_path / "td")


class OnDevice:
    """What tells a device array: it speaks the CUDA array interface."""

    def __init__(self) -> None:
        self.shape, self.dtype, self.ndim, self.size = (2,), np.dtype("f4"), 1, 2
        self.__cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (0, False), "version": 3}


def test_device_arrays_are_refused(tmp_path):
    td = TensorDict({"n": {"x": OnDevice()}})
    for write in (
        td.memmap,
        td.consolidate,
        lambda path: td.save(f"{path}.tdz"),
        lambda path: td.save(f"{path}.npz"),
    ):
        raises(TypeError, "on a device", write, tmp_path / "td")
    raises(TypeError, "on a device", td.memmap)
    assert not list(tmp_path.iterdir())
    assert not td.is_memmap()
