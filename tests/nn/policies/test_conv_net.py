"""ConvNet and the layers that end it."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import nn

X = np.random.default_rng(0).standard_normal((2, 5, 3, 12, 12)).astype(np.float32)


def test_layers() -> None:
    net = nn.ConvNet(
        3, num_cells=[4, 5], kernel_sizes=[3, (2, 3)], strides=2, paddings=[0, 1], bias_last_layer=False,
        activation_class=nn.LeakyReLU, activation_kwargs=[{"negative_slope": 0.2}, {"negative_slope": 0.3}],
        norm_class=nn.Identity,
    )  # fmt: skip
    first, activation, norm, second, last, _, squash = net
    assert (second.kernel_size, second.stride, second.padding, second.bias) == ((2, 3), (2, 2), (1, 1), None)
    assert (activation.negative_slope, last.negative_slope) == (0.2, 0.3)
    assert isinstance(norm, nn.Identity)
    by_hand = squash(last(second(activation(first(X[0])))))
    np.testing.assert_allclose(net(X)[0], by_hand, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(net(X[0, 0]), by_hand[0], rtol=1e-5, atol=1e-6)
    assert net.out_features == 5
    assert type(net * 1) is nn.Sequential


def test_depths() -> None:
    net = nn.ConvNet(3)
    assert [layer.weight.shape[:2] for layer in net if hasattr(layer, "weight")] == [
        (32, 3),
        (32, 32),
        (32, 32),
    ]
    assert len(net) == 7
    assert nn.ConvNet(3, depth=2, num_cells=4).depth == 2
    raises(ValueError, "depth must be given where none of", nn.ConvNet, 3, num_cells=4)
    with pytest.raises(RuntimeError, match="depth and lists must agree, got depth=3 and the lengths"):
        nn.ConvNet(3, depth=3, num_cells=[4, 5])
    with pytest.raises(ValueError, match="2 dicts of keyword arguments are needed, got 1"):
        nn.ConvNet(3, num_cells=[4, 5], activation_kwargs=[{}])


def test_ends() -> None:
    pooled = nn.ConvNet(
        num_cells=[4],
        aggregator_class=nn.AdaptiveAvgPool2d,
        aggregator_kwargs={"output_size": 1},
        squeeze_output=True,
    )
    assert pooled(X).shape == (2, 5, 4)
    assert nn.ConvNet(3, num_cells=[4], aggregator_class=None)(X).shape == (2, 5, 4, 10, 10)
    assert nn.SquashDims(2)(X).shape == (2, 5, 3, 144)
    assert nn.SqueezeLayer((-1, -3))(X[:, :, :1, :, :1]).shape == (2, 5, 12)
    assert nn.Squeeze2dLayer()(X[..., :1, :1]).shape == (2, 5, 3)
    with pytest.raises(RuntimeError, match=r"the dimensions \(-2, -1\) must be of size 1, got shape \(2, 5,"):
        nn.Squeeze2dLayer()(X)
    raises(RuntimeError, r"dims must be negative, got \(0,\)", nn.SqueezeLayer, (0,))


def test_one_image_and_no_bias_at_the_end() -> None:
    net = nn.ConvNet(in_features=1, num_cells=[2, 3, 4], kernel_sizes=3, bias_last_layer=False)
    biases = [layer.bias is not None for layer in net.modules() if isinstance(layer, nn.Conv2d)]
    assert biases == [True, True, False]
    images = np.arange(98, dtype=np.float32).reshape(2, 1, 7, 7) / 98
    np.testing.assert_allclose(net(images[0]), net(images)[0], rtol=1e-5, atol=1e-7)
    assert nn.SqueezeLayer()(np.ones(1)).shape == ()


def test_the_network_for_atari() -> None:
    net = nn.ConvNet.default_atari_dqn(6)
    assert net(np.zeros((2, 4, 84, 84), np.float32)).shape == (2, 6)
    shapes = [tuple(p.shape) for name, p in net.named_parameters() if name.endswith("weight")]
    assert shapes == [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136), (6, 512)]


X_DUELING = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


def test_values_and_advantages() -> None:
    net = nn.DuelingMlpDQNet(4, mlp_kwargs_feature={"num_cells": [8]}, mlp_kwargs_output={"num_cells": 6})
    got = net(X_DUELING)
    hidden = net.features(X_DUELING)
    np.testing.assert_allclose(got.mean(-1, keepdims=True), net.value(hidden), rtol=1e-4, atol=1e-6)
    advantage = net.advantage(hidden)
    np.testing.assert_allclose(got - got[:, :1], advantage - advantage[:, :1], rtol=1e-4, atol=1e-6)
    assert [layer.out_features for layer in net.features if isinstance(layer, nn.Linear)] == [8, 256]
