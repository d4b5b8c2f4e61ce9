"""Sizes of dynamic dimensions: what is computed from one is one."""

import itertools
import math

import numpy as np
from helpers.graphs import check as check_graph
from helpers.graphs import numbers

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


def test_they_are_numbers_to_all_others() -> None:
    np.testing.assert_equal(np.zeros((Size(5), 2)).shape, (5, 2))
    np.testing.assert_equal((Size(5) == 5, hash(Size(5)) == hash(5), f"{Size(5)}"), (True, True, "5"))


def test_primes() -> None:
    np.testing.assert_equal(list(itertools.islice(primes(0), 6)), [2, 3, 5, 7, 11, 13])
    np.testing.assert_equal(next(primes(200)), 211)


def test_numbers_over_a_size_are_computed() -> None:
    for function in (lambda x: x * (2 / x.shape[0]), lambda x: x * -(1 / x.shape[0])):
        check_graph(function, numbers(5, 3))
