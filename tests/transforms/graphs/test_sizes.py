"""Sizes of dynamic dimensions: what is computed from one is one."""

import itertools
import math

import numpy as np
from helpers.graphs import check as check_graph
from helpers.graphs import numbers

import lite
from lite._transforms.graphs.sizes import Size, primes


def test_arithmetic_keeps_the_kind() -> None:
    size = Size(211)
    for made, wanted in (
        (size * 3, 633),
        (3 * size, 633),
        (size + 1, 212),
        (1 + size, 212),
        (size - 1, 210),
        (500 - size, 289),
        (size // 2, 105),
        (-(-size // 2), 106),
        (math.prod((2, size, 5)), 2110),
    ):
        np.testing.assert_equal((int(made), type(made)), (wanted, Size))
    made = size * 6 // (size * 2)
    np.testing.assert_equal((made, type(made)), (3, int))


def test_they_are_numbers_to_all_others() -> None:
    np.testing.assert_equal(np.zeros((Size(5), 2)).shape, (5, 2))
    np.testing.assert_equal((Size(5) == 5, hash(Size(5)) == hash(5), f"{Size(5)}"), (True, True, "5"))


def test_primes() -> None:
    np.testing.assert_equal(list(itertools.islice(primes(0), 6)), [2, 3, 5, 7, 11, 13])
    np.testing.assert_equal(next(primes(200)), 211)


def test_how_often_a_size_has_another_is_a_number() -> None:
    """As of several cameras' images in one batch, which become features of each row again."""

    def function(x: np.ndarray) -> np.ndarray:
        rows = x.reshape(x.shape[0] * 2, 3)
        return rows.reshape(x.shape[0], rows.shape[0] // x.shape[0], 3)

    check_graph(function, numbers(5, 6))

    def other(x: np.ndarray) -> np.ndarray:  # which is a size here
        rows = x.reshape(x.shape[0] * x.shape[1])
        return x * (rows.shape[0] // x.shape[0])

    check_graph(other, numbers(5, 6), axes={0: {0: "n", 1: "m"}})

    def chosen(x: np.ndarray) -> np.ndarray:
        count = np.nonzero(x > 0)[0].shape[0]
        return x * (count * x.shape[0] // x.shape[0])

    check_graph(chosen, numbers(5, 6))


def test_numbers_over_a_size_are_computed() -> None:
    for function in (lambda x: x * (2 / x.shape[0]), lambda x: x * -(1 / x.shape[0])):
        check_graph(function, numbers(5, 3))


def test_floats_beside_a_size() -> None:
    """Comparisons are asked at each call; what is computed with floats is a number of one call."""
    functions = (
        lambda x: x * 2 if x.shape[0] > 4.5 else x,
        lambda x: x * 2 if x.shape[0] == 3.0 else x,
        lambda x: x * 2 if x.shape[0] != 3.0 else x,
        lambda x: x * 2 if x.shape[0] * 0.5 > 2 else x,
        lambda x: x * bool(np.isclose(x.shape[0], 3)),
        lambda x: x * np.array_equal(x.shape, (3, 2)),  # which catches what NumPy raises
        lambda x: x * (np.arange(10) < x.shape[0]).sum(),
        lambda x: x * np.minimum(x.shape[0], 4),
        lambda x: lite.grad(lambda y: (y * 2 if y.size > 7 else y).sum())(x),
    )
    for function in functions:
        step = lite.jit(function)
        for n in (7, 3, 4, 600):
            np.testing.assert_allclose(step(np.ones((n, 2))), function(np.ones((n, 2))), err_msg=str(n))
    named = (
        *functions[:3],
        lambda x: x * 2 if x.shape[0] > np.float64(4.5) and x.shape[0] != np.int64(600) else x,
        lambda x: x * 2 if x.shape[0] > np.float32(5000) else x,
        lambda x: np.subtract(x.shape[0], x),
    )
    for function in named:
        step = lite.jit(function, dynamic_axes={"x": {0: "n"}})  # graphs for all sizes of one answer
        for n in (7, 3, 600, 5001):
            np.testing.assert_allclose(step(np.ones((n, 2))), function(np.ones((n, 2))), err_msg=str(n))
