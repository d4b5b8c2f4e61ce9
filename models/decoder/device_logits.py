"""Logits that stay in the memory of the GPU that computed them, to be drawn from there.

Who draws reads them through the CUDA array interface; everybody else may take them for an array, which
copies them to the host. No GPU has run this yet.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.memory import DeviceBuffer, copy_pieces, fetch


@dataclass(frozen=True)
class Gpu:
    """Which GPU, as kernels ask an array for it."""

    index: int


class DeviceLogits:
    """Logits (n, V) on a GPU.

    onnxruntime waits for its stream at the end of each run (unless a run is told not to, which none is), so
    the interface names no stream to wait for: what is launched after a run reads finished logits on any
    stream. Tokens are back on the host before the next run, which so overwrites nothing that is being read.

    Args:
        rows: n.
        vocab_size: V.
        dtype: float32 or float16, which the graph gives.
        index: which GPU.

    Attributes:
        shape: (n, V).
        dtype: as given.
        device: has the `index`.
        address: of the first of them.

    Raises:
        MemoryError: the GPU has no room; the message gives the size.
    """

    def __init__(self, rows: int, vocab_size: int, dtype: np.dtype[Any], index: int) -> None:
        self.shape = rows, vocab_size
        self.dtype = dtype
        self.device = Gpu(index)
        self._line = vocab_size * dtype.itemsize
        self._buffer = DeviceBuffer(rows * self._line, "cuda", index, "logits")
        self.address = self._buffer.pointer
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": self.shape,
            "typestr": dtype.str,
            "data": (self.address, False),
            "strides": None,
        }

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """A copy on the host, in float32 unless another type is asked for."""
        if copy is False:
            raise ValueError("logits in GPU memory cannot be an array without a copy")
        host = np.empty(self.shape, self.dtype)
        fetch(self._buffer, host)
        return host.astype(np.float32 if dtype is None else dtype, copy=False)

    def taken(self, rows: NDArray[np.int64]) -> DeviceLogits:
        """These rows, in this order, copied on the GPU."""
        out = DeviceLogits(len(rows), self.shape[1], self.dtype, self.device.index)
        pieces = [(row * self._line, at * self._line) for at, row in enumerate(rows.tolist())]
        copy_pieces(self._buffer, out._buffer, pieces, self._line)
        return out

    def put(self, places: Sequence[int], part: DeviceLogits) -> None:
        """Copy the rows of another one to these places."""
        pieces = [(at * self._line, place * self._line) for at, place in enumerate(places)]
        copy_pieces(part._buffer, self._buffer, pieces, self._line)

    def beside(self, array: NDArray[Any]) -> Any:
        """A copy of a host array on the same GPU, as Numba's device array."""
        from numba import cuda

        with cuda.gpus[self.device.index]:
            return cuda.to_device(array)

    def on_host(self, array: Any) -> NDArray[Any]:
        """A copy of a Numba device array of the same GPU. Waits for what computes it."""
        from numba import cuda

        with cuda.gpus[self.device.index]:
            host: NDArray[Any] = array.copy_to_host()
        return host


Logits = NDArray[np.float32] | DeviceLogits
"""Logits (n, V) of a step: on the host, or on the GPU that computed them."""


def merged(count: int, parts: Iterable[tuple[Sequence[int], Logits]]) -> Logits:
    """The logits of `count` rows, of which each part has those at some places.

    A part is read before the next one is asked for.
    """
    out: Logits | None = None
    for places, part in parts:
        if isinstance(part, DeviceLogits):
            if not isinstance(out, DeviceLogits):
                out = DeviceLogits(count, part.shape[1], part.dtype, part.device.index)
            out.put(places, part)
        else:
            if not isinstance(out, np.ndarray):
                out = np.empty((count, part.shape[1]), np.float32)
            out[places] = part
    assert out is not None  # there is a row
    return out


@functools.cache
def drawn_on_gpus() -> bool:
    """Whether the kernels that draw can be launched: Numba finds a driver and its compiler."""
    from numba import cuda

    return bool(cuda.is_available())  # type: ignore[no-untyped-call]
