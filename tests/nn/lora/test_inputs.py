"""A graph with optional inputs for adapters: what it was without one, and the module's numbers with one."""

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from helpers.lora_nets import PATHS, X, adapted, filled, graph
from helpers.models.real_models import MODELS
from helpers.onnx_nodes import model_of

from lite import nn
from lite._files.onnx import writer
from lite._files.onnx.model import read_model
from lite._files.onnx.wire import field, integer, text
from lite.nn._lora.inputs import _bias_of


def session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("rank", [None, 2])
def test_the_graph_with_and_without_values(tmp_path: Path, rank: int | None) -> None:
    (tmp_path / "graph.onnx").write_bytes(graph())
    path = nn.add_adapter_inputs(tmp_path / "graph.onnx", tmp_path / "new" / "graph.onnx", rank=rank)
    one = session(path)
    net = adapted()
    values = net.adapter_inputs()
    optional = {x.name: x.shape for x in one.get_overridable_initializers()}
    # onnxruntime-genai names one part otherwise, and graphs keep the names of their own nodes
    own = [path if "q_proj" in path else path.replace("self_attn", "attn") for path in PATHS[:2]]
    assert list(values) == [f"{path}.lora_{x}.weight" for path in own for x in "AB"]
    assert optional.keys() == values.keys()
    assert optional[f"{own[0]}.lora_A.weight"] == [6, rank or f"{own[0]}.rank"]
    (base,) = session(tmp_path / "graph.onnx").run(None, {"x": X})
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], base)
    np.testing.assert_allclose(one.run(None, {"x": X, **values})[0], net(X), rtol=1e-4, atol=1e-5)
    if rank is None:  # which may differ from layer to layer
        some = {name: value for name, value in values.items() if "q_proj" in name}
        wide = {
            name: np.repeat(value, 2, value.shape.index(2)) / 2**0.5
            for name, value in values.items()
            if "q_proj" not in name
        }
        np.testing.assert_allclose(one.run(None, {"x": X, **some, **wide})[0], net(X), rtol=1e-4, atol=1e-5)


def test_the_new_graph_as_a_module(tmp_path: Path) -> None:
    """Adapters of the module take the place of the optional ones, under the same names."""
    (tmp_path / "graph.onnx").write_bytes(graph())
    path = nn.add_adapter_inputs(tmp_path / "graph.onnx", tmp_path / "new.onnx")
    base = nn.from_onnx(path, trainable=False)
    np.testing.assert_array_equal(base(X), nn.from_onnx(graph())(X))
    net = filled(nn.lora(base, 2, 8, rng=0))
    np.testing.assert_allclose(net(X), adapted()(X), rtol=1e-5, atol=1e-6)
    (tmp_path / "folder").mkdir()
    merged = net.merge().save_onnx(tmp_path / "folder" / "merged.onnx")
    np.testing.assert_allclose(session(merged).run(None, {"x": X})[0], net(X), rtol=1e-4, atol=1e-5)
    again = nn.add_adapter_inputs(path, tmp_path / "again.onnx")
    assert again.read_bytes() == path.read_bytes()


def test_weights_in_files_beside_the_graph(tmp_path: Path) -> None:
    folder = MODELS / "genai-qwen2-int4"
    path = nn.add_adapter_inputs(folder / "model.onnx", tmp_path / "new" / "model.onnx")
    (file,) = (x.name for x in folder.iterdir() if x.name.startswith("model.onnx."))
    assert (path.parent / file).read_bytes() == (folder / file).read_bytes()
    assert not (path.parent / file).is_symlink()
    assert (folder / file).stat().st_nlink == 1  # onnx refuses files with several names
    nn.add_adapter_inputs(folder / "model.onnx", path, rank=3)  # again, over the file
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / file).write_bytes(b"of another model")
    with pytest.raises(ValueError, match="has the place of the graph's external data"):
        nn.add_adapter_inputs(folder / "model.onnx", tmp_path / "other" / "model.onnx")
    assert not (tmp_path / "other" / "model.onnx").exists()
    given = {x.name: x for x in read_model(path.read_bytes()).graph.inputs}
    assert given["model.layers.0.attn.qkv_proj.lora_A.weight"].element_type == 1


def test_adapters_are_behind_a_bias_that_alone_reads_the_product() -> None:
    pairs = [("x", "w", "a"), ("x", "w", "c"), ("x", "w", "e")]
    nodes = [writer.node("MatMul", f"/{y}", [x, w], [y], {}) for x, w, y in pairs]
    sums = [("a", "b", "y"), ("b", "c", "d"), ("c", "d", "z"), ("e", "x", "u")]
    nodes += [writer.node("Add", f"/{y}", [x, w], [y], {}) for x, w, y in sums]
    weights = {"w": np.eye(6, dtype=np.float32), "b": np.ones(6, np.float32)}
    read = read_model(model_of(nodes, {"x": X}, ["y", "z", "u"], weights), None).graph
    assert {name: node.name for name, node in _bias_of(read).items()} == {"a": "/y"}


def test_products_in_branches(tmp_path: Path) -> None:
    w = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
    choice = writer.node("If", "", ["c"], ["y"], {})
    for name in ("then_branch", "else_branch"):
        product = writer.node("MatMul", "/w/MatMul", ["x", "w.weight"], [f"out_{name}"], {})
        kind = field(2, field(1, integer(1, 1)))
        body = writer.graph(name, [product], [], [], [text(1, f"out_{name}") + kind])
        choice += field(5, text(1, name) + field(6, body) + integer(20, 5))
    (tmp_path / "graph.onnx").write_bytes(
        model_of([choice], {"x": X, "c": np.array(True)}, ["y"], {"w.weight": w}, opset=20)
    )
    one = session(nn.add_adapter_inputs(tmp_path / "graph.onnx", tmp_path / "new.onnx", targets="w"))
    net = filled(nn.lora(nn.from_onnx(tmp_path / "graph.onnx"), 2, targets="w", rng=0))
    for given in (np.array(True), np.array(False)):
        inputs = {"x": X, "c": given}
        np.testing.assert_allclose(one.run(None, inputs)[0], X @ w, rtol=1e-5, atol=1e-6)
        found = one.run(None, {**inputs, **net.adapter_inputs()})[0]
        np.testing.assert_allclose(found, net(X, given), rtol=1e-4, atol=1e-4)


def test_what_it_refuses(tmp_path: Path) -> None:
    (tmp_path / "graph.onnx").write_bytes(graph())
    with pytest.raises(FileNotFoundError, match="path: there is no ONNX file"):
        nn.add_adapter_inputs(tmp_path / "none.onnx", tmp_path / "new.onnx")
    with pytest.raises(ValueError, match="rank must be a positive integer or None, got 0"):
        nn.add_adapter_inputs(tmp_path / "graph.onnx", tmp_path / "new.onnx", rank=0)
    with pytest.raises(ValueError, match=r"is called 'k_proj'; there are '"):
        nn.add_adapter_inputs(tmp_path / "graph.onnx", tmp_path / "new.onnx", targets="k_proj")
    (tmp_path / "text.onnx").write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"text\.onnx: not"):
        nn.add_adapter_inputs(tmp_path / "text.onnx", tmp_path / "new.onnx")
    sizes = integer(1, 1 << 40) + integer(1, 4)
    tensor = sizes + integer(2, 1) + text(8, "w.weight") + field(9, bytes(96))
    product = writer.node("MatMul", "", ["x", "w.weight"], ["y"], {})
    value = writer.value("x", np.dtype(np.float32), [None, None])
    claims = writer.graph("graph", [product], [tensor], [value], [text(1, "y")])
    (tmp_path / "huge.onnx").write_bytes(writer.model(claims, 20, ("tests", "")))
    with pytest.raises(ValueError, match=r"shape \(1099511627776, 4\) has 96 bytes"):
        nn.add_adapter_inputs(tmp_path / "huge.onnx", tmp_path / "new.onnx", rank=4, targets="w")
    assert not (tmp_path / "new.onnx").exists()
