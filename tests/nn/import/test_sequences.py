"""Lists of arrays, made and taken apart."""

import numpy as np
from helpers.onnx_nodes import model_of

from lite import grad, nn
from lite._files.onnx import writer


def test_lists_are_cut_changed_and_joined() -> None:
    nodes = [
        writer.node("SplitToSequence", "", ["x"], ["items"], {"axis": 0}),
        writer.node("SequenceErase", "", ["items", "one"], ["fewer"], {}),
        writer.node("SequenceInsert", "", ["fewer", "y", "zero"], ["more"], {}),
        writer.node("ConcatFromSequence", "", ["more"], ["z"], {"axis": 0}),
        writer.node("SequenceErase", "", ["more"], ["but_the_last"], {}),
        writer.node("ConcatFromSequence", "", ["but_the_last"], ["rest"], {"axis": 0}),
        writer.node("SequenceAt", "", ["more", "last"], ["end"], {}),
    ]
    x, y = np.arange(6.0).reshape(3, 2), np.full((2, 2), 9.0)
    weights = {"one": np.array(1), "zero": np.array(0), "last": np.array(-1)}
    net = nn.from_onnx(model_of(nodes, {"x": x, "y": y}, ["z", "end", "rest"], weights))
    z, end, rest = net(x, y)
    np.testing.assert_array_equal(z, [[9, 9], [9, 9], [0, 1], [4, 5]])
    np.testing.assert_array_equal(end, [[4, 5]])
    np.testing.assert_array_equal(rest, z[:-1])
    np.testing.assert_array_equal(grad(lambda x: net(x, y)[0].sum())(x), [[1, 1], [0, 0], [1, 1]])
