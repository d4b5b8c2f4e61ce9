"""Logits that stay in the memory of the GPU that computed them, to be drawn from and scored there.

Who draws reads them through the CUDA array interface; everybody else may take them for an array, which
copies them to the host.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.memory import DeviceBuffer, copy_pieces, fetch
from lite.models.graph.cuda_stream import CudaStream

R = TypeVar("R")


@dataclass(frozen=True)
class Gpu:
    """The number of the GPU, under the name that kernels read."""

    index: int


class DeviceLogits:
    """Logits (n, V) on a GPU.

    Where the stream of the session that fills them is known, whatever reads them is queued on that stream, so
    a step and its draw need not wait for each other on the host; the interface names it for others. Of a
    session with an unknown stream, onnxruntime waits for it at the end of each run. Tokens are back on the
    host before the next run, which so overwrites nothing that is being read.

    `len` and slices work as with arrays, and slices are views; an index of one row copies it to the host,
    one of several copies them on the GPU.

    Args:
        rows: n.
        vocab_size: V.
        dtype: float32 or float16, which the graph gives.
        stream: stream of the session that computes them.

    Attributes:
        shape: (n, V).
        dtype: as given.
        device: has the `index`.
        address: address of the first of them.
        stream: the handle of the session's stream, None if it is not known.

    Raises:
        MemoryError: the GPU has no room; the message gives the size.
    """

    def __init__(self, rows: int, vocab_size: int, dtype: np.dtype[Any], stream: CudaStream) -> None:
        size = rows * vocab_size * dtype.itemsize
        buffer = DeviceBuffer(size, "cuda", stream.index, "logits", stream)
        self._describe(buffer, 0, rows, vocab_size, dtype)

    def _describe(
        self, buffer: DeviceBuffer, start: int, rows: int, vocab_size: int, dtype: np.dtype[Any]
    ) -> None:
        """Be the rows from byte `start` of a buffer on."""
        self.shape = rows, vocab_size
        self.dtype = dtype
        self.device = Gpu(buffer.stream.index)
        self.stream = buffer.stream.handle
        self._line = vocab_size * dtype.itemsize
        self._buffer, self._start = buffer, start
        self.address = buffer.pointer + start
        self.__cuda_array_interface__ = {
            "version": 3, "shape": self.shape, "typestr": dtype.str, "data": (self.address, False),
            "strides": None, "stream": self.stream,
        }  # fmt: skip

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """A copy on the host, in float32 unless another type is asked for."""
        if copy is False:
            raise ValueError("logits in GPU memory cannot be an array without a copy")
        host = np.empty(self.shape, self.dtype)
        fetch(self._buffer, host, self._start)
        return host.astype(np.float32 if dtype is None else dtype, copy=False)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        rows, vocab_size = self.shape
        if isinstance(index, slice):
            start, stop, step = index.indices(rows)
            if step == 1:
                view = object.__new__(DeviceLogits)
                at = self._start + start * self._line
                view._describe(self._buffer, at, max(0, stop - start), vocab_size, self.dtype)
                return view
        chosen = np.arange(rows)[index]
        return self.taken(chosen) if chosen.ndim else np.asarray(self[int(chosen) : int(chosen) + 1])[0]

    def taken(self, rows: NDArray[np.int64]) -> DeviceLogits:
        """These rows, in this order, copied on the GPU."""
        out = DeviceLogits(len(rows), self.shape[1], self.dtype, self._buffer.stream)
        out.put(range(len(rows)), self, rows.tolist())
        return out

    def put(self, places: Sequence[int], part: DeviceLogits, rows: Sequence[int] | None = None) -> None:
        """Copy rows of another one, by default all, to these places."""
        pieces = [
            (part._start + at * self._line, self._start + place * self._line)
            for at, place in zip(range(len(places)) if rows is None else rows, places, strict=True)
        ]
        copy_pieces(part._buffer, self._buffer, pieces, self._line)

    def whole(self) -> bool:
        """Whether they are all that their memory holds."""
        return self._buffer.size == self.shape[0] * self._line

    def beside(self, array: NDArray[Any]) -> Any:
        """A copy of a host array on the same GPU, as Numba's device array."""
        return self._gpu().upload(np.ascontiguousarray(array))

    def on_host(self, array: Any) -> NDArray[Any]:
        """A copy of a Numba device array of the same GPU. Waits for what computes it."""
        return self._gpu().fetch(array)

    def _gpu(self) -> Any:
        from lite.kernels.cuda._gpu import Gpu as Launches

        return Launches(self.stream, {"logits": self})


Logits = NDArray[np.float32] | DeviceLogits
"""Logits (n, V): on the host, or on the GPU that computed them."""


def merged(count: int, parts: Iterable[tuple[Sequence[int], Logits]]) -> Logits:
    """The logits of `count` rows, of which each part has those at some places.

    A part is read before the next one is asked for.
    """
    out: Logits | None = None
    for places, part in parts:
        if isinstance(part, DeviceLogits):
            if not isinstance(out, DeviceLogits):
                out = DeviceLogits(count, part.shape[1], part.dtype, part._buffer.stream)
            out.put(places, part)
        else:
            if not isinstance(out, np.ndarray):
                out = np.empty((count, part.shape[1]), np.float32)
            out[places] = part
    assert out is not None  # there is a row
    return out


def stacked(parts: Sequence[Logits]) -> Logits:
    """Parts, each (k, V), one under the other, in new memory."""
    host = [part for part in parts if isinstance(part, np.ndarray)]
    if len(host) == len(parts):
        return np.concatenate(host)
    if len(parts) == 1 and isinstance(parts[0], DeviceLogits) and parts[0].whole():
        return parts[0]
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    places = [range(start, stop) for start, stop in itertools.pairwise(ends)]
    return merged(ends[-1], zip(places, parts, strict=True))


def on_their_device(kernel: Callable[..., R], logits: Logits, tokens: NDArray[np.int64], **options: Any) -> R:
    """`kernel(logits, tokens, **options)`, computed where the logits are, with its arrays on the host."""
    if not isinstance(logits, DeviceLogits):
        return kernel(logits, tokens, **options)
    if not drawn_on_gpus():
        return kernel(np.asarray(logits), tokens, **options)
    found: Any = kernel(logits, logits.beside(tokens), stream=logits.stream, **options)
    if not isinstance(found, tuple):
        return logits.on_host(found)  # type: ignore[return-value]
    return type(found)(*map(logits.on_host, found))  # type: ignore[return-value]


@functools.cache
def drawn_on_gpus() -> bool:
    """Whether the kernels that draw can be launched: Numba finds a driver and its compiler."""
    try:
        from numba import cuda
    except ImportError:  # logits are drawn from on the host
        return False

    return bool(cuda.is_available())  # type: ignore[no-untyped-call]
