"""Parameters as one vector: `lite.nn.utils`."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import enable_grad, nn, optim
from lite.nn import utils
from lite.nn.utils import clip_grad_norm_  # as scripts import it


def test_there_and_back() -> None:
    layer, other = nn.Linear(3, 2), nn.Linear(3, 2)
    vector = utils.parameters_to_vector(layer.parameters())
    np.testing.assert_array_equal(vector[:6].reshape(2, 3), layer.weight.data)
    utils.vector_to_parameters(np.append(vector, 7.0), other.parameters())
    for mine, copied in zip(layer.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(mine.data, copied.data)
        assert copied.dtype == np.float32
    vector[:] = 0
    assert layer.weight.data.any()
    assert other.weight.data.any()


def test_gradients_flow_through_the_vector() -> None:
    layer = nn.Linear(2, 1)
    with enable_grad():
        (utils.parameters_to_vector(layer.parameters()) * np.arange(3.0)).sum().backward()
    np.testing.assert_array_equal(layer.weight.grad, [[0.0, 1.0]])
    np.testing.assert_array_equal(layer.bias.grad, [2.0])


def test_clipping_is_that_of_optim() -> None:
    assert clip_grad_norm_ is utils.clip_grad_norm_ is optim.clip_grad_norm_
    assert utils.clip_grad_value_ is optim.clip_grad_value_


def test_errors() -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.data.copy()
    with pytest.raises(RuntimeError, match=r"vec must be a vector of 8 numbers, got shape \(7,\)"):
        utils.vector_to_parameters(np.zeros(7), layer.parameters())
    np.testing.assert_array_equal(layer.weight.data, before)
    raises(TypeError, "vec must be an array, got list", utils.vector_to_parameters, [1.0], layer.parameters())
    raises(ValueError, "parameters must not be empty", utils.parameters_to_vector, [])
