"""Products as operators, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.graphs import check, numbers

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5, 3), (3, 2)),
        ((5, 3), (3,)),
        ((5, 2, 3), (3, 4)),
        ((5, 1, 2, 3), (4, 3, 2)),
        ((5, 2, 3), (5, 3, 4)),
    ],
)
def test_products_of_matrices(a, b) -> None:
    axes = {0: {0: "n"}, **({1: {0: "n"}} if b[0] == 5 else {})}
    check(np.matmul, numbers(*a), numbers(*b, seed=1), axes=axes)


def test_vectors() -> None:
    x, y = numbers(5, 3), numbers(5, 3, seed=1)
    check(lambda x, y: (np.vecdot(x, y), np.vecdot(x, y, axis=1)), x, y)
    check(lambda x: (np.dot(x, np.eye(3, dtype=np.float32)), x.dot(np.float32([1, 2, 3]))), x)
    check(
        lambda x, y: np.matvec(np.ones((2, 3), np.float32), x) + np.vecmat(y, np.ones((3, 2), np.float32)),
        x,
        y,
    )
    check(lambda x, y: (np.vdot(x, y), np.linalg.multi_dot([x, y.T, x]), np.polyval([1, 2.0, 3], x)), x, y)
    check(lambda x: (np.outer(x[0], x[1]), np.inner(x, x[:1])), x, axes={})


@pytest.mark.parametrize("equation", ["ij,kj->ik", "ij,kj", "...j,kj->...k", "ij,ij->i", "ij,kj->"])
def test_einsum(equation: str) -> None:
    check(lambda x, y: np.einsum(equation, x, y), numbers(5, 3), numbers(5, 3, seed=1))


def test_tensordot() -> None:
    x, y = numbers(5, 3, 4), numbers(4, 3, 2, seed=1)
    check(
        lambda x, y: (np.tensordot(x, y, ((1, 2), (1, 0))), np.tensordot(x, y, 1)), x, y, axes={0: {0: "n"}}
    )


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="the sizes 3 and 4 of the dimensions summed over differ"):
        check(np.matmul, numbers(5, 3), numbers(4, 3), axes={0: {0: "n"}})
