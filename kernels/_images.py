"""Images in compiled code, for `lite.nn` and `lite.envs`, which import this file if kernels are compiled."""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._arrays import contiguous
from lite.kernels._threads import for_rows
from lite.kernels.cpu import images

_CHUNK = 1 << 20  # numbers of a thread: with fewer, starting it costs more than it saves


def affine(x: NDArray[Any], loc: float, scale: float, divide: bool) -> NDArray[np.float32]:
    """(x - loc) / scale if `divide`, else x * scale + loc; of uint8 or float32, in the layout of x."""
    order, source = _in_memory(x)
    out = np.empty(source.shape, np.float32)
    flat, target, numbers = source.reshape(-1), out.reshape(-1), (np.float32(loc), np.float32(scale))

    def run(start: int, stop: int) -> None:
        images.affine(flat[start:stop], *numbers, divide, target[start:stop])

    for_rows(run, out.size, 4 * _CHUNK)  # memory is the limit: a second thread gains nothing on 7 MB
    return out.transpose(_inverse(order))


def grey(x: NDArray[Any], parts: tuple[float, float, float]) -> NDArray[Any]:
    """Sums of colours weighted by `parts`, (..., W, H) from (..., 3, W, H), truncated to the dtype of x."""
    order, source = _in_memory(x)
    colours = x.ndim - 3
    place = order.index(colours)
    shape = source.shape
    out = np.empty((*shape[:place], *shape[place + 1 :]), x.dtype)
    images.grey(source.reshape(-1), prod(shape[place + 1 :]), np.array(parts, np.float32), out.reshape(-1))
    return out.transpose(_inverse([axis for axis in order if axis != colours]))


def resize(x: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[Any]:
    """Images (..., W, H) in another size, by matrices of weights (new, old) for their rows and columns.

    Results in uint8 are rounded.
    """
    (at_row, of_rows), (at_column, of_columns) = _taps(rows), _taps(columns)
    height, width = x.shape[-2:]
    source = contiguous(x, x.dtype).reshape(-1)
    out = np.empty((*x.shape[:-2], len(rows), len(columns)), x.dtype)
    flat, old, new = out.reshape(-1), height * width, len(rows) * len(columns)

    def run(start: int, stop: int) -> None:
        line, sums = np.empty(width, np.float32), np.empty(len(columns), np.float32)
        images.resize(
            source[start * old : stop * old], height, width, at_row, of_rows, at_column, of_columns.T.copy(),
            x.dtype == np.uint8, line, sums, flat[start * new : stop * new],
        )  # fmt: skip

    for_rows(run, out.size // new, max(1, _CHUNK // old))
    return out


def _taps(weights: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The first nonzero weight of each row, and the weights from there on, as many as the longest row has."""
    some = weights != 0
    have = some.shape[1]
    first = some.argmax(1)
    count = int((have - some[:, ::-1].argmax(1) - first).max())
    first = np.minimum(first, have - count)
    return first, np.take_along_axis(weights, first[:, None] + np.arange(count), 1).astype(np.float32)


def _in_memory(x: NDArray[Any]) -> tuple[list[int], NDArray[Any]]:
    """The axes in their order in memory, and the array with its axes in this order; a copy if it has gaps."""
    order = list(range(x.ndim))
    if not x.flags.c_contiguous:
        order.sort(key=lambda axis: -abs(x.strides[axis] or x.nbytes))
    return order, contiguous(x.transpose(order), x.dtype)


def _inverse(order: list[int]) -> list[int]:
    # Without NumPy, whose code is no longer in the cache after a large kernel: 25 us less, of 230.
    return sorted(range(len(order)), key=order.__getitem__)
