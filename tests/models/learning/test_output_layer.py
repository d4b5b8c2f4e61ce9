"""The last product of a graph is found in every form that exporters write, and left alone in others."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from helpers.onnx_nodes import model_of, numbers

from lite import nn
from lite._files.onnx import writer
from lite._files.onnx.model import read_model
from lite.models.learning.output_layer import find_output_layer

WIDTH, VOCAB = 32, 6
X = numbers(2, 3, WIDTH).astype(np.float32)
WEIGHTS = {
    "w": numbers(WIDTH, VOCAB, seed=1).astype(np.float32),
    "table": numbers(VOCAB, WIDTH, seed=2).astype(np.float32),
    "bias": numbers(VOCAB, seed=3).astype(np.float32),
    "two": np.float32(2),
    "minus": np.float32(-2),
    "low": numbers(WIDTH, VOCAB, seed=4).astype(np.float32),
    "packed": np.random.default_rng(5).integers(0, 256, (VOCAB, 1, 16)).astype(np.uint8),
    "scales": np.linspace(0.1, 0.2, VOCAB, dtype=np.float32),
    "order": np.zeros(WIDTH, np.int32),
    "flat": np.array([6, WIDTH]),
    "three": np.array([2, 3, VOCAB]),
}
Node = tuple[Any, ...]  # the operator, its inputs, its output, its attributes
BITS = {"K": WIDTH, "N": VOCAB, "bits": 4, "block_size": 32}


def graph(*nodes: Node) -> bytes:
    parts = [
        writer.node(
            op, op, inputs, [out], attributes[0] if attributes else {}, "com.microsoft" * (op in FUSED)
        )
        for op, inputs, out, *attributes in [("Relu", ["x"], "hidden"), *nodes]
    ]
    read = {name for _, inputs, *_ in nodes for name in inputs}
    return model_of(parts, {"x": X}, ["logits"], {k: v for k, v in WEIGHTS.items() if k in read})


FUSED = ("MatMulNBits", "FusedMatMul")
FOUND: list[Sequence[Node]] = [
    [("MatMul", ["hidden", "w"], "logits")],
    [("Transpose", ["table"], "t", {"perm": [1, 0]}), ("MatMul", ["hidden", "t"], "logits")],
    [("FusedMatMul", ["hidden", "table"], "logits", {"transB": 1, "alpha": 0.5})],
    [("MatMulNBits", ["hidden", "packed", "scales"], "logits", BITS)],
    [("MatMulNBits", ["hidden", "packed", "scales", "", "", "bias"], "logits", BITS)],
    [("Constant", [], "half", {"value": np.float32(0.5)}), ("MatMul", ["hidden", "w"], "y"),
        ("Mul", ["y", "half"], "logits")],
    [("MatMul", ["hidden", "w"], "y"), ("Add", ["bias", "y"], "z"), ("Cast", ["z"], "logits", {"to": 1})],
    [("MatMul", ["hidden", "w"], "y"), ("Mul", ["two", "y"], "z"), ("Div", ["z", "two"], "logits")],
    [("MatMul", ["hidden", "w"], "y"), ("Div", ["y", "two"], "logits")],
    [("MatMul", ["hidden", "w"], "y"), ("Add", ["y", "bias"], "z"), ("Mul", ["z", "two"], "logits")],
    [("Reshape", ["hidden", "flat"], "h"), ("Gemm", ["h", "table", "bias"], "y", {"transB": 1}),
        ("Reshape", ["y", "three"], "logits")],
]  # fmt: skip
OTHERS: list[Sequence[Node]] = [
    [("MatMul", ["hidden", "w"], "y"), ("Tanh", ["y"], "logits")],
    [("MatMul", ["hidden", "w"], "y"), ("Mul", ["y", "minus"], "logits")],
    [("MatMul", ["hidden", "w"], "y"), ("Div", ["two", "y"], "logits")],
    [("MatMul", ["hidden", "w"], "y"), ("MatMul", ["hidden", "low"], "z"), ("Add", ["y", "z"], "logits")],
    [("Gemm", ["hidden", "w", "bias"], "logits", {"beta": 2.0})],
    [("MatMulNBits", ["hidden", "packed", "scales", "", "order"], "logits", BITS)],
    [("MatMulNBits", ["hidden", "packed", "hidden"], "logits", BITS)],
    [("Exp", ["w"], "e"), ("MatMul", ["hidden", "e"], "logits")],
    [("MatMul", ["hidden", "w"], "y"), ("Mul", ["y", "two"], "z"), ("Add", ["z", "bias"], "logits")],
    [("FusedMatMul", ["hidden", "w"], "y", {"alpha": 0.5}), ("Add", ["y", "bias"], "logits")],
]


def test_the_product_of_its_parts_is_the_logits() -> None:
    for nodes in FOUND:
        model = graph(*nodes)
        layer = find_output_layer(read_model(model).graph)
        assert layer is not None, nodes
        assert layer.hidden in ("hidden", "h"), nodes
        found = nn.from_onnx(model, outputs=layer.names)(X)
        hidden, *others = found if isinstance(found, tuple) else (found,)
        weight = others.pop(0) if isinstance(layer.weight, str) else layer.weight.rows(0, VOCAB)
        bias = others.pop(0) if layer.bias else 0
        logits = layer.scale * (hidden @ (weight.T if layer.by_token else weight) + bias)
        whole = nn.from_onnx(model)(X)
        np.testing.assert_allclose(logits.reshape(whole.shape), whole, rtol=1e-5, atol=1e-5)


def test_what_is_more_than_a_product_is_left_alone() -> None:
    for nodes in OTHERS:
        assert find_output_layer(read_model(graph(*nodes)).graph) is None, nodes
