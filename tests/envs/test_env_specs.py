"""Specs and keys of environments."""

import numpy as np
import pytest
from helpers.counting_env import CountingEnv

from lite.data import Bounded, Categorical, Composite, Unbounded


def test_a_spec_that_is_assigned_stands_at_its_name():
    env = CountingEnv((2,))
    assert env.observation_keys == ["observation"]
    assert env.action_spec is env.input_spec["full_action_spec", "action"]
    assert env.reward_spec is env.output_spec["full_reward_spec", "reward"]
    assert env.specs["output_spec", "full_done_spec"] == env.done_spec
    assert (env.action_key, env.reward_key, env.state_keys) == ("action", "reward", [])
    env.action_spec = Composite({("arm", "action"): Unbounded((2, 3))}, shape=2)
    assert env.action_key == ("arm", "action")
    assert env.action_spec is env.full_action_spec  # TorchRL gives the leaf only where it is called "action"


def test_whole_specs_are_assigned_by_either_name():
    env, spec = CountingEnv((2,)), Composite({("arm", "x"): Unbounded((2, 3))}, shape=2)
    for kind in ("observation", "action", "state", "reward", "done"):
        given = (
            Composite({("arm", "x"): Categorical(2, (2, 1), dtype=np.bool_)}, shape=2)
            if kind == "done"
            else spec
        )
        setattr(env, f"full_{kind}_spec", given)
        assert getattr(env, f"full_{kind}_spec")["arm", "x"] == given["arm", "x"]
    env.state_spec = None
    assert env.full_state_spec == Composite(shape=2)
    assert env.set_spec_lock_() is env


def test_specs_of_one_environment():
    env = CountingEnv((2, 3))
    assert env.action_spec_unbatched == Bounded(-1, 1, (1,))
    assert env.full_done_spec_unbatched.shape == ()
    env.action_spec_unbatched = Unbounded((4,))
    assert env.full_action_spec["action"] == Unbounded((2, 3, 4))
    assert CountingEnv().observation_spec_unbatched == CountingEnv().observation_spec


def test_done_and_terminated_come_together():
    env = CountingEnv()
    assert env.done_keys == ["done", "terminated"]
    env.done_spec = Composite(terminated=Categorical(2, (1,), dtype=np.bool_))
    assert env.done_keys == ["done", "terminated"]
    env.add_truncated_keys()
    assert env.done_keys == ["done", "terminated", "truncated"]
    assert env.reset_keys == ["_reset"]
    with pytest.raises(KeyError, match="exactly one"):
        env.done_key  # noqa: B018


def test_keys_of_levels_go_from_the_root_down():
    env = CountingEnv(nested=True)
    assert env.done_keys == [("agents", "done"), ("agents", "terminated")]
    assert env.reset_keys == [("agents", "_reset")]
    inner = Categorical(2, (2, 1), dtype=np.bool_)
    env.done_spec = Composite(
        agents=Composite(done=inner, shape=2), done=Categorical(2, (1,), dtype=np.bool_)
    )
    assert env.reset_keys == ["_reset", ("agents", "_reset")]
    assert env.done_keys_groups == [["done", "terminated"], [("agents", "done"), ("agents", "terminated")]]


def test_an_environment_may_hold_keys():
    """As one of JAX holds those of its random numbers."""
    env = CountingEnv()
    env._keys = [0, 1]
    env.reward_spec = Unbounded((1,))
    assert env.reward_keys == ["reward"]


def test_the_batch():
    env = CountingEnv((2, 3))
    assert (env.shape, env.ndim, env.batch_dims, env.numel()) == ((2, 3), 2, 2, 6)
    env.batch_size = (4,)
    assert env.output_spec["full_observation_spec"].is_empty()
    assert env.done_spec["done"].shape == (4, 1)


def test_what_does_not_fit_is_refused():
    for name, value, error in (
        ("observation_spec", Unbounded((3,)), ValueError),
        ("observation_spec", 5, TypeError),
        ("action_spec", Bounded(0, 1, (3,)), ValueError),
        ("state_spec", Unbounded((2,)), TypeError),
        ("reward_spec", Unbounded(()), RuntimeError),
        ("done_spec", Composite(done=Unbounded((2, 1)), truncated=Unbounded((2, 2)), shape=2), ValueError),
    ):
        env = CountingEnv((2,))
        before = getattr(env, name)
        with pytest.raises(error, match=name.removeprefix("full_").split("_")[0]):
            setattr(env, name, value)
        assert getattr(env, name) == before
