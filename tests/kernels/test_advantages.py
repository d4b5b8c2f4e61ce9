"""Advantages at cuts and on threads; what they have in common with returns is in `test_returns.py`."""

import numpy as np
import pytest
from helpers import reference
from helpers.kernels_under_test import gae, retrace, vtrace

import lite.kernels
from lite.kernels import _sequences

TYPES = ("float64",)
# Two episodes in a row: the first is cut off at step 2, before values that must not leak into it.
CUT_OFF = (
    np.array([1.0, 1, 1, 100, 100]),  # rewards
    np.array([0.0, 0, 0, 1000, 1000]),  # values
    np.array([0.0, 0, 7, 1000, 0]),  # next values
    np.array([0, 0, 1, 0, 1], bool),  # done
    np.array([0, 0, 0, 0, 1], bool),  # terminated
)


def test_gae_at_a_truncated_step_uses_its_own_next_value():
    # OpenAI's spinningup-style buffers take V of the next row of the batch, which is another episode's.
    advantage, target = gae(*CUT_OFF, gamma=0.5, lmbda=1.0)
    np.testing.assert_allclose(target[:3], [1 + 0.5 * (1 + 0.5 * (1 + 0.5 * 7)), 1 + 0.5 * 4.5, 4.5])
    np.testing.assert_allclose(advantage[2], 4.5)


def test_vtrace_at_a_truncated_step_uses_its_own_next_value():
    # An earlier torchrl took the target of the next row, which is another trajectory's.
    zero = np.zeros(5)
    advantage, target = vtrace(zero, zero, *CUT_OFF, gamma=0.5)
    assert advantage[2] == target[2] == 4.5


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_retrace_is_the_sum_of_the_paper(rng, kind):
    for time_dim in (-1, 0):
        for shape in ((9, 20), (1, 1)):
            weight = np.exp(rng.normal(size=shape))
            floats = [rng.normal(size=shape).astype(kind) for _ in range(3)]
            done = rng.random(shape) < 0.2
            terminated = done & (rng.random(shape) < 0.5)
            lmbda = rng.random(shape)
            expected = reference.retrace(weight, *floats, done, terminated, 0.9, lmbda)
            arrays = np.log(weight).astype(kind), np.zeros(shape, kind), *floats, done, terminated, lmbda
            moved = [np.moveaxis(a, -1, time_dim) for a in arrays]
            advantage, target = retrace(*moved[:-1], gamma=0.9, lmbda=moved[-1], time_dim=time_dim)
            tight = 1e-5 if kind == np.float32 else 1e-10
            assert advantage.dtype == target.dtype == kind
            np.testing.assert_allclose(np.moveaxis(target, time_dim, -1), expected, rtol=tight, atol=tight)
            np.testing.assert_allclose(advantage, target - moved[3], rtol=tight, atol=tight)


def test_retrace_on_policy_is_the_lambda_return_of_action_values(rng):
    """With equal policies its traces are lambda alone, as in `gae`."""
    log_pi, *floats = (rng.normal(size=(4, 12)) for _ in range(4))
    done = rng.random((4, 12)) < 0.2
    on_policy = retrace(log_pi, log_pi, *floats, done, gamma=0.9, lmbda=0.8)
    np.testing.assert_allclose(on_policy, gae(*floats, done, gamma=0.9, lmbda=0.8), rtol=1e-12)


def test_retrace_keeps_nan_in_its_episode():
    nan, done = np.full(4, np.nan), np.array([False, True, False, False])
    bad = np.where(np.arange(4) > 1, nan, 1.0)
    advantage, target = retrace(bad, np.ones(4), bad, bad, bad, done, gamma=0.5)
    np.testing.assert_array_equal(target, [1.5, 1.0, np.nan, np.nan])
    np.testing.assert_array_equal(advantage, [0.5, 0.0, np.nan, np.nan])
    # Log-probabilities so far apart that their ratio is no number, and one whose ratio is 0.
    one = np.ones(3)
    for log_pi, log_mu, first in ((1e6, -1e6, 1.875), (-np.inf, 0, 1.5)):
        pi, mu = np.array([0, log_pi, 0]), np.array([0, log_mu, 0])
        _, target = retrace(pi, mu, one, one, one, np.zeros(3, bool), gamma=0.5)
        np.testing.assert_array_equal(target, [first, 1.75, 1.5])


def test_retrace_checks_its_arguments():
    for arguments in [{"lmbda": 1.5}, {"gamma": -1.0}, {"time_dim": 3}, {"log_mu": np.ones(2)}]:
        one = np.ones(3)
        given = {"log_pi": one, "log_mu": one, "reward": one, "value": one, "next_value": one}
        with pytest.raises(ValueError):
            retrace(**{**given, "done": np.zeros(3, bool), "gamma": 0.9, **arguments})


@pytest.mark.host_only
def test_large_batches_on_threads_equal_small_ones(rng, monkeypatch):
    monkeypatch.setattr(_sequences, "_CHUNK", 4000)
    reward, done = rng.normal(size=(60, 500)), rng.random((60, 500)) < 0.05
    serial = vtrace(reward, -reward, reward, reward, reward, done, gamma=0.9)
    monkeypatch.setattr(_sequences, "_SERIAL", 20_000)
    before = lite.kernels.get_num_threads()
    lite.kernels.set_num_threads(3)
    try:
        threaded = vtrace(reward, -reward, reward, reward, reward, done, gamma=0.9)
    finally:
        lite.kernels.set_num_threads(before)
    np.testing.assert_array_equal(threaded, serial)
