import numpy as np
import pytest
from helpers.transformed import Steps

from lite import TensorDict
from lite.envs import EndOfLifeTransform, TransformedEnv, check_env_specs


def test_a_life_ends_and_the_episode_goes_on():
    base = Steps(4)
    base.left = lambda: 3 - int(base.x[0]) // 2
    env = TransformedEnv(base, EndOfLifeTransform(eol_attribute="left"))
    td = env.rollout(9)
    np.testing.assert_array_equal(td["next", "lives"], [3, 2, 2, 1])
    np.testing.assert_array_equal(td["next", "end-of-life"].ravel(), [False, True, False, True])
    assert not td["end-of-life"].all()
    check_env_specs(env)


def test_keys_of_losses():
    class Loss:
        def set_keys(self, **keys):
            self.keys = keys

    loss = Loss()
    EndOfLifeTransform("eol").register_keys(loss)
    assert loss.keys == {"done": "eol", "terminated": "eol"}
    with pytest.raises(RuntimeError, match="EndOfLifeTransform needs an environment"):
        EndOfLifeTransform()(TensorDict())
