import numpy as np
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


class Agents(Teams):
    """Whose done entries are those of agents alone."""

    def __init__(self):
        super().__init__()
        self.done_spec = Composite(agents=self.full_done_spec["agents"], shape=(3,))

    def _reset(self, tensordict, **kwargs):
        mask = None if tensordict is None else tensordict.get(("agents", "_reset"), None)
        given = None if mask is None else TensorDict({"_reset": mask.all(1)}, [3])
        return super()._reset(given, **kwargs)

    def _step(self, tensordict):
        return super()._step(tensordict).exclude("done", "terminated")


def test_agents_are_counted_and_cut_off_where_they_alone_are_done():
    transforms = Compose(StepCounter(2), InitTracker("first"), RewardSum())
    env = TransformedEnv(Agents(), transforms)
    check_env_specs(env)
    assert set(env.full_done_spec["agents"].keys()) == {"done", "terminated", "truncated"}
    steps = env.rollout(5, break_when_any_done=False)
    assert "step_count" not in steps
    assert "truncated" not in steps["next"]
    count, following = steps["agents", "step_count"], steps["next", "agents"]
    assert count.shape == (3, 5, 2, 1)
    for agent in range(2):
        assert count[2, :, agent, 0].tolist() == [0, 1, 0, 1, 0]
        assert steps["agents", "first"][2, :, agent, 0].tolist() == [True, False, True, False, True]
        assert following["step_count"][2, :, agent, 0].tolist() == [1, 2, 1, 2, 1]
        assert following["truncated"][2, :, agent, 0].tolist() == [False, True, False, True, False]
        assert following["done"][2, :, agent, 0].tolist() == [False, True, False, True, False]
        assert following["episode_reward"][2, :, agent, 0].tolist() == [1, 2, 1, 2, 1]
    late = TransformedEnv(Agents(), StepCounter(1, truncated_key="late"))
    check_env_specs(late)
    assert late.rollout(1)["next", "agents", "late"].all()


def test_the_key_of_resets_without_an_environment() -> None:
    transform = StepCounter()
    assert transform.reset_key == "_reset"
    transform.reset_key = "again"
    assert transform.reset_key == "again"
