"""Shapes and axes that rules read of arrays."""

import numpy as np
import pytest
from helpers.onnx_nodes import Case, module_of

from lite import jit
from lite.nn._import.integers import axes_of


def test_axes_count_from_the_front() -> None:
    assert axes_of((-1, 0), 3) == (2, 0)
    for axes in ((3,), (-4,), (0, -3)):
        with pytest.raises(ValueError, match="axes"):
            axes_of(axes, 3)


def test_a_shape_that_numbers_give_cannot_be_traced() -> None:
    net = module_of(Case("Reshape", [np.ones(4), np.array([2, 2])]))
    with pytest.raises(NotImplementedError, match="cannot be traced: a shape"):
        jit(lambda x, shape: net(x, shape))(np.ones(4), np.array([2, 2]))
