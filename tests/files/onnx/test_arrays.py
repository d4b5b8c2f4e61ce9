"""Tensors of models as arrays, in every way that they are written in."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from helpers.cases import each_case, raises

from lite._files.onnx import writer
from lite._files.onnx.arrays import read_array
from lite._files.onnx.wire import field, integer, text


def read(tensor: Any, folder: Path | None = None) -> np.ndarray:
    data = tensor if isinstance(tensor, bytes) else tensor.SerializeToString()
    return read_array(data, (0, len(data)), folder)


NUMBERS = "FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 BOOL FLOAT16 DOUBLE"
OTHERS = "UINT32 UINT64 COMPLEX64 COMPLEX128 BFLOAT16 FLOAT8E4M3FN FLOAT8E5M2 UINT4 INT4 UINT2 INT2"


@each_case("name", [*NUMBERS.split(), *OTHERS.split()])
@each_case("raw", [False, True])
def test_every_type_as_onnx_reads_it(name: str, raw: bool) -> None:
    kind = getattr(onnx.TensorProto, name)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    signed = name.startswith(("INT", "FLOAT", "DOUBLE", "BFLOAT", "COMPLEX"))
    given = np.array([[0, 1, 1], [1, -1 if signed else 1, 1]]).astype(dtype)
    if raw:
        tensor = onnx.numpy_helper.from_array(given)
    else:
        tensor = onnx.helper.make_tensor("x", kind, given.shape, given)
    found = read(tensor)
    np.testing.assert_array_equal(found.astype(np.complex64), given.astype(np.complex64))
    assert found.flags.writeable is False
    if "INT2" not in name and "INT4" not in name:  # held in 8 bits
        assert found.dtype == given.dtype


@each_case("dtype", [np.float32, np.float64, np.int64, np.float16])
def test_numbers_that_lie_across_words_are_aligned(dtype: Any) -> None:
    given = np.arange(5, dtype=dtype)
    tensor = onnx.numpy_helper.from_array(given).SerializeToString()
    for shift in range(8):
        data = bytes(shift) + tensor
        found = read_array(data, (shift, len(data)))
        assert found.flags.aligned
        assert not found.flags.writeable
        np.testing.assert_array_equal(found, given)


def test_arrays_beside_the_model(tmp_path: Path) -> None:
    data = np.arange(6, dtype=np.float32)
    (tmp_path / "w.data").write_bytes(b"head" + data.tobytes())
    tensor = writer.tensor_elsewhere("w", data.dtype, (2, 3), "w.data", 4, 24)
    np.testing.assert_array_equal(read(tensor, tmp_path), data.reshape(2, 3))
    raises(ValueError, "give the path", lambda: read(tensor))
    long = writer.tensor_elsewhere("w", data.dtype, (2, 3), "w.data", 8, 24)
    raises(ValueError, "needs 24 from byte 8", lambda: read(long, tmp_path))
    with pytest.raises(ValueError, match="outside its folder"):
        read(writer.tensor_elsewhere("w", data.dtype, (2, 3), "../w.data", 0, 24), tmp_path / "sub")


def free_descriptors() -> list[int]:
    """The lowest numbers that no open file has."""
    taken = [os.dup(0) for _ in range(3)]
    for descriptor in taken:
        os.close(descriptor)
    return taken


def test_arrays_beside_the_model_keep_no_file_open(tmp_path: Path) -> None:
    """A process may have a thousand files open, of which a large model would need more."""
    data = np.arange(100_000, dtype=np.int64)
    data.tofile(tmp_path / "w.data")
    free = free_descriptors()
    found = read(writer.tensor_elsewhere("w", data.dtype, (9,), "w.data", 8 * 90_000, 72), tmp_path)
    assert free_descriptors() == free
    os.rename(tmp_path / "w.data", tmp_path / "x.data")  # on Windows, too
    np.testing.assert_array_equal(found, data[90_000:90_009])
    assert not found.flags.writeable


@each_case(
    ("tensor", "message"),
    [
        (integer(1, 3) + integer(2, 1) + field(9, b"12345678"), "has 8 bytes instead of 12"),
        (integer(1, 3) + integer(2, 1) + field(4, b"1234"), "has 4 bytes instead of 12"),
        (integer(1, 3) + integer(2, 7) + integer(7, 1), "has 1 numbers"),
        (integer(1, 1 << 62) + integer(2, 1), "larger than any file"),
        (integer(1, 1) + integer(2, 99) + field(9, b"1"), "element type 99"),
    ],
)
def test_damaged_tensors_are_refused(tensor: bytes, message: str) -> None:
    raises(ValueError, message, lambda: read(tensor + text(8, "x")))
