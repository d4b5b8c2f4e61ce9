"""Products of matrices."""

from typing import Any

import numpy as np
import pytest
from helpers.onnx_nodes import Case, check_all, model_of, module_of, numbers

from lite import nn
from lite._files.onnx import writer

ML = "ai.onnx.ml"
LINKS = ("NONE", "LOGISTIC", "SOFTMAX")
CLASSES: dict[str, Any] = {"coefficients": [0.5, -1.0, -0.5, 1.0, 2.0, 3.0], "intercepts": [0.1, 0.2, 0.3]}
CLASSES |= {"classlabels_ints": [5, -7, 9]}
CASES = [
    Case("MatMul", [numbers(2, 3, 4), numbers(4, 2, seed=1)]),
    Case("MatMul", [numbers(4), numbers(2, 4, 3, seed=1)]),
    Case("Gemm", [numbers(3, 4), numbers(2, 4, seed=1), numbers(2, seed=2)], {"transB": 1}),
    Case("Gemm", [numbers(3, 4), numbers(4, 2, seed=1)], {"alpha": 0.5}),
    Case(
        "Gemm",
        [numbers(4, 3), numbers(4, 2, seed=1), numbers(3, 1)],
        {"transA": 1, "alpha": 0.5, "beta": 2.0},
    ),
    Case(
        "FusedMatMul",
        [numbers(2, 4, 3), numbers(2, 4, 5, seed=1)],
        {"transA": 1, "alpha": 0.5},
        "com.microsoft",
    ),
    *[
        Case(
            "FusedGemm",
            [numbers(3, 4), numbers(2, 4, seed=1), numbers(2, seed=2)],
            {"transB": 1, "activation": name, **parameters},
            "com.microsoft",
        )
        for name, parameters in (
            ("Tanh", {}),
            ("LeakyRelu", {"activation_alpha": 0.3}),
            ("HardSigmoid", {"activation_alpha": 0.1, "activation_beta": 0.4}),
        )
    ],
    Case(
        "FusedMatMul",
        [numbers(4, 2, 3), numbers(3, 2, 5, seed=1)],
        {"transBatchA": 1, "transBatchB": 1},
        "com.microsoft",
    ),
    Case("Einsum", [numbers(2, 3, 4), numbers(4, 5, seed=1)], {"equation": "bij,jk->bki"}),
    Case("LinearRegressor", [numbers(4, 2)], {"coefficients": [0.5, -1.0], "intercepts": [2.0]}, ML),
    Case("LinearRegressor", [numbers(4, 2)], {"coefficients": [0.5, -1.0, 2.0, 0.0], "targets": 2}, ML),
    *[
        Case("LinearClassifier", [numbers(4, 2)], {**CLASSES, "post_transform": link}, ML, 2)
        for link in LINKS
    ],
    Case("MatMulInteger", [np.uint8([[3, 9]]), np.uint8([[2, 7], [5, 1]]), np.uint8([4]), np.uint8([6])]),
]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)


def test_zeros_of_rows_and_of_columns() -> None:
    a, b = np.uint8([[3, 9], [8, 4]]), np.uint8([[2, 7], [5, 1]])
    for zero_a, zero_b in (
        (np.uint8([4, 3]), np.array(6, np.uint8)),
        (np.array(4, np.uint8), np.uint8([6, 2])),
    ):
        case = Case("MatMulInteger", [a, b, zero_a, zero_b])
        rows = np.atleast_1d(zero_a)[:, None]
        np.testing.assert_array_equal(
            module_of(case)(*case.inputs), (a - rows.astype(np.int32)) @ (b - zero_b.astype(np.int32))
        )


def test_bfloat16_stays_bfloat16() -> None:
    """NumPy's product of it is float32, and it is no "f" in pools and reductions."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x, w = numbers(2, 3, 4, 4), numbers(4, 2, seed=1)
    nodes = [
        writer.node("MaxPool", "", ["x"], ["a"], {"kernel_shape": [1, 2], "pads": [0, 0, 0, 1]}),
        writer.node("MatMul", "", ["a", "w"], ["b"], {}),
        writer.node("MatMul", "", ["b", "b"], ["y"], {}),
    ]
    model = model_of(nodes, {"x": x[..., :2, :].astype(bfloat16)}, ["y"], {"w": w.astype(bfloat16)})
    given = x[..., :2, :].astype(bfloat16)
    own, wide = nn.from_onnx(model, dtype=None)(given), nn.from_onnx(model)(given)
    assert (own.dtype, wide.dtype) == (bfloat16, np.float32)
    np.testing.assert_allclose(own.astype(np.float32), wide, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"post_transform": "PROBIT"}, "post_transform='PROBIT'"),
        ({"classlabels_ints": [1]}, "other labels than two or more integers"),
        ({"classlabels_ints": [1, 2, 3, 4]}, "6 coefficients for 4 results"),
        ({"intercepts": [0.5]}, "1 intercepts for 3 results"),
    ],
)
def test_classifiers_that_are_refused(change: Any, reason: str) -> None:
    with pytest.raises(NotImplementedError, match=reason):
        module_of(Case("LinearClassifier", [numbers(4, 2)], {**CLASSES, **change}, ML, 2))
