"""Operators of each number: gradients, maps, graphs, and what the standard leaves open."""

import numpy as np
from helpers.cases import raises
from helpers.onnx_nodes import Case, check_all, numbers, untyped

CASES = [
    Case("Div", [numbers(3, 2), numbers(2) + 3]),
    Case("Pow", [np.abs(numbers(3, 2)) + 0.5, np.array(3.0)]),
    Case("Pow", [np.abs(numbers(3, 2)) + 0.5, numbers(2)]),
    Case("Max", [numbers(3, 2), numbers(3, 2, seed=1), numbers(2, seed=2)]),
    Case("Mean", [numbers(3, 2), numbers(3, 2, seed=1)]),
    Case("Clip", [numbers(3, 2), np.array(-0.5), np.array(0.5)]),
    Case("Where", [np.array([True, False]), numbers(3, 2), numbers(3, 2, seed=1)]),
    *[
        Case(op, [numbers(3, 2)])
        for op in ("Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Mish", "HardSwish", "LeakyRelu", "Selu")
    ],
    *[Case(op, [numbers(3, 2) * 2]) for op in ("Elu", "Celu", "ThresholdedRelu")],  # with their own alpha
    Case("Swish", [numbers(3, 2)], opset=24),
    *[Case(op, [numbers(3, 2)], {"alpha": 0.7}) for op in ("Elu", "Celu")],
    Case("Swish", [numbers(3, 2)], {"alpha": 0.7}, opset=24),
    Case("HardSigmoid", [numbers(3, 2)]),
    Case("PRelu", [numbers(3, 2), np.array([0.1, 0.2])]),
    Case("ThresholdedRelu", [numbers(3, 2)], {"alpha": 0.3}),
    Case("Shrink", [numbers(3, 2)], {"bias": 0.2}),
    Case("Gelu", [numbers(3, 2)], {"approximate": "tanh"}),
    Case("FastGelu", [numbers(3, 2), numbers(2, seed=1)], domain="com.microsoft"),
    Case("QuickGelu", [numbers(3, 2)], domain="com.microsoft"),
    Case("SoftmaxCrossEntropyLoss", [numbers(4, 3), np.array([0, 2, 1, 1])], {"ignore_index": 2}),
    Case("Div", [np.array([-7, -6, 7]), np.array([2, 2, -2])]),
    Case("Pow", [np.array([2, -3, 1]), np.array([-1, 2, -2])]),
    Case("Pow", [np.abs(numbers(3)) + 0.5, np.array([[2.0]])]),
    Case("Shrink", [numbers(3, 2)], {"bias": 0.2, "lambd": 0.1}),
    Case("Shrink", [np.float32([-0.5, 0.5, 0.7])], {"bias": 0.2}),
    *(
        Case("IsInf", [np.float32([-np.inf, np.inf, np.nan, 0])], {f"detect_{side}": 0})
        for side in ("positive", "negative")
    ),
]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)


def test_texts_become_numbers_and_numbers_no_texts() -> None:
    words = np.array(["2.5", "-3"], object)
    for given, want in ((words, [2.5, -3]), (words[:0], []), (words[:1].reshape(()), 2.5)):
        np.testing.assert_array_equal(untyped("Cast", to=1)(given), np.float32(want), strict=True)
    np.testing.assert_array_equal(untyped("Cast", to=7)(words[:0]), np.zeros(0, np.int64), strict=True)
    raises(NotImplementedError, "int64 to texts", untyped("Cast", to=8), np.arange(2))
    np.testing.assert_array_equal(untyped("Cast", to=8)(words), words)
