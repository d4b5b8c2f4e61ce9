"""The ONNX graph of a Llama model, node by node, in the convention of an optimum export.

Written out rather than traced: 45 nodes a layer of standard operators (opset 18), so that any runtime loads
it fast. Names follow the Hugging Face state dict; a linear layer's weight is stored transposed, as
``MatMul`` takes it, and projections that read the same input are stored side by side (``qkv_proj``,
``gate_up_proj``).
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from transformers import LlamaConfig, LlamaForCausalLM

OPSET = 18
IR_VERSION = 9  # old enough for each runtime that knows opset 18
MASKED = np.float32(-1e30)  # finite: a row that sees nothing gets an even softmax instead of NaN


class Graph:
    """Collects nodes and initializers; each operator call returns the name of its (first) output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: Any, dtype: type = np.int64) -> str:
        array = np.ascontiguousarray(value, dtype=dtype)
        self.initializers.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def __call__(
        self, op: str, *inputs: str, out: str | None = None, outputs: int = 1, **attributes: Any
    ) -> Any:
        base = out or f"{op}_{len(self.nodes)}"
        names = [base] if outputs == 1 else [f"{base}_{i}" for i in range(outputs)]
        self.nodes.append(
            helper.make_node(op, list(inputs), names, name=f"node_{len(self.nodes)}_{op}", **attributes)
        )
        return base if outputs == 1 else names


def export_onnx(model: LlamaForCausalLM, path: Path) -> None:
    """Write ``model`` (float32) to ``path`` with key/value cache and position ids."""
    config = model.config
    weights = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    g = Graph()
    layers, kv_heads, head = config.num_hidden_layers, config.num_key_value_heads, config.head_dim

    mask, cos, sin = _mask(g), *_rotary(g, config)
    x = g(
        "Gather",
        g.constant("model.embed_tokens.weight", weights["model.embed_tokens.weight"], np.float32),
        "input_ids",
    )
    for i in range(layers):
        x = _layer(g, x, i, weights, config, mask, cos, sin)
    x = _norm(g, x, "model.norm.weight", weights["model.norm.weight"], config.rms_norm_eps)
    # The tied head reuses the embedding: it is in the file once.
    g("MatMul", x, g("Transpose", "model.embed_tokens.weight", perm=[1, 0]), out="logits")

    past = "past_sequence_length"
    total = f"{past} + sequence_length"
    inputs: list[tuple[str, int, list[str | int]]] = [
        ("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
        ("attention_mask", TensorProto.INT64, ["batch_size", total]),
        ("position_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
    ]
    outputs: list[tuple[str, int, list[str | int]]] = [
        ("logits", TensorProto.FLOAT, ["batch_size", "sequence_length", config.vocab_size])
    ]
    for i in range(layers):
        for kind in ("key", "value"):
            inputs.append(
                (f"past_key_values.{i}.{kind}", TensorProto.FLOAT, ["batch_size", kv_heads, past, head])
            )
            outputs.append((f"present.{i}.{kind}", TensorProto.FLOAT, ["batch_size", kv_heads, total, head]))
    graph = helper.make_graph(
        g.nodes,
        "tiny_chat",
        [helper.make_tensor_value_info(*v) for v in inputs],
        [helper.make_tensor_value_info(*v) for v in outputs],
        list(g.initializers.values()),
    )
    proto = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="lite tiny_chat recipe",
    )
    onnx.checker.check_model(proto, full_check=True)
    onnx.save(proto, path)


def _mask(g: Graph) -> str:
    """0 where a query may look and a huge negative number elsewhere, shape (B, 1, 1, S, T).

    Query i of S stands at column T - S + i; it sees the columns up to its own that the attention mask allows.
    """
    zero, one = g.constant("zero", 0), g.constant("one", 1)
    new = g("Gather", g("Shape", "input_ids"), one)
    total = g("Gather", g("Shape", "attention_mask"), one)
    columns = g("Range", zero, total, one)
    queries = g("Unsqueeze", g("Range", g("Sub", total, new), total, one), g.constant("axis1", [1]))
    causal = g("LessOrEqual", columns, queries)  # (S, T)
    real = g("Unsqueeze", g("Cast", "attention_mask", to=TensorProto.BOOL), g.constant("axes123", [1, 2, 3]))
    seen = g("And", causal, real)
    return g("Where", seen, g.constant("seen", 0, np.float32), g.constant("masked", MASKED, np.float32))


def _rotary(g: Graph, config: LlamaConfig) -> tuple[str, str]:
    """Cosine and sine of each position's angles, shape (B, 1, S, head)."""
    half = np.arange(0, config.head_dim, 2, dtype=np.float32) / np.float32(config.head_dim)
    frequency = np.float32(1) / np.float32(config.rope_parameters["rope_theta"]) ** half
    position = g("Unsqueeze", g("Cast", "position_ids", to=TensorProto.FLOAT), g.constant("axes13", [1, 3]))
    angle = g("Mul", position, g.constant("rope_frequency", frequency, np.float32))
    angle = g("Concat", angle, angle, axis=-1)
    return g("Cos", angle), g("Sin", angle)


def _norm(g: Graph, x: str, name: str, weight: np.ndarray, eps: float) -> str:
    square = g("Pow", x, g.constant("two", 2, np.float32))
    mean = g("ReduceMean", square, g.constant("last", [-1]), keepdims=1)
    root = g("Sqrt", g("Add", mean, g.constant("eps", eps, np.float32)))
    return g("Mul", g("Div", x, root), g.constant(name, weight, np.float32))


def _layer(
    g: Graph,
    x: str,
    i: int,
    weights: dict[str, np.ndarray],
    config: LlamaConfig,
    mask: str,
    cos: str,
    sin: str,
) -> str:
    prefix = f"model.layers.{i}"
    heads, kv_heads, head = config.num_attention_heads, config.num_key_value_heads, config.head_dim

    def linear(x: str, where: str, fused: str, *parts: str) -> str:
        weight = np.concatenate([weights[f"{prefix}.{where}.{p}_proj.weight"] for p in parts]).T
        return g("MatMul", x, g.constant(f"{prefix}.{where}.{fused}_proj.weight", weight, np.float32))

    def norm(x: str, which: str) -> str:
        name = f"{prefix}.{which}_layernorm.weight"
        return _norm(g, x, name, weights[name], config.rms_norm_eps)

    qkv = linear(norm(x, "input"), "self_attn", "qkv", "q", "k", "v")
    qkv = g("Reshape", qkv, g.constant("split_heads", [0, 0, heads + 2 * kv_heads, head]))
    qkv = g("Transpose", qkv, perm=[0, 2, 1, 3])
    qk, v = g("Split", qkv, g.constant("rotated_and_not", [heads + kv_heads, kv_heads]), axis=1, outputs=2)
    left, right = g("Split", qk, axis=-1, num_outputs=2, outputs=2)
    turned = g("Concat", g("Neg", right), left, axis=-1)
    qk = g("Add", g("Mul", qk, cos), g("Mul", turned, sin))
    q, k = g("Split", qk, g.constant("q_and_k", [heads, kv_heads]), axis=1, outputs=2)
    k = g("Concat", f"past_key_values.{i}.key", k, axis=2, out=f"present.{i}.key")
    v = g("Concat", f"past_key_values.{i}.value", v, axis=2, out=f"present.{i}.value")

    # Each key/value head serves a group of query heads: a fifth axis broadcasts it instead of copying it.
    q = g("Mul", q, g.constant("scale", head**-0.5, np.float32))
    q = g("Reshape", q, g.constant("group_heads", [0, kv_heads, heads // kv_heads, -1, head]))
    k = g("Unsqueeze", g("Transpose", k, perm=[0, 1, 3, 2]), g.constant("axis2", [2]))
    v = g("Unsqueeze", v, g.constant("axis2", [2]))
    seen = g("Softmax", g("Add", g("MatMul", q, k), mask), axis=-1)
    mixed = g("Transpose", g("MatMul", seen, v), perm=[0, 3, 1, 2, 4])
    mixed = g("Reshape", mixed, g.constant("join_heads", [0, 0, heads * head]))
    x = g("Add", x, linear(mixed, "self_attn", "o", "o"))

    gate_up = linear(norm(x, "post_attention"), "mlp", "gate_up", "gate", "up")
    gate, up = g("Split", gate_up, axis=-1, num_outputs=2, outputs=2)
    silu = g("Mul", gate, g("Sigmoid", gate))
    return g("Add", x, linear(g("Mul", silu, up), "mlp", "down", "down"))
