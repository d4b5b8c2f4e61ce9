"""Frames of which everything follows from their number."""

import numpy as np

from lite import TensorDict

EPISODE = 13


def frames(start: int, stop: int) -> TensorDict:
    """Frames by number; an episode ends every `EPISODE` of them, and what is observed then is negative."""
    step = np.arange(start, stop)
    end = step % EPISODE == EPISODE - 1
    obs = np.repeat(step[:, None], 64, 1)
    after = np.where(end[:, None], -obs, obs + 1)
    return TensorDict(
        {"obs": obs, "step": step, "next": {"obs": after, "reward": step[:, None] / 2, "done": end[:, None]}},
        [stop - start],
    )


def torn(batch: TensorDict) -> np.ndarray:
    """Which frames are mixtures of several."""
    step = batch["step"]
    expected = frames(0, 1)
    assert set(expected.keys(True, True)) <= set(batch.keys(True, True))
    end = step % EPISODE == EPISODE - 1
    after = np.where(end, -step, step + 1)
    wrong = (batch["obs"] != step[:, None]).any(1) | (batch["next", "obs"] != after[:, None]).any(1)
    return wrong | (batch["next", "reward"][:, 0] != step / 2) | (batch["next", "done"][:, 0] != end)
