"""Inputs and outputs of a graph: their types, and which axis is the batch."""

from typing import Any

import pytest
from helpers.models.scripted_session import Arg, Session

from lite.models import OnnxModule
from lite.models.graph.tensors import read_tensors


def test_the_batch_axis() -> None:
    cases: list[tuple[list[Any], list[Any], list[int | None]]] = [
        ([["b", 4]], [["b", 2]], [0, 0]),
        ([["b", 4], [2, "b", 8]], [["b", 2], [2, "lost_name", 8]], [0, 1, 0, 1]),
        ([["b1", 4], ["b2", 8]], [["b3", 1]], [0, 0, 0]),
        ([[None, 4], [None, 8]], [[None, 1]], [0, 0, 0]),
        ([["b", "time", 4], ["b", "time"]], [["b", "time", 2]], [0, 0, 0]),
        ([["time", "b", 4], [1, "b", 8]], [["time", "b", 2]], [1, 1, 1]),
        ([["b", "time", 4], ["time"]], [["b", 2]], [0, None, 0]),
        ([["b", 4], [1]], [["b", 2], [3]], [0, None, 0, None]),
        ([[1, 4]], [[1, 2]], [None, None]),
        ([[]], [[]], [None, None]),
    ]
    for ins, outs, axes in cases:
        tensors = [
            [Arg(f"{kind}{i}", s) for i, s in enumerate(shapes)]
            for kind, shapes in zip("xy", (ins, outs), strict=True)
        ]
        read = read_tensors(Session(*tensors))  # type: ignore[arg-type]
        assert [tensor.batch for tensor in (*read[0], *read[1])] == axes, ins


def test_the_batch_axis_can_be_told() -> None:
    ins, outs = [Arg("x", ["n", 4]), Arg("table", ["n", 3])], [Arg("y", ["n", 2])]
    (x, table), (y,) = read_tensors(Session(ins, outs), {"table": None, "y": None})  # type: ignore[arg-type]
    assert (x.batch, table.batch, y.batch) == (0, None, None)


def test_types_other_than_numeric_tensors() -> None:
    session = Session([Arg("text", ["n"], "tensor(string)")], [Arg("y", ["n"])])
    with pytest.raises(ValueError, match=r"'text' has the type tensor\(string\); numeric tensors only"):
        OnnxModule(session)
