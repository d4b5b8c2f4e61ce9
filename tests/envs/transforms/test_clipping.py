import numpy as np
import pytest

from lite import TensorDict
from lite.data import Bounded, Composite, Unbounded
from lite.envs import ClipTransform, RewardClipping, SignTransform


def test_integers_with_bounds_of_floats():
    td = ClipTransform(["x"], low=0.5)(TensorDict(x=np.array([0, 2])))
    np.testing.assert_array_equal(td["x"], np.array([0.5, 2], np.float32))
    assert td["x"].dtype == np.float32
    assert RewardClipping(-1, 1)(TensorDict(reward=np.array([5])))["reward"].dtype == np.int64


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
    with pytest.raises(TypeError, match="clamp_min and clamp_max must be numbers"):
        RewardClipping(-1)
    with pytest.raises(ValueError, match="low must be below high, got 1 and 0"):
        ClipTransform(["x"], low=1, high=0)
