"""Whole models as values of Python, against onnx's own reading of them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from helpers.cases import each_case, raises
from helpers.models.real_models import MODELS

from lite._files.onnx.model import OperationGraph, Reference, read_model
from lite._files.onnx.wire import field

FILES = sorted(MODELS.rglob("*.onnx"))[::4]


def same(value: Any, wanted: Any, onnx: Any, folder: Path) -> None:
    if isinstance(wanted, onnx.GraphProto):
        same_graph(value, wanted, onnx, folder)
    elif isinstance(wanted, onnx.TensorProto):
        np.testing.assert_array_equal(value, onnx.numpy_helper.to_array(wanted, str(folder)))
    elif isinstance(wanted, bytes):
        assert value == wanted.decode()
    else:
        assert value == (list(wanted) if not isinstance(wanted, int | float) else wanted)


def same_graph(graph: OperationGraph, wanted: Any, onnx: Any, folder: Path) -> None:
    for node, other in zip(graph.nodes, wanted.node, strict=True):
        assert (node.op, node.domain, node.name) == (other.op_type, other.domain, other.name)
        assert (node.inputs, node.outputs) == (tuple(other.input), tuple(other.output))
        for found in other.attribute:
            same(node.attributes[found.name], onnx.helper.get_attribute_value(found), onnx, folder)
    for tensor in wanted.initializer:
        array = onnx.numpy_helper.to_array(tensor, str(folder))
        np.testing.assert_array_equal(graph.weights[tensor.name].array(), array)
    for side, values in ((graph.inputs, wanted.input), (graph.outputs, wanted.output)):
        for value, other in zip(side, values, strict=True):
            kind = other.type.tensor_type
            assert (value.name, value.element_type) == (other.name, kind.elem_type)
            dims = [
                dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
                for dim in kind.shape.dim
            ]
            assert list(value.shape or ()) == dims


@each_case("path", FILES)
def test_as_onnx_reads_them(path: Path) -> None:
    wanted = onnx.load(path, load_external_data=False)
    model = read_model(path.read_bytes(), path.parent)
    assert model.opsets == {one.domain: one.version for one in wanted.opset_import}
    assert model.producer == wanted.producer_name
    same_graph(model.graph, wanted.graph, onnx, path.parent)


def test_attributes_of_every_kind() -> None:
    kinds = onnx.AttributeProto
    tensor, graph = onnx.numpy_helper.from_array(np.ones(2)), onnx.helper.make_graph([], "empty", [], [])
    several: dict[int, list[Any]] = {
        kinds.FLOATS: [0.5, -1.0], kinds.INTS: [3, -1], kinds.STRINGS: [b"a", b"b"],
        kinds.TENSORS: [tensor, tensor], kinds.GRAPHS: [graph, graph],
    }  # fmt: skip
    one = [onnx.helper.make_attribute(f"one{i}", value[0]) for i, value in enumerate(several.values())]
    zero = [onnx.helper.make_attribute(f"zero{i}", value) for i, value in enumerate((0.0, 0, b""))]
    for attribute, name in zip(zero, "fis", strict=True):
        attribute.ClearField(name)  # as encoders leave out what is nothing
    many = [onnx.helper.make_attribute(f"many{kind}", value) for kind, value in several.items()]
    none = [onnx.helper.make_attribute(f"none{kind}", [], attr_type=kind) for kind in several]
    attributes = [*one, *zero, *many, *none]
    node = onnx.helper.make_node("Any", [], [])
    node.attribute.extend(attributes)
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "whole", [], []))
    found = read_model(model.SerializeToString()).graph.nodes[0].attributes
    assert list(found) == [attribute.name for attribute in attributes]
    for attribute in attributes:
        value, wanted = found[attribute.name], onnx.helper.get_attribute_value(attribute)
        pairs = zip(value, wanted, strict=True) if isinstance(value, list) else [(value, wanted)]
        assert isinstance(value, list) == (attribute in many or attribute in none)
        for a, b in pairs:
            same(a, b, onnx, Path())


def test_functions_have_references() -> None:
    from onnx import helper

    node = helper.make_node("Elu", ["x"], ["y"])
    node.attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="a", type=onnx.AttributeProto.FLOAT)
    )
    opsets = [helper.make_opsetid("", 18)]
    local = helper.make_function("mine", "MyElu", ["x"], ["y"], [node], opsets, ["b"])
    local.attribute_proto.append(helper.make_attribute("a", 0.5))
    graph = helper.make_graph([], "empty", [], [])
    model = helper.make_model(graph, functions=[local], opset_imports=opsets)
    found = read_model(model.SerializeToString()).functions["mine", "MyElu"]
    assert (found.inputs, found.outputs, found.opsets) == (("x",), ("y",), {"": 18})
    assert found.attributes == {"a": 0.5, "b": None}
    assert found.nodes[0].attributes == {"alpha": Reference("a")}


@pytest.mark.depth
def test_damaged_models_end_in_a_model_or_a_value_error() -> None:
    model = (MODELS / "optimum-gpt2" / "model.onnx").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(model[: rng.integers(1, len(model))] if rng.random() < 0.5 else model)
        for at in rng.integers(0, len(damaged), 20):
            damaged[at] = rng.integers(256)
        try:
            read_model(bytes(damaged))
        except ValueError:
            continue


def test_graphs_in_graphs_without_end() -> None:
    graph = b""
    for _ in range(40):
        graph = field(1, field(5, field(6, graph)))
    raises(ValueError, "nested deeper", lambda: read_model(field(7, graph)))
    raises(ValueError, "holds 0 graphs", lambda: read_model(b""))
