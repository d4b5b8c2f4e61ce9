"""The value estimators under TorchRL's names say what the functions they stand for say."""

import numpy as np
import pytest

import lite.kernels as k


@pytest.fixture
def given(rng):
    names = ("reward", "value", "following", "log_pi", "log_mu")
    arrays = {name: rng.normal(size=(2, 6, 1)) for name in names}
    done = rng.random((2, 6, 1)) < 0.3
    return arrays | {"done": done, "terminated": done & (rng.random((2, 6, 1)) < 0.5)}


def test_each_is_one_of_ours(given):
    r, v, n, p, m, d, s = given.values()
    options = {"gamma": 0.9, "time_dim": -2}
    same = np.testing.assert_array_equal
    same(
        k.generalized_advantage_estimate(0.9, 0.8, v, n, r, d, s), k.gae(r, v, n, d, s, lmbda=0.8, **options)
    )
    same(k.vtrace_advantage_estimate(0.9, p, m, v, n, r, d, s), k.vtrace(p, m, r, v, n, d, s, **options))
    same(k.reward2go(r, d, 0.9), k.reward_to_go(r, d, **options))
    for rolling in (None, True, False):
        returns = k.td_lambda_return(r, n, d, s, lmbda=0.8, rolling=rolling is not False, **options)
        same(k.td_lambda_return_estimate(0.9, 0.8, n, r, d, s, rolling), returns)
        same(k.td_lambda_advantage_estimate(0.9, 0.8, v, n, r, d, s, rolling), returns - v)
    returns = k.td1_return(r, n, d, s, **options)
    same(k.td1_return_estimate(0.9, n, r, d, s), returns)
    same(k.td1_advantage_estimate(0.9, v, n, r, d, s), returns - v)
    returns = k.td0_return(r, n, s, gamma=0.9)
    same(k.td0_return_estimate(0.9, n, r, s), returns)
    same(k.td0_advantage_estimate(0.9, v, n, r, d, s), returns - v)


def test_done_stands_in_for_terminated(given):
    r, _, n, _, _, d, _ = given.values()
    np.testing.assert_array_equal(k.td0_return_estimate(0.9, n, r, done=d), k.td0_return(r, n, d, gamma=0.9))
    with pytest.raises(TypeError, match="needs terminated, or done"):
        k.td0_return_estimate(0.9, n, r)
