"""dtypes, devices, and what a tree of arrays weighs."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.trees import tree, unchanged

from lite import NonTensorData, TensorDict


@pytest.mark.parametrize(
    ("method", "dtype"),
    [
        ("half", "float16"), ("float", "float32"), ("double", "float64"), ("bool", "bool"),
        ("short", "int16"),
        ("int", "int32"), ("long", "int64"), ("int8", "int8"), ("int16", "int16"), ("int32", "int32"),
        ("int64", "int64"), ("uint8", "uint8"), ("uint16", "uint16"),
        ("uint32", "uint32"), ("uint64", "uint64"),
        ("float16", "float16"), ("float32", "float32"), ("float64", "float64"), ("complex64", "complex64"),
        ("complex128", "complex128"),
    ],
)  # fmt: skip
def test_casts(method: str, dtype: str) -> None:
    td = tree(lock=True)
    with unchanged(td):
        outs = [getattr(td, method)(), td.to(np.dtype(dtype)), td.type(dtype)]
    for out in outs:
        assert out.dtype == np.dtype(dtype)
        assert out.is_locked
        assert out["s"] == "text"
        np.testing.assert_array_equal(out["a"], td["a"].astype(dtype))


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    td = TensorDict(a=[1.0, 2.0])
    assert td.bfloat16()["a"].dtype == ml_dtypes.bfloat16
    assert td.to("bfloat16").is_floating_point()


def test_dtype_and_sizes() -> None:
    shared = np.zeros(4, np.float32)
    td = TensorDict({"a": shared, "n": {"b": shared}})
    assert td.dtype == np.float32
    assert td.is_floating_point()
    assert (td.bytes(), td.bytes(count_duplicates=False)) == (32, 16)
    assert (td.param_count(), td.param_count(count_duplicates=False)) == (8, 4)
    assert tree().dtype is None
    assert not tree().is_floating_point()


def test_to_device_and_to_another() -> None:
    td = TensorDict({"n": {"a": [1, 2]}})
    moved = td.to("cpu")
    assert (moved.device, moved["n"].device, td.device) == ("cpu", "cpu", None)
    assert moved.cpu() is moved
    like = td.to(TensorDict(a=1.0, device="cpu"))
    assert (like.device, like.dtype) == ("cpu", np.float32)
    assert moved.clear_device_()["n"].device is None
    with pytest.raises(TypeError, match="other must be"):
        td.to(NonTensorData("x"))
    assert td.detach()["n", "a"] is td["n", "a"]
    assert td.data["n"] is not td["n"]
