"""What `SerialEnv` and `ParallelEnv` are given."""

import pytest
from helpers.counting_env import CountingEnv

from lite.envs import SerialEnv


def test_one_function_or_several():
    env = SerialEnv(2, CountingEnv, create_env_kwargs=[{"limit": 2}, {"limit": 4}])
    assert [int(part.limits[0]) for part in env] == [2, 4]
    env = SerialEnv(
        2, [CountingEnv, lambda limit: CountingEnv(limit=limit + 1)], create_env_kwargs={"limit": 2}
    )
    assert [int(part.limits[0]) for part in (env[0], env[1])] == [2, 3]
    assert env.batch_size == (2,)
    assert env.action_spec.shape == (2, 1)
    assert env.observation_spec.shape == (2,)


def test_what_is_refused():
    for count, make, error in (
        (0, CountingEnv, ValueError),
        (2, [CountingEnv], ValueError),
        (2, CountingEnv(), TypeError),
        (2, [CountingEnv, lambda: CountingEnv((3,))], ValueError),
    ):
        with pytest.raises(error):
            SerialEnv(count, make)


def test_they_have_started():
    env = SerialEnv(2, CountingEnv)
    before = env.rollout(2)
    env.start()
    assert not env.is_closed
    assert (env.rollout(2)["observation"] == before["observation"]).all()
