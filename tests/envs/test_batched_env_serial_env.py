"""Environments that step one after the other."""

from functools import partial

import numpy as np
import pytest
from helpers.chat_env import ChatEnv, parrot, turns
from helpers.counting_env import CountingEnv

from lite.envs import SerialEnv, TransformedEnv, VecNormV2, check_env_specs
from lite.envs.base import next_seed


def test_specs():
    for make in (partial(CountingEnv, nested=True), partial(CountingEnv, (2,))):
        check_env_specs(SerialEnv(2, make), break_when_any_done="both")


def test_each_starts_anew_by_itself():
    env = SerialEnv(2, [CountingEnv, lambda: CountingEnv(limit=4)])
    td = env.rollout(6, break_when_any_done=False)
    np.testing.assert_array_equal(td["observation"][..., 0], [[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 0, 1]])
    np.testing.assert_array_equal(td["next", "observation"][..., 0], [[1, 2, 3, 1, 2, 3], [1, 2, 3, 4, 1, 2]])
    assert env.resets == [2, 2]


def test_rows_of_one_that_has_rows():
    env = SerialEnv(2, lambda: CountingEnv((2,), limit=1))
    td = env.rollout(3, break_when_any_done=False)
    np.testing.assert_array_equal(td["observation"][0, ..., 0], [[0, 0, 0], [0, 1, 0]])
    waiting = SerialEnv(2, lambda: CountingEnv((2,), limit=1)).rollout(4, break_when_all_done=True)
    np.testing.assert_array_equal(waiting["next", "observation"][0, ..., 0], [[1, 1], [1, 2]])


def test_conversations_which_have_not_all_fields_of_their_spec():
    td = SerialEnv(2, [partial(ChatEnv, ()), partial(ChatEnv, (), 2)]).rollout(
        3, parrot, break_when_any_done=False
    )
    assert [chat[-1] for chat in turns(td)] == ["1", "1", "1", "1", "3", "1"]


def test_statistics_around_them_count_no_zeros():
    class Late(CountingEnv):
        def _reset(self, tensordict, **kwargs):
            self.count = np.full((1,), 5, np.float32)
            return self._entries({"observation": self.count}, np.zeros(1, bool))

    norm = VecNormV2(["observation"], decay=1.0, reduce_batch_dims=True)
    env = TransformedEnv(SerialEnv(2, [partial(Late, limit=limit) for limit in (6, 99)]), norm)
    env.rollout(3, break_when_any_done=False)
    # 5, 6, then a reset of the first, where the second counts with what its reset gave: never with 0.
    np.testing.assert_allclose(norm.loc["observation"], np.mean([5, 5, 6, 6, 5, 5, 6, 7, 5, 5, 6, 8]))


def test_seeds_go_on_from_one_to_the_next():
    env = SerialEnv(3, CountingEnv)
    assert env.set_seed(1) == next_seed(next_seed(next_seed(1)))
    assert env.seeds == [[1], [next_seed(1)], [next_seed(next_seed(1))]]
    assert env.set_seed(1, static_seed=True) == 1


def test_arguments_of_a_reset_go_to_all():
    env = SerialEnv(2, CountingEnv)
    assert env.reset(options={}).shape == (2,)
    assert env.reset(list_of_kwargs=[{"options": {}}, {}]).shape == (2,)
    env.close()
    assert all(part.is_closed for part in env._envs)
    with pytest.raises(RuntimeError, match="closed already"):
        env.close()
