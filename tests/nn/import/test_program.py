"""Graphs as steps: their order, constants, functions, and what is refused when a graph is read."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.onnx_nodes import model_of

from lite import nn
from lite._files.onnx import writer
from lite._files.onnx.wire import field, integer, text
from lite.nn._import import program

X = np.array([1.0, 2.0], np.float32)


def node(op: str, inputs: str, outputs: str, domain: str = "") -> bytes:
    return writer.node(op, f"the_{op}", inputs.split(), outputs.split(), {}, domain)


@each_case(
    ("nodes", "message"),
    [
        (
            [node("Neg", "b", "a"), node("Neg", "a", "b")],
            "'the_Neg' .Neg. reads 'b', which nothing before it gives",
        ),
        ([node("Neg", "x", "a"), node("Abs", "x", "a")], "the value 'a' is given twice"),
        ([node("Neg", "x", "x")], "the value 'x' is given twice"),
    ],
)
def test_nodes_in_no_order_are_refused(nodes: list[bytes], message: str) -> None:
    raises(ValueError, message, nn.from_onnx, model_of(nodes, {"x": X}, ["x" if len(nodes) == 1 else "a"]))


def test_all_missing_operators_are_named_at_once() -> None:
    nodes = [node("Fancy", "x", "a", "my.domain"), node("Neg", "a", "b"), node("Plain", "b", "c")]
    with pytest.raises(NotImplementedError, match=r"'the_Fancy'.*Fancy of my.domain; 'the_Plain'.*Plain"):
        nn.from_onnx(model_of(nodes, {"x": X}, ["c"]))
    many = [node("Fancy", f"v{i}", f"v{i + 1}", "my.domain") for i in range(9)]
    for count, end in ((8, r"Fancy of my.domain\."), (9, r"Fancy of my.domain; and 1 more\.")):
        raises(NotImplementedError, end, nn.from_onnx, model_of(many[:count], {"v0": X}, [f"v{count}"]))
    for op, domain, hint in (
        ("ZipMap", "ai.onnx.ml", "zipmap"),
        ("Conv", "com.microsoft.nchwc", "EXTENDED"),
        ("RandomNormalLike", "", "as an input"),
    ):
        one = writer.node(op, "", ["x"], ["y"], {}, domain)
        raises(NotImplementedError, hint, nn.from_onnx, model_of([one], {"x": X}, ["y"]))
    nn.from_onnx(model_of(nodes, {"x": X, "y": X}, ["x"]))  # what no output needs is not looked at


def test_constants_are_computed_once() -> None:
    nodes = [node("Add", "one one", "two"), node("Neg", "two", "minus"), node("Mul", "x minus", "y")]
    net = nn.from_onnx(model_of(nodes, {"x": X}, ["y"], {"one": np.array(1.0, np.float32)}))
    assert len(net._source.program.steps) == 1
    np.testing.assert_array_equal(net(X), [-2, -4])


def function(name: str, inputs: str, outputs: str, nodes: list[bytes]) -> bytes:
    parts = [text(1, name), *(text(4, x) for x in inputs.split()), *(text(5, x) for x in outputs.split())]
    parts += [field(7, one) for one in nodes]
    return field(25, b"".join([*parts, field(9, text(1, "") + integer(2, 21)), text(10, "mine")]))


def test_functions_of_the_model() -> None:
    nodes = [node("Twice", "x", "y", "mine")]
    twice = function("Twice", "a", "c", [node("Add", "a a", "b"), node("Neg", "b", "c")])
    net = nn.from_onnx(model_of(nodes, {"x": X}, ["y"]) + twice)
    np.testing.assert_array_equal(net(X), [-2, -4])


def test_functions_that_grow_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_NODES", 1000)
    bomb = b"".join(
        function(
            f"F{i}", "a", "c", [node(f"F{i + 1}", "a", "b", "mine"), node(f"F{i + 1}", "b", "c", "mine")]
        )
        for i in range(14)
    )
    bomb += function("F14", "a", "c", [node("Neg", "a", "c")])
    model = model_of([node("F0", "x", "y", "mine")], {"x": X}, ["y"])
    raises(ValueError, "at most 1000 nodes", lambda: nn.from_onnx(model + bomb))
    itself = function("F0", "a", "c", [node("F0", "a", "c", "mine")])
    raises(ValueError, "nested deeper", lambda: nn.from_onnx(model + itself))


def test_an_error_says_in_which_node() -> None:
    net = nn.from_onnx(model_of([node("MatMul", "x x", "y")], {"x": X[None]}, ["y"]))
    with pytest.raises(RuntimeError, match="last dimension") as caught:
        net(np.ones((2, 3), np.float32))
    assert caught.value.__notes__ == ["in the node 'the_MatMul' (MatMul)"]
    shapes = {"a": np.zeros((2, 3), np.int64)}
    with pytest.raises(ValueError, match="mismatch") as refused:
        nn.from_onnx(model_of([node("MatMul", "a a", "y")], {"x": X}, ["y"], shapes))
    assert getattr(refused.value.__cause__, "__notes__", []) == caught.value.__notes__


def test_values_are_let_go_after_their_last_use() -> None:
    nodes = [node("Neg", "x", "a"), node("Abs", "a", "b"), node("Neg", "b", "y")]
    steps = nn.from_onnx(model_of(nodes, {"x": X}, ["y"]))._source.program.steps
    assert [len(step.done) for step in steps] == [1, 1, 1]


def test_outputs_that_nobody_reads_are_no_rows_of_the_first() -> None:
    ones = np.ones(2, np.float32)
    for op, given, expected in (("Dropout", "", [1, 2]), ("LayerNormalization", " w", [-1, 1])):
        nodes = [node(op, f"a{given}", "b unread"), node("Mul", "b x", "y")]
        for held in ({}, {"a": X}):
            inputs = {"x": ones} if held else {"a": X, "x": ones}
            net = nn.from_onnx(model_of(nodes, inputs, ["y"], {"w": ones, **held}), trainable=False)
            np.testing.assert_allclose(net(**inputs), expected, atol=1e-4)


def test_an_input_that_is_left_out_is_no_output_that_nobody_reads() -> None:
    nodes = [
        writer.node("Split", "halves", ["x"], ["", "half"], {"axis": 0, "num_outputs": 2}),
        writer.node("Clip", "clip", ["half", "", "most"], ["y"], {}),
    ]
    x, most = np.arange(4, dtype=np.float32), np.float32(2.5)
    net = nn.from_onnx(model_of(nodes, {"x": x, "most": most}, ["y"]))
    np.testing.assert_array_equal(net(x[::-1], most), [1, 0])


def test_constants_that_a_node_cannot_compute_with_are_told_with_the_model() -> None:
    nodes = [
        writer.node("Gather", "cut", ["w", "w"], ["c"], {}),
        writer.node("Add", "", ["x", "c"], ["y"], {}),
    ]
    held = {"w": np.array([0, 9])}
    raises(
        ValueError, "the model: 'cut' .Gather.: index 9", nn.from_onnx, model_of(nodes, {"x": X}, ["y"], held)
    )


def test_weights_that_lack_numbers_are_told_with_the_model() -> None:
    """Also where masks are looked for, which reads them first."""
    graph = writer.graph(
        "graph",
        [node("Add", "x w", "y")],
        [integer(1, 10**9) + integer(2, 1) + text(8, "w") + field(9, b"")],  # dims, data_type, name, raw_data
        [writer.value("x", X.dtype, [2])],
        [text(1, "y")],
    )
    raises(
        ValueError,
        "the model: the weight 'w': .* has 0 bytes",
        nn.from_onnx,
        writer.model(graph, 21, ("", "")),
    )
