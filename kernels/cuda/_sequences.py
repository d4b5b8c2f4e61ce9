"""Sequences along one axis of device arrays of one shape, as scans read them; see `scans.py`."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite.kernels.cuda._arrays import DeviceMemory, device_array
from lite.kernels.cuda._copies import c_ordered
from lite.kernels.cuda._gpu import Gpu

ITEMS = 8  # as in scans.py
_THREADS = 128  # of a block, at most
_FEWEST = 8  # sequences side by side where they are so in memory: with float32, what one access moves

Operand = tuple[Any, Any, Any, Any, Any, float]


class Tiles:
    """How `sequences` of `time` steps are cut into tiles: powers of two of sequences and of steps.

    Args:
        time_fast: whether time, rather than the sequences, lies side by side in memory.
    """

    def __init__(self, gpu: Gpu, sequences: int, time: int, time_fast: bool) -> None:
        self.time_fast = time_fast
        steps = max(_log2(time), _log2(ITEMS))
        width = _log2(sequences)
        most = _log2(_THREADS * ITEMS)
        if time_fast:
            steps = min(steps, most)
            width = min(width, most - steps)
        else:
            # Wide tiles read longer pieces, but leave fewer blocks to share among the multiprocessors.
            enough = _log2(max(1, sequences // (4 * gpu.multiprocessors())))
            width = min(width, max(_log2(_FEWEST), min(_log2(32), enough)))
            steps = min(steps, most - width)
        self.log_steps, self.log_width = steps, width
        self.threads = (1 << (steps + width)) // ITEMS
        self.groups = -(-sequences // (1 << width))
        self.count = -(-time // (1 << steps))  # in time

    def shared(self, carries: int) -> int:
        """Bytes of shared memory for a map of each element and each thread, and numbers handed on."""
        elements = self.threads * ITEMS
        return 8 * (2 * (elements + elements // 16 + self.threads) + (carries << self.log_width))


class Sequences:
    """The walk over device arrays of the shape of `like`, whose layout decides the order of reading.

    It has the methods of `lite.kernels._sequences`, whose `work`, the type to compute in, is float64 here.

    Args:
        axis: axis of time.
    """

    def __init__(self, gpu: Gpu, like: DeviceMemory, axis: int) -> None:
        shape = like.shape
        self.gpu = gpu
        self.shape = shape
        self.axis = axis
        self._like = like
        self._outer, self.time = math.prod(shape[:axis]), shape[axis]
        self._lanes = math.prod(shape[axis + 1 :])
        self.sequences = self._outer * self._lanes

    def operand(self, array: Any, dtype: DTypeLike | None = None) -> Operand:
        """`array`, broadcast to the shape: on the device in its own type, or a number."""
        if not self.sequences * self.time:
            np.broadcast_to(array.view if isinstance(array, DeviceMemory) else array, self.shape)
            return _NOTHING
        if not isinstance(array, DeviceMemory):
            memory, _ = self._like.memory()  # any will do
            return (memory, *_integers(-1, 0, 0, 0), float(np.asarray(array).item()))
        spread = array.broadcast_to(self.shape)
        parts = (self._outer, self.time, self._lanes)
        if array.dtype == np.uint16:  # which would be taken for bfloat16
            spread = c_ordered(self.gpu, spread, np.int32)
        try:
            view = spread.reshape(parts)
        except ValueError:  # the axes beside time do not merge
            view = c_ordered(self.gpu, spread).reshape(parts)
        memory, first = view.memory()
        return (memory, *_integers(first, *view.strides(), size=memory.size), 0.0)

    def empty(self, work: DTypeLike, dtype: DTypeLike) -> tuple[Any, Operand]:
        """A new array of type `dtype` to write to, and the same as an operand."""
        out = self.gpu.empty(self.shape, dtype)
        return out, self.operand(device_array("out", out))

    def weights(
        self, work: DTypeLike, learner: DeviceMemory | None, actor: DeviceMemory | None
    ) -> tuple[Operand, Operand]:
        """Logarithms of the two probabilities whose ratio is a step's weight, for the kernel to use."""
        return self.operand(learner or 0.0), self.operand(actor or 0.0)

    def traces(self, lmbda: float, learner: DeviceMemory, actor: DeviceMemory) -> Operand:
        """lmbda min(1, ratio of the two probabilities) of the step after each, as an operand."""
        from lite.kernels.cuda import scans

        _, target = self.empty(np.float64, np.float64)
        count = self.sequences * self.time
        if count:
            numbers = _integers(self.time, self._lanes, count, size=count)
            operands = self.operand(lmbda), self.operand(learner), self.operand(actor)
            self.gpu.launch(scans.traces, -(-count // _THREADS), _THREADS, *operands, target, *numbers)
        return target

    def run(self, name: str, *args: Any) -> None:
        """Call the kernel `name` over all sequences."""
        from lite.kernels.cuda import scans

        tiles = self.tiles()
        blocks = tiles.groups * (tiles.count if name == "fixed_lambda_returns" else 1)
        self.gpu.launch(
            getattr(scans, name), blocks, tiles.threads, *args, self.extent(tiles), shared=tiles.shared(1)
        )

    def tiles(self) -> Tiles:
        return Tiles(self.gpu, self.sequences, self.time, _innermost(self._like, self.axis))

    def extent(self, tiles: Tiles) -> tuple[Any, ...]:
        """The last argument of every kernel, `scans.Walk`."""
        numbers = (self.time, self._lanes, self.sequences, tiles.log_steps, tiles.log_width)
        return (*_integers(*numbers, size=self.sequences), tiles.time_fast)


def _innermost(array: DeviceMemory, axis: int) -> bool:
    """Whether steps along `axis` are the shortest in memory."""
    strides = [
        abs(stride) for stride, n in zip(array.strides(), array.shape, strict=True) if n > 1 and stride
    ]
    return array.shape[axis] > 1 and abs(array.strides()[axis]) == min(strides, default=0)


def longest_axis(shape: tuple[int, ...]) -> int:
    """The last axis that fills the steps of a thread, else the longest."""
    axes = range(len(shape))
    return next((axis for axis in reversed(axes) if shape[axis] >= ITEMS), max(axes, key=shape.__getitem__))


def _integers(*numbers: int, size: int = 0) -> tuple[Any, ...]:
    """Numbers as 32-bit integers if the memory allows it, as the GPU multiplies these in one instruction."""
    kind = np.int32 if size < 2**31 else np.int64
    return tuple(kind(number) for number in numbers)


def _log2(number: int) -> int:
    """The binary logarithm of the next power of two."""
    return max(number - 1, 0).bit_length()


_NOTHING: Operand = (None, 0, 0, 0, 0, 0.0)
