"""`TargetReturn` and `Reward2GoTransform`: what is left to earn in an episode."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import NestedKey, TensorDictBase
from lite._arrays.public import belong_to
from lite.envs.env_specs import beside
from lite.envs.transforms.base import EnvironmentTransform, Keys, Transform, as_buffer
from lite.envs.transforms.resets import ResetKey, reset_mask, where_reset
from lite.kernels import reward2go
from lite.specs.arrays import Unbounded
from lite.specs.composite import Composite

_MODES = ("reduce", "constant")


class TargetReturn(EnvironmentTransform):
    """Observes the return that an episode is to have, less what it had so far.

    Args:
        target_return: the return that an episode is to reach.
        mode: "reduce" subtracts each reward, "constant" does not.
        in_keys: rewards; those of the environment if None.
        out_keys: where it goes; "target_return" beside each of `in_keys` if None.
        reset_key: the entry that says which environments start an episode; found in the environment if None.

    Raises:
        ValueError: another mode; the reward has another shape.
        NotImplementedError: it is called without an environment.

    Source:
        torchrl.envs.TargetReturn.

    Example:
        >>> from lite.envs import GymEnv, TargetReturn, TransformedEnv
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), TargetReturn(10.0))
        >>> env.rollout(2)["next", "target_return"].ravel().tolist()
        [9.0, 8.0]
    """

    _needs_environment = NotImplementedError, "which takes the steps"
    reset_key = ResetKey()

    def __init__(
        self,
        target_return: float,
        mode: str = "reduce",
        in_keys: Keys = None,
        out_keys: Keys = None,
        reset_key: NestedKey | None = None,
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {_MODES}, got {mode!r}.")
        super().__init__(in_keys, out_keys)
        self.target_return, self.mode = target_return, mode
        self.reset_key = reset_key

    def _default_in_keys(self) -> list[NestedKey]:
        return [] if self.parent is None else list(self.parent.reward_keys)

    def _default_out_keys(self) -> list[NestedKey]:
        return [beside(key, "target_return") for key in self.in_keys]

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        mask = reset_mask(self.reset_key, tensordict)
        for key in self.out_keys:
            fresh = np.full((*mask.shape, 1), self.target_return, np.float32)
            tensordict_reset.set(key, where_reset(mask, fresh, tensordict.get(key, None)))
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            before, reward = self._read(tensordict, target), self._read(next_tensordict, source)
            if before.shape != reward.shape:
                raise ValueError(
                    f"the reward must have the shape of the target, {before.shape}, got {reward.shape}."
                )
            next_tensordict.set(target, before - reward if self.mode == "reduce" else before)
        return next_tensordict

    def _with_targets(self, spec: Composite) -> Composite:
        spec = spec.clone()
        parent = self.parent
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            parts = (parent.full_reward_spec, parent.full_observation_spec, parent.full_done_spec)
            found = next((part[source] for part in parts if source in part), None)
            if found is None:
                raise RuntimeError(f"TargetReturn reads {source!r}, of which there is no spec.")
            spec[target] = Unbounded(found.shape, dtype=found.dtype)
        return spec

    transform_observation_spec: Any = _with_targets
    transform_state_spec: Any = _with_targets


class Reward2GoTransform(Transform):
    """Sums the discounted rewards from each step to the end of its episode, on the way into a buffer.

    Args:
        gamma: discount per step.
        in_keys: rewards, of shape (*batch, time, 1); `[("next", "reward")]` if None.
        out_keys: where the sums go; `in_keys` if None.
        done_key: where episodes end, below "next".

    The state dict has `gamma`.

    Raises:
        RuntimeError: an environment has no end of an episode.
        KeyError: there is none of the rewards.
        ValueError: it is put into an environment.

    Source:
        torchrl.envs.Reward2GoTransform.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import Reward2GoTransform
        >>> following = {"reward": np.ones((3, 1), np.float32), "done": np.array([[0], [0], [1]], bool)}
        >>> td = Reward2GoTransform(0.5).inv(TensorDict({"next": following}, [3]))
        >>> td["next", "reward"].ravel().tolist()
        [1.75, 1.5, 1.0]
    """

    def __init__(
        self,
        gamma: float | Any = 1.0,
        in_keys: Keys = None,
        out_keys: Keys = None,
        done_key: NestedKey = "done",
    ) -> None:
        in_keys = [("next", "reward")] if in_keys is None else in_keys
        super().__init__(in_keys, None, in_keys, in_keys if out_keys is None else out_keys)
        self.done_key = done_key
        self.register_buffer("gamma", as_buffer(gamma, not isinstance(gamma, np.ndarray)))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """`tensordict` as it is: the sums are made on the way into a buffer."""
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        done = np.asarray(self._read(tensordict, ("next", self.done_key)))
        if not done.any(-2).all():
            raise RuntimeError("an environment has no end of an episode: give more frames of each.")
        found = False
        for source, target in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            reward = tensordict.get(source, None)
            if reward is not None:
                found = True
                tensordict.set(target, reward2go(reward, done, self.gamma))
        if not found:
            raise KeyError(f"Reward2GoTransform reads {self.in_keys_inv}, of which there is none.")
        return tensordict

    def set_container(self, container: Any) -> None:
        """Put it into a `Compose` that is in no environment.

        Raises:
            ValueError: it is an environment, or in one.
        """
        if not isinstance(container, Transform) or container.container is not None:
            raise ValueError("Reward2GoTransform is for replay buffers, not for environments.")
        super().set_container(container)


belong_to("lite.envs", TargetReturn, Reward2GoTransform)
