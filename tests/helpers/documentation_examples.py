"""What several examples of the reference documentation use."""

import numpy as np

from lite import nn

F32 = np.float32


def ones(*shape):
    return np.ones(shape, dtype=F32)


def zeros(*shape):
    return np.zeros(shape, dtype=F32)


def tree():
    a = nn.Module()
    a.net_b = nn.Module()
    a.net_b.net_c = nn.Module()
    a.net_b.net_c.conv = nn.Identity()
    a.net_b.linear = nn.Linear(100, 200)
    return a
