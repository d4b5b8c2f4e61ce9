import numpy as np
from helpers.cases import raises
from helpers.transformed import Steps

from lite import TensorDict
from lite.envs import TimeMaxPool, TransformedEnv, check_env_specs


def test_the_largest_of_the_last():
    base = Steps(4)
    base.sign = np.array([1, -1, 1, -1, 1], np.float32)
    env = TransformedEnv(base, TimeMaxPool(["x"], ["y"], T=2))
    check_env_specs(env)
    td = env.rollout(4)
    x = np.append(td["x"].ravel(), td["next", "x"][-1])
    np.testing.assert_array_equal(td["next", "y"].ravel(), np.maximum(x[1:], x[:-1]))
    np.testing.assert_array_equal(td["y"][0], np.maximum(x[:1], 0))
    np.testing.assert_array_equal(env.rollout(4)["y"], td["y"])


def test_a_clone_keeps_observations_of_its_own():
    env = TransformedEnv(Steps(4), TimeMaxPool(["x"], ["y"], T=2))
    env.reset()
    other = TransformedEnv(Steps(9), env.transform.clone())
    other.rollout(5)
    assert env.step(env.rand_action())["next", "y"].item() == 1


def test_a_state_dict_goes_on_where_it_was():
    envs = [TransformedEnv(Steps(9), TimeMaxPool(["x"], ["y"], T=3)) for _ in range(2)]
    envs[0].base_env.sign = np.array([9, 1, 1, 1, 1])
    for env in envs:
        td = env.rollout(2)
    state = envs[0].state_dict()
    assert state["_maxpool_buffer_x"].shape == (3, 1)
    fresh = TransformedEnv(Steps(9), TimeMaxPool(["x"], ["y"], T=3))
    assert not fresh.state_dict()  # an UninitializedBuffer goes into no file of `lite.save`
    fresh.load_state_dict({})
    envs[1].load_state_dict(state)
    envs[1].load_state_dict(fresh.state_dict())  # which leaves what is kept
    assert envs[1].step(envs[1].rand_action(envs[1].step_mdp(td[-1])))["next", "y"].item() == 3


def test_arguments():
    raises(ValueError, "T must be at least 1", lambda: TimeMaxPool(T=0))
    raises(ValueError, "out_keys must be as many as in_keys", lambda: TimeMaxPool(["a"], ["b", "c"]))
    raises(NotImplementedError, "TimeMaxPool needs an environment", lambda: TimeMaxPool()(TensorDict()))
