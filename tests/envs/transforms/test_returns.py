import numpy as np
import pytest
from helpers.cases import raises
from helpers.transformed import Steps

from lite import TensorDict
from lite.data import LazyTensorStorage, ReplayBuffer
from lite.envs import Compose, Reward2GoTransform, TargetReturn, TransformedEnv, check_env_specs


def test_targets():
    env = TransformedEnv(Steps(3), TargetReturn(10.0))
    check_env_specs(env)
    td = env.rollout(5, break_when_any_done=False)
    np.testing.assert_array_equal(td["target_return"].ravel(), [10, 9, 7, 10, 9])
    np.testing.assert_array_equal(td["next", "target_return"].ravel(), [9, 7, 4, 9, 7])
    constant = TransformedEnv(Steps(3), TargetReturn(10.0, "constant", ["reward"], ["goal"]))
    assert (constant.rollout(3)["next", "goal"] == 10).all()
    raises(ValueError, "mode must be one of", TargetReturn, 1.0, "other")


def sequence(done):
    following = {"reward": np.ones((2, 3, 1)), "done": np.array(done, bool)[..., None]}
    return TensorDict({"next": following}, [2, 3])


def test_sums_to_the_end():
    buffer = ReplayBuffer(storage=LazyTensorStorage(9), batch_size=2)
    buffer.append_transform(Reward2GoTransform(0.5, out_keys=["to_go"]))
    buffer.extend(sequence([[0, 0, 1], [1, 0, 1]]))
    np.testing.assert_array_equal(buffer[:]["to_go"][..., 0], [[1.75, 1.5, 1], [1, 1.5, 1]])
    np.testing.assert_array_equal(buffer[:]["next", "reward"], np.ones((2, 3, 1)))


def test_where_there_is_no_end():
    with pytest.raises(RuntimeError, match="an environment has no end of an episode"):
        Reward2GoTransform().inv(sequence([[0, 0, 1], [0, 0, 0]]))
    with pytest.raises(KeyError, match="of which there is none"):
        Reward2GoTransform(in_keys=["r"]).inv(sequence([[0, 0, 1], [0, 0, 1]]))
    assert len(Compose(Reward2GoTransform())) == 1
    for put in (lambda t: TransformedEnv(Steps(3), t), TransformedEnv(Steps(3), Compose()).append_transform):
        raises(ValueError, "for replay buffers, not for environments", put, Reward2GoTransform())
