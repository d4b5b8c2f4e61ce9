"""The faster loop gives what the steps one by one give."""

import numpy as np
import pytest

from lite.envs import EnvError, GymEnv, GymWrapper

gymnasium = pytest.importorskip("gymnasium", reason="needs the gym extra")


class Plain(GymEnv):
    """A subclass steps one by one, as it may define `_step`."""


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("truncate", [True, False])
def test_it_is_the_same(name, stop, truncate):
    fast, slow = GymEnv(name, max_episode_steps=30), Plain(name, max_episode_steps=30)
    actions = list(fast.action_spec.rand((70,), rng=0))
    words = {"actions": actions, "break_when_any_done": stop, "set_truncated": truncate}
    fast.set_seed(5)
    slow.set_seed(5)
    ours, wanted = fast.rollout(70, **words), slow.rollout(70, **words)
    assert set(ours.keys(True, True)) == set(wanted.keys(True, True))
    assert (ours.shape, ours.names) == (wanted.shape, wanted.names)
    for key in wanted.keys(True, True):
        assert ours[key].dtype == wanted[key].dtype
        np.testing.assert_array_equal(ours[key], wanted[key], err_msg=str(key))


def test_random_actions_come_from_the_seed():
    env = GymEnv("CartPole-v1")
    env.set_seed(3)
    one = env.rollout(20, break_when_any_done=False)
    env.set_seed(3)
    np.testing.assert_array_equal(env.rollout(20, break_when_any_done=False)["action"], one["action"])
    assert 0 < one["action"][:, 0].mean() < 1


def test_entries_that_it_does_not_know_take_the_longer_way():
    env = GymEnv("CartPole-v1")
    first = env.reset().set("more", np.zeros(2))
    assert "more" in env.rollout(3, auto_reset=False, tensordict=first)


def test_failures_count_its_steps():
    class Failing(gymnasium.Wrapper):
        def step(self, action):
            raise ValueError("no road")

    with pytest.raises(EnvError, match="no road"):
        GymWrapper(Failing(gymnasium.make("CartPole-v1"))).rollout(3)
