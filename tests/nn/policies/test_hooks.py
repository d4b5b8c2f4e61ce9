"""Hooks that make a network of action values give actions, too."""

import numpy as np

from lite import nn


def test_hooks() -> None:
    net = nn.Linear(3, 4)
    values = net(np.ones((5, 3), np.float32))
    net.register_forward_hook(nn.QValueHook("categorical"))
    action, same, chosen = net(np.ones((5, 3), np.float32))
    np.testing.assert_array_equal(same, values)
    np.testing.assert_array_equal(action, values.argmax(-1))
    np.testing.assert_array_equal(chosen[:, 0], values.max(-1))
    support = np.array([0.0, 1.0], np.float32)
    hook = nn.DistributionalQValueHook("categorical", support)
    log_probs = np.log(np.array([[0.9, 0.4], [0.1, 0.6]], np.float32))
    action, same = hook(net, None, log_probs)
    assert int(action) == 1
    assert same is log_probs
