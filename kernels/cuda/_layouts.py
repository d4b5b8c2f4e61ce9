"""Rows of device arrays as kernels address them: flat memory, and where in it each row starts."""

import functools
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lite.kernels._types import DeviceArray, Layout
from lite.kernels.cuda._arrays import DeviceMemory
from lite.kernels.cuda._copies import c_ordered
from lite.kernels.cuda._gpu import Gpu
from lite.kernels.cuda._vectors import BYTES

C_ORDER: Layout = (0, 1, 1, 0, 0, 0)


def layout_of(gpu: Gpu, array: DeviceMemory) -> tuple[Any, Layout, int]:
    """The memory of `array`, whose last axis is a row; its layout; elements between the last multiple of
    `BYTES` and the start of the memory.

    Read where it lies as long as rows are contiguous and the other axes merge to three, else copied.
    """
    axes = merged(array)
    if axes is None or (array.shape[-1] > 1 and array.strides()[-1] != 1):
        array = c_ordered(gpu, array)
        axes = merged(array) or []
    memory, first = array.memory()
    (_, outer), (middle, between), (inner, step) = [(1, 0)] * (3 - len(axes)) + axes
    shift = (array.address - first * array.dtype.itemsize) % BYTES // array.dtype.itemsize
    return memory, (first, inner, middle, outer, between, step), shift


def flat(gpu: Gpu, array: DeviceMemory | NDArray[Any]) -> DeviceArray:
    """The elements of `array` in C order; one number may be on the host."""
    if isinstance(array, np.ndarray):
        return gpu.upload(array.reshape(-1))
    return (array if array.c_contiguous else c_ordered(gpu, array)).memory()[0]


def nothing(gpu: Gpu, dtype: DTypeLike) -> DeviceArray:
    """A placeholder for missing arguments, which no kernel reads."""
    return _nothing(gpu.ordinal, np.dtype(dtype))


@functools.cache
def _nothing(ordinal: int, dtype: np.dtype[Any]) -> DeviceArray:
    from lite.kernels.cuda._jit import cuda

    with cuda.gpus[ordinal]:
        return cuda.device_array((2,), dtype)


def merged(array: DeviceMemory) -> list[tuple[int, int]] | None:
    """Lengths and strides of the axes before the last, as few as possible; None: more than three."""
    axes: list[tuple[int, int]] = []
    for length, stride in zip(array.shape[:-1], array.strides()[:-1], strict=True):
        if length == 1:
            continue
        if axes and axes[-1][1] == length * stride:
            axes[-1] = (axes[-1][0] * length, stride)
        else:
            axes.append((length, stride))
    return axes if len(axes) <= 3 else None
