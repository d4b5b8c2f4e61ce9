"""Small decoder graphs of conventions that no exporter among the test models makes, and what they must give.

Run ``PYTHONPATH=tests python tests/helpers/models/handmade_exports.py`` (with onnx) to write their folders
and their entries in ``expected.json`` again. Weights are random, as the convention is under test and not
language; positions are learned, so that a wrong one shows.

- `handmade-no-cache`: `input_ids`, `attention_mask`, `position_ids` -> `logits`, as optimum's
  `--task text-generation` writes it.
- `handmade-last-logits`: past and present, and the logits of the last position only.
- `handmade-lora`: optional inputs for adapters, and two adapters as files.
- `handmade-slots-...`: GroupQueryAttention with a local window, with one whose cache has to be as long, and
  with caches of 16, 8 and 4 bits.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from helpers.models.real_models import MODELS
from numpy.typing import NDArray

VOCABULARY, CONTEXT, LAYERS, HEADS = 512, 256, 2, 2
RANK = 2  # of adapters
ADAPTERS = ("formal", "casual")
Weights = dict[str, NDArray[np.float32]]


class Form(NamedTuple):
    """What a graph is like: its cache (`""`, "concat" or "slots") and the numbers it holds, and so on.

    With `windowed`, its operators take no cache shorter than the window.
    """

    cache: str = ""
    last: bool = False
    stored: str = "float"
    window: int = 0
    windowed: bool = False
    adapters: bool = False
    width: int = 16

    @property
    def size(self) -> int:
        return self.width // HEADS


NAMES = {
    "handmade-no-cache": Form(width=32),
    "handmade-last-logits": Form("concat", last=True, width=32),
    "handmade-lora": Form("concat", adapters=True),
    "handmade-slots-window": Form("slots", window=6),
    "handmade-slots-windowed": Form("slots", window=40, windowed=True),
    "handmade-slots-half": Form("slots", stored="float16"),
    "handmade-slots-int8": Form("slots", stored="int8"),
    "handmade-slots-int4": Form("slots", stored="uint8"),
}
CONFIG = {
    "architectures": ["GPT2LMHeadModel"], "bos_token_id": 0, "eos_token_id": 2, "model_type": "gpt2",
    "n_embd": 32, "n_head": HEADS, "n_layer": LAYERS, "n_positions": CONTEXT, "pad_token_id": 3,
    "vocab_size": VOCABULARY,
}  # fmt: skip


def weights(form: Form) -> Weights:
    rng, width = np.random.default_rng(0), form.width
    shapes = {"tokens": (VOCABULARY, width), "places": (CONTEXT, width), "out": (width, width)}
    for layer in range(LAYERS):
        shapes |= {f"{kind}.{layer}": (width, width) for kind in ("query", "key", "value", "attended")}
        shapes |= {f"up.{layer}": (width, 2 * width), f"down.{layer}": (2 * width, width)}
    values = {name: rng.standard_normal(shape) / np.sqrt(width) for name, shape in shapes.items()}
    values["out"] *= 3  # far enough apart that the best token is the best in float32
    return {name: (value * (2 if "." in name else 1)).astype(np.float32) for name, value in values.items()}


def adapter(name: str) -> Weights:
    """The parameters of an adapter: low-rank changes of queries and values."""
    form, rng = NAMES["handmade-lora"], np.random.default_rng(ADAPTERS.index(name) + 1)
    values: Weights = {}
    for layer in range(LAYERS):
        for kind in ("query", "value"):
            first, second = rng.standard_normal((2, form.width, RANK)) / np.sqrt(RANK)
            values[f"{kind}.{layer}.lora_A"] = first.astype(np.float32)
            values[f"{kind}.{layer}.lora_B"] = second.T.astype(np.float32)
    return values


def scales(form: Form) -> NDArray[np.float32]:
    """Of the cache's numbers: one of 8 bits, or of 4 bits one for each channel."""
    return (
        np.full(1, 0.06, np.float32)
        if form.stored == "int8"
        else np.linspace(0.8, 1.2, form.width, dtype="f4")
    )


def as_stored(x: NDArray[np.float64], form: Form) -> NDArray[np.float64]:
    """Keys or values (L, width) after they were in the cache."""
    if form.stored not in ("int8", "uint8"):
        return x
    most = 127 if form.stored == "int8" else 7
    return np.clip(np.round(x / scales(form)), -most - 1, most) * scales(form)


def logits(ids: Sequence[int], form: Form, changes: Mapping[str, Any] | None = None) -> NDArray[np.float64]:
    """After each token of one row, (L, V), in float64; `changes` are the parameters of an adapter."""
    w = {name: value.astype(np.float64) for name, value in weights(form).items()}
    changes = {name: value.astype(np.float64) for name, value in (changes or {}).items()}
    for name in {name.rpartition(".")[0] for name in changes}:
        w[name] = w[name] + changes[f"{name}.lora_A"] @ changes[f"{name}.lora_B"]
    x = w["tokens"][ids] + w["places"][: len(ids)]
    seen = np.tri(len(ids), dtype=bool)
    if form.window:
        seen &= ~np.tri(len(ids), k=-form.window, dtype=bool)

    def normal(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    for layer in range(LAYERS):
        y = normal(x)
        q, k, v = (y @ w[f"{kind}.{layer}"] for kind in ("query", "key", "value"))
        k, v = as_stored(k, form), as_stored(v, form)
        q, k, v = (part.reshape(-1, HEADS, form.size).swapaxes(0, 1) for part in (q, k, v))
        scores = np.where(seen, q @ k.swapaxes(1, 2) / np.sqrt(form.size), -np.inf)
        attention = np.exp(scores - scores.max(-1, keepdims=True))
        attention /= attention.sum(-1, keepdims=True)
        x = x + (attention @ v).swapaxes(0, 1).reshape(-1, form.width) @ w[f"attended.{layer}"]
        x = x + np.maximum(normal(x) @ w[f"up.{layer}"], 0) @ w[f"down.{layer}"]
    result: NDArray[np.float64] = normal(x) @ w["out"] @ w["tokens"].T
    return result


def graph(form: Form) -> Any:
    """The model as an ``onnx.ModelProto``."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: dict[str, Any] = weights(form) | {
        "ones": np.ones(form.width, np.float32), "scale": np.float32(form.size**-0.5),
        "lowest": np.float32(-3e38), "heads": np.array([0, 0, HEADS, form.size]),
        "flat": np.array([0, 0, form.width]), "zero": np.array(0), "one": np.array(1),
        "before": np.array([-1]), "axis.1": np.array([1]), "axes.12": np.array([1, 2]),
        "end": np.array([2**31]),
    }  # fmt: skip

    def add(kind: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        name = result or f"{kind}_{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def projected(x: str, layer: int, kind: str) -> str:
        straight = add("MatMul", x, f"{kind}.{layer}")
        if not form.adapters or kind == "key":
            return straight
        low = add("MatMul", x, f"{kind}.{layer}.lora_A")
        return add("Add", straight, add("MatMul", low, f"{kind}.{layer}.lora_B"))

    def split(x: str, layer: int, kind: str) -> str:
        """(batch, heads, length, size), with what the cache holds in front."""
        new = add("Transpose", add("Reshape", projected(x, layer, kind), "heads"), perm=[0, 2, 1, 3])
        if not form.cache or kind == "query":
            return new
        past, present = f"past_key_values.{layer}.{kind}", f"present.{layer}.{kind}"
        return add("Concat", past, new, result=present, axis=2)

    def normal(x: str) -> str:
        return add("LayerNormalization", x, "ones", axis=-1, epsilon=1e-5)

    def in_slots(y: str, layer: int) -> str:
        parts = [projected(y, layer, kind) for kind in ("query", "key", "value")]
        if form.stored == "float16":
            parts = [add("Cast", part, to=TensorProto.FLOAT16) for part in parts]
        parts += [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")] + ["lengths", "total"]
        made = [f"mixed.{layer}", *(f"present.{layer}.{kind}" for kind in ("key", "value"))]
        options: dict[str, Any] = {"num_heads": HEADS, "kv_num_heads": HEADS}
        if form.window:
            options["local_window_size"] = form.window
        if form.windowed:
            options["sliding_window_cache"] = 1
        if bits := {"int8": 8, "uint8": 4}.get(form.stored):
            kind = "PER_TENSOR" if bits == 8 else "PER_CHANNEL"
            options |= {"kv_cache_bit_width": bits, "k_quant_type": kind, "v_quant_type": kind}
            parts += [""] * 5 + ["steps", "steps"]
        nodes.append(helper.make_node("GroupQueryAttention", parts, made, domain="com.microsoft", **options))
        return add("Cast", made[0], to=TensorProto.FLOAT) if form.stored == "float16" else made[0]

    if form.cache == "slots":
        lengths = add("Sub", add("ReduceSum", "attention_mask", "axis.1", keepdims=0), "one")
        add("Cast", lengths, to=TensorProto.INT32, result="lengths")
        width = add("Gather", add("Shape", "attention_mask"), "one")
        add("Cast", width, to=TensorProto.INT32, result="total")
        constants["steps"] = scales(form)
    else:
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
        if form.cache == "slots":
            mixed = in_slots(y, layer)
        else:
            q, k, v = (split(y, layer, kind) for kind in ("query", "key", "value"))
            scores = add("Mul", add("MatMul", q, add("Transpose", k, perm=[0, 1, 3, 2])), "scale")
            attention = add("Softmax", add("Where", seen, scores, "lowest"), axis=-1)
            mixed = add("Transpose", add("MatMul", attention, v), perm=[0, 2, 1, 3])
            mixed = add("Reshape", mixed, "flat")
        x = add("Add", x, add("MatMul", mixed, f"attended.{layer}"))
        inner = add("Relu", add("MatMul", normal(x), f"up.{layer}"))
        x = add("Add", x, add("MatMul", inner, f"down.{layer}"))
    if form.last:
        x = add("Slice", x, "before", "end", "axis.1")
    hidden = add("MatMul", normal(x), "out")
    add("MatMul", hidden, add("Transpose", "tokens", perm=[1, 0]), result="logits")

    def tensor(name: str, kind: int, *dims: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, dims)

    whole = "past_sequence_length + sequence_length" if form.cache else "sequence_length"
    inputs = [tensor("input_ids", TensorProto.INT64, "batch_size", "sequence_length")]
    inputs += [tensor("attention_mask", TensorProto.INT64, "batch_size", whole)]
    inputs += [tensor("position_ids", TensorProto.INT64, "batch_size", "sequence_length")]
    kept = 1 if form.last else "sequence_length"
    outputs = [tensor("logits", TensorProto.FLOAT, "batch_size", kept, VOCABULARY)]
    stored = {"float": 1, "float16": 10, "int8": 3, "uint8": 2}[form.stored]
    size = form.size // 2 if form.stored == "uint8" else form.size
    for layer in range(LAYERS if form.cache else 0):
        for kind in ("key", "value"):
            past, present = (
                ("batch_size", HEADS, "past_sequence_length", size),
                ("batch_size", HEADS, whole, size),
            )
            inputs.append(tensor(f"past_key_values.{layer}.{kind}", stored, *past))
            outputs.append(tensor(f"present.{layer}.{kind}", stored, *present))
    if form.adapters:
        for name, value in adapter(ADAPTERS[0]).items():
            none = tuple(0 if size == RANK else size for size in value.shape)
            constants[name] = np.zeros(none, np.float32)
            dims = ["rank" if size == RANK else size for size in value.shape]
            inputs.append(tensor(name, TensorProto.FLOAT, *dims))
    used = {name for node in nodes for name in node.input}
    if form.width != 32:  # the two oldest files have what they do not use
        constants = {name: value for name, value in constants.items() if name in used}
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    opsets = [helper.make_opsetid("", 17)]
    if form.cache == "slots":
        opsets.append(helper.make_opsetid("com.microsoft", 1))
    model = helper.make_model(
        helper.make_graph(nodes, "decoder", inputs, outputs, initializers),
        opset_imports=opsets,
        ir_version=8,
        producer_name="handmade",
    )
    if form.cache != "slots":
        onnx.checker.check_model(model)  # knows no operators of onnxruntime's own
    return model


def adapter_file(name: str) -> bytes:
    """An adapter as onnxruntime writes it."""
    import tempfile
    from pathlib import Path

    import onnxruntime

    values = {key: onnxruntime.OrtValue.ortvalue_from_numpy(value) for key, value in adapter(name).items()}
    file = onnxruntime.AdapterFormat()
    file.set_adapter_version(1)
    file.set_model_version(1)
    file.set_parameters(values)
    with tempfile.TemporaryDirectory() as folder:
        file.export_adapter(f"{folder}/adapter")
        return Path(folder, "adapter").read_bytes()


def expected(form: Form, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Greedy responses to three prompts, as ``expected.json`` has them."""
    rng = np.random.default_rng(1)
    cases = []
    for length in (5, 9, 12):
        prompt = rng.integers(4, VOCABULARY, length).tolist()
        tokens: list[int] = []
        log_probs, margins = [], []
        for _ in range(12):
            row = logits(prompt + tokens, form, changes)[-1]
            second, best = np.sort(row)[-2:]
            tokens.append(int(row.argmax()))
            log_probs.append(round(float(best - np.log(np.exp(row).sum())), 6))
            margins.append(best - second)
        case = {"prompt": prompt, "tokens": tokens, "log_probs": log_probs, "margin": round(min(margins), 4)}
        cases.append(case)
    reference = "formulas of tests/helpers/models/handmade_exports.py in NumPy, one row at a time, float64"
    atol = 0.005 if form.stored == "float16" else 0.0001
    return {"reference": reference, "atol_log_prob": atol, "greedy": cases}


def write() -> None:
    path = MODELS / "expected.json"
    known = json.loads(path.read_text())
    for name, form in NAMES.items():
        folder = MODELS / name
        folder.mkdir(exist_ok=True)
        (folder / "model.onnx").write_bytes(graph(form).SerializeToString(deterministic=True))
        (folder / "config.json").write_text(json.dumps(CONFIG | {"n_embd": form.width}, indent=2) + "\n")
        for own in ADAPTERS if form.adapters else ():
            (folder / f"{own}.onnx_adapter").write_bytes(adapter_file(own))
        for file in (
            "generation_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "chat_template.jinja",
        ):
            shutil.copy(MODELS / "optimum-gpt2" / file, folder / file)
        known[f"{name}/model.onnx"] = expected(form)
    path.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    write()
