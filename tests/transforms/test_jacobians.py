"""`jacrev` and `jacfwd`: structures and maps; `check_jacobian` goes through all rules."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import lite
from lite import TensorClass, TensorDict

JACOBIANS = [lite.jacrev, lite.jacfwd]
RNG = np.random.default_rng(0)


def tree() -> TensorDict:
    content = {"a": RNG.normal(size=(3, 2)), "n": {"b": RNG.normal(size=3)}, "i": np.arange(3), "s": "text"}
    return TensorDict(content, [3], names=["rows"])


@pytest.mark.parametrize("jacobian", JACOBIANS)
def test_of_tensordicts(jacobian: Any) -> None:
    td = tree()
    by_td = jacobian(lambda p: p["a"].T @ p["n", "b"])(td)
    assert (by_td.batch_size, by_td["s"]) == ((2, 3), "text")
    np.testing.assert_allclose(by_td["a"], np.einsum("kl,i->kil", np.eye(2), td["n", "b"]))
    np.testing.assert_allclose(by_td["n", "b"], td["a"].T)
    np.testing.assert_array_equal(by_td["i"], np.zeros((2, 3), int))
    assert jacobian(lambda p: p["a"].sum())(td).batch_size == (3,)

    def fn(p: Any) -> Any:
        return TensorDict({"double": {"a": p["a"] * 2}, "s": "kept", "b": p["n", "b"] ** 2}, [3])

    of_td = jacobian(fn)(td)
    assert (of_td.batch_size, of_td["s"]) == ((3,), "kept")
    np.testing.assert_allclose(of_td["double", "a", "a"], 2 * np.eye(6).reshape(3, 2, 3, 2))
    assert of_td["double", "a"].batch_size == (3, 2, 3)
    np.testing.assert_allclose(of_td["b", "n", "b"], np.diag(2 * td["n", "b"]))
    np.testing.assert_allclose(of_td["b", "a"], np.zeros((3, 3, 2)))


def test_second_derivatives() -> None:
    x, td = np.array([1.0, 2.0, 4.0]), tree().exclude("i", "s")
    np.testing.assert_allclose(lite.hessian(np.prod)(x), [[0, 4, 2], [4, 0, 1], [2, 1, 0]])
    by_both = lite.hessian(lambda x, y: (x**2 * y).sum(), (0, 1))(x, 3 * x)
    np.testing.assert_allclose(by_both[0][1], np.diag(2 * x))
    np.testing.assert_array_equal(by_both[1][1], 0)
    found = lite.hessian(lambda p: p["a"].T @ p["n", "b"])(td)
    assert found["a", "n", "b"].shape == (2, 3, 2, 3)
    np.testing.assert_array_equal(found["n", "b", "a"][0, :, :, 0], np.eye(3))


class Pair(TensorClass):
    x: np.ndarray
    y: np.ndarray


@pytest.mark.parametrize("jacobian", JACOBIANS)
def test_of_tensorclasses_and_lazy_stacks(jacobian: Any) -> None:
    pair = Pair(x=np.ones(2), y=np.arange(2.0), batch_size=[2])
    found = jacobian(lambda p: Pair(x=p.x * p.y, y=p.y, batch_size=[2]))(pair)
    assert (type(found), type(found.x)) == (Pair, Pair)
    np.testing.assert_allclose(found.x.y, np.eye(2))
    np.testing.assert_allclose(found.x.x, np.diag([0.0, 1.0]))
    rows = lite.lazy_stack([TensorDict(a=np.ones(2)), TensorDict(a=np.full(2, 3.0))])
    np.testing.assert_allclose(jacobian(lambda p: (p["a"] ** 2).sum(0))(rows)["a"][1], [[0, 2], [0, 6]])


@pytest.mark.parametrize("jacobian", JACOBIANS)
def test_others(jacobian: Any) -> None:
    x = np.array([1.0, 2.0], np.float32)
    found, aux = jacobian(lambda x: (x * 2, [x, "aux"]), has_aux=True)(x)
    np.testing.assert_array_equal(found, 2 * np.eye(2))
    assert (found.dtype, type(aux[0]), aux[1]) == (np.float32, np.ndarray, "aux")
    assert jacobian(lambda x: x * 2)(np.zeros(0)).shape == (0, 0)
    assert jacobian(lambda x: x * np.ones((0, 2)))(x).shape == (0, 2, 2)
    np.testing.assert_array_equal(jacobian(lambda x: np.ones(3))(x), np.zeros((3, 2)))
    np.testing.assert_array_equal(jacobian(lambda x: x)(np.array(3.0)), 1.0)
    np.testing.assert_array_equal(
        lite.jacrev(lambda x: x * x, chunk_size=2)(np.arange(5.0)), 2 * np.diag(np.arange(5.0))
    )


def test_errors() -> None:
    for make, error, message in [
        (lambda: lite.jacrev(3), TypeError, "fn must be a function, got int"),
        (lambda: lite.jacrev(np.sin, ()), ValueError, "argnums must name an argument"),
        (lambda: lite.jacrev(np.sin, "x"), TypeError, "argnums must be an integer"),
        (lambda: lite.jacrev(np.sin, 1)(np.ones(2)), ValueError, "argnums has 1, but there are 1 positional"),
        (lambda: lite.jacrev(np.sin, chunk_size=0), ValueError, "chunk_size must be None or a positive int"),
        (lambda: lite.jacfwd(np.sin, randomness="no"), ValueError, "randomness must be 'error', 'same'"),
        (
            lambda: lite.jacrev(np.argmax)(np.ones(2)),
            TypeError,
            "result 0 of argmax must be an array of floats",
        ),
        (lambda: lite.jacrev(lambda x: 1.0)(np.ones(2)), TypeError, "result 0 of <lambda> must be an array"),
        (lambda: lite.jacrev(np.sin)(np.arange(2)), TypeError, "argument 0 of <lambda>|of sin has no array"),
        (lambda: lite.hessian(np.sum, ()), ValueError, "argnums must name an argument"),
        (lambda: lite.hessian(lambda p: p["a"].sum())(tree()), TypeError, "must be an array of floats"),
    ]:
        with pytest.raises(error) as caught:
            make()
        assert re.search(message, str(caught.value))
