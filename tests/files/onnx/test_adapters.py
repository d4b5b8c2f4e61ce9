"""Files of adapters: the same arrays back, bytes that are none, and those of onnxruntime."""

import struct
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from helpers.cases import each_case, raises
from helpers.models.real_models import MODELS

from lite._files.onnx.adapters import MAX_DIMENSIONS, adapter_bytes, read_adapter

ARRAYS = {
    "model.layers.0.q_proj.lora_A.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "none": np.zeros((4, 0), np.float16),
    "ü": np.array([[-1.5]]),
}


def test_there_and_back() -> None:
    data = adapter_bytes(ARRAYS)
    found = read_adapter(data)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    assert read_adapter(adapter_bytes({})) == {}
    start = data.index(ARRAYS["ü"].tobytes())
    assert start % 16 == 0


def test_onnxruntime_reads_it_and_the_other_way_round(tmp_path: Path) -> None:
    (tmp_path / "ours").write_bytes(adapter_bytes(ARRAYS))
    ours = ort.AdapterFormat.read_adapter(str(tmp_path / "ours"))  # owns the memory up to onnxruntime 1.26
    parameters = ours.get_parameters()
    assert parameters.keys() == ARRAYS.keys()
    for name, value in parameters.items():
        np.testing.assert_array_equal(value.numpy(), ARRAYS[name])
    for path in (MODELS / "handmade-lora").glob("*.onnx_adapter"):
        theirs = ort.AdapterFormat.read_adapter(str(path))
        parameters, found = theirs.get_parameters(), read_adapter(path.read_bytes())
        assert found.keys() == parameters.keys()
        for name, value in parameters.items():
            np.testing.assert_array_equal(found[name], value.numpy())


def test_what_cannot_be_written() -> None:
    raises(ValueError, "'x' has none", lambda: adapter_bytes({"x": np.array(1.0)}))
    with pytest.raises(ValueError, match="at most 2147483647 bytes"):
        adapter_bytes({"x": np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1 << 30,), (0,))})


def patched(at: int, kind: str, value: int) -> bytes:
    data = bytearray(adapter_bytes({"a": np.zeros((2, 3), np.float32)}))
    struct.pack_into(kind, data, at, value)
    return bytes(data)


def place_of(kind: str, *values: int) -> int:
    return adapter_bytes({"a": np.zeros((2, 3), np.float32)}).index(struct.pack(kind, *values))


@each_case(
    ("data", "message"),
    [
        (b"", "must begin with"),
        (b"PK\x03\x04" * 9, "must begin with"),
        (patched(place_of("<4i", 1, 0, 0, 4), "<i", 2), "version 2 of the format, 1 is known"),
        (patched(0, "<I", 1 << 30), "it is damaged: it ends at byte"),
        (patched(0, "<I", 0), "it is damaged|version"),
        (patched(place_of("<2q", 2, 3), "<q", -2), r"shape \(-2, 3\)"),
        (patched(place_of("<2q", 2, 3), "<q", 1 << 62), r"shape \(4611686018427387904, 3\) .* has 24 bytes"),
        (patched(place_of("<2q", 2, 3) - 4, "<I", 1 << 31), "elements of 8 bytes do not fit"),
        (patched(place_of("<2q", 2, 3) - 4, "<I", MAX_DIMENSIONS + 1), "dimensions|do not fit"),
    ],
)
def test_bytes_that_are_none(data: bytes, message: str) -> None:
    raises(ValueError, message, lambda: read_adapter(data))


def test_fields_that_a_table_lacks() -> None:
    assert read_adapter(patched(8, "<H", 10)) == {}  # three fields: the parameters would be the fourth


def test_two_of_a_name() -> None:
    data = adapter_bytes({"a": np.zeros((1, 1), np.int8), "b": np.zeros((1, 1), np.int8)})
    raises(ValueError, "'a' twice", lambda: read_adapter(data.replace(b"b\0", b"a\0")))


def test_any_damage_is_an_error_or_an_array(rng: np.random.Generator) -> None:
    """Whatever a file says, no array is larger than it."""
    data = adapter_bytes(ARRAYS)
    refused = 0
    for i in range(400):
        changed = bytearray(data[: int(rng.integers(len(data)))] if i % 2 else data)
        for at in rng.integers(0, max(1, len(changed)), 3):
            changed[int(at) : int(at) + 1] = rng.bytes(1)
        try:
            assert all(array.nbytes <= len(changed) for array in read_adapter(bytes(changed)).values())
        except ValueError:
            refused += 1
    assert refused > 100
