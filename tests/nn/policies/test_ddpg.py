"""Networks of DDPG."""

import numpy as np
from helpers.cases import each_case

from lite import nn

X = np.random.default_rng(0).standard_normal((2, 3, 40, 40)).astype(np.float32)
ACTION = np.ones((2, 2), np.float32)
SMALL = {"in_features": 3, "num_cells": [4, 4, 4]}


def test_vectors() -> None:
    actor = nn.DdpgMlpActor(2, {"num_cells": 8})
    np.testing.assert_array_equal(actor(X[0, 0]), actor.mlp(X[0, 0]))
    critic = nn.DdpgMlpQNet({"out_features": 6}, {"num_cells": [5]})
    hidden = critic.mlp1(X[0, 0, :2])
    np.testing.assert_array_equal(
        critic(X[0, 0, :2], ACTION), critic.mlp2(np.concatenate([hidden, ACTION], -1))
    )
    assert (hidden > -1).all()
    assert critic.mlp1[-1].__class__ is nn.ELU


@each_case(("pooled", "size"), [(True, 4), (False, 36)])
def test_images(pooled: bool, size: int) -> None:
    actor = nn.DdpgCnnActor(2, SMALL, use_avg_pooling=pooled)
    action, hidden = actor(X)
    assert hidden.shape == (2, size)
    np.testing.assert_array_equal(action, actor.mlp(hidden))
    critic = nn.DdpgCnnQNet(SMALL, use_avg_pooling=pooled)
    joined = np.concatenate([critic.convnet(X), ACTION], -1)
    np.testing.assert_array_equal(critic(X, ACTION), critic.mlp(joined))


@each_case(
    ("net", "bound"),
    [
        (nn.DdpgMlpActor(9), 3e-3),
        (nn.DdpgMlpQNet(), 3e-3),
        (nn.DdpgCnnActor(9), 3e-4),
        (nn.DdpgCnnQNet(), 3e-4),
    ],
)
def test_last_layers_are_small_at_first(net: nn.Module, bound: float) -> None:
    last = list(net.children())[-1][-1]
    assert bound / 2 < abs(last.weight.data).max() <= bound
    assert abs(last.bias.data).max() <= bound
