"""Reading and writing by index."""

import re
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.central_differences import Case
from helpers.rule_tests import of_derivatives
from helpers.vmap_cases import f, i

import lite

MASK = np.array([[True, False, True], [False, False, True]])


def put(index: Any) -> Any:
    """A function that writes at an index, and reads what there was before and after."""

    def fn(x: Any, y: Any) -> Any:
        out = x * 2 + 0 * y.sum()
        before = out * 1
        out[index] = y
        return [out * out, before]

    return fn


CASES: list[Case] = [
    ("an integer", lambda x: x[1] * x[-1], (f(2, 3),)),
    ("a number", lambda x: x[1, 2] * x[-1, 0], (f(2, 3),)),
    ("slices", lambda x: x[::-1, 1:] * x[:, :-1], (f(2, 3),)),
    ("None and Ellipsis", lambda x: x[..., None] * x[None, 0, ...].sum(), (f(2, 3),)),
    ("numbers of NumPy", lambda x: x[np.int64(1)] * x[np.uint8(0), :], (f(2, 3),)),
    ("an array", lambda x: x[np.array([0, 1, 1, -1])] ** 2, (f(2, 3),)),
    ("a list", lambda x: x[[1, 1]] * x[[0]], (f(2, 3),)),
    ("arrays", lambda x: x[np.array([0, 1, 1]), np.array([[2], [0]])] ** 2, (f(2, 3),)),
    ("arrays apart", lambda x: x[np.array([0, 1, 1]), :, np.array([1, 0, 0])] ** 2, (f(2, 3, 2),)),
    ("a mapped array", lambda x, k: x[k % 2] ** 2, (f(2, 3), i(4))),
    ("a mapped number", lambda x, k: x[k % 2] ** 2, (f(2, 3), i())),
    ("a mask", lambda x: x[MASK] ** 2, (f(2, 3),)),
    ("a mask of rows", lambda x: x[np.array([False, True])] ** 2, (f(2, 3),)),
    ("iteration", lambda x: [row * row for row in x], (f(2, 3),)),
    ("unpacking", lambda x: np.multiply(*x), (f(2, 3),)),
    ("write a row", put(1), (f(2, 3), f(3))),
    ("write a number", put((0, -1)), (f(2, 3), f())),
    ("write slices", put((slice(None), slice(None, None, 2))), (f(2, 3), f(2, 1))),
    ("write all", put(Ellipsis), (f(2, 3), f(3))),
    ("write into new dimensions", put((None, 1)), (f(2, 3), f(1, 3))),
    ("write at an array", put(np.array([1, 0])), (f(2, 3), f(2, 3))),
    ("write at arrays", put((np.array([1, 0, 1]), np.array([2, 0, 1]))), (f(2, 3), f(3))),
    ("write at a mask", put(MASK), (f(2, 3), f())),
    ("write numbers at a mask", put(MASK), (f(2, 3), f(3))),
    ("assign at a mapped number", lambda x, k, y: put(k % 2)(x + 0 * k, y + 0 * k), (f(2, 3), i(), f(3))),
    ("fill", lambda x, y: filled(x + 0 * y, y) * x, (f(2, 3), f())),
]


def filled(x: Any, value: Any) -> Any:
    x = x * 2
    x.fill(value)
    return x


test_derivatives, test_graphs_of_derivatives = of_derivatives(CASES)


def test_a_number_for_several_places() -> None:
    def loss(y: Any) -> Any:
        out = np.zeros_like(y, shape=(2, 3))
        out[np.array([0, 1, 0]), 1] = y
        return out.sum()

    np.testing.assert_array_equal(lite.grad(loss)(np.array(2.0)), 2)


def test_arguments_of_the_caller_stay() -> None:
    x = np.array([1.0, 2.0])

    def loss(x: Any) -> Any:
        x *= 3
        x[0] = 1
        return (x * x).sum()

    np.testing.assert_array_equal(lite.grad(loss)(x), [0, 36])
    np.testing.assert_array_equal(x, [1, 2])


def test_a_traced_value_is_not_written_into_an_ndarray() -> None:
    target = np.zeros(2)
    for write in (
        lambda x: target.__setitem__(0, x[0]),
        lambda x: target.__setitem__(slice(None), x),
        lambda x: target.__setitem__((0,), x.sum()),
        lambda x: target.fill(x[0]),
        lambda x: np.copyto(target, x),
        lambda x: np.put(target, [0], x[0]),
        lambda x: np.array([x[0], x[1]]),
        lambda x: np.asarray(x),
        lambda x: np.float64(x[0]),
        lambda x: np.full(2, x[0]),
    ):
        with pytest.raises((TypeError, ValueError)) as raised:
            lite.grad(write)(np.ones(2))
        # NumPy hides the error of an element behind one of its own.
        assert re.search(r"would be lost|would lose", f"{raised.value} {raised.value.__cause__}")
    np.testing.assert_array_equal(target, 0)
    mapped = lite.vmap(lambda x, y: x.copy().reshape(-1).__setitem__(0, y), (None, 0))
    with pytest.raises(RuntimeError, match="all elements along the mapped dimension share"):
        lite.grad(mapped, (0, 1))(np.ones(2), np.ones(3))


def test_indices_are_checked_as_by_numpy() -> None:
    raises(IndexError, "out of bounds", lambda: lite.grad(lambda x: x[2])(np.ones(2)))
    with pytest.raises(IndexError, match="arrays used as indices must be of integer"):
        lite.grad(lambda x: np.ones(3)[x.detach()])(np.ones(2))
    with pytest.raises(TypeError, match="a single number cannot be written to"):
        lite.grad(lambda x: x.sum().__setitem__(..., 1.0))(np.ones(2))
