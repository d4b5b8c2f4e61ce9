"""Names of the products of a graph, as each exporter leaves them, and which of them targets are for."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.models.real_models import MODELS
from helpers.onnx_nodes import model_of

from lite._files.onnx import wire, writer
from lite._files.onnx.model import read_model
from lite.nn._lora.projections import Projection, chosen, projections

W = np.zeros((3, 4), np.float32)
X = np.zeros((2, 3), np.float32)


def found(model: bytes) -> list[Projection]:
    return projections(model, read_model(model).graph)


def named(node: str, weight: str, more: bytes = b"") -> str:
    one = writer.node("MatMul", node, ["x", weight], ["y"], {}) + more
    (product,) = found(model_of([one], {"x": X}, ["y"], {weight: W}))
    return product.name


def scopes(text: str) -> bytes:
    return wire.field(9, wire.text(1, "pkg.torch.onnx.name_scopes") + wire.text(2, text))


@each_case(
    ("node", "weight", "more", "name"),
    [
        ("/model/layers.0/self_attn/q_proj/MatMul", "onnx::MatMul_7", b"", "model.layers.0.self_attn.q_proj"),
        ("/model/layers.0/attn/q_proj/MatMul_Q4", "w_Q4", b"", "model.layers.0.self_attn.q_proj"),
        ("/transformer/h.0/attn/c_attn/Gemm", "w", b"", "transformer.h.0.attn.c_attn"),
        ("/transformer/h.0/attn/q_proj/MatMul", "w", b"", "transformer.h.0.attn.q_proj"),  # GPT-J
        ("/blocks/blocks.0/attn/qkv/MatMul", "onnx::MatMul_7", b"", "blocks.0.attn.qkv"),
        ("/pi/pi.0/Gemm", "pi.0.weight", b"", "pi.0"),
        ("/pi/pi.0/Gemm", "pi.pi.0.weight", b"", "pi.pi.0"),
        ("node_26_MatMul", "model.layers.0.self_attn.o_proj.weight", b"", "model.layers.0.self_attn.o_proj"),
        ("", "query.0", b"", "query.0"),
        ("node_linear", "val_1", b"", "node_linear"),
        ("node_linear", "val_1", scopes("['', 'layers.0', 'layers.0.q_proj', 'linear']"), "layers.0.q_proj"),
        ("n", "v", scopes("['', 'model', 'model.model.layers.0.q_proj', 'l']"), "model.layers.0.q_proj"),
        ("n", "v", scopes("['', 'model.transformer.h.0.attn.c_attn', 'l']"), "transformer.h.0.attn.c_attn"),
        ("n", "v", scopes("['', 'model.roberta.encoder.layer.0.x', 'l']"), "roberta.encoder.layer.0.x"),
        ("n", "v", scopes("['', 'model.decoder.layers.0.q_proj', 'l']"), "model.decoder.layers.0.q_proj"),
        ("node_linear", "val_1", scopes("[" * 500), "node_linear"),
        ("node_linear", "val_1", scopes(f"['', 'a', '{'l' * 4096}']"), "node_linear"),
        (
            "n",
            "v",
            wire.field(9, wire.text(1, "other") + wire.text(2, "['', 'b', 'l']")) + scopes("['', 'a', 'l']"),
            "a",
        ),
        ("node_linear", "val_1", scopes("7"), "node_linear"),
    ],
)
def test_names(node: str, weight: str, more: bytes, name: str) -> None:
    assert named(node, weight, more) == name


def test_the_graphs_own_name_is_kept_for_its_inputs() -> None:
    path = MODELS / "genai-llama-fp32" / "model.onnx"
    model = path.read_bytes()
    first = projections(model, read_model(model, path.parent).graph)[0]
    assert (first.name, first.graph_name) == (
        "model.layers.0.self_attn.qkv_proj",
        "model.layers.0.attn.qkv_proj",
    )
    assert (first.inputs, first.outputs, first.quantised) == (64, 128, False)


def test_which_nodes_are_products_with_a_constant_matrix() -> None:
    weights = {
        "w": W, "turned": W.T.copy(), "cube": np.zeros((2, 3, 4), np.float32), "given": W,
        "bits": np.zeros((4, 1, 16), np.uint8), "scales": np.ones(4, np.float32),
        "small": np.zeros((3, 4), np.int8), "one": np.float32(1),
    }  # fmt: skip
    node = writer.node
    nodes = [
        node("MatMul", "plain", ["x", "w"], ["a"], {}),
        node("Gemm", "turned", ["x", "turned"], ["b"], {"transB": 1, "alpha": 2.0}),
        node("Gemm", "of the turned input", ["z", "w"], ["c"], {"transA": 1}),
        node("Transpose", "", ["turned"], ["again"], {"perm": [1, 0]}),
        node("Transpose", "", ["w"], ["w.T"], {}),
        node("Transpose", "", ["w.T"], ["w.same"], {"perm": [0, 1]}),
        node("MatMul", "by default", ["z", "w.T"], ["j"], {}),
        node("MatMul", "of no use", ["z", "w.same"], ["k"], {}),
        node("Cast", "", ["again"], ["cast"], {"to": 1}),
        node("MatMul", "twice", ["x", "cast"], ["d"], {}),
        node("MatMul", "many", ["x", "cube"], ["e"], {}),
        node("MatMul", "of an input", ["x", "given"], ["f"], {}),
        node("MatMul", "of two", ["x", "z"], ["g"], {}),
        node("DequantizeLinear", "", ["small", "one"], ["large"], {}),
        node("MatMul", "linear", ["x", "large"], ["h"], {}),
        node("MatMulNBits", "bits", ["x", "bits", "scales"], ["i"], {"K": 3, "N": 4, "bits": 4,
             "block_size": 32}, "com.microsoft"),
    ]  # fmt: skip
    model = model_of(nodes, {"x": X, "z": X.T.copy(), "given": W}, list("abcdefghijk"), weights)
    assert [(x.name, x.inputs, x.outputs, x.turned, x.quantised, x.factor) for x in found(model)] == [
        ("plain", 3, 4, False, False, 1.0), ("turned", 3, 4, True, False, 2.0),
        ("by default", 4, 3, True, False, 1.0), ("twice", 3, 4, True, False, 1.0),
        ("linear", 3, 4, False, True, 1.0), ("bits", 3, 4, True, True, 1.0),
    ]  # fmt: skip


def test_matrices_that_are_inputs_too() -> None:
    """All of them in old files, and where torch.onnx.export is told so; else what a runtime may give."""
    nodes = [writer.node("MatMul", name, ["x", name], [name + "y"], {}) for name in "ab"]
    for inputs, wanted in (("ab", ["a", "b"]), ("a", ["b"])):
        model = model_of(nodes, {"x": X, **dict.fromkeys(inputs, W)}, ["ay", "by"], {"a": W, "b": W})
        assert [x.name for x in found(model)] == wanted


@each_case(
    ("attributes", "inputs", "message"),
    [
        ({"K": 32, "N": 5}, ["x", "w", "s"], r"64 bytes for a matrix of \(32, 5\)"),
        ({"K": 32, "N": 4}, ["x", "w", "s"], ""),
        ({"K": 17, "N": 4, "bits": 8}, ["x", "w", "s"], r"64 bytes for a matrix of \(17, 4\)"),
        ({"K": 1 << 40, "N": 4}, ["x", "w", "s"], r"64 bytes for a matrix of \(1099511627776, 4\)"),
        ({"N": 4}, ["x", "w", "s"], None),
        ({"K": 3, "N": 4}, ["x", "w"], None),
        ({"K": -3, "N": -4}, ["x", "w", "s"], None),
    ],
)
def test_a_matrix_that_is_not_what_its_node_says(attributes, inputs, message):
    """Nobody allocates by what a node claims."""
    weights = {"w": np.zeros((4, 1, 16), np.uint8), "s": np.ones(4, np.float32)}
    node = writer.node("MatMulNBits", "n", inputs, ["y"], attributes, "com.microsoft")
    model = model_of([node], {"x": X}, ["y"], weights)
    if not message:
        assert len(found(model)) == (message is not None)
        return
    raises(ValueError, message, found, model)


def test_one_name_stands_for_one_matrix() -> None:
    """A module that is called twice is one; two with equal names are two."""
    nodes = [
        writer.node("MatMul", "/a/MatMul", ["x", name], [f"y{i}"], {})
        for i, name in enumerate(("w", "w", "v"))
    ]
    model = model_of(nodes, {"x": X}, ["y0", "y1", "y2"], {"w": W, "v": W})
    assert [x.name for x in found(model)] == ["a", "a", "a_2"]


def test_targets() -> None:
    names = [
        f"layers.{i}.{x}" for i in range(12) for x in ("attn.q_proj", "mlp.up", "attn.c_proj", "mlp.c_proj")
    ]
    assert chosen(names, "layers.1.mlp.up") == {"layers.1.mlp.up"}
    assert chosen(names, ["up"]) == {f"layers.{i}.mlp.up" for i in range(12)}
    assert chosen(names, ["layers.[01].*proj"]) == {x for x in names[:8] if x.endswith("proj")}
    assert chosen(names, None) == {x for x in names if "attn" in x}
    bert = [
        f"bert.encoder.layer.0.attention.{x}"
        for x in ("self.query", "self.key", "self.value", "output.dense")
    ]
    deberta = [f"layer.0.attention.self.{x}_proj" for x in ("query", "key", "value")]
    modern = ["layers.0.attn.Wqkv", "layers.0.attn.Wo"]
    phi = ["layers.0.self_attn.q_proj", "layers.0.self_attn.dense"]
    bloom = ["h.0.self_attention.query_key_value", "h.0.self_attention.dense"]
    for attention in (bert, deberta, modern, phi, bloom):
        assert chosen([*attention, "layer.0.output.dense", "layers.0.mlp.Wo"], None) == set(attention)
    with pytest.raises(
        ValueError, match=r"'gate'; there are 'layers\.\*\.attn\.q_proj', 'layers\.\*\.mlp\.up', 'la"
    ):
        chosen(names, ["up", "gate"])
    for targets in (None, "up"):
        raises(ValueError, r"targets: the module has no layer .* MatMulInteger", chosen, [], targets)
