"""NoisyLinear: its formula, and when there is noise."""

import itertools
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import nn

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


def mean_of(layer: nn.NoisyLinear) -> np.ndarray:
    return X @ layer.weight_mu.data.T + layer.bias_mu.data


def noisy_of(layer: nn.NoisyLinear) -> np.ndarray:
    weight = layer.weight_mu + layer.weight_sigma * layer.weight_epsilon
    return X @ weight.T + layer.bias_mu + layer.bias_sigma * layer.bias_epsilon


@each_case(
    ("kind", "training", "use"),
    itertools.product(["random", "mode", None], [False, True], [True, False, None]),
)
def test_when_there_is_noise(kind: Any, training: Any, use: Any) -> None:
    layer = nn.NoisyLinear(3, 2, use_exploration_type=use, rng=0).train(training)
    with nn.set_interaction_type(kind):
        got = layer(X)
    noisy = training if use is False else kind == "random"
    np.testing.assert_allclose(got, noisy_of(layer) if noisy else mean_of(layer), rtol=1e-5, atol=1e-6)


def test_noise_stays_until_it_is_reset() -> None:
    layer = nn.NoisyLinear(3, 2, rng=0)
    with nn.set_interaction_type("random"):
        first = layer(X)
        np.testing.assert_array_equal(layer(X), first)
        nn.Sequential(layer).apply(nn.reset_noise)
        assert (layer(X) != first).all()
    noise = nn.NoisyLinear(40, 300, rng=0).bias_epsilon
    np.testing.assert_allclose(np.mean(noise**2), np.sqrt(2 / np.pi), rtol=0.15)  # of sign(x) sqrt(|x|)
    again = nn.NoisyLinear(3, 2, rng=0)
    with nn.set_interaction_type("random"):
        np.testing.assert_array_equal(again(X), first)


def test_lazy() -> None:
    layer = nn.NoisyLazyLinear(2, rng=0)
    layer.reset_noise()
    assert layer(X).shape == (5, 2)
    assert type(layer) is nn.NoisyLinear
    np.testing.assert_allclose(layer.weight_sigma.data, 0.5 / np.sqrt(3), rtol=1e-6)
    assert abs(layer.weight_mu.data).max() <= 1 / np.sqrt(3)
    noise = layer.weight_epsilon
    assert (noise != 0).all()
    np.testing.assert_allclose(noise * noise[0, 0], np.outer(noise[:, 0], noise[0]), rtol=1e-5)
    assert list(nn.NoisyLazyLinear(2, bias=False).state_dict()) == [
        "weight_mu",
        "weight_sigma",
        "weight_epsilon",
    ]
    loaded = nn.NoisyLazyLinear(2)
    loaded.load_state_dict(layer.state_dict())
    np.testing.assert_array_equal(loaded.eval()(X), layer.eval()(X))
    assert loaded.in_features == 3
    with pytest.raises(RuntimeError, match=r"the input must have at least one dimension, got \(\)"):
        nn.NoisyLazyLinear(2)(np.float32(1) * np.ones((), np.float32))


def test_weights_are_those_of_the_next_call() -> None:
    layer = nn.NoisyLinear(3, 2, rng=0)
    x = np.ones(3, np.float32)
    with nn.set_interaction_type("random"):
        np.testing.assert_allclose(layer.weight @ x + layer.bias, layer(x), rtol=1e-6)
        assert not np.array_equal(layer.weight, layer.weight_mu)
    assert nn.NoisyLinear(3, 2, bias=False).bias is None
