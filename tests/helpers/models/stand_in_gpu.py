"""Stands for a GPU: its memory is the host's, and what would be copied to it is copied at the same moment."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.models.decoder_graphs import FakeBinding, FakeSession
from numpy.typing import NDArray

from lite.models.decoder import memory

onnxruntime = pytest.importorskip("onnxruntime")


class HostRuntime:
    """The calls of the CUDA runtime that are used, on host memory."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def cudaSetDevice(self, index: int) -> int:
        self.calls.append(f"set {index}")
        return 0

    def cudaMemcpy2D(
        self, to: Any, pitch: Any, source: Any, source_pitch: Any, width: Any, height: Any, kind: int
    ) -> int:
        assert kind == 3
        for line in range(height.value):
            ctypes.memmove(
                to.value + line * pitch.value, source.value + line * source_pitch.value, width.value
            )
        self.calls.append("copy")
        return 0

    def cudaMemset(self, at: Any, value: int, size: Any) -> int:
        ctypes.memset(at.value, value, size.value)
        self.calls.append("set memory")
        return 0

    def cudaDeviceSynchronize(self) -> int:
        self.calls.append("synchronise")
        return 0


class DeviceValue:
    """An OrtValue of bytes on the GPU; `there` are those that are alive, by address."""

    there: ClassVar[dict[int, int]] = {}

    def __init__(self, size: int) -> None:
        self._memory = np.full(size, 0x7F, np.uint8)  # not zeros, which might be right by chance
        self.there[self.data_ptr()] = size

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape: list[int], dtype: Any, kind: str, index: int) -> Any:
        if kind == "cpu":
            return onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, dtype, kind, index)
        assert (kind, index, dtype) == ("cuda", 1, np.uint8)
        return cls(*shape)

    def data_ptr(self) -> int:
        return int(self._memory.ctypes.data)

    def __del__(self) -> None:
        del self.there[self.data_ptr()]


class DeviceBinding(FakeBinding):
    """Inputs on the CPU are copied to the GPU when they are bound; later changes of them do not get there."""

    def __init__(self) -> None:
        super().__init__()
        self._copies: dict[str, NDArray[np.uint8]] = {}

    def bind_input(
        self, name: str, device: str, index: int, dtype: Any, shape: list[int], pointer: int
    ) -> None:
        if device == "cpu":
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            self._copies[name] = np.frombuffer(ctypes.string_at(pointer, size), np.uint8).copy()
            pointer = self._copies[name].ctypes.data
        else:
            on_device(device, index, pointer)
        super().bind_input(name, device, index, dtype, shape, pointer)

    def bind_output(
        self, name: str, device: str, index: int, dtype: Any, shape: list[int], pointer: int
    ) -> None:
        if name == "logits":
            assert device == "cpu"
        else:
            on_device(device, index, pointer)
        super().bind_output(name, device, index, dtype, shape, pointer)


def on_device(device: str, index: int, pointer: int) -> None:
    assert (device, index) == ("cuda", 1)
    assert any(start <= pointer <= start + size for start, size in DeviceValue.there.items())


class DeviceSession(FakeSession):
    """The fake graph on the GPU."""

    def io_binding(self) -> DeviceBinding:
        return DeviceBinding()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> HostRuntime:
    """The device "cuda:1"."""
    runtime = HostRuntime()
    monkeypatch.setattr(memory, "_cuda_runtime", lambda: runtime)
    monkeypatch.setattr(memory, "import_onnxruntime", lambda: SimpleNamespace(OrtValue=DeviceValue))
    return runtime
