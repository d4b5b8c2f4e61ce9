"""Sequences along one axis of arrays of one shape, as compiled loops walk them.

An array `(*batch, time, *more)` is read as rows of lines of contiguous entries. A line is a sequence, or, if
there are enough lanes, one step of all lanes. Strides lead from row to row and from line to line: arrays with
contiguous entries are read in place, other layouts are copied. A number for all steps is one line with
strides of 0. So each kernel is compiled once for each floating type.

Blocks of sequences are processed side by side, because a single recursion waits for its own last result.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lite.kernels._arrays import Array, Memory, aligned_zeros, is_float, native
from lite.kernels._threads import for_rows

_TILE = 2048  # entries of a tile: its scratch memory fits the first-level cache
_ROWS = 1024  # the same for whole sequences, whose operands fit the cache, too
_SIDE = 8  # as in cpu/returns.py
_FEW = 8  # lanes: with fewer, whole rows are walked side by side instead
_SERIAL = 300_000  # values: below, starting a thread costs more than it saves
_CHUNK = 50_000  # values handed to a thread at a time

# Of exponentials, as `advantages` in cpu/returns.py takes them.
_LIMITS = {
    kind.char: tuple(map(kind.type, (least, most, 20.0, math.exp(20.0))))
    for kind, least, most in ((np.dtype(np.float32), -86.0, 80.0), (np.dtype(np.float64), -707.0, 700.0))
}

Operand = tuple[NDArray[Any], int, int, int]


class Sequences:
    """The walk over arrays of `shape`, whose axis `axis` is time."""

    def __init__(self, shape: tuple[int, ...], axis: int) -> None:
        self.shape = shape
        self.axis = axis
        outer, time, lanes = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
        self._grid = outer, time, lanes
        self._by_time = lanes < _FEW
        self._time = time
        self._rows, self._lanes = (1, outer * lanes) if self._by_time else (outer, lanes)
        if self._by_time:
            self._steps = max(min(time, _TILE // _SIDE), 1)
            groups = max(_ROWS // self._steps // _SIDE, 1)
            self._beside = min(-(-self._lanes // _SIDE), groups) * _SIDE
        else:
            self._beside = min(lanes, _TILE // _SIDE)
            self._steps = max(min(time, _TILE // max(self._beside, 1)), 1)
        self._beside = max(self._beside, 1)
        self._blocks = self._rows * -(-self._lanes // self._beside)
        # Whether the lines of a tile follow each other in memory, if those of the operands do.
        self._merged = self._steps == time if self._by_time else self._beside == lanes

    def operand(self, array: NDArray[Any], dtype: DTypeLike) -> Operand:
        """Flat memory of `array`, broadcast to the shape, and its strides for rows, lines and entries.

        Entries lie side by side; an array that has them elsewhere is copied. One number for all is a line
        of it, with strides of 0.
        """
        array = native(array).astype(dtype, copy=False)
        if array.size == 1:
            line = np.empty(self._steps * self._beside, dtype)
            line.fill(array.item())
            return line, 0, 0, 0
        outer, time, lanes = self._grid
        as_it_is = array.flags.c_contiguous and array.flags.writeable and array.shape == self.shape
        if as_it_is and (lanes == 1 or not self._by_time):  # common
            return array.reshape(-1), time * lanes, time if self._by_time else lanes, 1
        view = np.broadcast_to(array, self.shape).reshape(self._grid)
        if self._by_time:
            view = view.swapaxes(1, 2).reshape(1, outer * lanes, time)
        size = view.itemsize
        rows, lines, entries = view.strides
        apart = view.shape[2] > 1 and entries != size
        if view.size and (apart or min(rows, lines) < 0 or (rows | lines) % size):
            view = np.ascontiguousarray(view)
            rows, lines, entries = view.strides
        rows, lines = rows // size, lines // size
        self._merged &= lines == view.shape[2] or view.shape[1] == 1
        span = 1 + sum((n - 1) * s for n, s in zip(view.shape, (rows, lines, 1), strict=True))
        return np.asarray(Memory(view, view.ctypes.data, (max(span, 0),), view.dtype)), rows, lines, 1

    def empty(self, work: DTypeLike, dtype: DTypeLike) -> tuple[NDArray[Any], Operand]:
        """A new array of type `work` to write to, and the same as an operand; `dtype` is for later."""
        outer, time, lanes = self._grid
        lines = (outer * lanes, time) if self._by_time else (outer * time, lanes)
        memory: NDArray[Any] = np.empty(lines, work)
        operand = memory.reshape(-1), time * lanes, lines[1], 1
        if self._by_time and lanes > 1:
            memory = memory.reshape(outer, lanes, time).swapaxes(1, 2)
        return memory.reshape(self._grid).reshape(self.shape), operand

    def weights(
        self, work: np.dtype[Any], learner: Array | None, actor: Array | None
    ) -> tuple[Operand, Operand, tuple[Any, ...]] | None:
        """Logarithms of the two probabilities whose ratio is a step's weight, for `advantages` to use."""
        if learner is None or actor is None:
            return None
        return self.operand(learner, work), self.operand(actor, work), _LIMITS[work.char]

    def traces(self, lmbda: NDArray[Any], learner: NDArray[Any], actor: NDArray[Any]) -> Operand:
        """lmbda min(1, ratio of the two probabilities) of the step after each, as an operand."""
        ratio = learner.astype(np.float64)
        with np.errstate(invalid="ignore"):  # two infinities: NaN, as in compiled code
            np.subtract(ratio, actor, out=ratio, casting="unsafe")
        np.exp(np.minimum(ratio, 0.0, out=ratio), out=ratio)
        ratio *= lmbda
        traces = np.zeros(self.shape)
        ahead = [(slice(None),) * self.axis + (part,) for part in (slice(None, -1), slice(1, None))]
        traces[ahead[0]] = ratio[ahead[1]]
        return self.operand(traces, np.float64)

    def run(self, name: str, *args: Any) -> None:
        """Call the kernel `name(*args, *memory to work in, *walk, start, stop)` over all blocks."""
        from lite.kernels.cpu import returns

        kernel: Callable[..., None] = getattr(returns, name)
        walk = self._time, self._lanes, self._by_time, self._merged, self._steps, self._beside
        beside = -(-self._beside // _SIDE) * _SIDE
        tile = self._steps * beside
        lengths: tuple[int, ...] = tile, tile, beside
        if name == "advantages":
            lengths += tile + beside, beside, tile
        ends = list(itertools.accumulate(lengths))

        def work(start: int, stop: int) -> None:
            memory = aligned_zeros(ends[-1])
            pieces = (memory[end - n : end] for n, end in zip(lengths, ends, strict=True))
            kernel(*args, *pieces, *walk, start, stop)

        each = self._time * self._beside  # values of a block
        chunk = max(1, _CHUNK // max(each, 1)) if each * self._blocks > _SERIAL else self._blocks
        for_rows(work, self._blocks, max(chunk, 1))


def work_dtype(*arrays: Array) -> np.dtype[Any]:
    """The dtype of compiled loops: float64 if an input has it or is of integers, else float32."""
    wide = any(not is_float(array.dtype) or array.dtype.char == "d" for array in arrays)
    return np.dtype(np.float64 if wide else np.float32)
