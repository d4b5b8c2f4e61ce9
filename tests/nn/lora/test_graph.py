"""Adapters in graphs: quantised products, branches, shared weights, exported decoders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.lora_nets import filled
from helpers.models.real_models import MODELS
from helpers.onnx_nodes import model_of

from lite import nn
from lite._files.onnx import writer
from lite._files.onnx.wire import field, integer, text

node = writer.node
X = np.random.default_rng(0).normal(size=(2, 32)).astype(np.float32)


def added(net: Any) -> np.ndarray:
    """What the only adapter of a network adds to the product with X."""
    (one,) = net._adapters()
    return X @ one.product().T


def test_beside_a_matrix_of_four_bits() -> None:
    rng = np.random.default_rng(0)
    weights = {
        "w.weight_Q4": rng.integers(0, 256, (6, 1, 16), np.uint8),
        "s": rng.normal(size=6).astype(np.float32),
    }
    how = {"K": 32, "N": 6, "bits": 4, "block_size": 32}
    nodes = [node("MatMulNBits", "", ["x", "w.weight_Q4", "s"], ["y"], how, "com.microsoft")]
    base = nn.from_onnx(model_of(nodes, {"x": X}, ["y"], weights))
    net = filled(nn.lora(base, 2, targets="w", rng=0))
    np.testing.assert_allclose(net(X), base(X) + added(net), rtol=1e-5, atol=1e-5)
    raises(ValueError, r"'w' cannot be merged: its weight is quantised.*save_adapter", lambda: net.merge())


def products() -> dict[str, tuple[list[bytes], dict[str, np.ndarray]]]:
    w = np.random.default_rng(1).normal(size=(32, 6)).astype(np.float32)
    turned = w.T.copy()
    return {
        "gemm": ([node("Gemm", "", ["x", "w.weight", "b"], ["y"], {"alpha": 0.5})], {"w.weight": w}),
        "turned": ([node("Gemm", "", ["x", "w.weight"], ["y"], {"transB": 1})], {"w.weight": turned}),
        "transposed": (
            [
                node("Transpose", "", ["w.weight"], ["t"], {"perm": [1, 0]}),
                node("MatMul", "", ["x", "t"], ["y"], {}),
            ],
            {"w.weight": turned},
        ),
        "fused": (
            [node("FusedMatMul", "", ["x", "w.weight"], ["y"], {"transB": 1, "alpha": 3.0}, "com.microsoft")],
            {"w.weight": turned},
        ),
        "half": (
            [
                node("Cast", "", ["w.weight"], ["t"], {"to": 1}),
                node("MatMul", "", ["x", "t"], ["y"], {}),
            ],
            {"w.weight": w.astype(np.float16)},
        ),
    }


@each_case("kind", products())
def test_merging_writes_into_the_matrix_as_it_is(kind: str, tmp_path: Path) -> None:
    nodes, weights = products()[kind]
    base = nn.from_onnx(model_of(nodes, {"x": X}, ["y"], {**weights, "b": np.ones(6, np.float32)}))
    net = filled(nn.lora(base, 2, targets="w", rng=0))
    np.testing.assert_allclose(net(X), base(X) + added(net), rtol=1e-4, atol=1e-4)
    saved = nn.from_onnx(net.merge().save_onnx(tmp_path / "net.onnx"))
    close = 2e-2 if kind == "half" else 1e-4  # which is rounded again in the file
    np.testing.assert_allclose(saved(X), net(X), rtol=close, atol=close)


@each_case("op, name, targets", [("Add", "", "w"), ("MatMul", "/v/MatMul", "*")])
def test_a_weight_that_others_read_is_not_changed(op: str, name: str, targets: str) -> None:
    """A sum, or a layer with an adapter of its own: exporters write equal weights once."""
    w = {"w.weight": np.ones((32, 32), np.float32)}
    nodes = [node("MatMul", "", ["x", "w.weight"], ["a"], {}), node(op, name, ["a", "w.weight"], ["y"], {})]
    net = nn.lora(nn.from_onnx(model_of(nodes, {"x": X[:1]}, ["y"], w)), targets=targets)
    raises(ValueError, r"cannot be merged: something else reads its weight 'w\.weight'", lambda: net.merge())


def test_in_the_branches_of_a_graph() -> None:
    """Optimum's merged decoders have all layers in a branch with a cache and in one without."""
    w = np.random.default_rng(1).normal(size=(32, 6)).astype(np.float32)
    branches = {
        name: writer.graph(
            name, [node("MatMul", "/w/MatMul", ["x", "w.weight"], [name], {})], [], [], [text(1, name)]
        )
        for name in ("then_branch", "else_branch")
    }
    choice = node("If", "", ["c"], ["y"], {})
    for name, body in branches.items():
        choice += field(5, text(1, name) + field(6, body) + integer(20, 5))
    model = model_of([choice], {"x": X, "c": np.array(True)}, ["y"], {"w.weight": w})
    base = nn.from_onnx(model)
    net = filled(nn.lora(base, 2, targets="w", rng=0))
    for given in (np.array(True), np.array(False)):
        np.testing.assert_allclose(net(X, given), base(X, given) + added(net), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(net.merge()(X, given), net(X, given), rtol=1e-4, atol=1e-4)


def test_optional_adapters_of_the_graph_itself_are_left_out() -> None:
    base = nn.from_onnx(MODELS / "handmade-lora" / "model.onnx", trainable=False)
    assert not [name for name, _ in base.named_parameters() if "lora" in name]
    net = filled(nn.lora(base, 2, targets=["query.*", "value.*"], rng=0))
    assert len(base._source.program.steps) - len(net._source.program.steps) == 4
    assert not np.array_equal(*(run(one)[0] for one in (base, net)))


def run(net: Any) -> Any:
    ids = np.array([[3, 1, 4, 1]])
    given: dict[str, Any] = {}
    for value in net._source.inputs:
        shape = [n if isinstance(n, int) else 1 if i == 0 else 0 for i, n in enumerate(value.shape)]
        given[value.name] = np.zeros(shape, np.float32)
    given |= {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.arange(4)[None]}
    given |= {"seqlens_k": np.array([3], np.int32), "total_sequence_length": np.int32(4)}
    return net(**{name: given[name] for name in net.input_names})


@pytest.mark.parametrize("name", ["optimum-llama", "optimum-gpt2"])
def test_an_exported_decoder_merges_to_what_it_computed(name: str) -> None:
    base = nn.from_onnx(MODELS / name / "model.onnx", trainable=False)
    net = nn.lora(base, 2, 2, rng=0)
    assert len(net._adapters()) == {"optimum-llama": 8}.get(name, 4)
    filled(net)
    np.testing.assert_allclose(run(net)[0], run(net.merge())[0], rtol=1e-3, atol=1e-4)
    assert np.abs(run(net)[0] - run(base)[0]).max() > 1e-2
