"""Products of matrices."""

from __future__ import annotations

from helpers.onnx_nodes import Case, check_all, numbers

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
    Case("Einsum", [numbers(2, 3, 4), numbers(4, 5, seed=1)], {"equation": "bij,jk->bki"}),
]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)
