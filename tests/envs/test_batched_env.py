"""What `SerialEnv` and `ParallelEnv` are given."""

import numpy as np
import pytest
from helpers.cases import raises
from helpers.counting_env import CountingEnv, Named

from lite.data import Bounded
from lite.envs import EnvError, ParallelEnv, SerialEnv, TransformedEnv


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
        raises(error, "", SerialEnv, count, make)
    message = "environments differ: 'output_spec': 'full_observation_spec': 'observation' is not in each"
    with pytest.raises(ValueError, match=message):
        SerialEnv(2, CountingEnv, create_env_kwargs=[{"nested": False}, {"nested": True}])


def test_bounds_may_differ():
    for kind in (SerialEnv, ParallelEnv):
        env = kind(2, CountingEnv, create_env_kwargs=[{"most": 0.5}, {"most": 9.0}])
        assert env.action_spec == Bounded([[-0.5], [-9]], [[0.5], [9]])
        taken = np.abs(env.rollout(40, break_when_any_done=False)["action"]).max(1).ravel()
        assert taken[0] <= 0.5 < taken[1]
        env.close()


def test_they_have_started():
    env = SerialEnv(2, CountingEnv)
    before = env.rollout(2)
    env.start()
    assert not env.is_closed
    assert (env.rollout(2)["observation"] == before["observation"]).all()


def test_attributes_are_those_of_each():
    for kind in (SerialEnv, ParallelEnv):
        env = kind(2, Named, create_env_kwargs=[{"limit": 2}, {"limit": 4}])
        assert env.label == ["limit 2", "limit 4"]
        np.testing.assert_array_equal(env.limits, [[2], [4]])
        assert env.above(2) == [False, True]
        assert env.above(2, by=9) == [False, False]
        assert not hasattr(env, "nothing")
        assert env.rollout(2).shape == (2, 2)
        if kind is ParallelEnv:
            assert not hasattr(env, "unsendable")
            raises(EnvError, "environment 0 failed at step 2: TypeError", env.above)
        else:
            env.close()
        assert env.is_closed
        assert not hasattr(env, "label")


def test_they_start_again():
    for kind in (SerialEnv, ParallelEnv):
        env = kind(2, CountingEnv)
        transformed = TransformedEnv(env)
        for again in (env.start, env.reset, env.set_seed):
            transformed.close()
            assert transformed.is_closed
            again()
            assert not env.is_closed
            assert not transformed.is_closed  # or a collector leaves its processes running
            assert env.rollout(2).shape == (2, 2)
        env.close()
    raises(RuntimeError, r"closed: start\(\) opens", env.rand_step)
