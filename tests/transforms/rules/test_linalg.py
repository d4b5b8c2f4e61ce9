"""Rules of numpy.linalg."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.central_differences import Case, assert_gradients, grad_of
from helpers.graphs import check as check_graph
from helpers.graphs import numbers
from helpers.rule_tests import of_rules
from helpers.vmap_cases import check_mapped, f, for_each, spd

import lite

CASES: list[Case] = [
    ("inv", np.linalg.inv, (f(2, 3, 3),)),
    ("solve", np.linalg.solve, (f(3, 3), f(3))),
    ("solve, matrix", np.linalg.solve, (f(3, 3), f(3, 2))),
    ("solve, stacks", np.linalg.solve, (f(2, 3, 3), f(3, 2))),
    ("solve, one matrix", np.linalg.solve, (f(3, 3), f(2, 3, 2))),
    ("det", np.linalg.det, (f(2, 3, 3),)),
    ("slogdet", lambda x: np.linalg.slogdet(x).logabsdet + np.linalg.slogdet(x)[0], (f(2, 3, 3),)),
    ("cholesky", lambda x: np.linalg.cholesky((x + x.mT) / 2), (spd(2, 3, 3),)),
    ("cholesky, upper", lambda x: np.linalg.cholesky((x + x.mT) / 2, upper=True), (spd(3, 3),)),
    ("eigh", lambda x: (lambda w, v: (w, v * v))(*np.linalg.eigh((x + x.mT) / 2)), (f(2, 3, 3),)),
    ("eigh, upper", lambda x: np.linalg.eigh((x + x.T) / 2, "U").eigenvectors ** 2, (f(3, 3),)),
    ("eigvalsh", lambda x: np.linalg.eigvalsh((x + x.T) / 2), (f(3, 3),)),
    ("svd, square", lambda x: (lambda u, s, vh: (u * u, s, vh * vh))(*np.linalg.svd(x)), (f(3, 3),)),
    *(
        (
            f"svd {shape}",
            lambda x: (lambda u, s, vh: (u * u, s, vh**2, u[..., :1] * vh[..., :1, :1]))(
                *np.linalg.svd(x, full_matrices=False)
            ),
            (f(*shape),),
        )
        for shape in ((4, 2), (2, 4), (2, 3, 2))
    ),
    ("svd, values", lambda x: np.linalg.svd(x, compute_uv=False) * np.linalg.svdvals(x), (f(2, 4),)),
    ("qr", lambda x: np.linalg.qr(x), (f(4, 3),)),
    ("qr, stack", lambda x: np.linalg.qr(x).R, (f(2, 3, 3),)),
    *((f"pinv {shape}", np.linalg.pinv, (f(*shape),)) for shape in ((4, 2), (2, 4), (2, 3, 2))),
    ("matrix_power", lambda x: [np.linalg.matrix_power(x, n) for n in (-3, 0, 1, 2, 5)], (f(2, 2),)),
    ("tensorinv", lambda x: np.linalg.tensorinv(x), (f(2, 3, 6),)),
    ("tensorsolve", lambda x, y: np.linalg.tensorsolve(x, y), (f(2, 3, 6), f(2, 3))),
    ("tensorsolve, axes", lambda x, y: np.linalg.tensorsolve(x, y, (0,)), (f(6, 2, 3), f(2, 3))),
    ("cond", lambda x: [np.linalg.cond(x, p) for p in (None, 2, -2, 1, np.inf, "fro")], (f(3, 3),)),
    ("norm", np.linalg.norm, (f(2, 3, 4),)),
    ("norm, keepdims", lambda x: np.linalg.norm(x, keepdims=True), (f(2, 3),)),
    ("norm method", lambda x: np.linalg.norm(x, axis=1), (f(2, 3),)),
    (
        "norm of vectors",
        lambda x: [np.linalg.norm(x, p, 0, True) for p in (1, 2, 3, np.inf, -np.inf)],
        (f(3, 2),),
    ),
    (
        "norm of matrices",
        lambda x: [
            np.linalg.norm(x, p, (0, -1), p == 1) for p in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
        ],
        (f(3, 2, 3),),
    ),
    ("norm of a matrix", lambda x: np.linalg.norm(x, 1) + np.linalg.norm(x[0], 3), (f(2, 3),)),
    ("norm 0", lambda x: np.linalg.norm(x, 0, 1) + x[:, 0], (f(2, 3),)),
    (
        "vector_norm",
        lambda x: np.linalg.vector_norm(x) + np.linalg.vector_norm(x, axis=(0, 1), ord=3),
        (f(2, 3),),
    ),
    ("matrix_norm", lambda x: np.linalg.matrix_norm(x) + np.linalg.matrix_norm(x, ord="nuc"), (f(2, 3, 3),)),
]
test_derivatives, test_graphs, test_graphs_of_derivatives = of_rules(CASES)


def test_determinants_of_singular_matrices() -> None:
    x = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    cofactors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(3)]
        for i in range(3)
    ]
    np.testing.assert_allclose(grad_of(np.linalg.det, x), cofactors, atol=1e-12)
    np.testing.assert_array_equal(grad_of(np.linalg.det, np.zeros((3, 3))), np.zeros((3, 3)))
    check_graph(lambda x: (np.linalg.det(x), *np.linalg.slogdet(x)), np.stack([x * 0, np.diag([1.0, 0, 2])]))
    curvature = lite.vmap(lite.hessian(np.linalg.det))(np.eye(2)[None] * 2)  # of equal singular values
    np.testing.assert_allclose(curvature.reshape(4, 4), np.fliplr(np.diag([1.0, -1, -1, 1])), atol=1e-15)


def test_shares_of_symmetric_matrices_are_symmetric() -> None:
    x = np.array([[2.0, 0.3], [0.3, 1.0]])
    for fn in (np.linalg.cholesky, lambda x: np.linalg.eigh(x)[1], np.linalg.eigvalsh):
        got = grad_of(lambda x, fn=fn: fn(x) * [[1.0, 2.0], [3.0, 4.0]], x)
        np.testing.assert_allclose(got, got.T, rtol=1e-12)


def test_zero_vectors_have_a_zero_gradient() -> None:
    for ord in (2, 3):
        slope = grad_of(lambda x, ord=ord: np.linalg.norm(x, ord, axis=1), np.zeros((2, 3)))
        np.testing.assert_array_equal(slope, np.zeros((2, 3)))
    for ord, wanted in ((0.5, [0, 1 + 2**0.5, 1 + 0.5**0.5]), (-1, [0, 0, 0])):
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = grad_of(lambda x, ord=ord: np.linalg.norm(x, ord), np.array([0.0, 1.0, 2.0]))
        np.testing.assert_allclose(slope, wanted)


def test_equal_eigenvalues_differentiate_by_values_alone() -> None:
    np.testing.assert_allclose(grad_of(np.linalg.eigvalsh, np.eye(3)), np.eye(3), atol=1e-15)


def test_least_squares() -> None:
    rng = np.random.default_rng(0)
    for shape in ((5, 3), (3, 3), (2, 4)):
        x, y, z = (rng.standard_normal(size) for size in (shape, shape[0], (shape[0], 2)))
        for right in (y, z):
            assert_gradients(lambda x, y: (np.linalg.lstsq(x, y)[:2], np.linalg.lstsq(x, y)[3]), x, right)
            slope = lite.grad(lambda x, y=right: (np.linalg.lstsq(x, y)[0] ** 2).sum())
            assert_gradients(slope, x)
    x[1] = x[0]  # of rank 1: the shortest solution
    assert_gradients(lambda y, x=x: np.linalg.lstsq(x, y)[0], y)


def test_ranks_are_constants() -> None:
    np.testing.assert_array_equal(
        grad_of(lambda x: x * np.linalg.matrix_rank(x), np.eye(2)), np.full((2, 2), 2)
    )


@each_case(
    ("name", "call"),
    [
        ("svd", lambda x: np.linalg.svd(x).U),
        ("qr", lambda x: np.linalg.qr(x, "complete")[0]),
        ("qr", lambda x: np.linalg.qr(x.T)[1]),
        ("eig", lambda x: np.linalg.eig(x @ x.T)[0]),
        ("norm", lambda x: np.linalg.norm(x, x[0, 0], 0)),
    ],
)
def test_what_is_not_covered_names_the_function(name: str, call: Any) -> None:
    with pytest.raises(NotImplementedError, match=rf"numpy\.linalg\.(vector_)?{name}"):
        grad_of(call, np.arange(6.0).reshape(3, 2) ** 2)


VMAP_CASES: list[Case] = [
    ("slogdet", lambda x: tuple(np.linalg.slogdet(x)), (f(3, 3),)),
    ("eigvals", lambda x: np.sort(np.linalg.eigvals(x).real), (spd(3, 3),)),
    ("norm, axes", lambda x: np.linalg.norm(x, "nuc", (0, 1)), (f(2, 3, 4),)),
    ("matrix_rank", lambda x: np.linalg.matrix_rank(x), (f(3, 3),)),
]


def test_maps_equal_loops() -> None:
    for_each(check_mapped, VMAP_CASES)


def test_graphs_solve_and_decompose() -> None:
    x = numbers(5, 4, 4, dtype=np.float64)
    x[1, 0, 0] = x[2, 1, 1] = 0  # rows are exchanged
    x[3] = np.eye(4)[[2, 0, 3, 1]]
    positive = x @ x.mT + np.eye(4)
    right = numbers(5, 4, 2, dtype=np.float64, seed=1)
    options: Any = {"rtol": 1e-9, "atol": 1e-10}
    check_graph(lambda x: (np.linalg.inv(x), np.linalg.det(x), *np.linalg.slogdet(x)), x, **options)
    check_graph(lambda x, b: (np.linalg.solve(x, b), np.linalg.solve(x[0], b[..., 0].T)), x, right, **options)
    check_graph(lambda x: np.linalg.solve(x[0], np.arange(4)), x, **options)
    check_graph(lambda p: (np.linalg.cholesky(p), np.linalg.cholesky(p, upper=True)), positive, **options)
    check_graph(lambda x: (np.linalg.matrix_power(x, 3), np.linalg.matrix_power(x, -1)), x, **options)
    check_graph(lambda i: (np.linalg.det(i), np.linalg.inv(i)), np.array([[[2, 1], [1, 3]]]), **options)

    def of_all(x: Any, b: Any) -> Any:
        p = x @ x.mT + np.eye(4)
        found = np.linalg.solve(x, b).sum() + np.linalg.cholesky(p).sum() + np.linalg.slogdet(p)[1].sum()
        return found + np.linalg.det(x).sum() + (np.linalg.inv(x) ** 2).sum()

    got, want = lite.jit(lite.grad(of_all))(x[:3], right[:3]), lite.grad(of_all)(x[:3], right[:3])
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)
    mapped = lite.jit(lite.vmap(lambda p, b: np.linalg.solve(p, b[:, 0])))(positive, right)
    np.testing.assert_allclose(mapped, np.linalg.solve(positive, right)[..., 0], rtol=1e-9)
    with pytest.raises(NotImplementedError, match=r"numpy\.linalg\.inv .*: a dynamic size"):
        check_graph(np.linalg.inv, positive, axes={0: {1: "n", 2: "n"}})


def test_ranks_of_vectors() -> None:
    rows = np.array([[0.0, 2.0], [0.0, 0.0]])
    np.testing.assert_array_equal(lite.vmap(np.linalg.matrix_rank)(rows), [1, 0])
    np.testing.assert_array_equal(lite.vmap(lambda x: x.dot(x))(rows), [4, 0])
