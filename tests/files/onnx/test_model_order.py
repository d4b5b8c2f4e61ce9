"""The order of nodes: kept where it can be, found where it is not that of the file."""

import numpy as np
from helpers.onnx_nodes import model_of

from lite import nn
from lite._files.onnx import writer
from lite._files.onnx.model import Operation, in_order, read_model, reads_of

X = np.array([1.0, 2.0], np.float32)


def node(op: str, inputs: str, outputs: str) -> bytes:
    return writer.node(op, "", inputs.split(), outputs.split(), {})


def nodes_of(*parts: bytes) -> tuple[Operation, ...]:
    return read_model(model_of(list(parts), {"x": X}, ["y"])).graph.nodes


def test_nodes_that_stand_before_what_they_read() -> None:
    nodes = nodes_of(
        node("Neg", "b", "y"), node("Abs", "x", "a"), node("Exp", "x", "c"), node("Sqrt", "a", "b")
    )
    assert [x.op for x in in_order(nodes)] == ["Abs", "Exp", "Sqrt", "Neg"]
    assert in_order(in_order(nodes)) == in_order(nodes)
    turned = model_of([node("Neg", "b", "y"), node("Abs", "x", "b")], {"x": X}, ["y"])
    for net in (nn.from_onnx(turned), nn.from_onnx(turned, outputs=["y"])):
        np.testing.assert_array_equal(net(X), [-1, -2])


def test_circles_come_last_as_they_are() -> None:
    nodes = nodes_of(node("Neg", "b", "a"), node("Abs", "a", "b"), node("Exp", "x", "y"))
    assert [x.op for x in in_order(nodes)] == ["Exp", "Neg", "Abs"]


def test_graphs_in_nodes_read_what_is_around_them() -> None:
    inner = writer.graph("inner", [node("Neg", "a", "b")], [], [], [writer.text(1, "b")])
    branch = writer.node("If", "", ["c"], ["y"], {"then_branch": inner, "else_branch": inner})
    nodes = nodes_of(branch, node("Abs", "x", "a"), node("Not", "x", "c"))
    assert {"a", "c"} <= reads_of(nodes[0])
    assert [x.op for x in in_order(nodes)] == ["Abs", "Not", "If"]
