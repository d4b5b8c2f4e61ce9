"""Branches and loops: what they read of the graph around them, what they give, and that they end."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.onnx_nodes import model_of

from lite import grad, jit, nn, vmap
from lite._files.onnx import writer
from lite.nn._import import control


def body(nodes: list[bytes], inputs: list[str], outputs: list[str]) -> bytes:
    given = [writer.text(1, name) for name in inputs]
    return writer.graph("body", nodes, [], given, [writer.text(1, name) for name in outputs])


def loop(nodes: list[bytes], inputs: list[str], outputs: list[str], **arrays: np.ndarray) -> nn.Module:
    inner = body(nodes, ["i", "goes_on", *inputs], ["more", *outputs])
    count = max(0, len(outputs) - len(inputs))
    results = [f"y{i}" for i in range(len(inputs) + count)]
    node = writer.node("Loop", "loop", ["n", "", *(f"{x}0" for x in inputs)], results, {"body": inner})
    known = {"n": np.array(3), **{f"{x}0": np.zeros(2) for x in inputs}, **arrays}
    return nn.from_onnx(model_of([node], known, results))


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> bytes:
    return writer.node(op, "", inputs.split(), outputs.split(), attributes)


def test_a_branch_reads_what_is_around_it() -> None:
    yes, no = body([node("Mul", "x w", "a")], [], ["a"]), body([node("Add", "x x", "b")], [], ["b"])
    choice = writer.node("If", "", ["c"], ["y"], {"else_branch": no, "then_branch": yes})
    x, weights = np.ones(2, np.float32), {"w": np.array([3.0, 4.0], np.float32)}
    net = nn.from_onnx(model_of([choice], {"c": np.array(True), "x": x}, ["y"], weights))
    np.testing.assert_array_equal(net(np.array(True), x), [3, 4])
    np.testing.assert_array_equal(net(np.array(False), x), [2, 2])
    np.testing.assert_array_equal(grad(lambda x: net(np.array(True), x).sum())(x), [3, 4])


def test_a_branch_that_numbers_choose_is_traced_and_mapped() -> None:
    """Both are computed there, which have to be of one shape."""
    yes, no = body([node("Mul", "x w", "a")], [], ["a"]), body([node("Neg", "x", "b")], [], ["b"])
    long = body([node("Concat", "x x", "b", axis=0)], [], ["b"])
    x, w = np.array([2.0, -1.0], np.float32), {"w": np.array([3.0, 4.0], np.float32)}
    chosen = [node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "c")]
    for other in (no, long):
        choice = writer.node("If", "if", ["c"], ["y"], {"else_branch": other, "then_branch": yes})
        net = nn.from_onnx(
            model_of([*chosen, choice], {"x": x}, ["y"], w | {"zero": np.zeros((), np.float32)})
        )
        if other is long:
            raises(NotImplementedError, "branches have other shapes", jit(net), x)
            continue
        both = np.stack([x, -x])
        np.testing.assert_array_equal(vmap(net)(both), [[6, -4], [2, -1]])
        slopes = vmap(grad(lambda x, net=net: net(x).sum()))(both)
        np.testing.assert_array_equal(slopes, [[3, 4], [-1, -1]])
        for given, wanted in zip(both, slopes, strict=True):
            np.testing.assert_array_equal(jit(net)(given), net(given))
            np.testing.assert_array_equal(jit(grad(lambda x, net=net: net(x).sum()))(given), wanted)


def test_the_branch_that_is_not_taken_has_no_derivative() -> None:
    yes, no = body([node("Sqrt", "x", "a")], [], ["a"]), body([node("Neg", "x", "b")], [], ["b"])
    choice = writer.node("If", "", ["c"], ["y"], {"else_branch": no, "then_branch": yes})
    chosen = [node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "c")]
    both = np.array([[4.0, 16.0], [0.0, 0.0]], np.float32)  # where a square root has no finite slope
    net = nn.from_onnx(model_of([*chosen, choice], {"x": both[0]}, ["y"], {"zero": np.float32([0])[0]}))
    slope = grad(lambda x: net(x).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        found = vmap(slope)(both)
    np.testing.assert_array_equal(found, [[0.25, 0.125], [-1, -1]])
    np.testing.assert_array_equal(jit(slope)(both[1]), [-1, -1])


def test_a_loop_carries_states_and_stacks_outputs() -> None:
    steps = [node("Add", "s x", "t"), node("Identity", "goes_on", "more"), node("Neg", "t", "u")]
    net = loop(steps, ["s"], ["t", "u"], x=np.ones(2))
    last, rows = net(np.array(3), np.zeros(2), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(last, [3, 6])
    np.testing.assert_array_equal(rows, [[-1, -2], [-2, -4], [-3, -6]])
    np.testing.assert_array_equal(
        grad(lambda x: net(np.array(4), np.zeros(2), x)[1].sum())(np.ones(2)), [-10, -10]
    )


def test_a_loop_ends_where_its_condition_says() -> None:
    steps = [
        node("Add", "s x", "t"),
        node("ReduceMax", "t", "top", keepdims=0),
        node("Less", "top five", "more"),
    ]
    net = loop(steps, ["s"], ["t"], x=np.ones(2), five=np.array(5.0))
    np.testing.assert_array_equal(
        net(np.array(100), np.zeros(2), np.array([1.0, 2.0]), np.array(5.0)), [3, 6]
    )


def test_an_endless_loop_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MAX_SECONDS", 0.05)
    net = loop([node("Identity", "goes_on", "more"), node("Identity", "s", "t")], ["s"], ["t"])
    with pytest.raises(TimeoutError, match="may never end: a loop took over"):
        net(np.array(2**60), np.zeros(2))


def test_a_scan_walks_both_ways() -> None:
    inner = body([node("Add", "s x", "t"), node("Mul", "s x", "p")], ["s", "x"], ["t", "p"])
    attributes = {
        "body": inner, "num_scan_inputs": 1, "scan_input_directions": [1], "scan_output_directions": [1],
    }  # fmt: skip
    scan = writer.node("Scan", "", ["s0", "xs"], ["s", "ps"], attributes)
    xs = np.arange(1.0, 4.0)[:, None]
    net = nn.from_onnx(model_of([scan], {"s0": np.zeros(1), "xs": xs}, ["s", "ps"]))
    last, products = net(np.zeros(1), xs)
    np.testing.assert_array_equal(last, [6])
    np.testing.assert_array_equal(products[:, 0], [5, 6, 0])
    np.testing.assert_array_equal(grad(lambda xs: net(np.zeros(1), xs)[1].sum())(xs)[:, 0], [5, 4, 3])
    for count in (-(10**12), 0, 10**12):  # of which no tuple is made
        scan = writer.node("Scan", "", ["s0", "xs"], ["s", "ps"], {"body": inner, "num_scan_inputs": count})
        raises(
            ValueError,
            f"num_scan_inputs .*{count}",
            nn.from_onnx,
            model_of([scan], {"s0": xs, "xs": xs}, ["s"]),
        )


def test_a_loop_without_a_step_gives_rows_of_the_type_that_the_graph_tells() -> None:
    given = [writer.value("i", np.dtype(np.int64), []), writer.value("more", np.dtype(bool), [])]
    told = [writer.value("m", np.dtype(bool), []), writer.value("row", np.dtype(np.int64), ["any", 3])]
    kept = [writer.tensor("x", np.ones((2, 3), np.int64))]
    inner = writer.graph(
        "b", [node("Identity", "more", "m"), node("Identity", "x", "row")], kept, given, told
    )
    loop = writer.node("Loop", "", ["n", ""], ["rows"], {"body": inner})
    net = nn.from_onnx(model_of([loop], {"n": np.array(0)}, ["rows"]))
    np.testing.assert_array_equal(net(np.array(0)), np.zeros((0, 0, 3), np.int64), strict=True)
    np.testing.assert_array_equal(net(np.array(2)), np.ones((2, 2, 3), np.int64), strict=True)
    xs = np.zeros((2, 0), np.float32)
    step = writer.graph("b", [node("Identity", "x", "row")], [], [writer.text(1, "x")], told[1:])
    options = {"num_scan_inputs": 1, "scan_input_axes": [1], "scan_output_axes": [-1], "body": step}
    net = nn.from_onnx(model_of([node("Scan", "xs", "rows", **options)], {"xs": xs}, ["rows"]))
    np.testing.assert_array_equal(net(xs), np.zeros((0, 3, 0), np.int64), strict=True)
