"""Stands for a GPU: its memory is the host's, and what would be copied to it is copied at the same moment."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import onnxruntime
import pytest
from helpers.models import decoder_graphs
from helpers.models.decoder_graphs import FakeBinding, FakeSession
from numpy.typing import NDArray

from lite.models import ModelConfig, OnnxDecoder
from lite.models.decoder import device_logits, memory, opening
from lite.models.decoder.device_logits import DeviceLogits
from lite.models.generation import sampling
from lite.models.graph import cuda_stream

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
INDEX = 0 if SIMULATED else 1  # Numba's simulator has one GPU
NAME = f"cuda:{INDEX}"


class HostRuntime:
    """The calls of the CUDA runtime that are used, on host memory.

    What is queued on a stream runs when that stream is waited for, and not before; the default stream waits
    for all others, as for streams made by `cudaStreamCreate`.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.queues: dict[int, list[Callable[[], Any]]] = {}

    def cudaGetErrorString(self, code: int) -> bytes:
        return {2: b"out of memory", 100: b"no CUDA-capable device is detected"}.get(code, b"")

    def cudaSetDevice(self, index: int) -> int:
        self.calls.append(f"set {index}")
        return 0

    def cudaStreamCreate(self, made: Any) -> int:
        made._obj.value = 100 + len(self.queues)
        self.queues[made._obj.value] = []
        self.calls.append("make a stream")
        return 0

    def cudaMemcpy2DAsync(
        self, to: Any, pitch: Any, source: Any, source_pitch: Any, width: Any, height: Any, kind: int,
        stream: Any,
    ) -> int:  # fmt: skip
        assert kind == 3

        def copy() -> None:
            for line in range(height.value):
                ctypes.memmove(
                    to.value + line * pitch.value, source.value + line * source_pitch.value, width.value
                )

        self.queue(copy, stream.value)
        self.calls.append("copy")
        return 0

    def cudaMemcpyAsync(self, to: Any, source: Any, size: Any, kind: int, stream: Any) -> int:
        staged = ctypes.string_at(source.value, size.value) if kind == 1 else b""  # the array may change

        def copy() -> None:
            ctypes.memmove(to.value, staged or source.value, size.value)

        self.queue(copy, stream.value)
        self.calls.append({1: "upload", 2: "fetch", 3: "copy"}[kind])
        return 0

    def cudaMemsetAsync(self, at: Any, value: int, size: Any, stream: Any) -> int:
        self.queue(functools.partial(ctypes.memset, at.value, value, size.value), stream.value)
        self.calls.append("set memory")
        return 0

    def cudaStreamSynchronize(self, stream: Any) -> int:
        self.drain(stream.value)
        self.calls.append("wait")
        return 0

    def cudaDeviceSynchronize(self) -> int:
        self.drain(None)
        self.calls.append("synchronise")
        return 0

    def queue(self, work: Callable[[], Any], handle: int | None) -> None:
        if handle is None:
            self.drain(None)
            work()
        else:
            self.queues[handle].append(work)

    def drain(self, handle: int | None) -> None:
        """Run what is queued on a stream, or on all."""
        for queue in self.queues.values() if handle is None else [self.queues[handle]]:
            while queue:
                queue.pop(0)()


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
        self.there.pop(self._pointer, None)


class DeviceBinding(FakeBinding):
    """Inputs on the CPU are copied to the GPU when they are bound; later changes of them do not get there."""

    def __init__(self, runtime: HostRuntime | None = None) -> None:
        super().__init__()
        self.places: dict[str, str] = {}
        self._runtime = runtime
        self._copies: dict[str, NDArray[np.uint8]] = {}

    def bind_input(
        self, name: str, device: str, index: int, dtype: Any, shape: list[int], pointer: int
    ) -> None:
        if device == "cpu":
            if self._runtime is not None:
                self._runtime.drain(None)  # the copy is on the default stream
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            self._copies[name] = np.frombuffer(ctypes.string_at(pointer, size), np.uint8).copy()
            pointer = self._copies[name].ctypes.data
        else:
            on_device(device, index, pointer)
        self.places[name] = device
        super().bind_input(name, device, index, dtype, shape, pointer)

    def bind_output(
        self, name: str, device: str, index: int, dtype: Any, shape: list[int], pointer: int
    ) -> None:
        on_device(device, index, pointer)
        super().bind_output(name, device, index, dtype, shape, pointer)


def on_device(device: str, index: int, pointer: int) -> None:
    assert (device, index) == ("cuda", INDEX)
    assert any(start <= pointer <= start + size for start, size in DeviceValue.there.items())


class DeviceSession(FakeSession):
    """The fake graph on the GPU.

    With a stream it is queued there, and waited for; what is captured is replayed from and to the addresses
    of its first run.

    Attributes:
        how: what the session was opened with.
        numbers: under which runs were captured or not; None without options for that.
        replays: of captured runs.
        captured: inputs and outputs by number.
    """

    def __init__(self, runtime: HostRuntime | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.runtime = runtime
        self.how: dict[str, Any] = {}
        self.numbers: list[str | None] = []
        self.replays = 0
        self.captured: dict[str, Any] = {}
        self.on_cpu: set[str] = set()  # inputs that are read there

    def io_binding(self) -> DeviceBinding:
        return DeviceBinding(self.runtime)

    def run_with_iobinding(self, binding: Any, options: Any = None) -> None:
        stream = self.how.get("stream")
        if stream is None:
            super().run_with_iobinding(binding)
            return
        assert self.runtime is not None
        number = options.get_run_config_entry("gpu_graph_id") if self.how["cuda_graphs"] else None
        self.numbers.append(number)
        bound = SimpleNamespace(inputs=dict(binding.inputs), outputs=dict(binding.outputs))
        times = 1
        if number not in (None, "-1"):
            assert set(binding.places.values()) == {"cuda"}
            times = 1 if number in self.captured else 3
            self.replays += number in self.captured
            bound = self.captured.setdefault(number, bound)
        for _ in range(times):
            self.runtime.queue(functools.partial(super().run_with_iobinding, bound), stream.handle)
        self.runtime.drain(stream.handle)  # as onnxruntime does at the end of a run

    def get_input_memory_infos(self) -> list[Any]:
        names = [arg.name for arg in self.get_inputs()]
        return [SimpleNamespace(name="Cpu" if name in self.on_cpu else "Cuda") for name in names]

    def release_captured_graph(self, number: int) -> None:
        del self.captured[str(number)]


def on_gpu(name: str, config: ModelConfig | None) -> tuple[OnnxDecoder, DeviceSession]:
    """A decoder like `decoder_graphs.make(name)` on the GPU, and the session of its steps."""
    options = dict(decoder_graphs.GRAPHS[name].options)
    pair = options.pop("pair", None)
    session = DeviceSession(**options)
    both = session if pair is None else (session, DeviceSession(**pair, prompts=True))
    return OnnxDecoder(config, session=both, device=NAME), session


def on_a_stream(
    name: str, runtime: HostRuntime, patch: pytest.MonkeyPatch, on_cpu: Sequence[str] = (), **arguments: Any
) -> tuple[OnnxDecoder, DeviceSession]:
    """The same with a session that is opened by the decoder, on a stream of its own.

    `on_cpu` are the inputs that operators on the CPU read.
    """
    session = DeviceSession(runtime, **decoder_graphs.GRAPHS[name].options)
    session.on_cpu.update(on_cpu)

    def opened(graph: Any, **how: Any) -> DeviceSession:
        session.how = how
        return session

    patch.setattr(opening, "check_cuda", lambda ort: None)
    patch.setattr(opening, "open_session", opened)
    config = decoder_graphs.make(name)[0].config
    return OnnxDecoder(config, device=NAME, gather_logits=False, **arguments), session


def check_steps(
    decoder: OnnxDecoder,
    rng: np.random.Generator,
    turns: int,
    after: Callable[[Sequence[int]], Any] = decoder_graphs.expected,
) -> None:
    """Rows that are forked, cut, left out and taken again give the logits of their tokens."""
    texts = [rng.integers(0, decoder.vocab_size, length).tolist() for length in (4, 2, 7)]
    for row, logits in enumerate(decoder.prefill_rows(range(3), texts)):
        np.testing.assert_allclose(logits, after(texts[row]), atol=5e-3)
    for turn in range(turns):
        rows = rng.permutation(3)[: rng.integers(1, 4)].tolist()
        for _ in range(int(rng.integers(1, 14))):
            if max(len(texts[row]) for row in rows) >= 60:
                break
            tokens = rng.integers(0, decoder.vocab_size, len(rows))
            logits = decoder.decode_unchecked(tokens, rows)
            assert isinstance(logits, DeviceLogits)
            for row, token, got in zip(rows, tokens, np.asarray(logits), strict=True):
                texts[row].append(int(token))
                np.testing.assert_allclose(got, after(texts[row]), atol=5e-3)
        if turn % 3 == 0:
            decoder.fork(1, 2)
            texts[2] = list(texts[1])
        elif turn % 3 == 1:
            decoder.truncate(0, 3)
            texts[0] = texts[0][:3]
        else:
            new = [[5, 6], [7]]
            cut = [min(len(texts[row]), 20) for row in (0, 1)]
            for row in (0, 1):
                decoder.truncate(row, cut[row])
                texts[row] = texts[row][: cut[row]] + new[row]
            for logits, row in zip(decoder.extend([0, 1], new), (0, 1), strict=True):
                ends = range(cut[row] + 1, len(texts[row]) + 1)
                want = [after(texts[row][:end]) for end in ends]
                np.testing.assert_allclose(logits, want, atol=5e-3)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostRuntime]:
    """The device `NAME`, of which Numba's simulator knows where it runs, and Numba itself never does."""
    DeviceValue.there.clear()
    gc.freeze()  # so that collecting looks only at what a test made, which takes a hundredth of the time
    runtime = HostRuntime()
    monkeypatch.setattr(cuda_stream, "cuda_runtime", lambda: runtime)
    monkeypatch.setattr(cuda_stream, "_idle", defaultdict(list))
    monkeypatch.setattr(memory, "import_onnxruntime", lambda: SimpleNamespace(OrtValue=DeviceValue))
    for module in (sampling, device_logits):
        monkeypatch.setattr(module, "drawn_on_gpus", lambda: SIMULATED)
    if SIMULATED:  # whose kernels run at once: what is queued on their stream runs before
        from lite.kernels.cuda import _gpu

        def stream_of(stream: Any) -> Any:
            if stream is not None:
                runtime.drain(stream)
                runtime.calls.append(f"kernels on {stream}")
            return 0

        monkeypatch.setattr(_gpu, "_stream", stream_of)
    yield runtime
    gc.collect()  # what still waits for its stream does so here
    gc.unfreeze()
