"""A traced graph as bytes that the onnx package checks and onnxruntime runs."""

from typing import Any

import numpy as np
import onnx
import onnxruntime

from lite._transforms.graphs.trace import Input, trace
from lite._transforms.graphs.writer import model_bytes


def test_bytes_of_a_graph() -> None:

    def run(graph: Any, arrays: Any) -> dict[str, Any]:
        with graph.running("part"):
            return {"y": np.tanh(np.tanh(arrays[0])).sum(0) * np.arange(3.0)}

    traced = trace(run, [Input("x", ("n", 3), np.dtype(np.float64))])
    content = model_bytes(traced, "name", metadata={"a": "b"})
    model = onnx.load_model_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    values = {name for node in model.graph.node for name in (*node.input, *node.output)}
    assert len({node.name for node in model.graph.node} - values) == len(model.graph.node)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    x = np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(session.run(["y"], {"x": x})[0], np.tanh(np.tanh(x)).sum(0) * np.arange(3.0))
