"""Arrays on their way into a kernel: what is copied, what is read where it lies."""

from typing import ClassVar

import numpy as np
import pytest

from lite.kernels._arrays import aligned_zeros, contiguous, is_float, native, rows_of, to_numpy


def test_read_only_arrays_are_not_copied():
    array = np.arange(6.0).reshape(2, 3)
    array.flags.writeable = False
    same = contiguous(array, np.float64)
    assert same.flags.writeable
    assert np.shares_memory(same, array)
    np.testing.assert_array_equal(same, array)


def test_rows_are_found_in_memory():
    for index in [np.s_[:, ::-1], np.s_[::2], np.s_[::-1, :, 1:3], np.s_[:, :0], np.s_[..., ::2]]:
        array = np.arange(120.0).reshape(4, 6, 5)[index]
        flat, starts = rows_of(array)
        rows = array.reshape(-1, array.shape[-1])
        assert starts.shape == (len(rows),)
        for start, row in zip(starts, rows, strict=True):
            np.testing.assert_array_equal(flat[start : start + len(row)], row)
        if array.shape[-1] and array.strides[-1] == array.itemsize:
            assert np.shares_memory(flat, array) == bool(array.size)


def test_much_memory_begins_with_a_cache_line():
    for count in [1, 1023, 1024, 5000]:
        memory = aligned_zeros(count)
        assert memory.shape == (count,)
        assert not memory.any()
        assert count < 1024 or memory.ctypes.data % 64 == 0


def test_byte_order_and_types():
    swapped = np.array([1.0, 2.0], ">f4")
    assert native(swapped).dtype == np.float32
    np.testing.assert_array_equal(native(swapped), [1, 2])
    assert [is_float(np.dtype(name)) for name in ("f2", "f4", "f8", "i4", "c8")] == [True] * 3 + [False] * 2


def test_cuda_memory_is_named():
    class There:
        __cuda_array_interface__: ClassVar[dict[str, object]] = {}

    with pytest.raises(TypeError, match=r"tokens is an array in CUDA memory \(There\)"):
        to_numpy("tokens", There())
