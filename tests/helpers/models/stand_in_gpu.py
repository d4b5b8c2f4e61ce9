"""Stands for a GPU: its memory is the host's, and what would be copied to it is copied at the same moment."""

from __future__ import annotations

import ctypes
import os
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.models import decoder_graphs
from helpers.models.decoder_graphs import FakeBinding, FakeSession
from numpy.typing import NDArray

from lite.models import ModelConfig, OnnxDecoder
from lite.models.decoder import memory
from lite.models.generation import sampling

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
INDEX = 0 if SIMULATED else 1  # Numba's simulator has one GPU
NAME = f"cuda:{INDEX}"

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

    def cudaMemcpy(self, to: Any, source: Any, size: Any, kind: int) -> int:
        ctypes.memmove(to.value, source.value, size.value)
        self.calls.append({2: "fetch", 3: "copy"}[kind])
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
        self._pointer = int(self._memory.ctypes.data)
        self.there[self._pointer] = size

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape: list[int], dtype: Any, kind: str, index: int) -> Any:
        if kind == "cpu":
            return onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, dtype, kind, index)
        assert (kind, index, dtype) == ("cuda", INDEX, np.uint8)
        return cls(*shape)

    def data_ptr(self) -> int:
        return self._pointer

    def __del__(self) -> None:
        del self.there[self._pointer]


class DeviceBinding(FakeBinding):
    """Inputs on the CPU are copied to the GPU when they are bound; later changes of them do not get there."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, str] = {}  # of outputs
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
        if device == "cpu":
            assert name == "logits"
        else:
            on_device(device, index, pointer)
        self.places[name] = device
        super().bind_output(name, device, index, dtype, shape, pointer)


def on_device(device: str, index: int, pointer: int) -> None:
    assert (device, index) == ("cuda", INDEX)
    assert any(start <= pointer <= start + size for start, size in DeviceValue.there.items())


class DeviceSession(FakeSession):
    """The fake graph on the GPU; `to_host` counts the runs that copy their logits to the host."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.to_host = 0

    def io_binding(self) -> DeviceBinding:
        return DeviceBinding()

    def run_with_iobinding(self, binding: Any) -> None:
        super().run_with_iobinding(binding)
        self.to_host += binding.places["logits"] == "cpu"


def on_gpu(name: str, config: ModelConfig | None) -> tuple[OnnxDecoder, DeviceSession]:
    """A decoder like `decoder_graphs.make(name)` on the GPU, and the session of its steps."""
    options = dict(decoder_graphs.GRAPHS[name].options)
    pair = options.pop("pair", None)
    session = DeviceSession(**options)
    both = session if pair is None else (session, DeviceSession(**pair, prompts=True))
    return OnnxDecoder(config, session=both, device=NAME), session


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> HostRuntime:
    """The device `NAME`, of which Numba's simulator knows where it runs, and Numba itself never does."""
    runtime = HostRuntime()
    monkeypatch.setattr(memory, "_cuda_runtime", lambda: runtime)
    monkeypatch.setattr(memory, "import_onnxruntime", lambda: SimpleNamespace(OrtValue=DeviceValue))
    monkeypatch.setattr(sampling, "drawn_on_gpus", lambda: SIMULATED)
    return runtime
