"""The numbers that a loss keeps: schedules change them in place, results of them are plain."""

import copy

import numpy as np
from helpers.nn.transitions import gaussian, linear

from lite import nn
from lite.nn.losses import ClipPPOLoss


def make() -> ClipPPOLoss:
    critic = nn.ValueOperator(linear(4, 1), in_keys=["observation"])
    return ClipPPOLoss(gaussian(), critic, clip_epsilon=0.2)


def test_schedules_write_in_place() -> None:
    loss = make()
    epsilon = loss.clip_epsilon
    assert epsilon.copy_(0.2 * 0.5) is epsilon
    np.testing.assert_allclose(loss._number("clip_epsilon"), 0.1)
    loss.entropy_coeff.fill_(0)
    assert loss._number("entropy_coeff") == 0
    loss.clip_epsilon = 0.3
    np.testing.assert_allclose(epsilon, 0.3, rtol=1e-6)
    assert type(epsilon * 2) is np.float32
    assert type(np.ones(3) * epsilon) is np.ndarray


def test_it_stays_one_in_copies_and_state_dicts() -> None:
    loss = make()
    loss.clip_epsilon.copy_(0.05)
    other = make()
    other.load_state_dict(loss.state_dict())
    for got in (copy.deepcopy(loss), other, make().double()):
        got.clip_epsilon.copy_(got.clip_epsilon * 2)
    np.testing.assert_allclose(other._number("clip_epsilon"), 0.1)
    np.testing.assert_allclose(loss._number("clip_epsilon"), 0.05)
    # Pickles of losses and of their state dicts name the class by its module: one that moves is not read.
    assert type(loss.clip_epsilon).__module__ == "lite.nn.losses.coefficient"
