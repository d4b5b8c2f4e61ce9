"""Graphs as models of the onnx package."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from lite._files.onnx.writer import ELEMENT_TYPES as TYPES
from lite._files.onnx.writer import element_type
from lite._transforms.graphs.model import build, import_onnx
from lite._transforms.graphs.trace import Input, trace


def test_types_are_those_of_onnx() -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("ml_dtypes")
    for name, number in TYPES.items():
        np.testing.assert_equal(onnx.helper.tensor_dtype_to_np_dtype(number).name, name)
    with pytest.raises(NotImplementedError, match="no operators for the dtype complex64"):
        element_type(np.dtype(np.complex64))


def test_the_model() -> None:
    onnx = pytest.importorskip("onnx")
    inputs = [Input("x", ("n", 3), np.dtype(np.float32))]
    found = trace(lambda graph, arrays: {"y": np.tanh(arrays[0]).astype(np.float64)}, inputs)
    model, arrays = build(found, "net", 20, ("lite", "1.0"), {"a": "b"})
    onnx.checker.check_model(model, full_check=True)
    np.testing.assert_equal([node.op_type for node in model.graph.node], ["Tanh", "Cast"])
    np.testing.assert_equal(
        (model.graph.name, model.producer_name, model.opset_import[0].version), ("net", "lite", 20)
    )
    np.testing.assert_equal((model.metadata_props[0].key, model.ir_version <= 10, arrays), ("a", True, {}))
    dims = model.graph.output[0].type.tensor_type.shape.dim
    np.testing.assert_equal((dims[0].dim_param, dims[1].dim_value), ("n", 3))


def test_without_onnx_the_command_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install -e "\.\[export\]"'):
        import_onnx()
