"""Initial values: `lite.nn.init`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import nn
from lite.nn import init

SHAPE = (60, 20, 5)  # 100 inputs, 300 outputs


@each_case(
    ("fill", "deviation"),
    [
        (lambda x: init.uniform_(x, -3.0, 3.0, generator=0), 3.0 / 3**0.5),
        (lambda x: init.normal_(x, 0.0, 2.0, generator=0), 2.0),
        (lambda x: init.xavier_uniform_(x, 2.0, generator=0), 2 * (2 / 400) ** 0.5),
        (lambda x: init.xavier_normal_(x, 2.0, generator=0), 2 * (2 / 400) ** 0.5),
        (lambda x: init.kaiming_uniform_(x, generator=0), (2 / 100) ** 0.5),
        (lambda x: init.kaiming_normal_(x, 1.0, "fan_out", generator=0), (1 / 300) ** 0.5),
        (lambda x: init.kaiming_normal_(x, nonlinearity="tanh", generator=0), 5 / 3 / 10),
        (lambda x: init.trunc_normal_(x, std=2.0, a=-9.0, b=9.0, generator=0), 2.0),
    ],
)
def test_spread(fill: Callable[[Any], Any], deviation: float) -> None:
    array = np.zeros(SHAPE, np.float32)
    assert fill(array) is array
    np.testing.assert_allclose(array.std(), deviation, rtol=0.02)
    np.testing.assert_allclose(array.mean(), 0, atol=0.05 * deviation)
    parameter = nn.Parameter(np.zeros(SHAPE, np.float32))
    assert fill(parameter) is parameter
    np.testing.assert_array_equal(parameter.data, array)
    assert fill(nn.Parameter(nn.MetaArray(SHAPE, np.float32))).is_meta


def test_truncation() -> None:
    array = init.trunc_normal_(np.zeros(20000), 1.0, 2.0, 3.0, 5.0, generator=0)
    assert 3 <= array.min() < 3.01
    assert 4.9 < array.max() <= 5
    z = np.linspace(1, 2, 1001)
    density = np.exp(-z * z / 2)
    np.testing.assert_allclose(array.mean(), 1 + 2 * (z * density).sum() / density.sum(), rtol=0.01)


def test_values() -> None:
    np.testing.assert_array_equal(init.ones_(np.zeros(2)), [1, 1])
    np.testing.assert_array_equal(init.zeros_(np.ones(2)), [0, 0])
    np.testing.assert_array_equal(init.constant_(np.ones(2), 3), [3, 3])
    np.testing.assert_array_equal(init.eye_(np.ones((2, 3))), np.eye(2, 3))
    weight = init.dirac_(np.ones((6, 2, 3, 4)), groups=2)
    assert [tuple(place) for place in np.argwhere(weight)] == [
        (0, 0, 1, 2), (1, 1, 1, 2), (3, 0, 1, 2), (4, 1, 1, 2)
    ]  # fmt: skip


@each_case("shape", [(3, 8), (8, 3), (3, 2, 4)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = init.orthogonal_(np.zeros(shape), 2.0, generator=0).reshape(shape[0], -1)
    square = w @ w.T if w.shape[0] < w.shape[1] else w.T @ w
    np.testing.assert_allclose(square, 4 * np.eye(3), atol=1e-12)
    signs = [np.sign(init.orthogonal_(np.zeros((1, 1)), generator=seed)[0, 0]) for seed in range(20)]
    assert {-1.0, 1.0} == set(signs)


def test_sparse() -> None:
    array = init.sparse_(np.ones((10, 400)), 0.25, 2.0, generator=0)
    np.testing.assert_array_equal((array == 0).sum(0), 3)
    assert (array == 0).any(1).all()
    np.testing.assert_allclose(array[array != 0].std(), 2.0, rtol=0.05)


@each_case(
    ("call", "error", "message"),
    [
        (lambda: init.uniform_(np.zeros(2), 2, 1), RuntimeError, "a must not be above b, got a=2 and b=1"),
        (lambda: init.trunc_normal_(np.zeros(2), a=2, b=1), RuntimeError, "a must not be above b, got a=2"),
        (lambda: init.normal_(np.zeros(2), std=-1), RuntimeError, "std must not be negative, got -1"),
        (lambda: init.eye_(np.zeros(2)), ValueError, r"eye_ needs 2 dimensions, got shape \(2,\)"),
        (lambda: init.dirac_(np.zeros((2, 2))), ValueError, r"dirac_ needs 3 to 5 dimensions, got shape"),
        (lambda: init.dirac_(np.zeros((3, 2, 2)), 2), ValueError, "groups must divide the 3 output channels"),
        (lambda: init.xavier_normal_(np.zeros(2)), ValueError, "needs at least 2 dimensions, got shape"),
        (lambda: init.kaiming_normal_(np.zeros((2, 2)), mode="fan"), ValueError, "mode must be 'fan_in' or"),
        (lambda: init.calculate_gain("softplus"), ValueError, "nonlinearity must be one of .*got 'softplus'"),
        (lambda: init.calculate_gain("leaky_relu", True), ValueError, "param must be a negative slope"),
    ],
)
def test_errors(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_gain_of_what_is_linear_and_empty_matrices() -> None:
    assert [init.calculate_gain(name) for name in ("linear", "conv1d", "sigmoid")] == [1, 1, 1]
    gains = [init.calculate_gain("leaky_relu", slope) for slope in (None, 0.5, 1)]
    np.testing.assert_allclose(gains, np.sqrt([2 / 1.0001, 1.6, 1]))
    assert init.orthogonal_(nn.Parameter(np.zeros((0, 3)))).shape == (0, 3)
