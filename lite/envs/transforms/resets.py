"""Where episodes start: the entry "_reset", its key in an environment, and what is kept from there on."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDictBase
from lite.envs.environments import aligned
from lite.envs.transforms.base import Transform
from lite.nn._modules.initial import is_uninitialized


class ResetKey:
    """The attribute `reset_key` of a transform: what was assigned, or that of its environment."""

    def __get__(self, transform: Any, owner: type | None = None) -> Any:
        if transform is None:
            return self
        given = transform.__dict__.get("_reset_key")
        if given is not None:
            return given
        parent = transform.parent
        if parent is None:
            return "_reset"
        keys = parent._filtered_reset_keys
        if len(keys) > 1:
            raise RuntimeError(
                f"set reset_key of the {type(transform).__name__}, as the environment has several: {keys}."
            )
        return keys[0]

    def __set__(self, transform: Any, key: NestedKey | None) -> None:
        transform.__dict__["_reset_key"] = key


class KeepingTransform(Transform):
    """Base of transforms whose buffers are observations that they keep."""

    reset_key = ResetKey()
    _lead = 0  # dimensions of the batch of those

    def clone(self) -> Self:
        """A transform that keeps observations of its own, and is in no environment."""
        twin = super().clone()
        arrays = {name: kept for name, kept in self._buffers.items() if isinstance(kept, np.ndarray)}
        twin._buffers.update({name: kept.copy() for name, kept in arrays.items()})
        return twin

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, kept in self._buffers.items():
            if is_uninitialized(kept):  # before the first episode, as in buffers, there is nothing to save
                del destination[prefix + name]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        kept = {prefix + name: value for name, value in self._buffers.items()}
        super()._load_from_state_dict({**kept, **state_dict}, prefix, *others)


def reset_mask(reset_key: NestedKey, tensordict: TensorDictBase) -> NDArray[np.bool_]:
    """Which environments start an episode, of the batch size; all where nothing says so."""
    mask = tensordict.get(reset_key, None)
    holder = tensordict.get(reset_key[:-1], None) if isinstance(reset_key, tuple) else tensordict
    batch = tuple((tensordict if holder is None else holder).batch_size)
    if mask is None:
        return np.ones(batch, np.bool_)
    mask = np.asarray(mask)
    return np.asarray(mask.reshape(*batch, -1).any(-1)) if mask.ndim > len(batch) else mask


def where_reset(mask: NDArray[np.bool_], fresh: Any, before: Any) -> NDArray[Any]:
    """Values of episodes that start, and those of before of the others; what is unknown of those is 0."""
    fresh = np.asarray(fresh)
    if before is None:
        if bool(mask.all()):
            return fresh
        before = np.zeros_like(fresh)
    return np.where(aligned(mask, fresh), fresh, before)
