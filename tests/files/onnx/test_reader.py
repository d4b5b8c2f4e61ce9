"""The nodes of a graph, read from a file's bytes, against onnx's own reading of them."""

import numpy as np
import onnx
from helpers.cases import each_case, raises
from helpers.models.real_models import MODELS

from lite._files.onnx import reader

FILES = sorted(MODELS.rglob("*.onnx"))[::4]


@each_case("path", FILES)
def test_as_onnx_reads_them(path: object) -> None:
    model = onnx.load(path, load_external_data=False)
    data = model.SerializeToString()
    graph = reader.read_graph(data)
    assert len(graph.nodes) == len(model.graph.node)
    for node, want in zip(graph.nodes, model.graph.node, strict=True):
        assert (node.kind.decode(), node.domain.decode()) == (want.op_type, want.domain)
        assert [name.decode() for name in node.inputs] == list(want.input)
        assert [name.decode() for name in node.outputs] == list(want.output)
        assert data[slice(*node.span)] == want.SerializeToString()
        assert node.first is None or data[slice(*node.first)] == node.inputs[0]
        assert len(node.attributes) == len(want.attribute)
    for spans, values in ((graph.inputs, model.graph.input), (graph.outputs, model.graph.output)):
        for value in values:
            kind, dims = reader.dimensions(data, spans[value.name.encode()])
            assert kind == value.type.tensor_type.elem_type
            assert dims == [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    few = 0
    for weight in model.graph.initializer:
        name = weight.name.encode()
        tensor = reader.read_tensor(data, graph.weights[name])
        assert (tensor.dims, tensor.kind) == (tuple(weight.dims), weight.data_type)
        got = reader.constant(data, graph, name)
        if got is not None:
            np.testing.assert_array_equal(got, onnx.numpy_helper.to_array(weight).reshape(-1))
        few += got is not None
    for want in model.graph.node:
        got = reader.constant(data, graph, want.output[0].encode())
        if want.op_type != "Constant":
            assert got is None
        elif got is not None:
            value = onnx.numpy_helper.to_array(want.attribute[0].t)
            np.testing.assert_array_equal(got, value.reshape(-1))
            few += 1
    assert few


@each_case(
    ("values", "want"),
    [
        ([1.5, -2.0], [1.5, -2.0]),
        (np.array([-3, 2**62]), [-3, 2**62]),
        (np.array([True, False]), [1, 0]),
        (np.array(-7, np.int32), [-7]),
        (np.zeros(65, np.int64), None),
        (np.zeros(3, np.float64), None),
    ],
)
@each_case("raw", [True, False])
def test_numbers_raw_and_in_fields(values: object, want: list[float] | None, raw: bool) -> None:
    array = np.asarray(values, None if isinstance(values, np.ndarray) else np.float32)
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    content = array.tobytes() if raw else array.reshape(-1).tolist()
    tensor = onnx.helper.make_tensor("x", kind, array.shape, content, raw=raw)
    node = onnx.helper.make_node("Constant", [], ["x"], value=tensor)
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], []))
    data = model.SerializeToString()
    got = reader.constant(data, reader.read_graph(data), b"x")
    (same,) = reader.attribute_numbers(data, reader.read_graph(data).nodes[0])
    for found in (got, same):
        assert (found is None) == (want is None)
        if want is not None and found is not None:
            np.testing.assert_array_equal(found, want)


def test_numbers_of_attributes() -> None:
    node = onnx.helper.make_node(
        "Any", ["a"], ["b"], one=-1, many=[3, 4], real=0.5, reals=[1.0, 2.0], text="x"
    )
    data = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [])).SerializeToString()
    found = [
        part.tolist()
        for part in reader.attribute_numbers(data, reader.read_graph(data).nodes[0])
        if part is not None
    ]
    flat = sorted(number for part in found for number in part)
    assert flat == [-1, 0.5, 1, 2, 3, 4]
    assert reader.named_integers(data, reader.read_graph(data).nodes[0]) == {b"one": -1}


@each_case("data", [b"", b"\x3a\x7f", b"\x3a\x00\x3a\x00"])
def test_what_has_not_one_graph_is_refused(data: bytes) -> None:
    raises(ValueError, "not a", reader.read_graph, data)
