"""Exports of language models: the same numbers as onnxruntime, and gradients that reach its weights."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from helpers.models.real_models import MODELS

from lite import TensorDict, nn, value_and_grad
from lite._files.onnx import wire

# One of each exporter, architecture and kind of weights, and forms of caches.
FILES = [
    *("optimum-gpt2/model", "optimum-llama/model", "genai-qwen2-int4/model", "genai-lfm2/model"),
    *("genai-phi3-longrope/model", "torch-phi3-longrope/model", "exporter-llama-static/prefill"),
    *("handmade-slots-int4/model", "handmade-slots-int8/model", "handmade-slots-half/model"),
    *("handmade-slots-window/model", "handmade-last-logits/model"),
]
RUNS = ((0, 2, 3), (5, 2, 1), (4, 1, 3))  # tokens in the cache, rows, new tokens


def inputs_of(session: Any, past: int, rows: int, tokens: int) -> dict[str, np.ndarray]:
    """Values for the inputs of a decoder by their names."""
    rng, found = np.random.default_rng(0), {}
    for given in session.get_inputs():
        name, shape = given.name, []
        is_cache = "past" in name or "cache" in name
        for axis, size in enumerate(given.shape):
            rest = 16 if axis == 3 else past
            dynamic = rest if is_cache else past + tokens if "mask" in name else tokens
            shape.append(size if isinstance(size, int) else rows if axis == 0 else dynamic)
        if "seqlens" in name:
            value = np.full(shape, past + tokens - 1)
        elif "total_seq" in name:
            value = np.full(shape, past + tokens)
        elif "mask" in name:
            value = np.ones(shape)
        elif "position" in name:
            value = np.arange(past, past + tokens) + np.zeros(shape)
        elif given.type == "tensor(int64)":
            value = rng.integers(0, 50, shape)
        elif given.type in ("tensor(int8)", "tensor(uint8)"):
            value = np.zeros(shape)
        else:
            value = rng.normal(size=shape)
        found[name] = value.astype(TYPES[given.type])
    return found


TYPES = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
    "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8,
}  # fmt: skip


def exact(path: Path) -> bytes:
    """The model without the rounding of activations to 8 bits (accuracy level 4), which a runtime may do."""
    return path.read_bytes().replace(
        wire.text(1, "accuracy_level") + wire.integer(3, 4),
        wire.text(1, "accuracy_level") + wire.integer(3, 1),
    )


@pytest.mark.parametrize("name", FILES)
def test_the_same_numbers_as_onnxruntime(name: str) -> None:
    path = MODELS / f"{name}.onnx"
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    session = ort.InferenceSession(exact(path), options, providers=["CPUExecutionProvider"])
    net = nn.from_onnx(path)
    half = any("float16" in one.type for one in session.get_outputs())
    runs = 0
    for run in RUNS:
        try:
            inputs = inputs_of(session, *run)
            wanted = session.run(None, inputs)
        except Exception:  # of fixed sizes
            continue
        runs += 1
        found = net(**inputs)
        for a, b in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a.astype(np.float32), b, atol=0.1 if half else 1e-4)
    assert runs


def test_a_cache_as_long_as_its_window() -> None:
    path = MODELS / "handmade-slots-windowed" / "model.onnx"
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    net = nn.from_onnx(path)
    inputs = inputs_of(session, 50, 2, 1)
    inputs["attention_mask"] = np.ones((2, 20), np.int64)
    inputs["position_ids"] = np.full((2, 1), 19)
    for a, b in zip(net(**inputs), session.run(None, inputs), strict=True):
        written = slice(20 if a.ndim == 4 else None)  # what stands behind them nobody reads
        np.testing.assert_allclose(a[:, :, written], b[:, :, written], atol=1e-4)


def test_the_loss_of_tokens_reaches_every_weight() -> None:
    path = MODELS / "genai-llama-fp32" / "model.onnx"
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    net = nn.from_onnx(path, outputs=["logits"])
    params = TensorDict.from_module(net)
    inputs = inputs_of(session, 0, 2, 3)

    def loss(params: Any) -> Any:
        with params.to_module(net):
            return (net(**inputs) ** 2).mean()

    _, grads = value_and_grad(loss)(params)
    learn = {name for name, p in net.named_parameters() if p.requires_grad}
    assert len(learn) > 15
    for key, g in grads.items(True, True):
        name = key if isinstance(key, str) else ".".join(key)
        assert np.any(g) or name not in learn, name


def test_attention_that_an_exporter_spells_out_is_one_step() -> None:
    net = nn.from_onnx(MODELS / "optimum-llama" / "model.onnx", outputs=["logits"])
    assert sum(step.op == "Attention" for step in net._source.program.steps) == 2
