"""Whole numbers given as arguments."""

import numpy as np
from helpers.cases import raises

from lite.kernels._integer import integer


def test_what_counts_as_an_integer():
    assert [integer("n", value) for value in (3, np.int8(3), True)] == [3, 3, 1]
    for value in (3.0, "3", None):
        raises(TypeError, f"n_steps must be an integer, got {value!r}", integer, "n_steps", value)


def test_least():
    assert integer("n", 2, least=2) == 2
    assert integer("n", -5) == -5
    raises(ValueError, "n_steps must be at least 1, got 0", integer, "n_steps", np.int64(0), least=1)
