"""`TimeMaxPool`: the largest values of the last observations."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lite import NestedKey, TensorDictBase
from lite._arrays.public import belong_to
from lite.envs.transforms.base import Keys, Transform, apply_to_composite
from lite.envs.transforms.resets import ResetKey, reset_mask
from lite.specs.base import TensorSpec


class TimeMaxPool(Transform):
    """The elementwise maximum of the last `T` observations of an episode, and of zeros where there are fewer.

    Args:
        in_keys: observations; `["observation"]` if None.
        out_keys: where the maxima go; `in_keys` if None.
        T: how many observations.
        reset_key: the entry that says which environments start an episode; found in the environment if None.

    Raises:
        ValueError: `T` is below 1, or the numbers of keys differ.
        NotImplementedError: it is called without an environment.

    Source:
        torchrl.envs.TimeMaxPool.

    Example:
        >>> from lite.envs import GymEnv, TimeMaxPool, TransformedEnv
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), TimeMaxPool(T=2))
        >>> bool((env.reset()["observation"] >= 0).all())
        True
    """

    reset_key = ResetKey()

    def __init__(
        self, in_keys: Keys = None, out_keys: Keys = None, T: int = 1, reset_key: NestedKey | None = None
    ) -> None:
        in_keys = ["observation"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        if T < 1:
            raise ValueError(f"T must be at least 1, got {T}.")
        if len(self.in_keys) != len(self.out_keys):
            raise ValueError(f"out_keys must be as many as in_keys, got {self.out_keys} for {self.in_keys}.")
        self.buffer_size = T
        self.reset_key = reset_key
        self._kept: dict[NestedKey, Any] = {}  # the last observations, the newest one first

    def clone(self) -> Self:
        """A transform that keeps observations of its own, and is in no environment."""
        twin = super().clone()
        twin._kept = {key: kept.copy() for key, kept in self._kept.items()}
        return twin

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        mask = reset_mask(self.reset_key, tensordict)
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            value = tensordict_reset.get(source, None)
            if value is None:
                raise KeyError(f"TimeMaxPool reads {source!r}, which is missing.")
            value = np.asarray(value)
            kept = self._buffer(source, value)
            kept[:, mask] = 0
            kept[0, mask] = value[mask]
            wide = mask.reshape((*mask.shape, *(1,) * (value.ndim - mask.ndim)))
            tensordict_reset.set(target, np.where(wide, kept.max(0), value.dtype.type(0)))
        return tensordict_reset

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            value = np.asarray(next_tensordict.get(source))
            kept = self._buffer(source, value)
            kept[1:] = kept[:-1]
            kept[0] = value
            next_tensordict.set(target, kept.max(0))
        return next_tensordict

    def _buffer(self, key: NestedKey, value: Any) -> Any:
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = np.zeros((self.buffer_size, *value.shape), value.dtype)
        return kept

    @apply_to_composite
    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        return observation_spec

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Not without an environment: raises NotImplementedError."""
        raise NotImplementedError("TimeMaxPool needs an environment, which takes the steps.")


belong_to("lite.envs", TimeMaxPool)
