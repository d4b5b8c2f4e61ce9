"""What a bar says of a collection: frames, their rate, the rewards of episodes over batches."""

import io
import sys
from typing import Any

import numpy as np
import pytest

from lite import TensorDict
from lite.data.collectors.progress import EpisodeRewards, require_total, shown


def batch(ids: Any, rewards: Any, done: Any) -> TensorDict:
    ids = np.asarray(ids)
    step = {
        "reward": np.asarray(rewards, np.float32)[..., None],
        "done": np.asarray(done, np.bool_)[..., None],
    }
    return TensorDict({"next": step, "collector": {"traj_ids": ids}}, ids.shape)


def test_rewards_of_episodes_over_batches() -> None:
    rewards = EpisodeRewards(kept=2)
    assert rewards.mean() is None
    rewards.add(batch([[5, 5, 6], [7, 7, 7]], [[1, 2, 4], [1, 1, 1]], [[0, 1, 0], [0, 0, 0]]))
    assert rewards.mean() == 3.0
    rewards.add(batch([[6, 8, 8], [7, 7, -1]], [[8, 1, 1], [1, 1, 99]], [[1, 0, 0], [0, 1, 1]]))
    assert rewards.mean() == (12 + 5) / 2
    rewards.add(TensorDict({"next": {"reward": np.ones((3, 1))}}, [3]))
    assert rewards.mean() == (12 + 5) / 2


def test_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    frames, means = 10, iter([None, 12.3456, 0.5])

    def batches() -> Any:
        nonlocal frames
        for name in "abc":
            frames += 10
            yield name

    assert list(shown(batches(), 40, lambda: frames, lambda: next(means))) == ["a", "b", "c"]
    lines = stream.getvalue().split("\r")[1:]
    assert lines[0].startswith("0/30 [")
    assert lines[-1].startswith("30/30 [###")
    assert " frames/s, reward 0.5" in lines[-1]
    assert lines[-1].endswith("\n")


def test_a_bar_needs_an_end() -> None:
    assert (require_total(True, 5), require_total(False, -1)) == (True, False)
    with pytest.raises(ValueError, match="progress needs total_turns, got none"):
        require_total(True, -1, "total_turns")
