"""Opening sessions: devices, threads, and errors that say what to do."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.models.real_models import MODELS

from lite.models import OnnxDecoder, OnnxModule
from lite.models.decoder import binding
from lite.models.graph import call
from lite.models.graph.session import (
    _stopped_after,
    default_threads,
    import_onnxruntime,
    open_session,
    parse_device,
)

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize(
    ("text", "parsed"), [("cpu", ("cpu", 0)), ("cuda", ("cuda", 0)), ("cuda:3", ("cuda", 3))]
)
def test_devices(text: str, parsed: tuple[str, int]) -> None:
    assert parse_device(text) == parsed


@pytest.mark.parametrize("text", ["gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:x", ""])
def test_unknown_devices(text: str) -> None:
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' or 'cuda:N'"):
        parse_device(text)


def test_threads() -> None:
    assert default_threads() >= 1
    with pytest.raises(TypeError, match="num_threads must be an integer, got '2'"):
        open_session(MODELS / "optimum-llama" / "model.onnx", num_threads="2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_threads must be at least 1, got 0"):
        open_session(MODELS / "optimum-llama" / "model.onnx", num_threads=0)


def test_without_onnxruntime_the_command_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r'pip install "tensordict-lite\[llm\]"'):
        import_onnxruntime()


def test_cuda_without_a_gpu_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(RuntimeError, match=r"needs a GPU build of onnxruntime.*pip install"):
        open_session(MODELS / "optimum-llama" / "model.onnx", device="cuda")


def test_cuda_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: providers)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)
    real = onnxruntime.InferenceSession
    # a GPU build that finds no GPU warns and falls back to the CPU
    monkeypatch.setattr(
        onnxruntime,
        "InferenceSession",
        lambda path, options, providers: real(path, options, ["CPUExecutionProvider"]),
    )
    with pytest.raises(RuntimeError, match="fell back to the CPU"):
        open_session(MODELS / "optimum-llama" / "model.onnx", device="cuda:0")


def test_a_damaged_graph_is_a_value_error(tmp_path: Path) -> None:
    whole = (MODELS / "optimum-llama" / "model.onnx").read_bytes()
    (tmp_path / "model.onnx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cannot load .*model\.onnx"):
        open_session(tmp_path / "model.onnx")


def test_the_device_follows_from_the_providers() -> None:
    from lite.models.graph.session import SessionOptions

    cuda = ("CUDAExecutionProvider", {"device_id": 2})
    assert SessionOptions.from_arguments(None, [cuda, "CPUExecutionProvider"], None).device == "cuda:2"
    assert SessionOptions.from_arguments("cuda:2", [cuda], None).device == "cuda:2"
    assert SessionOptions.from_arguments(None, ["CUDAExecutionProvider"], None).device == "cuda"


# -- graphs that never end ---------------------------------------------------------------------------

ENDLESS = Path(__file__).parents[1] / "graphs" / "endless.onnx"
"""`logits` of 8 tokens are those of a loop of 2^62 rounds."""


def test_a_decoder_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "FIRST_RUN_SECONDS", 0.2)
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"may never end: its run took over 2\.2 seconds"):
        OnnxDecoder(ENDLESS, num_threads=1)
    assert time.monotonic() - start < 30


def test_a_module_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "FIRST_RUN_SECONDS", 0.2)
    module = OnnxModule(ENDLESS)
    for _ in range(2):  # a run that was stopped is not the first one that has been
        with pytest.raises(TimeoutError, match="may never end"):
            module(np.ones((1, 2), np.int64))


def test_what_is_in_time_is_not_stopped() -> None:
    stopped = threading.Event()
    with _stopped_after(30, stopped.set, "loading"):
        pass
    with pytest.raises(ValueError, match="mine"), _stopped_after(30, stopped.set, "loading"):
        raise ValueError("mine")
    assert not stopped.is_set()

    def load() -> None:
        with _stopped_after(0.01, stopped.set, "loading"):
            stopped.wait(20)
            raise ValueError("stopped")

    with pytest.raises(TimeoutError, match=r"loading took over 0\.01 seconds"):
        load()
