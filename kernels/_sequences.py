"""Sequences along one axis of arrays of one shape, as compiled loops walk them.

An array `(*batch, time, *more)` is read as (outer, time, lanes) through three strides over flat memory:
whatever its layout, without a copy where the axes on either side of time merge, and a number or a value
shared by many steps has stride 0. So each kernel is compiled once for each floating type.

Lanes are walked side by side in blocks. A recursion in time waits for its own last result; a few of
them in turn do not. Lines of a block are along whichever axis is contiguous.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lite.kernels._arrays import Array, Memory, is_float, native
from lite.kernels._rows import for_rows

_TILE = 8192  # entries that are worked out together: with all operands they stay in the second-level cache
_SIDE = 8  # as in cpu/returns.py
_FEW = 8  # lanes: with fewer, whole rows are walked side by side instead
_SERIAL = 100_000  # values: below, starting a thread costs more than it saves
_CHUNK = 50_000  # values handed to a thread at a time

Operand = tuple[NDArray[Any], int, int, int]


class Sequences:
    """The walk over arrays of `shape`, whose axis `axis` is time."""

    def __init__(self, shape: tuple[int, ...], axis: int) -> None:
        self.shape = shape
        self.axis = axis
        self._outer, self.time = math.prod(shape[:axis]), shape[axis]
        self._lanes = math.prod(shape[axis + 1 :])
        self._swapped = self._lanes < _FEW and self._outer > self._lanes
        rows, lanes = (self._lanes, self._outer) if self._swapped else (self._outer, self._lanes)
        self.lanes = lanes
        self._by_time = self._lanes < _FEW  # time is the axis along which memory is contiguous, or nearly so
        if self._by_time:
            self._steps = min(self.time, _TILE // _SIDE)
            self._beside = min(-(-lanes // _SIDE), _TILE // max(self._steps, 1) // _SIDE) * _SIDE
        else:
            self._beside = min(lanes, 1024)
            self._steps = min(self.time, _TILE // max(self._beside, 1))
        self._blocks = rows * -(-lanes // max(self._beside, 1))

    def operand(self, array: NDArray[Any], dtype: DTypeLike) -> Operand:
        """Flat memory of `array`, broadcast to the shape, and its strides for outer, time and lanes."""
        array = native(array).astype(dtype, copy=False)
        if array.size == 1:
            return array.astype(dtype).reshape(-1), 0, 0, 0  # copied: compiled code wants writable memory
        if array.shape == self.shape and array.flags.c_contiguous and array.flags.writeable:  # common
            outer, time = self.time * self._lanes, self._lanes
            strides = (1, time, outer) if self._swapped else (outer, time, 1)
            return (array.reshape(-1), *strides)
        spread = np.broadcast_to(array, self.shape)
        view = spread.reshape(self._outer, self.time, self._lanes)
        size = view.itemsize
        if any(stride < 0 or stride % size for stride in view.strides):
            view = np.ascontiguousarray(view)
        outer, time, lanes = (stride // size for stride in view.strides)
        strides = (lanes, time, outer) if self._swapped else (outer, time, lanes)
        span = 1 + sum((n - 1) * s for n, s in zip(view.shape, (outer, time, lanes), strict=True))
        memory = np.asarray(Memory(view, view.ctypes.data, (span,), view.dtype))
        return (memory, *strides)

    def empty(self, work: DTypeLike, dtype: DTypeLike) -> tuple[NDArray[Any], Operand]:
        """A new array of type `work` to write to, and the same as an operand; `dtype` is for later."""
        out: NDArray[Any] = np.empty(self.shape, work)
        if out.size == 1:  # operand() would copy it
            return out, (out.reshape(-1), 0, 0, 0)
        return out, self.operand(out, work)

    def weights(self, work: DTypeLike, learner: Array | None, actor: Array | None) -> Operand:
        """Ratios of two probabilities, from their logarithms; 1 where these are not given."""
        if learner is None or actor is None:
            return self.operand(np.ones(()), work)
        own = work_dtype(learner, actor)
        with np.errstate(over="ignore"):  # an infinite weight is cut like any other
            ratios = np.subtract(learner, actor, dtype=own)
            ratios = np.exp(ratios, out=ratios)
        return self.operand(ratios, work)

    def run(self, name: str, *args: Any) -> None:
        """Call the kernel `name(*args, time, lanes, by_time, steps, beside, start, stop)` over all blocks."""
        from lite.kernels.cpu import returns

        kernel: Callable[..., None] = getattr(returns, name)
        walk = self.time, self.lanes, self._by_time, self._steps, self._beside
        each = self.time * self._beside  # values of a block
        chunk = max(1, _CHUNK // max(each, 1)) if each * self._blocks > _SERIAL else self._blocks
        for_rows(lambda start, stop: kernel(*args, *walk, start, stop), self._blocks, max(chunk, 1))


def work_dtype(*arrays: Array) -> np.dtype[Any]:
    """What compiled loops read: float64 where an input has it or is of integers, else float32."""
    wide = any(not is_float(array.dtype) or array.dtype.char == "d" for array in arrays)
    return np.dtype(np.float64 if wide else np.float32)
