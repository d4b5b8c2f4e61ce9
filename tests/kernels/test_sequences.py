"""More steps and lanes than the recursions work out together, in every layout that they tell apart."""

import numpy as np
import pytest
from helpers import reference

from lite.kernels import gae, td_lambda_return, vtrace

TYPES = ("float64",)
SHAPES = [(1, 2500), (9, 1025), (1100, 9), (17, 1)]


@pytest.mark.depth
@pytest.mark.parametrize("shape", SHAPES)
def test_tiles_join(rng, shape):
    for layout in ("time last", "time first", "every other") if shape == (9, 1025) else ("time first",):
        arrays = [rng.normal(size=shape) for _ in range(5)]
        done = rng.random(shape) < 0.02
        arrays += [done, done & (rng.random(shape) < 0.5)]
        gamma = rng.random(shape)
        factors = gamma, np.broadcast_to(0.9, shape)  # one for each step, and one for all
        reward, value, following, log_pi, log_mu, *flags = arrays
        plain = reference.vtrace(np.ones(shape), reward, value, following, *flags, *factors, 1.0, 1.0)
        weight = np.exp(log_pi - log_mu)
        expected = [
            reference.td_lambda_return(reward, following, *flags, *factors),
            plain[1] - value,
            plain[1],
            *reference.vtrace(weight, reward, value, following, *flags, *factors, 0.8, 1.2),
        ]
        axis = -1
        if layout == "time first":
            axis, arrays, gamma = (
                0,
                [np.ascontiguousarray(a.T) for a in arrays],
                np.ascontiguousarray(gamma.T),
            )
        elif layout == "every other":
            arrays = [np.repeat(a, 2, -1)[:, ::2] for a in arrays]
        r, v, n, p, m, d, s = arrays
        options = {"gamma": gamma, "lmbda": 0.9, "time_dim": axis}
        got = [
            td_lambda_return(r, n, d, s, **options),
            *gae(r, v, n, d, s, **options),
            *vtrace(p, m, r, v, n, d, s, rho_thresh=0.8, c_thresh=1.2, **options),
        ]
        for ours, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(ours.T if axis == 0 else ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("dtype", "least", "most", "rtol"), [(np.float32, -85, 88.7, 2e-6), (np.float64, -700, 709.7, 1e-13)]
)
def test_weights_of_any_size(dtype, least, most, rtol):
    log_pi = np.concatenate([np.linspace(least, most, 999), [-np.inf, 1.3 * least, 1.3 * most, np.inf]])
    log_pi = log_pi.astype(dtype)
    one, zero = np.ones_like(log_pi), np.zeros_like(log_pi)
    done = np.ones(log_pi.shape, bool)  # each step's target is its own weight
    _, weights = vtrace(log_pi, zero, one, zero, zero, done, gamma=0.5, rho_thresh=np.inf)
    np.testing.assert_allclose(weights[:-4], np.exp(log_pi[:-4].astype(np.longdouble)), rtol=rtol)
    np.testing.assert_array_equal(weights[-4:], [0.0, 0.0, np.inf, np.inf])


@pytest.mark.grid
def test_weights_keep_the_digits_of_wide_log_probs():
    """Those of a difference of two large numbers, beside rewards of few digits."""
    one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
    log_mu = np.array([-1e4, -1e3, -1e2])
    log_pi, done = log_mu + [1e-4, -1e-4, 1e-3], np.ones(3, bool)
    _, weights = vtrace(log_pi, log_mu, one, zero, zero, done, gamma=0.5, rho_thresh=2.0)
    np.testing.assert_allclose(weights, np.exp([1e-4, -1e-4, 1e-3]), rtol=2e-7)
    assert weights.dtype == np.float32


@pytest.mark.depth
def test_lanes_beside_each_other(rng):
    """Features after time: too few, or enough, to be walked along memory."""
    for lanes in (3, 8, 20, 1030):
        reward = rng.normal(size=(2, 50, lanes))
        done = rng.random((2, 50)) < 0.1
        got = td_lambda_return(reward, reward, done, gamma=0.9, lmbda=0.8)
        flat = np.moveaxis(reward, -1, 1).reshape(2 * lanes, 50)
        ends = np.repeat(done, lanes, 0)
        factors = np.full(flat.shape, 0.9), np.full(flat.shape, 0.8)
        expected = reference.td_lambda_return(flat, flat, ends, ends, *factors)
        np.testing.assert_allclose(
            np.moveaxis(got, -1, 1).reshape(flat.shape), expected, rtol=1e-12, atol=1e-14
        )


def test_non_finite_values_stay_in_their_episode(rng):
    """Across tiles, and beside lanes that are worked out together."""
    for poison in (np.nan, np.inf):
        for shape in ((9, 2100), (2, 50, 20)):
            reward, done = np.ones(shape), np.zeros(shape, bool)
            lane = (0, slice(None), 3) if len(shape) == 3 else (3,)
            done[(*lane[:1], 20, *lane[2:])] = True
            reward[(*lane[:1], 25, *lane[2:])] = poison
            hit = np.zeros(shape, bool)
            hit[(*lane[:1], slice(21, 26), *lane[2:])] = True
            for got in (
                td_lambda_return(reward, np.ones(shape), done, gamma=0.9, lmbda=0.9, time_dim=1),
                gae(reward, np.ones(shape), np.ones(shape), done, gamma=0.9, lmbda=0.9, time_dim=1).advantage,
            ):
                np.testing.assert_array_equal(~np.isfinite(got), hit)
