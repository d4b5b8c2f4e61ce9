"""Streams of GPUs: on one, a session's runs, copies of its cache and the kernels that draw follow each other.

Each session that lite opens on a GPU gets a stream of its own by onnxruntime's option `user_compute_stream`,
and all else that touches the session's memory is queued on that stream, too. So nothing waits for the
whole device, and the host waits only for what it reads.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import weakref
from collections import defaultdict
from typing import Any

_idle: defaultdict[int, list[int]] = defaultdict(list)  # by GPU
_lock = threading.Lock()
TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3  # kinds of copies


class CudaStream:
    """A stream of one GPU, and the copies on it.

    Without a handle it stands for the stream of a session that somebody else opened, which nobody can name:
    onnxruntime waits for that one at the end of each run, copies are made on the default stream, and the
    device is waited for after them.

    Args:
        index: which GPU.
        handle: of a stream of the CUDA runtime.

    Attributes:
        index, handle: as given.
        queued: something was queued that has not been waited for since.
    """

    def __init__(self, index: int, handle: int | None = None) -> None:
        self.index = index
        self.handle = handle
        self.queued = False

    @classmethod
    def made(cls, index: int) -> CudaStream:
        """A stream that nobody else uses.

        It is never destroyed, as a session may outlive all that knows of its stream, but used again.

        Raises:
            RuntimeError: the CUDA runtime is not there, or makes no stream.
        """
        with _lock:
            handle = _idle[index].pop() if _idle[index] else None
        if handle is None:
            runtime, made = cuda_runtime(), ctypes.c_void_p()
            # waits for what others do on the default stream, such as onnxruntime's copies of inputs
            code = runtime.cudaSetDevice(index) or runtime.cudaStreamCreate(ctypes.byref(made))
            if code or not made.value:
                raise RuntimeError(f"cannot make a stream on GPU {index}: {_error(runtime, code)}")
            handle = made.value
        stream = cls(index, handle)
        weakref.finalize(stream, _idle[index].append, handle).atexit = False
        return stream

    def copy(self, target: int, source: int, size: int, kind: int, purpose: str) -> None:
        """Queue a copy of bytes between two addresses.

        Raises:
            RuntimeError: CUDA reports an error; the message has `purpose`, which says what is copied.
        """
        runtime = self._runtime()
        pointers = ctypes.c_void_p(target), ctypes.c_void_p(source)
        code = runtime.cudaMemcpyAsync(*pointers, ctypes.c_size_t(size), kind, self._argument())
        self._check(code, f"copying {size:,} bytes of {purpose} {_WHERE[kind]}")

    def copy_2d(
        self, target: int, target_pitch: int, source: int, source_pitch: int, width: int, height: int,
        purpose: str,
    ) -> None:  # fmt: skip
        """Queue a copy of `height` runs of `width` bytes on the device; raises as `copy`."""
        code = self._runtime().cudaMemcpy2DAsync(
            ctypes.c_void_p(target), ctypes.c_size_t(target_pitch), ctypes.c_void_p(source),
            ctypes.c_size_t(source_pitch), ctypes.c_size_t(width), ctypes.c_size_t(height), ON_DEVICE,
            self._argument(),
        )  # fmt: skip
        self._check(code, f"copying {width * height:,} bytes of {purpose} {_WHERE[ON_DEVICE]}")

    def clear(self, target: int, size: int, purpose: str) -> None:
        """Queue writing zeros; raises as `copy`."""
        code = self._runtime().cudaMemsetAsync(
            ctypes.c_void_p(target), 0, ctypes.c_size_t(size), self._argument()
        )
        self._check(code, f"clearing {size:,} bytes of {purpose} on the GPU")

    def finish(self) -> None:
        """Wait for all that is queued; raises as `copy`."""
        runtime = self._runtime()
        if self.handle is None:
            self._check(runtime.cudaDeviceSynchronize(), "waiting for the GPU")
        else:
            self._check(runtime.cudaStreamSynchronize(self._argument()), "waiting for the GPU")
        self.queued = False

    def _runtime(self) -> Any:
        self.queued = True
        runtime = cuda_runtime()
        self._check(runtime.cudaSetDevice(self.index), "choosing the GPU")
        return runtime

    def _argument(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.handle)

    @staticmethod
    def _check(code: int, what: str) -> None:
        if code:
            raise RuntimeError(f"{what} failed: {_error(cuda_runtime(), code)}")


def _error(runtime: Any, code: int) -> str:
    """The number of an error, and its description by CUDA."""
    said: bytes = runtime.cudaGetErrorString(code)
    return f"CUDA error {code} ({said.decode()})"


_WHERE = {TO_DEVICE: "to the GPU", TO_HOST: "from the GPU to the host", ON_DEVICE: "on the GPU"}


@functools.cache
def cuda_runtime() -> Any:
    """The CUDA runtime library that is in the process, as onnxruntime's CUDA provider loads one, or any."""
    names = [f"libcudart.so.{major}" for major in (13, 12, 11)] + ["cudart64_13.dll", "cudart64_12.dll"]
    loaded = getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_NOW", 0)
    for mode in (loaded, ctypes.DEFAULT_MODE):
        for name in names:
            try:
                runtime = ctypes.CDLL(name, mode=mode)
            except OSError:
                continue
            runtime.cudaGetErrorString.restype = ctypes.c_char_p
            return runtime
    raise RuntimeError(f"cannot find the CUDA runtime library ({', '.join(names)})")
