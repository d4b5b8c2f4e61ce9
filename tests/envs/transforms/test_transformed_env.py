import pickle

import gymnasium
import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.data import Bounded, Composite, Unbounded
from lite.envs import (
    CatFrames,
    Compose,
    EnvBase,
    RenameTransform,
    RewardScaling,
    RewardSum,
    StepCounter,
    TransformedEnv,
    UnsqueezeTransform,
    check_env_specs,
)


class Steps(EnvBase):
    """Counts its steps; rewards are actions."""

    rate = 7

    def __init__(self, batch_size=(2,), own_actions=False):
        super().__init__(batch_size=batch_size)
        self.observation_spec = Composite(x=Unbounded((*batch_size, 1)), shape=batch_size)
        self.action_spec = Bounded(-1, 1, (*batch_size, 1))
        self.reward_spec = Unbounded((*batch_size, 1))
        self.x = np.zeros((*batch_size, 1), np.float32)
        self.given = None

    def _reset(self, tensordict, **kwargs):
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.x = np.zeros_like(self.x) if mask is None else np.where(mask, np.float32(0), self.x)
        return TensorDict({"x": self.x}, self.batch_size)

    def _step(self, tensordict):
        self.given = tensordict
        self.x = self.x + np.float32(1)
        limits = np.arange(2, 2 + self.numel()).reshape(self.x.shape)
        done = self.x >= limits
        return TensorDict({"x": self.x, "reward": tensordict["action"], "done": done}, self.batch_size)

    def _set_seed(self, seed):
        self.seed = seed


class OwnActions(Steps):
    def rand_action(self, tensordict=None):
        return tensordict.set("action", np.full((2, 1), 0.5, np.float32))


def test_partial_resets():
    env = TransformedEnv(Steps(), Compose(StepCounter(), RewardSum(), CatFrames(2, -1, ["x"])))
    check_env_specs(env)
    td = env.rollout(6, lambda td: td.set("action", np.ones((2, 1), np.float32)), break_when_any_done=False)
    np.testing.assert_array_equal(td["step_count"][..., 0], [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]])
    np.testing.assert_array_equal(td["next", "episode_reward"][0, :, 0], [1, 2, 1, 2, 1, 2])
    np.testing.assert_array_equal(td["x"][1], [[0, 0], [0, 1], [1, 2], [0, 0], [0, 1], [1, 2]])
    np.testing.assert_array_equal(td["next", "x"][0], [[0, 1], [1, 2]] * 3)


def test_specs_are_read_anew():
    env = TransformedEnv(Steps())
    assert env.observation_spec["x"].shape == (2, 1)
    assert env.append_transform(UnsqueezeTransform(-1, in_keys=["x"])) is env
    assert env.observation_spec["x"].shape == (2, 1, 1)
    assert env.insert_transform(0, RenameTransform(["reward"], ["r"], ["action"], ["a"])) is env
    assert (env.reward_keys, env.action_keys) == (["r"], ["a"])
    env.transform.pop(0)
    assert env.reward_keys == ["reward"]
    env.transform = RewardScaling(0, 2)
    assert env.observation_spec["x"].shape == (2, 1)
    env.append_transform(RewardSum())
    assert len(env.transform) == 2
    assert env.base_env.observation_spec.keys() == ["x"]


def test_nested():
    inner = TransformedEnv(Steps(), RewardScaling(0, 2))
    flat = TransformedEnv(inner, RewardScaling(0, 3))
    assert [float(t.scale) for t in flat.transform] == [2.0, 3.0]
    assert isinstance(flat.base_env, Steps)
    nested = TransformedEnv(inner, RewardScaling(0, 3), auto_unwrap=False)
    assert nested.base_env is inner
    for env in (flat, nested):
        td = env.step(env.reset().set("action", np.ones((2, 1), np.float32)))
        np.testing.assert_array_equal(td["next", "reward"], [[6], [6]])


def test_what_is_asked_of_the_environment():
    env = TransformedEnv(Steps(), RewardSum())
    assert env.rate == 7
    with pytest.raises(AttributeError, match="'Steps' object has no attribute 'nothing'"):
        _ = env.nothing
    env.set_seed(3)
    assert env.base_env.seed == 3
    one, two = env.rand_action(), TransformedEnv(Steps()).rand_action()
    TransformedEnv(env, RewardSum(["reward"], ["sum"]))._set_seed(3)
    env.set_seed(3)
    np.testing.assert_array_equal(env.rand_action()["action"], one["action"])
    assert "truncated" not in env.done_keys
    assert env.add_truncated_keys() is env
    assert "truncated" in env.done_keys
    for mode in (False, True):
        assert env.train(mode) is env
        env.set_missing_tolerance(mode)
        assert (env.transform.training, env.transform.missing_tolerance) == (mode, mode)
    assert not np.array_equal(one["action"], two["action"])
    env.close()
    assert env.base_env.is_closed
    with pytest.raises(RuntimeError, match="the batch size is that of base_env"):
        env.batch_size = ()
    raises(ValueError, "transform must be a Transform or a function, got int", env.append_transform, 3)


def test_a_spec_that_fails():
    class Failing(RewardSum):
        def transform_output_spec(self, output_spec):
            raise AttributeError("inside")

    # Not the specs of the environment itself.
    with pytest.raises(AttributeError, match="inside"):
        _ = TransformedEnv(Steps(), Failing()).full_reward_spec


def test_actions_of_its_own():
    env = TransformedEnv(OwnActions(), RewardSum())
    assert (env.rollout(1)["action"] == 0.5).all()
    env.append_transform(RenameTransform(["x"], ["y"], ["action"], ["a"]))
    raises(RuntimeError, "rand_action of OwnActions is of other actions", env.rand_action, env.reset())


def test_next_that_is_there_before():
    env = TransformedEnv(Steps(), lambda td: td.set("sum", td["kept"] + 1) if "kept" in td else td)
    td = env.reset().set("action", np.zeros((2, 1), np.float32))
    td["next"] = TensorDict({"kept": np.ones(2)}, [2])
    np.testing.assert_array_equal(env.step(td)["next", "sum"], [2, 2])


def test_states_and_pickles():
    env = TransformedEnv(Steps(), Compose(RewardScaling(0, 2), RewardSum()))
    assert list(env.state_dict()) == list(env.transform.state_dict())
    other = TransformedEnv(Steps(), Compose(RewardScaling(0, 5), RewardSum()))
    other.load_state_dict(env.state_dict())
    assert float(other.transform[0].scale) == 2
    twin = pickle.loads(pickle.dumps(env))
    assert twin.transform[1].container is twin
    assert twin.rollout(2).shape == (2, 2)
    twin.__setstate__(env.__getstate__() | {"is_closed": True})  # as of older pickles
    assert not twin.is_closed
    assert repr(twin).startswith("TransformedEnv(\n    env=Steps")


def test_an_environment_of_gymnasium_is_refused() -> None:
    with pytest.raises(TypeError, match="base_env must be an EnvBase, got TimeLimit: GymWrapper"):
        TransformedEnv(gymnasium.make("CartPole-v1"), StepCounter())
