"""Values of info dicts among the observations."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.data import Collector, Composite, Unbounded
from lite.envs import BaseInfoDictReader, GymEnv, GymWrapper, check_env_specs, default_info_dict_reader


class Telling(gymnasium.Wrapper):  # type: ignore[misc]
    """Tells of steps how many there were, as a number and as an array, and of resets nothing."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1", max_episode_steps=4))

    def reset(self, **keywords: Any) -> Any:
        self.steps = 0
        return super().reset(**keywords)

    def step(self, action: Any) -> Any:
        *rest, _ = super().step(action)
        self.steps += 1
        return *rest, {"steps": self.steps, "pair": np.full(2, self.steps, np.float32), "_own": 1}


def test_all_that_is_told() -> None:
    env = GymWrapper(Telling()).set_info_dict_reader()
    assert env.observation_spec["pair"] == Unbounded((2,), dtype=np.float32)
    assert env.observation_keys == ["observation", "pair", "steps"]
    check_env_specs(env)
    td = env.rollout(4)
    np.testing.assert_array_equal(td["next", "steps"], [1, 2, 3, 4])
    np.testing.assert_array_equal(td["pair"][:, 0], [0, 1, 2, 3])
    assert td["next", "pair"].dtype == np.float32
    batch = Collector(env, frames_per_batch=6).next()
    np.testing.assert_array_equal(batch["next", "steps"], [1, 2, 3, 4, 1, 2])


def test_some_of_it_in_a_vector() -> None:
    vector = gymnasium.vector.SyncVectorEnv(
        [Telling] * 2, autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED
    )
    reader = default_info_dict_reader(["steps"], [Unbounded((2,), dtype=np.int64)])
    env = GymWrapper(vector).set_info_dict_reader(reader)
    check_env_specs(env)
    td = env.rollout(6, break_when_any_done=False)
    np.testing.assert_array_equal(td["next", "steps"], [[1, 2, 3, 4, 1, 2]] * 2)
    np.testing.assert_array_equal(td["steps"], [[0, 1, 2, 3, 0, 1]] * 2)


def test_it_is_registered_by_itself() -> None:
    env = GymWrapper(Telling())
    assert env.auto_register_info_dict() is env
    assert "steps" in env.rollout(2)
    raises(RuntimeError, "has a reader of info dicts already", env.auto_register_info_dict)


class Sparse(BaseInfoDictReader):
    """Writes what there is, and nothing to resets."""

    @property
    def info_spec(self) -> Any:
        return {"pair": Unbounded((2,), dtype=np.float32)}

    def __call__(self, info_dict: Any, tensordict: Any) -> Any:
        if "pair" in info_dict:
            return tensordict.copy().set("pair", info_dict["pair"])
        return None


def test_resets_are_completed() -> None:
    env = GymWrapper(Telling()).auto_register_info_dict(info_dict_reader=Sparse())
    td = env.rollout(3)
    np.testing.assert_array_equal(td["pair"][:, 0], [0, 1, 2])
    np.testing.assert_array_equal(td["next", "pair"][:, 1], [1, 2, 3])


def test_a_function() -> None:
    env = GymWrapper(Telling()).set_info_dict_reader(lambda info, td: td.set("n", np.array(len(info))))
    assert env.info_dict_reader
    td = env.rollout(2)
    np.testing.assert_array_equal(td["next", "n"], [3, 3])
    assert int(env.reset()["n"]) == 0


def test_errors() -> None:
    with pytest.raises(ValueError, match="one for each of the 2 keys, got 1"):
        default_info_dict_reader(["a", "b"], [Unbounded(())])
    reader = default_info_dict_reader()
    reader.keys = ["a"]
    raises(KeyError, "info lacks 'a'", reader, {"b": 1}, TensorDict())
    with pytest.warns(UserWarning, match="info must be a dict, got list"):
        default_info_dict_reader(["a"])([], TensorDict())  # type: ignore[arg-type]


def test_a_reader_must_be_callable() -> None:
    env = GymEnv("CartPole-v1")
    raises(TypeError, "info_dict_reader must be callable or None, got int", env.set_info_dict_reader, 3)
    assert "observation" in env.rollout(2)  # as before


def test_a_composite_spec_is_copied() -> None:
    spec = Composite(speed=Unbounded(()))
    reader = default_info_dict_reader(spec=spec)
    assert reader.info_spec == spec
    assert reader.info_spec is not spec


def test_what_is_said_to_be_told_takes_no_step_to_learn() -> None:
    inner = Telling()
    env = GymWrapper(inner).set_info_dict_reader(default_info_dict_reader(["steps"], [Unbounded(())]))
    assert not hasattr(inner, "steps")
    assert "steps" in env.observation_spec
