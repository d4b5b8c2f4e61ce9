import numpy as np
from helpers.teams_env import Pair, Teams

from lite import TensorDict
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


def test_agents_are_counted_and_cut_off_where_they_alone_are_done():
    env = TransformedEnv(Pair(), Compose(StepCounter(3), InitTracker("first"), RewardSum()))
    check_env_specs(env)
    assert set(env.full_done_spec["agents"].keys()) == {"done", "terminated", "truncated"}
    steps = env.rollout(6, break_when_any_done=False)
    assert "step_count" not in steps
    assert "truncated" not in steps["next"]
    first, following = steps["agents"], steps["next", "agents"]
    assert first["step_count"][..., 0].T.tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]
    np.testing.assert_array_equal(first["first"], first["step_count"] == 0)
    np.testing.assert_array_equal(following["step_count"], first["step_count"] + 1)
    np.testing.assert_array_equal(following["truncated"], following["step_count"] == 3)
    assert following["done"][..., 0].T.tolist() == [[False, True] * 3, [False, False, True] * 2]
    assert following["episode_reward"][..., 0].T.tolist() == [[1, 3] * 3, [1, 3, 6] * 2]
    late = TransformedEnv(Pair(), StepCounter(1, truncated_key="late"))
    check_env_specs(late)
    assert late.rollout(1)["next", "agents", "late"].all()


def test_the_key_of_resets_without_an_environment() -> None:
    transform = StepCounter()
    assert transform.reset_key == "_reset"
    transform.reset_key = "again"
    assert transform.reset_key == "again"
