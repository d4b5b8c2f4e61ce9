"""Returns and advantages against plain loops, the reference's vectors, and hand-made cases."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import kernels_under_test, reference
from helpers.kernels_under_test import (
    discounted_return,
    gae,
    reward_to_go,
    td0_return,
    td1_return,
    td_lambda_return,
    vtrace,
)
from hypothesis import given, settings
from hypothesis import strategies as st

TYPES = "float64", "float16"  # by default; what is computed in float32, integers are, too
VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "value_vectors.json").read_text())["cases"]


def array(entry):
    return entry and np.array(entry["data"], entry["dtype"]).reshape(entry["shape"])  # None: not given


def test_vectors_of_the_reference():
    for case in VECTORS:
        given = {name: array(entry) for name, entry in case["inputs"].items()}
        expected = {name: array(entry) for name, entry in case["expected"].items()}
        gamma, lmbda, axis = case["gamma"], case["lmbda"], case["time_dim"]
        reward, value, following = given["reward"], given["state_value"], given["next_state_value"]
        flags = given["done"], given["terminated"]
        got = {
            "td_lambda_return": td_lambda_return(
                reward, following, *flags, gamma=gamma, lmbda=lmbda, time_dim=axis
            ),
            "td1_return": td1_return(reward, following, *flags, gamma=gamma, time_dim=axis),
            "td0_return": td0_return(
                reward, following, flags[0] if flags[1] is None else flags[1], gamma=gamma
            ),
            "reward2go": reward_to_go(reward, flags[0], gamma=gamma, time_dim=axis),
        }
        got["gae_advantage"], got["gae_value_target"] = gae(
            reward, value, following, *flags, gamma=gamma, lmbda=lmbda, time_dim=axis
        )
        got["vtrace_advantage"], got["vtrace_target"] = vtrace(
            given["log_pi"], given["log_mu"], reward, value, following, *flags, gamma=gamma,
            rho_thresh=case["rho_thresh"], c_thresh=case["c_thresh"], time_dim=axis,
        )  # fmt: skip
        assert got.keys() == expected.keys()
        for name, result in got.items():
            np.testing.assert_allclose(result, expected[name], rtol=1e-6, atol=1e-6, err_msg=name)


@st.composite
def problems(draw, dtype=np.float64):
    rows, time = draw(st.integers(1, 40)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    floats = [rng.normal(size=(rows, time)).astype(dtype) for _ in range(4)]
    done = rng.random((rows, time)) < draw(st.sampled_from([0.0, 0.2, 0.9]))
    terminated = done & (rng.random((rows, time)) < 0.5)
    factors = []
    for _ in range(2):
        scalar = draw(st.sampled_from([0.0, 0.5, 0.97, 1.0, None]))
        factors.append(rng.random((rows, time)) if scalar is None else scalar)
    return (*floats, done, terminated, *factors, draw(st.booleans()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=kernels_under_test.examples(20))
@given(st.data())
def test_equal_the_loops_in_any_layout(dtype, data):
    problem = data.draw(problems(dtype))
    reward, value, following, weight, done, terminated, gamma, lmbda, turned = problem
    factors = np.broadcast_to(gamma, reward.shape), np.broadcast_to(lmbda, reward.shape)
    rtol = 1e-6 if reward.dtype == np.float32 else 1e-12
    arrays = [reward, value, following, weight, done, terminated]
    options = {"gamma": gamma, "lmbda": lmbda, "time_dim": -1}
    if turned:  # time first, in memory too
        arrays = [np.ascontiguousarray(a.T) for a in arrays]
        options = {k: v.T if isinstance(v, np.ndarray) else v for k, v in options.items()} | {"time_dim": 0}

    def check(got, expected):
        assert got.dtype == reward.dtype
        rounded = rtol * max(1.0, np.abs(expected).max(initial=0))  # of the terms, where a sum is almost zero
        np.testing.assert_allclose(got.T if turned else got, expected, rtol=rtol, atol=rounded)

    r, v, n, w, d, s = arrays
    check(
        td_lambda_return(r, n, d, s, **options),
        reference.td_lambda_return(reward, following, done, terminated, *factors),
    )
    advantage, target = gae(r, v, n, d, s, **options)
    ones = np.ones_like(reward)
    expected = reference.vtrace(ones, reward, value, following, done, terminated, *factors, 1.0, 1.0)
    check(target, expected[1])
    check(advantage, expected[1] - value)
    advantage, target = vtrace(w, np.zeros_like(w), r, v, n, d, s, rho_thresh=0.9, c_thresh=1.1, **options)
    expected = reference.vtrace(
        np.exp(weight.astype(np.float64)), reward, value, following, done, terminated, *factors, 0.9, 1.1
    )
    check(advantage, expected[0])
    check(target, expected[1])


@settings(max_examples=kernels_under_test.examples(10))
@given(problems())
def test_fixed_factors_are_those_of_the_step_the_return_starts_from(problem):
    reward, _, following, _, done, terminated, gamma, lmbda, _ = problem
    got = td_lambda_return(reward, following, done, terminated, gamma=gamma, lmbda=lmbda, rolling=False)
    factors = np.broadcast_to(gamma, reward.shape), np.broadcast_to(lmbda, reward.shape)
    for t in range(reward.shape[1]):
        now = [np.repeat(f[:, t : t + 1], reward.shape[1], 1) for f in factors]
        expected = reference.td_lambda_return(reward, following, done, terminated, *now)
        np.testing.assert_allclose(got[:, t], expected[:, t], rtol=1e-5, atol=1e-6)


def cut_off():
    """Two episodes in a row: the first is cut off at step 2, before values that must not leak into it."""
    reward = np.array([1.0, 1, 1, 100, 100])
    value = np.array([0.0, 0, 0, 1000, 1000])
    following = np.array([0.0, 0, 7, 1000, 0])
    done = np.array([0, 0, 1, 0, 1], bool)
    terminated = np.array([0, 0, 0, 0, 1], bool)
    return reward, value, following, done, terminated


def test_td_lambda_at_a_truncated_step_uses_its_own_next_value():
    reward, _, following, done, terminated = cut_off()
    got = td1_return(reward, following, done, terminated, gamma=0.5)
    assert got[2] == 4.5
    assert got[1] == 1 + 0.5 * 4.5
    assert got[0] == 1 + 0.5 * (1 + 0.5 * 4.5)


def test_non_finite_values_do_not_cross_an_episode():
    for poison in (np.nan, np.inf, -np.inf):
        one = np.ones(6)
        done = np.array([0, 0, 1, 0, 0, 0], bool)
        bad = np.array([1.0, 1, 1, 1, poison, 1])
        for got in (
            td_lambda_return(bad, bad, done, gamma=0.9, lmbda=0.9),
            reward_to_go(bad, done, gamma=0.9),
            gae(bad, bad, bad, done, gamma=0.9, lmbda=0.9).advantage,
            vtrace(one, one, bad, bad, bad, done, gamma=0.9).advantage,
        ):
            assert np.isfinite(got[:3]).all()
            assert not np.isfinite(got[4])
            assert np.isfinite(got[5])


def test_a_factor_of_zero_forgets_what_is_ahead():
    bad = np.array([1.0, np.nan])
    done = np.zeros(2, bool)
    assert td_lambda_return(np.ones(2), bad[::-1], done, gamma=0.0, lmbda=0.5).tolist() == [1, 1]
    assert td_lambda_return(bad, np.ones(2), done, gamma=0.5, lmbda=0.0)[0] == 1.5
    assert gae(bad, np.ones(2), np.ones(2), done, gamma=0.5, lmbda=0.0).advantage[0] == 0.5
    for rolling in (True, False):  # a lambda of 1 forgets next values before the last
        options = {"gamma": np.full(2, 0.5), "lmbda": np.ones(2), "rolling": rolling}
        assert td_lambda_return(np.ones(2), np.array([np.inf, 2]), done, **options).tolist() == [2, 2]


def test_exact_over_long_sequences():
    # with terms below 1e-7 dropped, as elsewhere, this is 1.9999998
    assert reward_to_go(np.ones(5000), np.zeros(5000, bool), gamma=0.5)[0] == 2.0


def test_integer_rewards_and_flags_are_computed_in_floats():
    got = reward_to_go(np.array([1, 1, 1]), np.array([0, 1, 0], np.uint8), gamma=0.5)
    assert got.dtype == np.float32
    assert got.tolist() == [1.5, 1.0, 1.0]


@pytest.mark.usefixtures("around_the_kernels")
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_narrow_types_are_kept(rng, name):
    dtype = np.float16 if name == "float16" else pytest.importorskip("ml_dtypes").bfloat16
    reward, following = (rng.normal(size=(3, 20)).astype(dtype) for _ in range(2))
    done = rng.random((3, 20)) < 0.1
    got = td_lambda_return(reward, following, done, gamma=0.9, lmbda=0.9)
    wide = td_lambda_return(
        reward.astype(np.float64), following.astype(np.float64), done, gamma=0.9, lmbda=0.9
    )
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, wide.astype(np.float32).astype(dtype))


def test_empty():
    for shape in ((0, 5), (5, 0), (3, 0, 2), (0,)):
        reward, done = np.ones(shape, np.float32), np.zeros(shape, bool)
        assert reward_to_go(reward, done, gamma=0.9).shape == shape
        assert gae(reward, reward, reward, done, gamma=0.9, lmbda=0.9).advantage.shape == shape


def test_features_share_the_flags(rng):
    reward, done = rng.normal(size=(4, 9, 3)), rng.random((4, 9)) < 0.3
    got = reward_to_go(reward, done, gamma=0.9)
    for f in range(3):
        np.testing.assert_array_equal(got[..., f], reward_to_go(reward[..., f], done, gamma=0.9))


def test_strided_and_read_only_input(rng):
    for step in (slice(None, None, -1), slice(None, None, 2)):
        reward, done = rng.normal(size=(6, 20)), rng.random((6, 20)) < 0.2
        for a in (reward, done):
            a.flags.writeable = False
        expected = reward_to_go(reward[:, step].copy(), done[:, step].copy(), gamma=0.9)
        np.testing.assert_array_equal(reward_to_go(reward[:, step], done[:, step], gamma=0.9), expected)


def test_discounted_return_goes_on_with_the_last_value(rng):
    reward, last = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 3))
    done = np.zeros((2, 5), bool)
    done[1, 4] = True
    got = discounted_return(reward, done, last, gamma=0.5)
    following = np.zeros_like(reward)
    following[:, -1] = last
    np.testing.assert_allclose(got, td1_return(reward, following, done, gamma=0.5))


ONE, DONE = np.ones((2, 3)), np.zeros((2, 3), bool)


def test_errors_name_the_argument():
    for call, error, words in [
        (lambda: gae(ONE, ONE[:1], ONE, DONE, gamma=0.9, lmbda=0.9), ValueError,
            r"value.*\(1, 3\).*\(2, 3\)"),
        (lambda: gae(ONE, ONE, ONE[:1], DONE, gamma=0.9, lmbda=0.9), ValueError,
            r"next_value.*\(1, 3\).*\(2, 3\)"),
        (lambda: td_lambda_return(ONE, ONE[:1], DONE, gamma=0.9, lmbda=0.9), ValueError,
            r"next_value.*\(1, 3\).*\(2, 3\)"),
        (lambda: td0_return(ONE, ONE[:1], DONE, gamma=0.9), ValueError, r"next_value.*\(1, 3\).*\(2, 3\)"),
        (lambda: gae(ONE, ONE, ONE, DONE[:1], gamma=0.9, lmbda=0.9), ValueError,
            r"done.*\(2, 3\).*\(1, 3\)"),
        (lambda: gae(ONE, ONE, ONE, DONE, ONE, gamma=0.9, lmbda=0.9), TypeError, "terminated.*float64"),
        (lambda: gae(ONE, ONE, ONE, DONE, gamma=1.1, lmbda=0.9), ValueError, r"gamma must be in \[0, 1\]"),
        (lambda: gae(ONE, ONE, ONE, DONE, gamma=0.9, lmbda=np.nan), ValueError,
            r"lmbda must be in \[0, 1\]"),
        (lambda: reward_to_go(ONE, DONE, gamma=np.ones(2)), ValueError,
            r"gamma.*broadcast.*\(2,\).*\(2, 3\)"),
        (lambda: reward_to_go(ONE, DONE, gamma=0.9, time_dim=2), ValueError, "time_dim 2 is out of range"),
        (lambda: reward_to_go(ONE * 1j, DONE, gamma=0.9), TypeError, "reward.*complex128"),
        (lambda: reward_to_go(np.array(1.0), np.array(True), gamma=0.9), ValueError, "time_dim -1"),
        (lambda: td_lambda_return(ONE, ONE, ONE, gamma=0.9, lmbda=0.9), TypeError, "done.*float64"),
        (lambda: discounted_return(ONE, DONE, ONE, gamma=0.9), ValueError,
            r"last_value.*\(2,\).*\(2, 3\)"),
        (lambda: vtrace(ONE, ONE[:1], ONE, ONE, ONE, DONE, gamma=0.9), ValueError,
            r"log_mu.*\(1, 3\).*\(2, 3\)"),
        (lambda: vtrace(ONE, ONE, ONE, ONE, ONE, DONE, gamma=0.9, rho_thresh=-1), ValueError,
            "rho_thresh must not be negative"),
    ]:  # fmt: skip
        with pytest.raises(error, match=words):
            call()
