import numpy as np
import pytest
from helpers.cases import raises
from helpers.counting_env import CountingEnv
from helpers.transformed import Steps

from lite import TensorDict
from lite.envs import (
    CatFrames,
    Compose,
    FrameSkipTransform,
    NoopResetEnv,
    RewardScaling,
    StepCounter,
    TransformedEnv,
    VecNormV2,
)


def test_rewards_are_summed_after_what_is_before():
    env = TransformedEnv(Steps(9), Compose(RewardScaling(1, 2), FrameSkipTransform(3)))
    td = env.rollout(2)
    # Of rewards 1, 2, ... each twice and one more.
    assert td["next", "reward"].ravel().tolist() == [2 * 6 + 3, 2 * 15 + 3]
    assert td["next", "x"].ravel().tolist() == [3, 6]


class Once(CountingEnv):
    """Tells that an episode ended at its last step alone."""

    def _step(self, tensordict):
        out = super()._step(tensordict)
        return out.set("done", self.count == self.limits)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_nothing_is_repeated_behind_an_end(batch):
    """Its reward does not count, and the end is not lost."""
    env = TransformedEnv(Once(batch, limit=2), FrameSkipTransform(4))
    for _ in range(2):
        td = env.reset().set("action", np.ones((*batch, 1), np.float32))
        after = env.step(td)["next"]
        expected = np.minimum(env.base_env.limits, 4)
        np.testing.assert_array_equal(after["observation"], expected)
        np.testing.assert_array_equal(after["reward"], expected)
        assert after["done"].all()


def test_what_is_before_sees_each_step():
    frames, norm = CatFrames(3, -1, ["x"], ["y"]), VecNormV2(["x"], ["z"], decay=1.0)
    env = TransformedEnv(Steps(9), Compose(frames, norm, FrameSkipTransform(3)))
    for episode in range(1, 3):
        td = env.rollout(2)
        assert td["y"].tolist() == [[0, 0, 0], [1, 2, 3]]
        assert td["next", "y"].tolist() == [[1, 2, 3], [4, 5, 6]]
        assert norm.loc["x"].item() == pytest.approx(3)
        assert norm._known()["count"]["x"] == 7 * episode
    env = TransformedEnv(Steps(9), Compose(CatFrames(3, -1, ["x"], ["y"]), NoopResetEnv(2, random=False)))
    assert [env.reset()["y"].tolist() for _ in range(2)] == [[0, 1, 2]] * 2


def test_steps_at_the_start():
    env = TransformedEnv(Steps(9), Compose(StepCounter(), NoopResetEnv(4, generator=0)))
    starts = {int(env.reset()["step_count"][0]) for _ in range(30)}
    assert starts == {0, 1, 2, 3}
    assert "reward" not in env.reset()
    with pytest.raises(RuntimeError, match="11 episodes ended within 9 random steps"):
        TransformedEnv(Steps(3), NoopResetEnv(9, random=False)).reset()


def test_without_an_environment():
    raises(RuntimeError, "FrameSkipTransform needs an environment", FrameSkipTransform(2), TensorDict())
    raises(ValueError, "frame_skip must be at least 1", FrameSkipTransform, 0)
    with pytest.raises(RuntimeError, match="NoopResetEnv needs an environment"):
        NoopResetEnv()._reset(TensorDict(), TensorDict())
