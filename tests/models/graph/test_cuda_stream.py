"""Streams of GPUs, with a stand-in for the CUDA runtime."""

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.models.stand_in_gpu import HostRuntime

from lite.models.graph import cuda_stream
from lite.models.graph.cuda_stream import ON_DEVICE, TO_DEVICE, TO_HOST, CudaStream


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> HostRuntime:
    runtime = HostRuntime()
    monkeypatch.setattr(cuda_stream, "cuda_runtime", lambda: runtime)
    monkeypatch.setattr(cuda_stream, "_idle", {0: [], 3: []})
    return runtime


def test_each_has_a_stream_of_its_own_and_streams_are_used_again(runtime: HostRuntime) -> None:
    one, other = CudaStream.create(3), CudaStream.create(3)
    assert one.handle != other.handle
    assert one.index == 3
    assert runtime.calls == ["set 3", "make a stream"] * 2
    handle = one.handle
    del one
    assert CudaStream.create(3).handle == handle
    assert CudaStream.create(0).handle not in (handle, other.handle)
    assert runtime.calls.count("make a stream") == 3


def test_copies_are_in_order_and_wait_for_nothing(runtime: HostRuntime) -> None:
    source, middle, target = np.arange(6.0), np.zeros(6), np.zeros(6)
    at = [array.ctypes.data for array in (source, middle, target)]
    stream = CudaStream.create(0)
    stream.copy(at[1], at[0], 48, TO_DEVICE, "numbers")
    source[:] = -1  # staged before
    stream.copy_2d(at[2], 24, at[1], 24, 8, 2, "numbers")
    stream.copy(at[2] + 8, at[1] + 8, 8, ON_DEVICE, "numbers")
    assert not target.any()
    assert stream.queued
    stream.finish()
    np.testing.assert_array_equal(target, [0, 1, 0, 3, 0, 0])
    assert not stream.queued
    stream.clear(at[2], 16, "numbers")
    stream.copy(at[0], at[2], 48, TO_HOST, "numbers")
    stream.finish()
    np.testing.assert_array_equal(source, [0, 0, 0, 3, 0, 0])
    assert "synchronise" not in runtime.calls


def test_without_a_handle_the_device_is_waited_for(runtime: HostRuntime) -> None:
    stream = CudaStream(0)
    stream.finish()
    assert runtime.calls[-1] == "synchronise"


ERRORS_SAY_WHAT_FAILED: list[tuple[str, str, Callable[[], Any]]] = [
    ("cudaStreamCreate", "cannot make a stream on GPU 3: CUDA error 2", lambda: CudaStream.create(3)),
    ("cudaMemcpyAsync", "copying 1,234 bytes of keys from the GPU to the host failed: CUDA error 2",
        lambda: CudaStream(3, 100).copy(0, 0, 1234, TO_HOST, "keys")),
    ("cudaMemcpy2DAsync", "copying 6 bytes of keys on the GPU failed: CUDA error 2",
        lambda: CudaStream(3, 100).copy_2d(0, 4, 0, 4, 3, 2, "keys")),
    ("cudaStreamSynchronize", "waiting for the GPU failed", lambda: CudaStream(3, 100).finish()),
    ("cudaDeviceSynchronize", "waiting for the GPU failed", lambda: CudaStream(3).finish()),
    ("cudaMemsetAsync", "clearing 9 bytes of keys on the GPU failed: CUDA error 2",
        lambda: CudaStream(3, 100).clear(0, 9, "keys")),
    ("cudaSetDevice", "choosing the GPU failed", lambda: CudaStream(3, 100).clear(0, 9, "keys")),
]  # fmt: skip


def test_errors_say_what_failed(runtime: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    for call, words, what in ERRORS_SAY_WHAT_FAILED:
        monkeypatch.setattr(runtime, call, lambda *args: 2)
        with pytest.raises(RuntimeError, match=words) as raised:
            what()
        assert str(raised.value).endswith("CUDA error 2 (out of memory)"), call


def test_a_machine_without_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, mode: int) -> None:
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", missing)
    with pytest.raises(RuntimeError, match=r"cannot find the CUDA runtime library \(libcudart\.so\.13"):
        cuda_stream.cuda_runtime.__wrapped__()


def test_the_library_that_is_loaded_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not a newer one that is installed, too."""
    asked: list[tuple[str, int]] = []

    def library(name: str, mode: int) -> SimpleNamespace:
        asked.append((name, mode))
        if name != "libcudart.so.12" or not mode & os.RTLD_NOLOAD:
            raise OSError(name)
        return SimpleNamespace(name=name, cudaGetErrorString=SimpleNamespace())

    monkeypatch.setattr("ctypes.CDLL", library)
    assert cuda_stream.cuda_runtime.__wrapped__().name == "libcudart.so.12"
    assert [name for name, _ in asked] == ["libcudart.so.13", "libcudart.so.12"]
