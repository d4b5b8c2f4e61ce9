"""A traced graph as a model of the onnx package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lite._files.onnx.writer import element_type
from lite._transforms.graphs.graph import Node
from lite._transforms.graphs.trace import Traced
from lite.kernels._install import install


def import_onnx() -> Any:
    """The onnx package, or ImportError with the command that installs it."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(f"to_onnx needs onnx: {install('export')}") from error
    return onnx


def build(
    traced: Traced, name: str, opset: int, producer: tuple[str, str], metadata: Mapping[str, str]
) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
    """The model, in which arrays are still empty, and its arrays by name.

    Args:
        traced: the graph.
        name: of the graph.
        opset: the version of ONNX's operators.
        producer: name and version of the program.
        metadata: what the model says about itself.
    """
    helper = import_onnx().helper
    nodes = [_node(helper, node, i) for i, node in enumerate(traced.nodes)]
    inputs = [helper.make_tensor_value_info(x.name, element_type(x.dtype), x.shape) for x in traced.inputs]
    outputs = [
        helper.make_tensor_value_info(name, element_type(dtype), shape)
        for name, shape, dtype in traced.outputs
    ]
    graph = helper.make_graph(nodes, name, inputs, outputs)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)],
        producer_name=producer[0],
        producer_version=producer[1],
        # the format that came with the operators, so that no older runtime refuses it for its number alone
        ir_version=helper.find_min_ir_version_for([helper.make_opsetid("", opset)]),
    )
    helper.set_model_props(model, dict(metadata))
    return model, traced.arrays


def _node(helper: Any, node: Node, index: int) -> Any:
    attributes = {
        key: element_type(value) if isinstance(value, np.dtype) else value
        for key, value in node.attributes.items()
    }
    name = f"{node.path}/{node.op}_{index}" if node.path else f"{node.op}_{index}"
    return helper.make_node(node.op, list(node.inputs), list(node.outputs), name=name, **attributes)
