"""Advantages at cuts and on threads; what they have in common with returns is in `test_returns.py`."""

import numpy as np
import pytest
from helpers.kernels_under_test import gae, vtrace

import lite.kernels
from lite.kernels import _sequences

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


@pytest.mark.host_only
def test_large_batches_on_threads_equal_small_ones(rng, monkeypatch):
    monkeypatch.setattr(_sequences, "_CHUNK", 4000)
    reward, done = rng.normal(size=(60, 500)).astype(np.float32), rng.random((60, 500)) < 0.05
    serial = vtrace(reward, -reward, reward, reward, reward, done, gamma=0.9)
    monkeypatch.setattr(_sequences, "_SERIAL", 20_000)
    before = lite.kernels.get_num_threads()
    lite.kernels.set_num_threads(3)
    try:
        threaded = vtrace(reward, -reward, reward, reward, reward, done, gamma=0.9)
    finally:
        lite.kernels.set_num_threads(before)
    np.testing.assert_array_equal(threaded, serial)
