"""What single entries become in a folder: byte orders, dtypes, names, objects; and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import same_content

from lite import NonTensorData, NonTensorStack, TensorDict
from lite._files.keys import decode_key, encode_key


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
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        td = TensorDict({"x": np.array([1.0, -2.0], dtype)})
        path = tmp_path / np.dtype(dtype).name
        td.memmap(path)
        found = TensorDict.load_memmap(path)["x"]
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, td["x"])
        td.save(path.with_suffix(".npz"))
        np.testing.assert_array_equal(TensorDict.load(path.with_suffix(".npz"))["x"], td["x"])


def test_dtypes_without_a_name(tmp_path):
    with pytest.raises(ValueError, match="cannot be saved"):
        TensorDict({"x": np.zeros(2, np.longdouble)}).memmap(tmp_path / "td")


@given(st.text(), st.text())
def test_key_codec(a, b):
    assert decode_key(encode_key(a)) == a
    assert (encode_key(a) == encode_key(b)) == (a == b)
    assert encode_key(a) not in ("", ".", "..")
    assert not set(encode_key(a)) & set('/<>:"|?*\\ \0')


def test_keys_that_cannot_be_files(tmp_path):
    for key in ("x" * 250, "é" * 130, "\ud800"):
        with pytest.raises(ValueError, match=r"too long|no form"):
            TensorDict({key: np.zeros(1)}).memmap(tmp_path / "td")
    with pytest.raises(ValueError, match=r"'meta\.json'"):
        TensorDict({"meta.json": {"a": 1}}).memmap(tmp_path / "td")
    assert not (tmp_path / "td").exists()


def test_raw_names(tmp_path):
    td = TensorDict({"a b": np.arange(2), "n>": {"c?": np.ones(2)}})
    td.memmap(tmp_path / "td", robust_key=False)
    assert (tmp_path / "td" / "n>" / "c?.memmap").exists()
    same_content(TensorDict.load_memmap(tmp_path / "td"), td)
    same_content(TensorDict.load_memmap(tmp_path / "td", robust_key=False), td)


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
        with pytest.raises(TypeError, match="on a device"):
            write(tmp_path / "td")
    with pytest.raises(TypeError, match="on a device"):
        td.memmap()
    assert not list(tmp_path.iterdir())
    assert not td.is_memmap()


PAYLOADS = [
    None, True, 3, -1.5, "", "text", "é\ud800", [], [1, [2]], {}, {"a": {"b": None}}, (), (1, "x"), {1, 2},
    frozenset({"a"}), {"k": (1, {2})}, [[1, 2], [3, 4]], 2**70, -(2**200), math.inf, {"data": 1},
    {"tuple": [1]},
]  # fmt: skip


@pytest.mark.parametrize("payload", PAYLOADS, ids=repr)
def test_objects(payload, tmp_path):
    td = TensorDict({"a": np.zeros((2, 2))}, [2, 2])
    td.set("one", NonTensorData(payload, batch_size=[2, 2]))
    array = np.empty((2, 2), object)
    for i in range(4):
        array.reshape(-1)[i] = payload
    td.set("each", NonTensorStack._wrap(array))
    td.memmap(tmp_path / "td")
    out = TensorDict.load_memmap(tmp_path / "td")
    assert out["one"] == payload
    assert type(out["one"]) is type(payload)
    assert out.get("each").batch_size == (2, 2)
    assert out.get("each").tolist() == [[payload] * 2] * 2
    for suffix in ("npz", "safetensors"):
        if suffix == "safetensors":
            pytest.importorskip("safetensors")
            if isinstance(payload, str) and "\ud800" in payload:
                continue
        td.save(tmp_path / f"td.{suffix}")
        again = TensorDict.load(tmp_path / f"td.{suffix}")
        assert again["one"] == payload
        assert again.get("each").tolist() == [[payload] * 2] * 2


def test_not_a_number(tmp_path):
    TensorDict({"x": NonTensorData(math.nan), "y": NonTensorData([math.nan, -math.inf])}).memmap(
        tmp_path / "td"
    )
    out = TensorDict.load_memmap(tmp_path / "td")
    assert math.isnan(out["x"])
    assert math.isnan(out["y"][0])
    assert out["y"][1] == -math.inf


@pytest.mark.parametrize("payload", [b"bytes", {1: 2}, object, np.arange(2), 1j, {"a": b"x"}], ids=repr)
def test_objects_that_need_a_pickle(payload, tmp_path):
    td = TensorDict({"n": {"bad": NonTensorData(payload)}})
    for write in (td.memmap, lambda path: td.save(f"{path}.tdz")):
        with pytest.raises(TypeError, match=r"'bad'.*allow_pickle=True \(the default is False\)"):
            write(tmp_path / "td")
    assert not list(tmp_path.iterdir())
    td.memmap(tmp_path / "td", allow_pickle=True)
    with pytest.raises(RuntimeError, match="allow_pickle=True"):
        TensorDict.load_memmap(tmp_path / "td")
    out = TensorDict.load_memmap(tmp_path / "td", allow_pickle=True)
    np.testing.assert_array_equal(out["n", "bad"], payload)
    TensorDict({"n": {"bad": "now text"}}).memmap(tmp_path / "td")
    assert TensorDict.load_memmap(tmp_path / "td")["n", "bad"] == "now text"
    assert not list((tmp_path / "td").rglob("*pickle*"))


def test_a_stack_that_needs_a_pickle(tmp_path):
    td = TensorDict({"r": NonTensorStack(b"x", b"y")}, [2])
    td.memmap(tmp_path / "td", allow_pickle=True)
    assert TensorDict.load_memmap(tmp_path / "td", allow_pickle=True)["r"] == [b"x", b"y"]
    TensorDict({"r": ["a", "b"]}, [2]).memmap(tmp_path / "td")
    assert TensorDict.load_memmap(tmp_path / "td")["r"] == ["a", "b"]
    assert not list((tmp_path / "td").rglob("*.pkl"))
