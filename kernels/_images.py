"""Images in compiled code, for `lite.nn` and `lite.envs`, which import this file where there is such code."""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._arrays import contiguous
from lite.kernels._threads import for_rows
from lite.kernels.cpu import images

_CHUNK = 1 << 20  # numbers: with fewer, starting a thread costs more than it saves


def affine(x: NDArray[Any], loc: float, scale: float, divide: bool) -> NDArray[np.float32]:
    """(x - loc) / scale where `divide`, else x * scale + loc; of bytes or float32, in the layout of x."""
    order, source = _in_memory(x)
    out = np.empty(source.shape, np.float32)
    flat, target, numbers = source.reshape(-1), out.reshape(-1), (np.float32(loc), np.float32(scale))

    def run(start: int, stop: int) -> None:
        images.affine(flat[start:stop], *numbers, divide, target[start:stop])

    for_rows(run, out.size, _CHUNK)
    return out.transpose(np.argsort(order))


def grey(x: NDArray[Any], parts: tuple[float, float, float]) -> NDArray[Any]:
    """Sums of colours by their parts, of shape (..., W, H) from (..., 3, W, H), cut to the dtype of x."""
    order, source = _in_memory(x)
    colours = x.ndim - 3
    place = order.index(colours)
    shape = source.shape
    out = np.empty((*shape[:place], *shape[place + 1 :]), x.dtype)
    images.grey(source.reshape(-1), prod(shape[place + 1 :]), np.array(parts, np.float32), out.reshape(-1))
    return out.transpose(np.argsort([axis for axis in order if axis != colours]))


def _in_memory(x: NDArray[Any]) -> tuple[list[int], NDArray[Any]]:
    """The axes in their order in memory, and the array with its axes in this order; a copy if it has gaps."""
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis] or x.nbytes))
    return order, contiguous(x.transpose(order), x.dtype)
