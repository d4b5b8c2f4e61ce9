"""Dueling networks."""

import numpy as np

from lite import nn

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


def test_values_and_advantages() -> None:
    net = nn.DuelingMlpDQNet(4, mlp_kwargs_feature={"num_cells": [8]}, mlp_kwargs_output={"num_cells": 6})
    got = net(X)
    hidden = net.features(X)
    np.testing.assert_allclose(got.mean(-1, keepdims=True), net.value(hidden), rtol=1e-4, atol=1e-6)
    advantage = net.advantage(hidden)
    np.testing.assert_allclose(got - got[:, :1], advantage - advantage[:, :1], rtol=1e-4, atol=1e-6)
    assert [layer.out_features for layer in net.features if isinstance(layer, nn.Linear)] == [8, 256]
