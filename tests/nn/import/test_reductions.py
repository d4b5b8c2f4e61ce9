"""Operators along axes."""

import numpy as np
from helpers.onnx_nodes import Case, check_all, module_of, numbers

CASES = [
    *[
        Case(f"Reduce{op}", [np.abs(numbers(3, 4, 2)) + 0.5, np.array([0, -1])], {"keepdims": keep})
        for op, keep in (("Sum", 1), ("Mean", 0), ("Max", 1), ("Prod", 0), ("L2", 1), ("LogSum", 0))
    ],
    Case("ReduceLogSumExp", [numbers(3, 4), np.array([1])]),
    Case("ReduceSum", [numbers(3, 4)], {"keepdims": 0}),
    Case("CumSum", [numbers(3, 4), np.array(1)], {"exclusive": 1, "reverse": 1}),
    Case("Softmax", [numbers(3, 4)]),
    Case("LogSoftmax", [numbers(2, 3, 4)], {"axis": 1}, opset=11),
    Case("LpNormalization", [numbers(3, 4)], {"p": 1}),
    *(Case("Softmax", [numbers(2, 3, 4)], given, opset=11) for given in ({}, {"axis": -2}, {"axis": 0})),
    Case("Softmax", [np.zeros((0, 5), np.float32)], opset=11),
    Case("LpNormalization", [np.zeros((1, 2), np.float32)]),
    Case("CumProd", [numbers(3, 4), np.array(0)], {"exclusive": 1}, opset=26, has_values=False),
    Case("CumSum", [numbers(3, 1), np.array(1)], {"exclusive": 1}),
    Case("CumSum", [np.zeros((0, 3), np.float32), np.array(0)], {"exclusive": 1}),
    Case("Hardmax", [np.zeros((2, 0), np.float32)]),
    Case("ReduceLogSumExp", [np.array([[3, 1], [2, 2]]), np.array([1])]),
]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)


def test_flags_are_counted() -> None:
    """torch.onnx.export(dynamo=False) writes so the places of tokens from a mask; onnxruntime refuses it."""
    flags = np.array([[True, False, True, True]])
    np.testing.assert_array_equal(
        module_of(Case("CumSum", [flags, np.array(1)]))(flags, np.array(1)), [[1, 1, 2, 3]], strict=True
    )
