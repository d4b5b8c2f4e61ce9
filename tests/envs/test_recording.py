"""The faster loop gives what the steps one by one give."""

import gymnasium
import numpy as np
from helpers.cases import raises
from helpers.compared import assert_same

from lite.data import Composite, Unbounded
from lite.envs import EnvError, GymEnv, GymWrapper


class Plain(GymEnv):
    """A subclass steps one by one, as it may define `_step`."""


def test_it_is_the_same():
    for name, stop, truncate in (
        *(("CartPole-v1", stop, truncate) for stop, truncate in ((True, True), (False, False))),
        *(("Pendulum-v1", False, True), ("FrozenLake-v1", True, False)),
    ):
        fast, slow = GymEnv(name, max_episode_steps=30), Plain(name, max_episode_steps=30)
        object.__setattr__(fast, "_step", None)  # and never called
        actions = list(fast.action_spec.rand((60,), rng=0))
        words = {"actions": actions, "break_when_any_done": stop, "set_truncated": truncate}
        fast.set_seed(5)
        slow.set_seed(5)
        ours, wanted = fast.rollout(60, **words), slow.rollout(60, **words)
        assert set(ours.keys(True, True)) == set(wanted.keys(True, True))
        assert (ours.shape, ours.names) == (wanted.shape, wanted.names)
        assert_same(ours, wanted, strict=True)
        np.testing.assert_array_equal(*(env.reset()["observation"] for env in (fast, slow)))  # as many before


class Drawing:
    """A policy that draws, and remembers in the TensorDict how often it was asked."""

    def __init__(self, env, nested_at=None):
        self.rng, self.spec, self.nested_at = np.random.default_rng(1), env.action_spec, nested_at
        self.in_keys = ["observation"]
        self.asked = 0

    def __call__(self, td):
        self.asked += 1
        td.set("asked", td.get("asked", np.zeros(1)) + 1)
        if self.asked == self.nested_at:
            td.set(("next", "note"), np.ones(2))
        return td.set("action", self.spec.rand(rng=self.rng))


def test_a_policy_acts_as_in_steps_one_by_one():
    for name, stop, steps, classes in (
        ("CartPole-v1", True, 70, False),
        ("CartPole-v1", False, 1, False),
        ("Pendulum-v1", False, 70, False),
        ("FrozenLake-v1", True, 1, False),
        ("FrozenLake-v1", False, 40, True),  # observations without dimensions
    ):
        words = {"max_episode_steps": 30, "categorical_action_encoding": classes}
        fast, slow = GymEnv(name, **words), Plain(name, **words)
        object.__setattr__(fast, "_step", None)  # and never called
        found = []
        for env in (fast, slow):
            env.set_seed(5)
            found.append(env.rollout(steps, Drawing(env), break_when_any_done=stop, set_truncated=True))
        ours, wanted = found
        assert (ours.shape, ours.names, set(ours.keys())) == (wanted.shape, wanted.names, set(wanted.keys()))
        assert set(ours["next"].keys()) == set(wanted["next"].keys())
        assert_same(ours, wanted, strict=True)


def test_a_policy_that_writes_what_comes_next_takes_the_longer_way_from_there():
    for stop in (True, False):
        fast, slow = GymEnv("CartPole-v1"), Plain("CartPole-v1")
        found = []
        for env in (fast, slow):
            env.set_seed(2)
            policy = Drawing(env, nested_at=4)
            found.append(env.rollout(25, policy, break_when_any_done=stop, return_contiguous=False))
            assert policy.asked == found[-1].shape[0]
        ours, wanted = found
        assert ours.shape == wanted.shape
        for key in ("observation", "action", "asked", ("next", "observation"), ("next", "done")):
            np.testing.assert_array_equal(ours[key], wanted[key], err_msg=str(key))
        assert "note" in ours[3]["next"]
        assert "note" not in ours[2]["next"]


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
            self.made = getattr(self, "made", 0) + 1
            if self.made > 3:
                raise ValueError("no road")
            return self.env.step(action)

    for policy in (None, lambda td: td.set("action", np.array([1, 0]))):
        env = GymWrapper(Failing(gymnasium.make("CartPole-v1")))
        env.rollout(1, policy)
        raises(EnvError, r"environment 0 failed at step 3: .*no road", env.rollout, 9, policy)


def test_types_are_checked_one_by_one():
    env = GymEnv("CartPole-v1", run_type_checks=True)
    env.observation_spec = Composite(observation=Unbounded(4, dtype=np.float64))
    for policy in (None, lambda td: td.set("action", np.array([1, 0]))):
        raises(TypeError, "observation", env.rollout, 3, policy)
