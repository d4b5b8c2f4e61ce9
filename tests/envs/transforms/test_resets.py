import numpy as np
import pytest
from helpers.teams_env import Teams

from lite import TensorDict
from lite.data import Composite
from lite.envs import Compose, InitTracker, RewardSum, StepCounter, TransformedEnv, check_env_specs
from lite.envs.transforms.resets import reset_mask, where_reset


def test_masks():
    td = TensorDict(
        {
            "_reset": np.array([[True], [False]]),
            "n": TensorDict({"_reset": np.ones((2, 3, 1), bool)}, [2, 3]),
        },
        [2],
    )
    assert reset_mask("_reset", td).tolist() == [True, False]
    assert reset_mask(("n", "_reset"), td).shape == (2, 3)
    assert reset_mask("_reset", TensorDict({}, [2])).all()
    assert reset_mask("_reset", TensorDict({}, [])).shape == ()


def test_values():
    mask, fresh = np.array([True, False]), np.ones((2, 1))
    np.testing.assert_array_equal(where_reset(mask, fresh, np.full((2, 1), 7.0)), [[1], [7]])
    np.testing.assert_array_equal(where_reset(mask, fresh, None), [[1], [0]])
    assert where_reset(np.ones(2, bool), fresh, None) is fresh


def test_masks_below_another_follow_it():
    reward, total = ("agents", "reward"), ("agents", "episode_reward")
    env = TransformedEnv(Teams(), Compose(StepCounter(), RewardSum(in_keys=[reward]), InitTracker()))
    assert env.reset_keys == ["_reset", ("agents", "_reset")]
    check_env_specs(env)
    steps = env.rollout(6, break_when_any_done=False)["next"]
    counts = [[1, 2, 1, 2, 1, 2], [1, 2, 3, 1, 2, 3], [1, 2, 3, 4, 1, 2]]
    assert steps["step_count"][..., 0].tolist() == counts
    assert steps[total][..., 0, 0].tolist() == counts
    assert steps[total][..., 1, 0].tolist() == counts


def test_steps_are_not_limited_without_a_done_entry_at_the_root():
    class Agents(Teams):
        def __init__(self):
            super().__init__()
            self.done_spec = Composite(agents=self.full_done_spec["agents"], shape=(3,))

        def _step(self, tensordict):
            return super()._step(tensordict).exclude("done", "terminated")

    check_env_specs(TransformedEnv(Agents(), StepCounter()))
    with pytest.raises(KeyError, match="'done' at the root, as for max_steps"):
        TransformedEnv(Agents(), StepCounter(5)).rollout(2)


def test_the_key_of_resets_without_an_environment() -> None:
    transform = StepCounter()
    assert transform.reset_key == "_reset"
    transform.reset_key = "again"
    assert transform.reset_key == "again"
