"""Environments that share the statistics of their transforms."""

from functools import partial

import numpy as np
import pytest
from helpers.counting_env import CountingEnv, counting_with_statistics

from lite.envs import EnvCreator, ParallelEnv


def statistics(env):
    extra = env.transform[0].state_dict()["_extra_state"]
    return {name: value.ravel().tolist() for name, value in extra.items()}


def test_statistics_are_shared():
    creator = EnvCreator(counting_with_statistics, {"limit": 5})
    first, second = creator(), creator(limit=9)
    assert int(second.base_env.limits[0]) == 5
    first.rollout(4)
    # 0 and 1 beforehand, then 0, 1, 2, 3 and 4.
    expected = {"observation_sum": [11.0], "observation_ssq": [31.0], "observation_count": [7.0]}
    assert statistics(first) == statistics(second) == expected
    state = creator.state_dict()["transforms.0._extra_state"]
    np.testing.assert_array_equal(state["observation_count"], [7.0])
    other = creator.make_variant(limit=7)
    assert int(other().base_env.limits[0]) == 7
    assert int(creator().base_env.limits[0]) == 5
    other().reset()
    assert statistics(first)["observation_count"] == [8.0]


@pytest.mark.processes
def test_statistics_are_shared_with_processes():
    creator = EnvCreator(counting_with_statistics, limit=5)
    env = ParallelEnv(1, creator)
    try:
        before = statistics(creator())["observation_count"][0]
        env.rollout(4)
        np.testing.assert_equal(statistics(creator())["observation_count"][0], before + 5)
    finally:
        env.close()


def test_without_statistics():
    for share_memory in (True, False):
        creator = EnvCreator(partial(CountingEnv, limit=2), share_memory=share_memory)
        assert creator().rollout(5).shape == (2,)


def test_what_makes_no_environment_is_refused():
    with pytest.raises(TypeError, match="must make an EnvBase, got int"):
        EnvCreator(lambda: 3)
