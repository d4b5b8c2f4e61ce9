"""A traced graph as the bytes of an ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lite._files.onnx import writer
from lite._transforms.graphs.graph import Body, Node
from lite._transforms.graphs.sizes import Size
from lite._transforms.graphs.trace import Traced

OPSET = 20  # the first that has Gelu; onnxruntime knows it since 1.17


def model_bytes(
    traced: Traced, name: str = "step", opset: int = OPSET, metadata: Mapping[str, str] | None = None,
    producer: tuple[str, str] = ("lite", ""), tensors: Iterable[bytes] | None = None,
) -> bytes:  # fmt: skip
    """The model with its arrays.

    Args:
        traced: the graph.
        name: name of the graph.
        opset: the version of ONNX's operators.
        metadata: the model's metadata properties.
        producer: name and version of the program.
        tensors: the arrays, where some of them are in another file; by default all are inside.
    """
    nodes = _nodes(traced.nodes)
    if tensors is None:
        tensors = [writer.tensor(key, array) for key, array in traced.arrays.items()]
    inputs = [writer.value(x.name, x.dtype, x.shape) for x in traced.inputs]
    outputs = [writer.value(key, dtype, shape) for key, shape, dtype in traced.outputs]
    return writer.model(writer.graph(name, nodes, tensors, inputs, outputs), opset, producer, metadata)


def _nodes(nodes: Iterable[Node]) -> list[bytes]:
    found = []
    for i, node in enumerate(nodes):
        # Not the name of a value: onnxslim gives each node that of one, and so one name to two nodes.
        name = f"{node.path}/{node.op}_node{i}" if node.path else f"{node.op}_node{i}"
        attributes = dict(node.attributes)
        if node.body is not None:
            attributes["body"] = _body(node.body, node.outputs[0])
        found.append(writer.node(node.op, name, node.inputs, node.outputs, attributes))
    return found


def _body(body: Body, name: str) -> bytes:
    """A subgraph of a node; its dynamic sizes have no names."""
    sides = [
        [
            writer.value(key, dtype, [None if type(n) is Size else int(n) for n in shape])
            for key, shape, dtype in side
        ]
        for side in (body.inputs, body.outputs)
    ]
    return writer.graph(name, _nodes(body.nodes), (), *sides)
