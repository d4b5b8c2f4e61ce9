"""The loops of `EnvBase.rollout`."""

from typing import Any

import numpy as np
from helpers.cases import each_case, raises
from helpers.chat_env import ChatEnv, parrot, turns
from helpers.counting_env import CountingEnv

from lite import LazyStackedTensorDict, TensorDict, jit, nn
from lite.envs import RandomPolicy
from lite.envs.rollouts import compatible_policy


def test_it_stops_with_the_first_that_ends():
    td = CountingEnv((2,), limit=3).rollout(10)
    assert td.shape == (2, 3)
    np.testing.assert_array_equal(td["next", "done"][..., 0], [[False, False, True], [False] * 3])
    assert td.names == [None, "time"]


def test_or_with_the_last_while_others_stand_still():
    td = CountingEnv((2,), limit=2).rollout(10, break_when_all_done=True)
    assert td.shape == (2, 3)
    np.testing.assert_array_equal(td["next", "observation"][..., 0], [[1, 2, 2], [1, 2, 3]])


def test_or_not_at_all():
    env = CountingEnv((2,), limit=2)
    td = env.rollout(5, break_when_any_done=False, return_contiguous=True)
    np.testing.assert_array_equal(td["observation"][..., 0], [[0, 1, 0, 1, 0], [0, 1, 2, 0, 1]])
    np.testing.assert_array_equal(td["next", "observation"][..., 0], [[1, 2, 1, 2, 1], [1, 2, 3, 1, 2]])
    assert env.resets == 4  # none after the last step


@each_case("lazy", [False, True])
def test_conversations_start_anew_or_stand_still_each_by_itself(lazy: bool) -> None:
    def contents(td: Any) -> list[list[int]]:
        return [[int(turns(row)[0][-1]) for row in steps.unbind(0)] for steps in td.unbind(0)]

    td = ChatEnv(lazy=lazy).rollout(4, parrot, break_when_any_done=False)
    assert contents(td) == [[1, 1, 1, 1], [1, 3, 1, 3], [1, 3, 5, 1]]
    assert turns(td[2, 2:3]) == [["1", "1", "3", "3", "5", "5"]]
    waiting = ChatEnv(lazy=lazy).rollout(4, parrot, break_when_all_done=True)
    assert contents(waiting) == [[1, 1, 1], [1, 3, 3], [1, 3, 5]]


def test_levels_below_the_root():
    td = CountingEnv(limit=2, nested=True).rollout(9, break_when_any_done=False)
    np.testing.assert_array_equal(td["agents", "observation"][:, 1, 0], [0, 1] * 4 + [0])
    assert CountingEnv(limit=2, nested=True).rollout(9).shape == (2,)


def test_policies():
    for policy in (
        lambda td: td.set("action", np.full(1, 0.5, np.float32)),
        lambda tensordict: TensorDict(action=np.full(1, 0.5, np.float32)),
        lambda observation: np.full(1, 0.5, np.float32),
    ):
        td = CountingEnv().rollout(9, policy)
        np.testing.assert_array_equal(td["next", "reward"].ravel(), [0.5] * 3)


def test_actions_bound_the_steps():
    actions = [np.full(1, 0.25 * i, np.float32) for i in range(2)]
    td = CountingEnv(limit=9).rollout(9, actions=actions)
    np.testing.assert_array_equal(td["next", "reward"].ravel(), [0.0, 0.25])


def test_a_callback_sees_each_start():
    seen = []
    CountingEnv(limit=9).rollout(3, callback=lambda env, td: seen.append(td["observation"].item()))
    assert seen == [1.0, 2.0]


def test_going_on_where_another_rollout_ended():
    env = CountingEnv(limit=9)
    first = env.rollout(2)
    td = env.rollout(2, auto_reset=False, tensordict=env.step_mdp(first[-1]))
    np.testing.assert_array_equal(td["observation"].ravel(), [2, 3])
    assert env.resets == 1


def test_the_last_step_is_truncated_on_demand():
    env = CountingEnv(limit=9)
    raises(RuntimeError, "add_truncated_keys", env.rollout, 2, set_truncated=True)
    td = env.add_truncated_keys().rollout(2, set_truncated=True)
    np.testing.assert_array_equal(td["next", "truncated"].ravel(), [False, True])
    np.testing.assert_array_equal(td["next", "done"].ravel(), [False, True])
    assert not td["next", "terminated"].any()


def test_steps_of_different_shapes_are_a_lazy_stack():
    class Growing(CountingEnv):
        def _step(self, tensordict):
            out = super()._step(tensordict)
            return out.set("seen", np.zeros(int(self.count[0])))

    assert isinstance(Growing().rollout(2)["next"], LazyStackedTensorDict)
    raises((RuntimeError, ValueError), "", Growing().rollout, 2, return_contiguous=True)


def test_wrong_arguments():
    env = CountingEnv()
    for error, words in (
        (TypeError, {"break_when_any_done": True, "break_when_all_done": True}),
        (ValueError, {"policy": lambda td: td, "actions": []}),
        (RuntimeError, {"auto_reset": False}),
        (TypeError, {"policy": 5}),
    ):
        raises(error, "", env.rollout, 2, **words)
    random = RandomPolicy(env.action_spec)
    assert compatible_policy(random, env.observation_spec, ["action"]) is random


def test_a_module_of_tensordicts_needs_no_keys() -> None:
    class Policy(nn.TensorDictModuleBase):
        def __call__(self, data):
            return data.set("action", np.ones(1, np.float32))

    assert CountingEnv().rollout(2, Policy())["action"].tolist() == [[1.0], [1.0]]


def test_a_policy_under_jit_is_called_with_the_tensordict() -> None:
    env = CountingEnv()
    policy = nn.TensorDictModule(lambda x: x, [next(iter(env.observation_spec.keys()))], ["action"])
    compiled = jit(policy)
    assert compatible_policy(compiled, env.observation_spec, env.action_keys) is compiled


def test_policies_that_return_another_tensordict():
    seen = []
    td = CountingEnv((2,), limit=2).rollout(
        3,
        lambda td: TensorDict(action=np.ones((2, 1), np.float32), batch_size=[2]),
        callback=lambda env, td: seen.append(td["observation"].ravel().tolist()),
        break_when_any_done=False,
        auto_reset=True,
    )
    assert td["action"].ravel().tolist() == [1] * 6
    assert seen[0] == [0, 0]
