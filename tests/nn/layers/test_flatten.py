"""Flatten: which dimensions become one."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import nn


def test_shapes() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    assert nn.Flatten()(x).shape == (2, 12)
    assert nn.Flatten(0, 1)(x).shape == (6, 4)
    assert nn.Flatten(0)(np.array(1)).shape == (1,)
    assert np.shares_memory(nn.Flatten()(x), x)


def test_dimensions_that_are_not_there() -> None:
    raises(IndexError, r"end_dim must be in \[-2, 1\], got 2", lambda: nn.Flatten(0, 2)(np.zeros((2, 3))))
    raises(RuntimeError, "must not come after", lambda: nn.Flatten(1, 0)(np.zeros((2, 3))))


def test_unflatten() -> None:
    x = np.arange(24).reshape(2, 12)
    np.testing.assert_array_equal(nn.Unflatten(-1, [3, -1])(x), x.reshape(2, 3, 4))
    np.testing.assert_array_equal(nn.Unflatten(0, (2, 1))(x), x[:, None])
    for sizes in ((5, -1), (-1, -1), (3, 3), (0, -1)):
        raises(RuntimeError, "must multiply to 12, got", nn.Unflatten(1, sizes), x)
    raises(IndexError, r"dim must be in \[-2, 1\], got 2", lambda: nn.Unflatten(2, (2,))(x))
    with pytest.raises(TypeError, match="dim must be an integer, got 'c'"):
        nn.Unflatten("c", (2,))  # type: ignore[arg-type]
