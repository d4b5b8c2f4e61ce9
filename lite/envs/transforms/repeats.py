"""`FrameSkipTransform` and `NoopResetEnv`: transforms that take more steps of their environment."""

from __future__ import annotations

import numpy as np

from lite import TensorDictBase
from lite._arrays.public import belong_to
from lite.envs.mdp_steps import step_mdp
from lite.envs.transforms.base import EnvironmentTransform, Transform

_RETRIES = 10  # of NoopResetEnv, after an episode that ended within its steps


class FrameSkipTransform(EnvironmentTransform):
    """Repeats each action until the episode ends, and sums the rewards.

    Args:
        frame_skip: the number of steps of each action.

    Raises:
        ValueError: `frame_skip` is below 1.
        RuntimeError: the transform is not in an environment.

    Source:
        torchrl.envs.FrameSkipTransform.

    Example:
        >>> from lite.envs import FrameSkipTransform, GymEnv, TransformedEnv
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), FrameSkipTransform(4))
        >>> env.rollout(1)["next", "reward"].tolist()
        [[4.0]]
    """

    _needs_environment = RuntimeError, "whose steps it repeats"

    def __init__(self, frame_skip: int = 1) -> None:
        super().__init__()
        if frame_skip < 1:
            raise ValueError(f"frame_skip must be at least 1, got {frame_skip}.")
        self.frame_skip = frame_skip

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        parent = self.parent
        if parent is None:
            return self.forward(tensordict)
        key, states = parent.reward_key, parent.done_states
        reward = np.asarray(self._read(next_tensordict, key))
        for _ in range(self.frame_skip - 1):
            states.complete(next_tensordict)
            ended = states.ended(next_tensordict)
            if ended is not None and ended.all():
                break
            following = parent._step(tensordict)
            gained = following.get(key)
            if ended is not None and ended.any():  # keep the last step of the environments that have ended
                states.complete(following)
                runs = ~ended[..., 0]
                following = following.where(runs, next_tensordict)
                gained = np.where(runs.reshape(runs.shape + (1,) * (gained.ndim - runs.ndim)), gained, 0)
            next_tensordict, reward = following, reward + gained
        return next_tensordict.set(key, reward)


class NoopResetEnv(Transform):
    """Starts each episode with some steps of random actions.

    Args:
        noops: the number of steps; with `random`, its upper limit, which is excluded.
        random: draw the number of steps, from 0 to `noops - 1`.
        generator: a seed or a `numpy.random.Generator`, for this draw.

    Raises:
        RuntimeError: the transform is not in an environment, or 11 episodes in turn ended within the steps.
        ValueError: the environment is a batch of several.

    Source:
        torchrl.envs.NoopResetEnv.

    Example:
        >>> from lite.envs import Compose, GymEnv, NoopResetEnv, StepCounter, TransformedEnv
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), Compose(StepCounter(), NoopResetEnv(3, random=False)))
        >>> env.reset()["step_count"].tolist()
        [3]
    """

    _shown = ("noops", "random")

    def __init__(
        self, noops: int = 30, random: bool = True, *, generator: np.random.Generator | int | None = None
    ) -> None:
        super().__init__()
        self.noops, self.random = noops, random
        self.generator = np.random.default_rng(generator)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        parent = self.parent
        if parent is None:
            raise RuntimeError("NoopResetEnv needs an environment, whose steps it takes.")
        if parent.numel() > 1:
            raise ValueError(f"NoopResetEnv is for one environment, got {parent.numel()}.")
        current = parent._reset_proc_data(tensordict.copy(), tensordict_reset)
        wanted = int(self.generator.integers(self.noops)) if self.random else self.noops
        for _ in range(_RETRIES + 1):
            for _ in range(wanted):
                current = parent.rand_step(current)
                ended = parent.done_states.any(current.get("next"))
                current = step_mdp(current, exclude_done=False)
                if ended:
                    current = parent.reset(current.copy())
                    break
            else:
                return current.exclude(parent.reward_key, inplace=True)
        raise RuntimeError(f"{_RETRIES + 1} episodes ended within {wanted} random steps.")


belong_to("lite.envs", FrameSkipTransform, NoopResetEnv)
