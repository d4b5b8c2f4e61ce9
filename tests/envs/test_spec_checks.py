"""`check_env_specs`."""

import gymnasium
import numpy as np
import pytest
from helpers.cases import raises
from helpers.counting_env import CountingEnv

from lite.data import Bounded, Unbounded
from lite.envs import check_env_specs


def test_good_specs():
    for batch, nested in (((), True), ((2,), False)):
        check_env_specs(CountingEnv(batch, nested=nested), seed=0, break_when_any_done="both")


def test_bad_specs():
    for spec, message in (
        (Unbounded((2,)), "shape of 'observation'"),
        (Unbounded((1,), dtype=np.float64), "dtype of 'observation'"),
        (Bounded(-2, -1, (1,)), "observation spec does not hold"),
        ({"observation": Unbounded((1,)), "more": Unbounded((1,))}, "gives no"),
        ({}, "specs lack"),
    ):
        from lite.data import Composite

        env = CountingEnv()
        env.observation_spec = Composite(spec) if isinstance(spec, dict) else spec
        raises(AssertionError, message, check_env_specs, env)


def test_a_reset_that_lacks_what_steps_give():
    class Other(CountingEnv):
        def _reset(self, tensordict):
            return super()._reset(tensordict).rename_key_("observation", "obs")

    with pytest.raises(AssertionError, match=r"gives no \['observation'\].* it gives \['done', 'obs', 't"):
        check_env_specs(Other())
    with pytest.raises(RuntimeError, match="the wheel came off"):  # what else a rollout raises
        check_env_specs(CountingEnv(fails_at=2))


def test_steps_that_write_into_what_was_given():
    class Writing(CountingEnv):
        def _step(self, tensordict):
            out = super()._step(tensordict)
            self.shown[...] = out["observation"]
            return out.set("observation", self.shown)

        def _reset(self, tensordict):
            out = super()._reset(tensordict)
            self.shown = out["observation"]
            return out

    for batch in ((), (2,)):
        with pytest.raises(AssertionError, match="a step wrote into 'observation' of the step before"):
            check_env_specs(Writing(batch))


def test_what_is_no_environment():
    with pytest.raises(TypeError, match=r"got CartPoleEnv: GymWrapper\(env\)"):
        check_env_specs(gymnasium.make("CartPole-v1").unwrapped)


def test_dtypes_only_on_demand():
    env = CountingEnv()
    env.reward_spec = Unbounded((1,), dtype=np.float64)
    raises(AssertionError, "dtype", env.check_env_specs)
