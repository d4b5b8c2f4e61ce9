"""Opening sessions: devices, threads, and errors that say what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers.models.real_models import MODELS

from lite.models.graph.session import default_threads, import_onnxruntime, open_session, parse_device

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
