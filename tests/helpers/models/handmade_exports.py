"""Small decoder graphs of conventions that no exporter among the test models makes, and what they must give.

Run ``PYTHONPATH=tests python tests/helpers/models/handmade_exports.py`` (with onnx) to write their folders
and their entries in ``expected.json`` again. Weights are random, as the convention is under test and not
language; positions are learned, so that a wrong one shows. - `handmade-no-cache`: `input_ids`,
`attention_mask`, `position_ids` -> `logits`, as optimum's `--task text-generation` writes it. - `handmade-
last-logits`: past and present, and the logits of the last position only.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
from helpers.models.real_models import MODELS
from numpy.typing import NDArray

VOCABULARY, CONTEXT, WIDTH, LAYERS, HEADS = 512, 256, 32, 2, 2
SIZE = WIDTH // HEADS
NAMES = {"handmade-no-cache": False, "handmade-last-logits": True}  # whether there is a cache
CONFIG = {
    "architectures": ["GPT2LMHeadModel"],
    "bos_token_id": 0,
    "eos_token_id": 2,
    "model_type": "gpt2",
    "n_embd": WIDTH,
    "n_head": HEADS,
    "n_layer": LAYERS,
    "n_positions": CONTEXT,
    "pad_token_id": 3,
    "vocab_size": VOCABULARY,
}


def weights() -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    shapes = {"tokens": (VOCABULARY, WIDTH), "places": (CONTEXT, WIDTH), "out": (WIDTH, WIDTH)}
    for layer in range(LAYERS):
        shapes |= {f"{kind}.{layer}": (WIDTH, WIDTH) for kind in ("query", "key", "value", "attended")}
        shapes |= {f"up.{layer}": (WIDTH, 2 * WIDTH), f"down.{layer}": (2 * WIDTH, WIDTH)}
    values = {name: rng.standard_normal(shape) / np.sqrt(WIDTH) for name, shape in shapes.items()}
    values["out"] *= 3  # far enough apart that the best token is the best in float32
    return {name: (value * (2 if "." in name else 1)).astype(np.float32) for name, value in values.items()}


def logits(ids: Sequence[int]) -> NDArray[np.float64]:
    """After each token of one row, (L, V), in float64."""
    w = {name: value.astype(np.float64) for name, value in weights().items()}
    x = w["tokens"][ids] + w["places"][: len(ids)]

    def normal(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    for layer in range(LAYERS):
        y = normal(x)
        q, k, v = (
            (y @ w[f"{kind}.{layer}"]).reshape(-1, HEADS, SIZE).swapaxes(0, 1)
            for kind in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(1, 2) / np.sqrt(SIZE)
        scores = np.where(np.tri(len(ids), dtype=bool), scores, -np.inf)
        attention = np.exp(scores - scores.max(-1, keepdims=True))
        attention /= attention.sum(-1, keepdims=True)
        x = x + (attention @ v).swapaxes(0, 1).reshape(-1, WIDTH) @ w[f"attended.{layer}"]
        x = x + np.maximum(normal(x) @ w[f"up.{layer}"], 0) @ w[f"down.{layer}"]
    result: NDArray[np.float64] = normal(x) @ w["out"] @ w["tokens"].T
    return result


def graph(cache: bool) -> Any:
    """The model as an ``onnx.ModelProto``; with a cache it gives the last position's logits only."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants = weights() | {
        "ones": np.ones(WIDTH, np.float32),
        "scale": np.float32(SIZE**-0.5),
        "lowest": np.float32(-3e38),
        "heads": np.array([0, 0, HEADS, SIZE]),
        "flat": np.array([0, 0, WIDTH]),
        "zero": np.array(0),
        "one": np.array(1),
        "before": np.array([-1]),
        "axis.1": np.array([1]),
        "axes.12": np.array([1, 2]),
        "end": np.array([2**31]),
    }

    def add(kind: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        name = result or f"{kind}_{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def split(x: str, layer: int, kind: str) -> str:
        """(batch, heads, length, size), with what the cache holds in front."""
        parts = add("Reshape", add("MatMul", x, f"{kind}.{layer}"), "heads")
        new = add("Transpose", parts, perm=[0, 2, 1, 3])
        if not cache or kind == "query":
            return new
        past, present = f"past_key_values.{layer}.{kind}", f"present.{layer}.{kind}"
        return add("Concat", past, new, result=present, axis=2)

    def normal(x: str) -> str:
        return add("LayerNormalization", x, "ones", axis=-1, epsilon=1e-5)

    new = add("Gather", add("Shape", "input_ids"), "one")
    total = add("Gather", add("Shape", "attention_mask"), "one")
    rows = add("Range", add("Sub", total, new), total, "one")
    columns = add("Range", "zero", total, "one")
    causal = add("LessOrEqual", columns, add("Unsqueeze", rows, "axis.1"))
    exists = add("Unsqueeze", add("Cast", "attention_mask", to=TensorProto.BOOL), "axes.12")
    seen = add("And", causal, exists)
    x = add("Add", add("Gather", "tokens", "input_ids"), add("Gather", "places", "position_ids"))
    for layer in range(LAYERS):
        y = normal(x)
        q, k, v = (split(y, layer, kind) for kind in ("query", "key", "value"))
        scores = add("Mul", add("MatMul", q, add("Transpose", k, perm=[0, 1, 3, 2])), "scale")
        attention = add("Softmax", add("Where", seen, scores, "lowest"), axis=-1)
        mixed = add("Transpose", add("MatMul", attention, v), perm=[0, 2, 1, 3])
        x = add("Add", x, add("MatMul", add("Reshape", mixed, "flat"), f"attended.{layer}"))
        inner = add("Relu", add("MatMul", normal(x), f"up.{layer}"))
        x = add("Add", x, add("MatMul", inner, f"down.{layer}"))
    if cache:
        x = add("Slice", x, "before", "end", "axis.1")
    hidden = add("MatMul", normal(x), "out")
    add("MatMul", hidden, add("Transpose", "tokens", perm=[1, 0]), result="logits")

    def tensor(name: str, kind: int, *dims: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, dims)

    whole = "past_sequence_length + sequence_length" if cache else "sequence_length"
    inputs = [tensor("input_ids", TensorProto.INT64, "batch_size", "sequence_length")]
    inputs += [tensor("attention_mask", TensorProto.INT64, "batch_size", whole)]
    inputs += [tensor("position_ids", TensorProto.INT64, "batch_size", "sequence_length")]
    kept = 1 if cache else "sequence_length"
    outputs = [tensor("logits", TensorProto.FLOAT, "batch_size", kept, VOCABULARY)]
    for layer in range(LAYERS if cache else 0):
        for kind in ("key", "value"):
            past, present = (
                ("batch_size", HEADS, "past_sequence_length", SIZE),
                ("batch_size", HEADS, whole, SIZE),
            )
            inputs.append(tensor(f"past_key_values.{layer}.{kind}", TensorProto.FLOAT, *past))
            outputs.append(tensor(f"present.{layer}.{kind}", TensorProto.FLOAT, *present))
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "decoder", inputs, outputs, stored),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="handmade",
    )
    onnx.checker.check_model(model)
    return model


def expected() -> dict[str, Any]:
    """Greedy responses to three prompts, as ``expected.json`` has them."""
    rng = np.random.default_rng(1)
    cases = []
    for length in (5, 9, 12):
        prompt = rng.integers(4, VOCABULARY, length).tolist()
        tokens: list[int] = []
        log_probs, margins = [], []
        for _ in range(12):
            row = logits(prompt + tokens)[-1]
            second, best = np.sort(row)[-2:]
            tokens.append(int(row.argmax()))
            log_probs.append(round(float(best - np.log(np.exp(row).sum())), 6))
            margins.append(best - second)
        case = {"prompt": prompt, "tokens": tokens, "log_probs": log_probs, "margin": round(min(margins), 4)}
        cases.append(case)
    reference = "formulas of tests/helpers/models/handmade_exports.py in NumPy, one row at a time, float64"
    return {"reference": reference, "atol_log_prob": 0.0001, "greedy": cases}


def write() -> None:
    path = MODELS / "expected.json"
    known = json.loads(path.read_text())
    for name, cache in NAMES.items():
        folder = MODELS / name
        folder.mkdir(exist_ok=True)
        (folder / "model.onnx").write_bytes(graph(cache).SerializeToString(deterministic=True))
        (folder / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
        for file in (
            "generation_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "chat_template.jinja",
        ):
            shutil.copy(MODELS / "optimum-gpt2" / file, folder / file)
        known[f"{name}/model.onnx"] = expected()
    path.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    write()
