"""CUDA streams of sessions.

Each session that lite opens on a GPU gets its own stream by onnxruntime's option `user_compute_stream`. Runs,
copies of the cache and sampling kernels are queued on that stream, so they run in order without waits for
the whole device, and the host waits only for what it reads.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import weakref
from collections import defaultdict
from typing import Any

_idle: defaultdict[int, list[int]] = defaultdict(list)  # handles of unused streams by GPU
_lock = threading.Lock()
TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3  # kinds of copies


class CudaStream:
    """A stream of one GPU, and the copies on it.

    Without a handle it is for a session that other code opened, whose stream is unknown: onnxruntime
    synchronizes that stream after each run, copies use the default stream, and `finish` synchronizes the
    device.

    Args:
        index: number of the GPU.
        handle: a stream of the CUDA runtime.

    Attributes:
        index, handle: as given.
        queued: whether work was queued since the last `finish`.
    """

    def __init__(self, index: int, handle: int | None = None) -> None:
        self.index = index
        self.handle = handle
        self.queued = False

    @classmethod
    def create(cls, index: int) -> CudaStream:
        """A stream that is not in use.

        CUDA streams are reused and never destroyed, as a session may outlive this object.

        Raises:
            RuntimeError: the CUDA runtime is missing, or creates no stream.
        """
        with _lock:
            handle = _idle[index].pop() if _idle[index] else None
        if handle is None:
            runtime, created = cuda_runtime(), ctypes.c_void_p()
            # Such a stream waits for the default stream, on which onnxruntime may copy inputs.
            code = runtime.cudaSetDevice(index) or runtime.cudaStreamCreate(ctypes.byref(created))
            if code or not created.value:
                raise RuntimeError(f"cannot make a stream on GPU {index}: {_error(runtime, code)}")
            handle = created.value
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
            ctypes.c_void_p(target),
            ctypes.c_size_t(target_pitch),
            ctypes.c_void_p(source),
            ctypes.c_size_t(source_pitch),
            ctypes.c_size_t(width),
            ctypes.c_size_t(height),
            ON_DEVICE,
            self._argument(),
        )
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
    description: bytes = runtime.cudaGetErrorString(code)
    return f"CUDA error {code} ({description.decode()})"


_WHERE = {TO_DEVICE: "to the GPU", TO_HOST: "from the GPU to the host", ON_DEVICE: "on the GPU"}


@functools.cache
def cuda_runtime() -> Any:
    """The CUDA runtime library: the one that the process has loaded (onnxruntime's), else any."""
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
