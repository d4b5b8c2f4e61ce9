import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, lazy_stack
from lite.data import Bounded, Composite, Unbounded
from lite.envs import (
    ClipTransform,
    FiniteTensorDictCheck,
    GymEnv,
    RewardClipping,
    SignTransform,
    TransformedEnv,
)


def test_integers_with_bounds_of_floats():
    td = ClipTransform(["x"], low=0.5)(TensorDict(x=np.array([0, 2])))
    np.testing.assert_array_equal(td["x"], np.array([0.5, 2], np.float32))
    assert td["x"].dtype == np.float32
    assert RewardClipping(-1, 1)(TensorDict(reward=np.array([5])))["reward"].dtype == np.int64


def test_many_numbers_are_clipped_as_each_is(rng):
    x = rng.normal(size=5000)
    x[0] = np.nan
    for transform in (ClipTransform(["x"], low=-1, high=0.5), ClipTransform(["x"], low=0)):
        for value in (x, x.astype(np.float32), (9 * x[1:]).astype(np.int64)):
            out = transform(TensorDict(x=value))["x"]
            parts = [transform(TensorDict(x=part))["x"] for part in np.split(value, [2500])]
            np.testing.assert_array_equal(out, np.concatenate(parts), strict=True)


def test_inputs_are_clipped_too():
    clip = ClipTransform(in_keys_inv=["a"], high=1.0)
    np.testing.assert_array_equal(clip.inv(TensorDict(a=np.array([0.0, 3.0])))["a"], [0, 1])


def test_specs():
    spec = Composite(reward=Unbounded(1), other=Unbounded(1))
    assert SignTransform(["reward"]).transform_reward_spec(spec)["reward"] == Bounded(-1, 1, (1,))
    assert (
        ClipTransform(["other"], low=0.0)
        .transform_observation_spec(spec)["other"]
        .is_in(np.zeros(1, np.float32))
    )
    assert RewardClipping(-1, 1).transform_reward_spec(spec)["reward"] == Bounded(-1, 1, (1,))
    with pytest.raises(NotImplementedError, match="needs an Unbounded spec"):
        RewardClipping(-1, 1).transform_reward_spec(Bounded(-1, 1, (1,)))


def test_arguments():
    raises(TypeError, "clamp_min and clamp_max must be numbers", lambda: RewardClipping(-1))
    raises(ValueError, "low must be below high, got 1 and 0", lambda: ClipTransform(["x"], low=1, high=0))


def test_numbers_that_are_not_finite_are_refused_by_their_key():
    check = FiniteTensorDictCheck()
    td = TensorDict(a=np.array([0, 1]), b={"c": np.array([[0.0, 1], [2, 3]])}, text="x")
    assert check(td) is td
    for bad in (np.nan, -np.inf):
        td["b", "c"][1, 0] = bad
        raises(ValueError, rf"\('b', 'c'\) must be finite, got {bad} at \[1, 0\]", lambda: check(td))
    ragged = lazy_stack([TensorDict(a=np.zeros(1)), TensorDict(a=np.array([1, np.nan]))])
    assert check(ragged[:1]) is not None
    raises(ValueError, r"'a' must be finite, got nan at \[1\]", lambda: check(ragged))


class _Diverging(GymEnv):
    def _step(self, tensordict):
        out = super()._step(tensordict)
        return out.set("observation", out["observation"] / 0)

    def _reset(self, tensordict=None, **kwargs):
        out = super()._reset(tensordict, **kwargs)
        return out.set("observation", out["observation"] / self.first)

    first = 1.0


def test_environments_are_checked_at_each_step_and_reset():
    env = TransformedEnv(_Diverging("CartPole-v1"), FiniteTensorDictCheck())
    with np.errstate(all="ignore"):
        raises(ValueError, r"'observation' must be finite, got -?inf at \[0\]", lambda: env.rollout(1))
        env.base_env.first = 0.0
        raises(ValueError, "'observation' must be finite", lambda: env.reset())
