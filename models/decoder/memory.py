"""Memory for the key/value cache and logits, on the device where the graph runs.

A buffer is flat, of bytes: the graph sees parts of it, of any shape, bound by pointer, so a cache can change
shape without being copied and types without a NumPy dtype (bfloat16) need no special case.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.models.graph.cuda_stream import ON_DEVICE, TO_DEVICE, TO_HOST, CudaStream
from lite.models.graph.runtime import import_onnxruntime

_ALIGNMENT = 64  # of a cache line, and of AVX-512
# M_MMAP_MAX, M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h; in the end as glibc sets them by itself.
_KEEP = {-4: 0, -1: -1}
_KEEP_NO_MORE = {-4: 1 << 16, -1: 1 << 26, -3: 1 << 25}
_learners: weakref.WeakSet[object] = weakref.WeakSet()
_NO_STREAM = CudaStream(0)  # of buffers on the CPU, where nothing is queued


class DeviceBuffer:
    """`size` bytes on a device.

    Args:
        size: in bytes.
        device: `"cpu"` or `"cuda"`.
        index: number of the GPU.
        purpose: what the bytes are for, for errors.
        stream: stream of a GPU, where copies are queued; by default the session's stream counts as unknown.

    Raises:
        MemoryError: if the device has no room; the message gives the size.
    """

    def __init__(
        self, size: int, device: str = "cpu", index: int = 0, purpose: str = "key/value cache",
        stream: CudaStream | None = None,
    ) -> None:  # fmt: skip
        self.device = device
        self.size = size
        self.purpose = purpose
        self.stream = stream or (_NO_STREAM if device == "cpu" else CudaStream(index))
        try:
            # onnxruntime's own values take seven calls each on the CPU, a fifth of a short generation
            held: Any = (
                np.empty(size + _ALIGNMENT, np.uint8)
                if device == "cpu"
                else _GpuMemory(size, index, self.stream)
            )
        except Exception as error:
            raise MemoryError(f"cannot allocate {size:,} bytes of {purpose} on {device}: {error}") from error
        self._held = held
        address: int = held.__array_interface__["data"][0] if device == "cpu" else held.value.data_ptr()
        self.pointer = -(-address // _ALIGNMENT) * _ALIGNMENT if device == "cpu" else address

    def view(self) -> NDArray[np.uint8]:
        """The bytes of a CPU buffer as a writable array that shares its memory."""
        if self.device != "cpu":
            raise TypeError(f"a buffer on {self.device} has no NumPy view")
        first = -self._held.__array_interface__["data"][0] % _ALIGNMENT
        return self._held[first : first + self.size]

    def zero(self) -> None:
        """Set every byte to 0, as masked values are still multiplied and must be finite."""
        if self.device == "cpu":
            self.view()[:] = 0
            return
        self.stream.clear(self.pointer, self.size, self.purpose)
        self.stream.finish()


class _GpuMemory:
    """An OrtValue of `size` bytes, which is freed when its stream is done with it."""

    def __init__(self, size: int, index: int, stream: CudaStream) -> None:
        ort = import_onnxruntime()
        self.value = ort.OrtValue.ortvalue_from_shape_and_type([max(size, 1)], np.uint8, "cuda", index)
        self._stream = stream

    def __del__(self) -> None:
        # onnxruntime may give the memory to a buffer of another stream, while this one still uses it
        idle = not hasattr(self, "_stream") or self._stream.handle is None or not self._stream.queued
        if not idle and not sys.is_finalizing():
            with suppress(RuntimeError):  # it cannot be caught here; the next use of the GPU raises it, too
                self._stream.finish()


def copy_runs(
    source: DeviceBuffer, source_offset: int, source_pitch: int, target: DeviceBuffer, target_offset: int,
    target_pitch: int, width: int, height: int,
) -> None:  # fmt: skip
    """Copy `height` runs of `width` bytes, each beginning `pitch` bytes after the one before it.

    This is how one row of a cache (heads x length x head size) moves between buffers of different capacity.
    A GPU copies on its stream, and the call waits for it.
    """
    if width == 0 or height == 0:
        return
    if source.device == "cpu":
        from_ = _strided(source, source_offset, source_pitch, width, height)
        np.copyto(_strided(target, target_offset, target_pitch, width, height), from_)
        return
    target.stream.copy_2d(
        target.pointer + target_offset,
        target_pitch,
        source.pointer + source_offset,
        source_pitch,
        width,
        height,
        target.purpose,
    )
    target.stream.finish()  # the source may be freed now, and its memory go to another stream


def copy_pieces(
    source: DeviceBuffer, target: DeviceBuffer, pieces: Sequence[tuple[int, int]], size: int
) -> None:
    """Copy pieces of `size` bytes each, given by where they begin in both buffers, on their GPU.

    On a stream that is known they are not waited for: who reads them does so on that stream.
    """
    for begin, place in pieces:
        target.stream.copy(target.pointer + place, source.pointer + begin, size, ON_DEVICE, target.purpose)
    if target.stream.handle is None:
        target.stream.finish()


def fetch(buffer: DeviceBuffer, out: NDArray[Any], start: int = 0) -> None:
    """Fill a C-ordered array with what a buffer on a GPU holds from byte `start` on."""
    source = buffer.pointer + start
    buffer.stream.copy(out.ctypes.data, source, out.nbytes, TO_HOST, buffer.purpose)
    buffer.stream.finish()


def upload(buffer: DeviceBuffer, values: NDArray[Any]) -> None:
    """Write a C-ordered array to the beginning of a buffer on a GPU; it may change afterwards."""
    buffer.stream.copy(buffer.pointer, values.ctypes.data, values.nbytes, TO_DEVICE, buffer.purpose)


def _strided(buffer: DeviceBuffer, offset: int, pitch: int, width: int, height: int) -> NDArray[np.uint8]:
    if offset + pitch * (height - 1) + width > buffer.size:
        raise IndexError(
            f"{height} runs of {width} bytes from {offset} leave a buffer of {buffer.size} bytes"
        )
    # as_strided takes 13 times as long, and a thousand rows are copied where prompts have many responses
    return np.ndarray((height, width), np.uint8, buffer.view(), offset, (pitch, 1))


def give_back_freed() -> None:
    """Return freed memory to the system, if the C library supports it (glibc).

    Opening a graph reads, rewrites and tries it; of the memory for that, twice a small model's weights would
    stay with the process.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda keep: None)
        trim(0)


def keep_freed(learner: object) -> None:
    """Keep freed memory for later arrays while `learner` is there, if the C library can be told to (glibc).

    A step of learning takes again what the one before it has freed; of memory that is new to the process,
    each page is zeroed first, which takes up to a fifth of the time of long rows. Variables `MALLOC_...` of
    the user hold instead. After the last learner the process gives back what is free.
    """
    if sys.platform == "linux" and not any(name.startswith("MALLOC_") for name in os.environ):
        _learners.add(learner)
        weakref.finalize(learner, _keep_no_more).atexit = False
        _tell_malloc(_KEEP)


def _keep_no_more() -> None:
    if not list(_learners):
        _tell_malloc(_KEEP_NO_MORE)
        give_back_freed()


def _tell_malloc(options: Mapping[int, int]) -> None:
    tell = getattr(ctypes.CDLL(None), "mallopt", lambda option, value: None)
    for option, value in options.items():
        tell(option, value)
