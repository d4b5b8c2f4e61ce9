"""Memory for the key/value cache and logits, on the device where the graph runs, allocated by onnxruntime.

A buffer is a flat OrtValue of bytes: the graph sees parts of it, of any shape, bound by pointer, so a cache
can change shape without being copied and types without a NumPy dtype (bfloat16) need no special case.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.models.graph.session import import_onnxruntime


class DeviceBuffer:
    """`size` bytes on a device.

    Args:
        size: in bytes.
        device: `"cpu"` or `"cuda"`.
        index: which GPU.
        purpose: what the bytes are for, for errors.

    Raises:
        MemoryError: if the device has no room; the message gives the size.
    """

    def __init__(
        self, size: int, device: str = "cpu", index: int = 0, purpose: str = "key/value cache"
    ) -> None:
        ort = import_onnxruntime()
        self.size = size
        self.device = device
        self.index = index
        try:
            self.value: Any = ort.OrtValue.ortvalue_from_shape_and_type(
                [max(size, 1)], np.uint8, device, index
            )
        except Exception as error:
            raise MemoryError(f"cannot allocate {size:,} bytes of {purpose} on {device}: {error}") from error
        self.pointer: int = self.value.data_ptr()

    def view(self) -> NDArray[np.uint8]:
        """The bytes of a CPU buffer as a writable array that shares its memory.

        Through the address, as `OrtValue.numpy()` copies in older versions of onnxruntime. The caller keeps
        the buffer alive while it uses the array.
        """
        if self.device != "cpu":
            raise TypeError(f"a buffer on {self.device} has no NumPy view")
        return np.ctypeslib.as_array((ctypes.c_uint8 * max(self.size, 1)).from_address(self.pointer))

    def zero(self) -> None:
        """Set every byte to 0: what is masked is still multiplied, so it must be finite."""
        if self.device == "cpu":
            self.view()[:] = 0
            return
        runtime = _cuda_runtime()
        code = runtime.cudaSetDevice(self.index) or runtime.cudaMemset(
            ctypes.c_void_p(self.pointer), 0, ctypes.c_size_t(self.size)
        )
        if code or runtime.cudaDeviceSynchronize():
            raise RuntimeError(
                f"clearing {self.size:,} bytes of key/value cache on the GPU failed: CUDA error {code}"
            )


def copy_runs(
    source: DeviceBuffer,
    source_offset: int,
    source_pitch: int,
    target: DeviceBuffer,
    target_offset: int,
    target_pitch: int,
    width: int,
    height: int,
) -> None:
    """Copy `height` runs of `width` bytes, each beginning `pitch` bytes after the one before it.

    This is how one row of a cache (heads x length x head size) moves between buffers of different capacity.
    It is done on the device; on the CPU between views of the two OrtValues' own memory.
    """
    if width == 0 or height == 0:
        return
    if source.device == "cpu":
        from_ = _strided(source, source_offset, source_pitch, width, height)
        np.copyto(_strided(target, target_offset, target_pitch, width, height), from_)
        return
    runtime = _cuda_runtime()
    code = runtime.cudaSetDevice(target.index) or runtime.cudaMemcpy2D(
        ctypes.c_void_p(target.pointer + target_offset),
        ctypes.c_size_t(target_pitch),
        ctypes.c_void_p(source.pointer + source_offset),
        ctypes.c_size_t(source_pitch),
        ctypes.c_size_t(width),
        ctypes.c_size_t(height),
        3,  # device to device
    )
    code = code or runtime.cudaDeviceSynchronize()  # onnxruntime works on a stream of its own
    if code:
        raise RuntimeError(
            f"copying {width * height:,} bytes of key/value cache on the GPU failed: CUDA error {code}"
        )


def copy_pieces(
    source: DeviceBuffer, target: DeviceBuffer, pieces: Sequence[tuple[int, int]], size: int
) -> None:
    """Copy pieces of `size` bytes each, given by where they begin in both buffers, on their GPU."""
    runtime = _cuda_runtime()
    code = runtime.cudaSetDevice(target.index)
    for begin, place in pieces:
        code = code or runtime.cudaMemcpy(
            ctypes.c_void_p(target.pointer + place),
            ctypes.c_void_p(source.pointer + begin),
            ctypes.c_size_t(size),
            3,  # device to device
        )
    code = code or runtime.cudaDeviceSynchronize()
    if code:
        raise RuntimeError(
            f"copying {len(pieces) * size:,} bytes of logits on the GPU failed: CUDA error {code}"
        )


def fetch(buffer: DeviceBuffer, out: NDArray[Any]) -> None:
    """Fill a C-ordered array with what a buffer on a GPU begins with."""
    runtime = _cuda_runtime()
    code = runtime.cudaSetDevice(buffer.index) or runtime.cudaMemcpy(
        ctypes.c_void_p(out.ctypes.data),
        ctypes.c_void_p(buffer.pointer),
        ctypes.c_size_t(out.nbytes),
        2,  # device to host, which waits for the copy
    )
    if code:
        raise RuntimeError(
            f"copying {out.nbytes:,} bytes of logits from the GPU to the host failed: CUDA error {code}"
        )


def _strided(buffer: DeviceBuffer, offset: int, pitch: int, width: int, height: int) -> NDArray[np.uint8]:
    if offset + pitch * (height - 1) + width > buffer.size:
        raise IndexError(
            f"{height} runs of {width} bytes from {offset} leave a buffer of {buffer.size} bytes"
        )
    return np.lib.stride_tricks.as_strided(buffer.view()[offset:], (height, width), (pitch, 1))


def _cuda_runtime() -> Any:
    """The CUDA runtime library that onnxruntime's CUDA provider has already loaded into the process."""
    names = [f"libcudart.so.{major}" for major in (13, 12, 11)] + ["cudart64_13.dll", "cudart64_12.dll"]
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError(f"cannot find the CUDA runtime library ({', '.join(names)})")
