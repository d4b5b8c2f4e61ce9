"""Casts, devices, sizes, factories, masks and comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trees import read_only, tree, unchanged

import lite
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


def test_like_factories() -> None:
    td = TensorDict(
        {"a": read_only(np.ones((2, 3), np.float32)), "n": {"b": [1, 2]}, "s": "x"}, batch_size=[2]
    )
    td.names = ["t"]
    td.lock_()
    for module_function, numpy_function, value in (
        (lite.zeros_like, np.zeros_like, 0),
        (lite.ones_like, np.ones_like, 1),
        (lambda x, **kw: lite.full_like(x, 7, **kw), lambda x, **kw: np.full_like(x, 7, **kw), 7),
    ):
        for function in (module_function, numpy_function):
            out = function(td)
            assert (out.names, out.is_locked, out["s"]) == (["t"], True, "x")
            assert (out["a"].dtype, out["n", "b"].dtype) == (np.float32, np.int64)
            np.testing.assert_array_equal(out["a"], np.full((2, 3), value))
            assert function(td, dtype=np.int8).dtype == np.int8
    assert np.empty_like(td)["a"].shape == (2, 3)


def test_random_factories_follow_the_generator() -> None:
    td = TensorDict({"a": np.zeros((50, 2)), "h": np.zeros(50, np.float16)}, batch_size=[50])
    for function in (lite.rand_like, lite.randn_like):
        first, second = (function(td, rng=np.random.default_rng(3)) for _ in range(2))
        np.testing.assert_array_equal(first["a"], second["a"])
        assert first["h"].dtype == np.float16
        assert first["a"].std() > 0.2
    assert lite.rand_like(td)["a"].min() >= 0
    with pytest.raises(TypeError, match="floating dtype"):
        lite.rand_like(TensorDict(a=1))


def test_new_with_another_batch_size() -> None:
    td = tree()
    td.names = ["x", "y"]
    for out, value in ((td.new_zeros(5), 0), (td.new_ones([5]), 1), (td.new_full(5, 3), 3)):
        assert (out.batch_size, out.names, out["n"].batch_size) == ((5,), ["y"], (5, 5))
        np.testing.assert_array_equal(out["a"], np.full((5, 2), value))
        assert out["i"].dtype == np.int64
        assert "r" not in out
    assert td.new_empty(2, 1, dtype=np.int8)["n", "b"].shape == (2, 1, 5)


def test_fill_and_zero() -> None:
    td = TensorDict({"a": np.ones(2), "n": {"b": np.ones(2)}})
    td.fill_("a", 5).fill_("n", 7)
    assert (td["a"].tolist(), td["n", "b"].tolist()) == ([5, 5], [7, 7])
    assert td.zero_()["n", "b"].tolist() == [0, 0]
    with pytest.raises(KeyError):
        td.fill_("zz", 1)


def test_where() -> None:
    td = TensorDict({"a": np.arange(6.0).reshape(3, 2), "s": ["x", "y", "z"]}, batch_size=[3])
    other = TensorDict({"a": -np.ones((3, 2)), "s": ["p", "q", "z"]}, batch_size=[3])
    mask = np.array([True, False, True])
    with unchanged(td, other):
        got = td.where(mask, other)
    np.testing.assert_array_equal(got["a"], [[0, 1], [-1, -1], [4, 5]])
    assert got["s"] == ["x", "q", "z"]
    np.testing.assert_array_equal(np.where(mask, td, 0)["a"], [[0, 1], [0, 0], [4, 5]])
    np.testing.assert_array_equal(lite.where(mask, 0, td)["a"], [[0, 0], [2, 3], [0, 0]])
    out = td.clone()
    assert td.where(mask, other, out=out) is out
    with pytest.raises(RuntimeError, match="more dims"):
        td.where(np.ones((3, 2), bool), 0)
    with pytest.raises(TypeError, match="where"):
        td.where(mask, object())


def test_where_with_missing_keys() -> None:
    first, second = TensorDict({"a": [1, 2]}, batch_size=[2]), TensorDict({"b": [3, 4]}, batch_size=[2])
    with pytest.raises(KeyError):
        first.where(np.array([True, False]), second)
    got = first.where(np.array([True, False]), second, pad=9)
    assert (got["a"].tolist(), got["b"].tolist()) == ([1, 9], [9, 4])


def test_masks() -> None:
    td = tree()
    mask = td["i"] % 2 == 0
    with unchanged(td):
        filled = td.masked_fill(mask, 9)
        selected = td.masked_select(mask[..., None])
    np.testing.assert_array_equal(filled["i"], np.where(mask, 9, td["i"]))
    np.testing.assert_array_equal(filled["n", "b"][mask], 9.0)
    np.testing.assert_array_equal(selected["i"], td["i"][mask])
    assert selected.get("r").tolist() == ["00", "02", "11", "20", "22", "31"]
    with unchanged(td), pytest.raises(TypeError, match="array of bools"):
        td.masked_select([1, 2])
    with unchanged(td), pytest.raises(IndexError, match="mask has shape"):
        td.masked_fill_(np.ones(3, bool), 1)


def test_assert_close() -> None:
    td = tree()
    assert lite.assert_close(td, td.clone())
    near = td.clone()
    near["a"] += 1e-7
    assert lite.assert_close(td, near)
    near["a"] += 1
    with pytest.raises(AssertionError, match=r"key \('a',\) does not match, got mse = 1.0000"):
        lite.assert_close(near, td)
    assert lite.assert_close(near, td, atol=2)
    with pytest.raises(KeyError, match="only in actual"):
        lite.assert_close(td, td.exclude(("n", "b")))
    assert lite.assert_close(td, td.exclude(("n", "b")), intersection=True)
    with pytest.raises(AssertionError, match=r"'s'"):
        lite.assert_close(td, td.clone().set("s", "other"))
    nan = TensorDict(a=np.nan)
    assert lite.assert_close(nan, nan)
    with pytest.raises(AssertionError):
        lite.assert_close(nan, nan, equal_nan=False)


def test_isclose() -> None:
    first, second = TensorDict(a=[1.0, 2.0]), TensorDict(a=[1.0, 2.1])
    assert first.isclose(second)["a"].tolist() == [True, False]
    assert np.isclose(first, second, atol=1)["a"].all()
    assert first.allclose(first)
    assert not np.allclose(first, second)


def test_numpy_functions_without_a_form_for_tensordicts() -> None:
    call: Any = np.fft.fft
    with pytest.raises(TypeError):
        call(TensorDict(a=1))
