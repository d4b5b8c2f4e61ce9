"""Operators that read and write at places."""

from typing import Any

import numpy as np
from helpers.onnx_nodes import Case, check_all, model_of, module_of, numbers, untyped

from lite import TensorDict, jit, nn, value_and_grad, vmap
from lite._files.onnx import writer

CASES = [
    Case("Gather", [numbers(4, 3), np.array([[0, -1], [2, 2]])], {"axis": 0}),
    Case("GatherElements", [numbers(4, 3), np.array([[0, -1, 2]])], {"axis": 0}),
    Case("GatherND", [numbers(4, 3), np.array([[0, 1], [3, -1]])]),
    Case("GatherND", [numbers(2, 4, 3), np.array([[1], [2]])], {"batch_dims": 1}),
    Case("Slice", [numbers(4, 3), np.array([3]), np.array([-(2**63)]), np.array([0]), np.array([-2])]),
    Case("Slice", [numbers(4, 3), np.array([1, 0]), np.array([2**63 - 1, 2])]),
    Case("Slice", [numbers(4, 3), np.array([2]), np.array([2**31 - 1]), np.array([0]), np.array([-1])]),
    Case("Slice", [numbers(4, 3), np.array([-9]), np.array([-9]), np.array([0]), np.array([-2])]),
    Case("ScatterElements", [numbers(4, 3), np.array([[0, 1, 2]]), numbers(1, 3)], {"reduction": "add"}),
    Case("ScatterND", [numbers(4, 3), np.array([[1], [3]]), numbers(2, 3, seed=1)]),
    Case("ScatterND", [numbers(4, 3), np.array([[1], [1]]), numbers(2, 3, seed=1)], {"reduction": "add"}),
    Case("TopK", [numbers(4, 3), np.array([2])], {"axis": 1}, outputs=2),
    Case("TopK", [numbers(4, 3), np.array([2])], {"axis": 0, "largest": 0}, outputs=2),
    Case("TopK", [numbers(4, 3)], {"axis": 1, "k": 2}, outputs=2, opset=9),
    Case("ReverseSequence", [numbers(4, 2, 3), np.array([2, 4])]),
    Case("TensorScatter", [numbers(2, 4, 3), numbers(2, 2, 3, seed=1), np.array([0, 2])], opset=24),
    Case("ArrayFeatureExtractor", [numbers(4, 3), np.array([[2, 0]])], domain="ai.onnx.ml", maps=False),
    Case("Slice", [numbers(4, 3), np.array([3]), np.array([0]), np.array([0]), np.array([-1])]),
    Case(
        "TensorScatter", [numbers(2, 4, 3), numbers(2, 2, 3, seed=1), np.array([0, 2])], {"axis": 1}, opset=24
    ),
    Case("ReverseSequence", [numbers(4, 2), np.array([2, 4])]),
    Case("ReverseSequence", [numbers(2, 3, 2), np.array([2, 3])], {"batch_axis": 0, "time_axis": 1}),
    Case("ArrayFeatureExtractor", [numbers(4), np.array([2, 0])], domain="ai.onnx.ml", maps=False),
    Case("Unique", [np.float32([[2, 1, 2], [0, 5, 0]])], {"axis": 1, "sorted": 0}, outputs=4),
    Case("Unique", [np.float32([2, 1, 2])], {"sorted": 0}, outputs=4),
]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)


def test_learnt_updates_of_an_input_that_does_not_learn() -> None:
    for op, reduction in (("ScatterND", "none"), ("ScatterND", "add"), ("ScatterElements", "add")):
        nodes = [
            writer.node("Add", "moved", ["x", "x"], ["data"], {}),
            writer.node(op, "written", ["data", "places", "w"], ["y"], {"reduction": reduction}),
        ]
        places = np.array([[1], [1]]) if op == "ScatterND" else np.array([[0, 1, 0], [1, 0, 1]])
        given = {"places": places, "w": numbers(2, 3, seed=1)}
        net = nn.from_onnx(model_of(nodes, {"x": numbers(4, 3)}, ["y"], given), trainable=["w"], dtype=None)
        params = TensorDict.from_module(net).data.clone()

        def loss(params: TensorDict, x: np.ndarray, net: Any = net) -> Any:
            with params.to_module(net):
                return (net(x) ** 2).sum()

        x = numbers(4, 3)
        expected = value_and_grad(loss)(params, x)
        value, gradient = jit(value_and_grad(loss))(params, x)
        np.testing.assert_allclose(value, expected[0])
        np.testing.assert_allclose(gradient["w"], expected[1]["w"])


def test_classes_of_skl2onnx_are_taken_by_their_numbers() -> None:
    case = Case("ArrayFeatureExtractor", [np.array([7, 9, 4]), np.array([2, 2, 0])], domain="ai.onnx.ml")
    np.testing.assert_array_equal(module_of(case)(*case.inputs), [[4, 4, 7]])


def test_a_table_of_the_model_is_read_at_computed_places() -> None:
    """As the actions of which a policy chooses one: in a graph, and mapped."""
    actions = np.array([[7, 1], [9, 2], [4, 3]])
    for op, domain, table in (
        ("Gather", "", actions),
        ("GatherND", "", actions),
        ("ArrayFeatureExtractor", "ai.onnx.ml", actions.T),
    ):
        nodes = [
            writer.node("ArgMax", "best", ["x"], ["place"], {"axis": 1, "keepdims": 1}),
            writer.node(op, "chosen", ["table", "place"], ["y"], {}, domain),
        ]
        module = nn.from_onnx(model_of(nodes, {"x": numbers(2, 3)}, ["y"], {"table": table}))
        x = np.eye(3)[[2, 0]]
        want = module(x)
        np.testing.assert_array_equal(want.reshape(2, 2), actions[[2, 0]].T if domain else actions[[2, 0]])
        np.testing.assert_array_equal(jit(module)(x), want)
        np.testing.assert_array_equal(vmap(module)(x[:, None]), [module(row[None]) for row in x])


def test_texts_are_taken_along_any_axis() -> None:
    words = np.array([["a", "b"], ["c", "d"]], object)
    for op, at, options, want in (
        ("Gather", np.array([1]), {"axis": 1}, [["b"], ["d"]]),
        ("GatherND", np.array([1, 0]), {}, "c"),
    ):
        found = untyped(op, 2, **options)(words, at)
        np.testing.assert_array_equal(found, np.array(want, object), strict=True)
