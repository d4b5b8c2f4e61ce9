"""Which calls take the short way, and that it is one."""

import numpy as np
import pytest

from lite.kernels import _sequences, discounted_return, gae, reward_to_go, td_lambda_return
from lite.kernels import returns as _estimates
from lite.kernels.returns import is_factor, short_time

FLOATS, FLAGS = np.ones((3, 8), np.float32), np.zeros((3, 8), bool)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def test_short_calls_are_of_few_values_that_lie_as_they_should():
    for flags, numbers, time_dim, expected in [
        (FLAGS, FLOATS, -1, 8),
        (FLAGS, FLOATS, 1, 8),
        (FLAGS, FLOATS[..., None], -1, 8),
        (FLAGS[..., None], FLOATS[..., None], -2, 8),
        (FLAGS[..., None], FLOATS[..., None], 1, 8),
        (FLAGS[..., None], FLOATS[..., None], -1, 1),
        (FLAGS[0], FLOATS[0].astype(np.float64), 0, 8),
        (FLAGS, FLOATS, 0, 0),
        (FLAGS, FLOATS, 2, 0),
        (FLAGS, FLOATS[:, :4], -1, 0),
        (FLAGS, FLOATS.astype(np.float16), -1, 0),
        (FLAGS, FLOATS.astype(">f4"), -1, 0),
        (FLAGS, read_only(FLOATS), -1, 0),
        (read_only(FLAGS), FLOATS, -1, 0),
        (FLAGS.astype(np.int8), FLOATS, -1, 0),
        (FLAGS, FLOATS.tolist(), -1, 0),
        (FLAGS.tolist(), FLOATS, -1, 0),
        (FLAGS.T, FLOATS.T, -1, 0),
        (FLAGS[()][:0], FLOATS[:0], -1, 0),
        (FLAGS[0, 0, ...], FLOATS[0, 0, ...], -1, 0),
        (np.zeros((9, 500), bool), np.zeros((9, 500), np.float32), -1, 0),
    ]:
        assert short_time(time_dim, (flags,), numbers) == expected
        assert short_time(time_dim, (flags, flags), numbers, numbers) == expected


def test_all_arrays_must_be_alike():
    assert short_time(-1, (FLAGS, FLAGS[:2]), FLOATS) == 0
    assert short_time(-1, (FLAGS,), FLOATS, FLOATS.astype(np.float64)) == 0
    assert short_time(-1, (FLAGS,), FLOATS, FLOATS[..., None]) == 0


def test_factors_are_numbers_of_python_in_the_unit_interval():
    assert all(map(is_factor, (0, 1, 0.5)))
    assert not any(map(is_factor, (1.1, -0.1, np.nan, np.ones(2), np.float32(0.5), None)))


def test_small_calls_lay_nothing_out(monkeypatch):
    """Laying out took five times as long as all else of a call on one row of 128 values."""

    def refuse(*args):
        raise AssertionError("laid out")

    monkeypatch.setattr(_sequences.Sequences, "__init__", refuse)
    floats = FLOATS.astype(np.float64)  # for which most tests compile
    gae(floats, floats, floats, FLAGS, gamma=0.9, lmbda=0.9)
    reward_to_go(floats, FLAGS)
    discounted_return(floats, FLAGS, gamma=0.9)
    assert td_lambda_return(floats, floats, FLAGS, gamma=0.9, lmbda=0.9).shape == FLOATS.shape
    monkeypatch.setattr(_estimates, "_SHORT", 23)
    with pytest.raises(AssertionError, match="laid out"):
        reward_to_go(floats, FLAGS)
