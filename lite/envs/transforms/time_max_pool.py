"""`TimeMaxPool`: the largest values of the last observations."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import NestedKey, TensorDictBase
from lite._arrays.public import belong_to
from lite._tree.keys import require_path
from lite.envs.transforms.base import Keys, apply_to_composite
from lite.envs.transforms.resets import KeepingTransform, reset_mask, where_reset
from lite.nn._modules.initial import UninitializedBuffer


class TimeMaxPool(KeepingTransform):
    """The elementwise maximum of the last `T` observations of an episode, and of zeros where there are fewer.

    A graph that `to_onnx` writes has the kept observations, (*batch, T, ...), as a state: it takes
    ("time_max_pool", key) and gives ("next", "time_max_pool", key). It takes "is_init" as for `CatFrames`.

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
        self._states = {key: ("time_max_pool", *require_path(key)) for key in self.in_keys}
        self._names = {key: f"_maxpool_buffer_{'_'.join(require_path(key))}" for key in self.in_keys}
        for name in self._names.values():
            self.register_buffer(name, UninitializedBuffer())

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        mask = reset_mask(self.reset_key, tensordict)
        self._lead = mask.ndim
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            value = np.asarray(self._read(tensordict_reset, source))
            kept = self._buffer(source, value)
            kept[:, mask] = 0
            kept[0, mask] = value[mask]
            tensordict_reset.set(target, where_reset(mask, kept.max(0), None))
        return tensordict_reset

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            value = np.asarray(self._read(next_tensordict, source))
            kept = self._buffer(source, value)
            kept[1:] = kept[:-1]
            kept[0] = value
            next_tensordict.set(target, kept.max(0))
        return next_tensordict

    def _buffer(self, key: NestedKey, value: Any) -> Any:
        """The last observations, the newest one first."""
        kept: Any = self._buffers[self._names[key]]
        if not isinstance(kept, np.ndarray):
            kept = np.zeros((self.buffer_size, *value.shape), value.dtype)
            self._set_buffer(self._names[key], kept)
        return kept

    transform_observation_spec: Any = apply_to_composite(lambda self, spec: spec)

    def graph_states(self, batch: tuple[int, ...]) -> dict[NestedKey, Any]:
        """Inputs of a graph besides `in_keys`: where an episode starts, and the kept observations.

        None for kept observations whose shape is not known.
        """
        states: dict[NestedKey, Any] = {"is_init": np.zeros((*batch, 1), np.bool_)}
        for key in self.in_keys:
            kept, state = self._buffers[self._names[key]], None
            if isinstance(kept, np.ndarray):
                state = np.zeros((*batch, self.buffer_size, *kept.shape[1 + self._lead :]), kept.dtype)
            states[self._states[key]] = state
        return states

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """A step of a graph that `to_onnx` writes; all else without an environment is NotImplementedError."""
        following = self.__dict__.get("next_states")  # which the copy that is exported has
        if following is None:
            raise NotImplementedError("TimeMaxPool needs an environment, which takes the steps, or to_onnx.")
        start: Any = tensordict.get("is_init")
        axis = start.ndim - 1
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            state: Any = tensordict.get(self._states[source])
            begins = start[(..., *(None,) * (state.ndim - start.ndim))]
            older = np.where(begins, state.dtype.type(0), state)[(slice(None),) * axis + (slice(-1),)]
            kept = np.concatenate([np.expand_dims(tensordict.get(source), axis), older], axis)
            tensordict.set(target, kept.max(axis))
            following[self._states[source]] = kept
        return tensordict


belong_to("lite.envs", TimeMaxPool)
