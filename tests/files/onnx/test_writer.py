"""Models as the onnx package reads and checks them."""

from typing import Any

import numpy as np
import onnx
import pytest
from helpers.cases import each_case

from lite._files.onnx import writer


def written(**attributes: Any) -> bytes:
    nodes = [writer.node("Test", "node", ["x", ""], ["y"], attributes)]
    x = writer.value("x", np.dtype(np.float32), ["n", 3, None])
    y = writer.value("y", np.dtype(np.int64), [])
    tensors = [writer.tensor("w", np.arange(6, dtype=np.int64).reshape(2, 3).T)]
    graph = writer.graph("name", nodes, tensors, [x], [y])
    return writer.model(graph, 20, ("lite", "1"), {"key": "value"})


def test_the_onnx_package_reads_it() -> None:
    attributes: dict[str, Any] = {
        "i": -3, "f": 1.5, "s": "text", "ints": [1, -2], "floats": [0.5, 2.0], "strings": ["a", "b"],
        "to": np.dtype(np.float16), "flag": True, "none": [],
    }  # fmt: skip
    model = onnx.load_model_from_string(written(**attributes))
    (node,) = model.graph.node
    found = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    expected = {**attributes, "s": b"text", "strings": [b"a", b"b"], "to": 10, "flag": 1}
    assert found == expected
    assert list(node.input) == ["x", ""]
    dims = [dim.dim_param or dim.dim_value or None for dim in model.graph.input[0].type.tensor_type.shape.dim]
    assert dims == ["n", 3, None]
    np.testing.assert_array_equal(
        onnx.numpy_helper.to_array(model.graph.initializer[0]), np.arange(6).reshape(2, 3).T
    )
    assert (model.ir_version, model.opset_import[0].version, model.producer_name) == (9, 20, "lite")
    assert model.metadata_props[0].value == "value"


@each_case("dtype", sorted(set(writer.ELEMENT_TYPES) - {"bfloat16"}))
def test_arrays_of_every_dtype(dtype: str) -> None:
    array = np.array([[1, 0, 3]]).astype(dtype)
    tensor = onnx.TensorProto.FromString(writer.tensor("w", array))
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), array)
    assert onnx.numpy_helper.to_array(tensor).dtype == array.dtype


def test_dtypes_that_onnx_lacks() -> None:
    with pytest.raises(NotImplementedError, match="no operators for the dtype datetime64"):
        writer.element_type(np.dtype("M8[s]"))


def test_numbers_are_those_of_the_onnx_package() -> None:
    for name, number in writer.ELEMENT_TYPES.items():
        assert onnx.helper.tensor_dtype_to_np_dtype(number).name == name
    for opset, version in writer._IR_VERSIONS.items():
        assert onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)]) == version


def test_arrays_in_another_file() -> None:
    content = writer.tensor_elsewhere("w", np.dtype(np.float32), (2, 3), "data", 4096, 24)
    tensor = onnx.TensorProto.FromString(content)
    assert {entry.key: entry.value for entry in tensor.external_data} == {
        "location": "data",
        "offset": "4096",
        "length": "24",
    }
    assert (list(tensor.dims), tensor.data_location, tensor.name) == ([2, 3], 1, "w")
