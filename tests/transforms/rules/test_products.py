"""Rules of products."""

from pathlib import Path

import numpy as np
import pytest
from helpers.cases import raises
from helpers.central_differences import Case, assert_gradients, grad_of
from helpers.graphs import check as check_graph
from helpers.graphs import numbers
from helpers.rule_tests import of_rules
from helpers.vmap_cases import c, check_mapped, f, for_each

import lite
from lite import vmap

CASES: list[Case] = [
    *(
        (f"matmul {a} {b}", lambda x, y: x @ y, (f(*a), f(*b)))
        for a, b in (
            ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
            ((2, 3), (5, 3, 4)), ((3,), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)),
            ((4, 5, 2, 3), (3,)),
        )
    ),
    *(
        (f"dot {a} {b}", lambda x, y: np.dot(x, y), (f(*a), f(*b)))
        for a, b in (((), (2,)), ((3,), (3,)), ((2, 3), (5, 3, 4)), ((3,), (5, 3, 4)))
    ),
    ("dot method", lambda x, y: x.dot(y), (f(2, 3), f(3))),
    ("inner", lambda x, y: np.inner(x, y), (f(2, 3), f(4, 3))),
    ("vdot", lambda x, y: np.vdot(x, y), (f(2, 3), f(3, 2))),
    ("outer", lambda x, y: np.outer(x, y) * np.linalg.outer(x, y), (f(3), f(2))),
    ("add.outer", lambda x, y: np.add.outer(x, y) * np.multiply.outer(x, y), (f(3), f(2, 2))),
    ("linalg.matmul", lambda x, y: np.linalg.matmul(x, y), (f(2, 3), f(3, 2))),
    ("vecdot", lambda x, y: np.vecdot(x, y) * np.linalg.vecdot(x, y, axis=-1), (f(2, 3), f(3))),
    ("linalg.vecdot, axis", lambda x, y: np.linalg.vecdot(x, y, axis=0), (f(3, 2), f(3, 2))),
    ("multi_dot", lambda x, y, z: np.linalg.multi_dot([x, y, z]), (f(2, 3), f(3, 4), f(4))),
    ("tensordot", lambda x, y: np.tensordot(x, y), (f(2, 3, 4), f(3, 4, 5))),
    ("tensordot, axes", lambda x, y: np.tensordot(x, y, ([0, -1], [2, 0])), (f(2, 3, 4), f(4, 5, 2))),
    ("tensordot, one axis", lambda x, y: np.tensordot(x, y, (1, 0)), (f(2, 3), f(3, 4))),
    ("tensordot, no axis", lambda x, y: np.linalg.tensordot(x, y, axes=0), (f(2), f(3))),
    ("a transpose times a vector", lambda x, y: x.swapaxes(-1, -2) @ y, (f(4, 2, 3), f(2))),
    ("matmul with a list", lambda x: np.matmul(x, [[1, 2], [3, 4]]), (f(3, 2),)),
    ("matmul of a list", lambda x: np.matmul([1, 2, 3], x), (f(2, 3, 4),)),
    ("kron", lambda x, y: np.kron(x, y), (f(2, 3), f(2))),
    ("cross", lambda x, y: np.cross(x, y) + np.linalg.cross(x, y), (f(2, 3), f(3))),
    ("cross, axes", lambda x, y: np.cross(x, y, 0, 1, 0), (f(3, 2), f(2, 3))),
    *(
        (
            f"convolve {n} {m}",
            lambda x, y: [np.convolve(x, y, mode) for mode in ("full", "same", "valid")],
            (f(n), f(m)),
        )
        for n, m in ((6, 3), (2, 5), (4, 4), (5, 1))
    ),
    (
        "correlate",
        lambda x, y: [np.correlate(x, y, mode) for mode in ("full", "same", "valid")],
        (f(6), f(3)),
    ),
    (
        "correlate with a longer one",
        lambda x, y: [np.correlate(x, y, mode) for mode in ("full", "same", "valid")],
        (f(3), f(6)),
    ),
    *(
        (f"einsum {text}", lambda *xs, text=text: np.einsum(text, *xs), tuple(f(*shape) for shape in shapes))
        for text, shapes in (
            ("ij,jk->ik", ((2, 3), (3, 4))),
            ("ij->j", ((2, 3),)),
            ("ii->i", ((3, 3),)),
            ("ij,jk", ((2, 3), (3, 4))),
            ("ij->", ((2, 3),)),
            ("iij->ij", ((3, 3, 2),)),
            ("iji,j->i", ((3, 2, 3), (2,))),
            ("ij,k->i", ((2, 3), (4,))),
            ("...ij,...jk->...ik", ((5, 2, 3), (3, 4))),
            ("...i,...i", ((1, 3), (4, 3))),
            ("b...,b->...", ((2, 3, 4), (2,))),
            ("bqhd,bkhd->bhqk", ((2, 3, 2, 2), (2, 4, 2, 2))),
            ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
            (" i j , j -> i ", ((2, 1), (3,))),
            ("i,i", ((3,), (1,))),
        )
    ),
    ("einsum, lists", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [0, 2]), (f(2, 3), f(3, 2))),
    (
        "einsum, lists without a result",
        lambda x, y: np.einsum(x, [..., 0, 1], y, [..., 1, 2]),
        (f(2, 2, 3), f(3, 2)),
    ),
    ("einsum, optimize", lambda x, y: np.einsum("ij,jk,kl->i", x, y, x, optimize=True), (f(3, 3), f(3, 3))),
]  # fmt: skip
test_derivatives, test_graphs, test_graphs_of_derivatives = of_rules(CASES)


def test_products_of_vectors_and_matrices_as_ufuncs() -> None:
    if hasattr(np, "matvec"):
        assert_gradients(np.matvec, np.ones((5, 2, 3)) / 3, np.arange(3.0))
        assert_gradients(np.vecmat, np.arange(3.0), np.ones((5, 3, 2)) / 3)


def test_empty_products() -> None:
    np.testing.assert_array_equal(grad_of(lambda x: x @ np.ones((0, 4)), np.ones((3, 0))), np.ones((3, 0)))
    np.testing.assert_array_equal(grad_of(lambda x: np.ones((0, 3)) @ x, np.ones((3, 2))), np.zeros((3, 2)))
    none = lite.jit(lambda x: np.broadcast_to(x[:1], (0, 3)).sum())(np.ones((2, 3)))
    np.testing.assert_array_equal(none, 0)
    slopes = lite.vmap(lite.grad(lambda w, x: (np.tanh(x @ w)).sum()))
    step = lite.jit(slopes, dynamic_axes={"x": {1: "rows"}})
    for rows in (4, 0, 2):  # of empty products of many matrices onnxruntime writes the first alone
        w, x = np.full((9, 30, 20), 0.1), np.ones((9, rows, 30))
        np.testing.assert_allclose(step(w, x), slopes(w, x))
    for x, y in (((2, 3), (0, 3, 4)), ((0, 2, 1, 3), (2, 3, 4)), ((0, 1, 2, 3), (2, 3, 4))):
        got = lite.jit(lambda x, y: np.moveaxis(x, 0, -2) @ y if x.ndim > 3 else x @ y)(
            np.ones(x), np.ones(y)
        )
        assert (got.size, got.shape[-1]) == (0, 4)


def test_a_file_is_not_run_without_rows(tmp_path: Path) -> None:
    """Of a transposed batch onnxruntime would divide by zero, which ends the process."""
    w = np.ones((2, 3, 4), np.float32)
    step = lite.jit(lambda x: x.swapaxes(0, 1) @ w)
    file = lite.load_step(step.lower(np.ones((5, 2, 3), np.float32)).save(tmp_path / "step.onnx"))
    raises(ValueError, "got the size 0", file, np.ones((0, 2, 3), np.float32))


def test_what_does_not_fit_is_refused() -> None:
    x = np.ones((2, 3))
    raises(ValueError, "shape-mismatch", grad_of, lambda x: np.tensordot(x, x, 1), x)
    raises(ValueError, "terms", grad_of, lambda x: np.einsum("ij,jk->ik", x), x)
    raises(NotImplementedError, r"numpy\.cross", grad_of, lambda x: np.cross(x, np.ones(2)), np.ones(3))


VMAP_CASES: list[Case] = [
    ("matmul 2, 2, of a transpose", lambda x, y: x @ y.T, (f(9, 4), f(2, 4))),
    ("matmul 2, 2, twice", lambda x, y: np.tanh(x @ y.T) @ y, (f(9, 4), f(2, 4))),
    ("matmul 3, 2", lambda x, y: x @ y, (f(5, 3, 4), f(4, 2))),
    ("vdot", lambda x, y: np.vdot(x, y), (c(2, 4), c(2, 4))),
    ("einsum, diagonal", lambda x: np.einsum("ii->i", x), (f(3, 3),)),
]


def test_maps_equal_loops() -> None:
    for_each(check_mapped, VMAP_CASES)


def test_products_of_matrices() -> None:
    for a, b in (((5, 3), (3, 2)), ((5, 3), (3,)), ((5, 1, 2, 3), (4, 3, 2)), ((5, 2, 3), (5, 3, 4))):
        axes = {0: {0: "n"}, **({1: {0: "n"}} if b[0] == 5 else {})}
        check_graph(np.matmul, numbers(*a), numbers(*b, seed=1), axes=axes)


def test_vectors() -> None:
    x, y = numbers(5, 3), numbers(5, 3, seed=1)
    check_graph(lambda x, y: (np.vecdot(x, y), np.vecdot(x, y, axis=1)), x, y)
    check_graph(lambda x: (np.dot(x, np.eye(3, dtype=np.float32)), x.dot(np.float32([1, 2, 3]))), x)
    check_graph(
        lambda x, y: np.matvec(np.ones((2, 3), np.float32), x) + np.vecmat(y, np.ones((3, 2), np.float32)),
        x,
        y,
    )
    check_graph(
        lambda x, y: (np.vdot(x, y), np.linalg.multi_dot([x, y.T, x]), np.polyval([1, 2.0, 3], x)), x, y
    )
    check_graph(lambda x: (np.outer(x[0], x[1]), np.inner(x, x[:1])), x, axes={})


def test_einsum() -> None:
    for equation in ("ij,kj->ik", "ij,kj", "...j,kj->...k", "ij,ij->i", "ij,kj->"):
        check_graph(
            lambda x, y, equation=equation: np.einsum(equation, x, y), numbers(5, 3), numbers(5, 3, seed=1)
        )
    check_graph(lambda x: np.floor(np.einsum("ij,ij->ij", x[:, :1], x)), numbers(5, 3))
    for shape in ((0, 3), (3, 0)):  # which end the process where onnxruntime multiplies them
        x, product = np.ones(shape), lambda x: np.einsum("ij,kj->ik", x, x)
        np.testing.assert_array_equal(lite.jit(product)(x), product(x), strict=True)


def test_tensordot() -> None:
    x, y = numbers(5, 3, 4), numbers(4, 3, 2, seed=1)
    check_graph(
        lambda x, y: (np.tensordot(x, y, ((1, 2), (1, 0))), np.tensordot(x, y, 1)), x, y, axes={0: {0: "n"}}
    )


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="the sizes 3 and 4 of the dimensions summed over differ"):
        check_graph(np.matmul, numbers(5, 3), numbers(4, 3), axes={0: {0: "n"}})
    for fn in (lambda x: x[0, 0] @ x, lambda x: x @ x[0, 0]):
        raises(ValueError, "enough dimensions", check_graph, fn, numbers(5, 3))
        raises(ValueError, "enough dimensions", vmap(fn), numbers(2, 5, 3))
