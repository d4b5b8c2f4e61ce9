import copy
import pickle

import numpy as np
import pytest
from helpers.cases import raises
from helpers.transformed import Steps

from lite import TensorDict, envs
from lite.data import Bounded, Composite, Unbounded
from lite.envs import (
    CatFrames,
    Compose,
    EnvBase,
    ExcludeTransform,
    FrameSkipTransform,
    ObservationTransform,
    Reward2GoTransform,
    RewardScaling,
    TargetReturn,
    TimeMaxPool,
    Transform,
    TransformedEnv,
    VecNormV2,
)
from lite.envs.transforms.base import _apply_to_composite, _apply_to_composite_inv


class Sine(Transform):
    """As TorchRL's tutorials write a transform."""

    def _apply_transform(self, obs):
        return np.sin(obs)

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec):
        return Bounded(-1, 1, observation_spec.shape, dtype=observation_spec.dtype)


class Half(Transform):
    invertible = True

    def _apply_transform(self, obs):
        return obs / 2

    def _inv_apply_transform(self, state):
        return state * 2

    @_apply_to_composite_inv
    def transform_input_spec(self, input_spec):
        return Bounded(input_spec.low / 2, input_spec.high / 2, input_spec.shape)


class Angle(EnvBase):
    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(th=Unbounded((1,)))
        self.action_spec = Bounded(-4, 4, (1,))
        self.reward_spec = Unbounded((1,))
        self.taken = []

    def _reset(self, tensordict, **kwargs):
        return TensorDict(th=np.zeros(1, np.float32))

    def _step(self, tensordict):
        self.taken.append(tensordict["action"])
        th = np.full(1, len(self.taken), np.float32)
        return TensorDict(th=th, reward=th, done=np.zeros(1, bool))

    def _set_seed(self, seed):
        pass


def test_a_transform_of_ones_own():
    env = TransformedEnv(Angle(), Sine(["th"], ["sin"]))
    env.append_transform(Half(in_keys_inv=["action"], out_keys_inv=["half"]))
    td = env.rollout(3, lambda td: td.set("half", np.ones(1, np.float32)))
    np.testing.assert_allclose(td["next", "sin"].ravel(), np.sin([1, 2, 3]), rtol=1e-6)
    np.testing.assert_array_equal(td["sin"][0], 0)
    np.testing.assert_array_equal(env.base_env.taken, np.full((3, 1), 2))
    assert env.observation_spec["sin"] == Bounded(-1, 1, (1,))
    assert env.full_action_spec["half"] == Bounded(-2, 2, (1,))
    assert "action" not in env.full_action_spec


def test_observations_of_a_reset_are_left_unless_a_class_says_otherwise():
    turned = type("Turned", (ObservationTransform,), {"_apply_transform": lambda self, obs: obs + 5})
    td = TransformedEnv(Angle(), turned(["th"], ["th"])).rollout(1)
    np.testing.assert_array_equal([td["th"], td["next", "th"]], [[[0]], [[6]]])


def test_keys():
    transform = Transform("a", ("b", ("c",)), ["d"])
    assert (transform.in_keys, transform.out_keys) == (["a"], [("b", "c")])
    assert (transform.in_keys_inv, transform.out_keys_inv) == (["d"], [])
    assert ObservationTransform().in_keys == ["observation", "pixels"]
    with pytest.raises(ValueError, match=r"as many out_keys as in_keys, got \[\] for \['a'\]"):
        Sine("a")(TensorDict(a=1.0))
    with pytest.raises(NotImplementedError, match="Transform must define _apply_transform"):
        Transform("a", "a")(TensorDict(a=1.0))


def test_which_have_an_inverse():
    found = {name for name in dir(envs) if getattr(getattr(envs, name), "invertible", False)}
    both_ways = {"ActionScaling", "DTypeCastTransform", "DoubleToFloat"}
    assert found == both_ways | {"SqueezeTransform", "UnsqueezeTransform"}  # as in TorchRL
    given = TensorDict(a=np.ones(2))
    keys = {"in_keys_inv": ["a"], "out_keys_inv": ["a"]}
    np.testing.assert_array_equal(Sine(**keys).inv(given)["a"], given["a"])
    unfinished = type("Unfinished", (Sine,), {"invertible": True})(**keys)
    raises(NotImplementedError, "Unfinished must define _inv_apply_transform", unfinished.inv, given)


def test_what_is_no_key():
    raises(RuntimeError, r"key must be a NestedKey .*, got 3", RewardScaling, 0.0, 1.0, in_keys=3)


def test_what_is_missing():
    transform = Sine("a", "b")
    raises(KeyError, "Sine reads 'a', which is missing", transform, TensorDict(c=1.0))
    transform.set_missing_tolerance(True)
    assert list(transform(TensorDict(c=1.0)).keys()) == ["c"]


def test_what_is_missing_of_steps():
    """Taken away by another transform, or never there."""
    for made, missing in (
        ((TargetReturn(1.0), ExcludeTransform("target_return")), "'target_return'"),
        ((VecNormV2(["y"]),), "'y'"),
        ((lambda td: td.exclude("reward"), FrameSkipTransform(2)), "'reward'"),
        ((lambda td: td.exclude("x") if "reward" in td else td, TimeMaxPool(["x"], T=2)), "'x'"),
    ):
        env = TransformedEnv(Steps(9), Compose(*made))
        raises(KeyError, f"reads {missing}, which is missing", env.rollout, 3)
    rows = TensorDict({"x": np.ones((3, 1))}, [3], names=["time"])
    raises(KeyError, r"reads \('next', 'done'\), which is missing", Reward2GoTransform().inv, rows)
    rows["next", "done"] = np.zeros((3, 1), np.bool_)
    raises(KeyError, "reads 'y', which is missing", CatFrames(2, -1, ["y"]), rows)
    rows["next", "x"] = rows["x"]
    raises(KeyError, "reads 'y', which is missing", CatFrames(2, -1, ["y", ("next", "y")]), rows)


def test_arrays_in_place_of_a_tensordict():
    assert float(Sine(["a"], ["b"])(np.float32(0.5))) == pytest.approx(np.sin(0.5))
    td = TensorDict(half=np.ones(2))
    half = Half(in_keys_inv=["x"], out_keys_inv=["half"])
    np.testing.assert_array_equal(half.inv(td)["x"], [2, 2])
    assert "x" not in td


def test_where_it_is():
    env = TransformedEnv(Angle(), Compose(RewardScaling(0, 2), Sine(["th"], ["sin"])))
    last = env.transform[1]
    assert last.container is env
    assert isinstance(last.parent.transform[0], RewardScaling)
    assert len(last.parent.transform) == 1
    assert last.parent is last.parent
    with pytest.raises(AttributeError, match=r"Sine is in an environment already: give a `clone\(\)` of it"):
        TransformedEnv(Angle(), last)
    for twin in (last.clone(), copy.deepcopy(last), pickle.loads(pickle.dumps(last))):
        assert twin.container is None
        assert twin.parent is None
        TransformedEnv(Angle(), twin)
    scaling = RewardScaling(0, 2)
    assert scaling.clone().scale is scaling.scale
