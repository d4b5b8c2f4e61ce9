"""`RewardClipping`, `ClipTransform`, `SignTransform`, `FiniteTensorDictCheck`: values within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import maximum, minimum, ndarray  # as attributes of np, 25 ns more each

from lite import NestedKey, TensorDictBase, get_default_dtype
from lite._arrays.dtypes import is_inexact
from lite._arrays.public import belong_to
from lite.envs.transforms.base import (
    Keys,
    Transform,
    TwoWayTransform,
    apply_to_composite,
    as_buffer,
    numbers,
    unbounded_rewards,
)
from lite.specs.arrays import Bounded
from lite.specs.base import TensorSpec

_MANY = 1 << 12  # numbers: np.clip takes 2 us more, and then a quarter (of images an eighth) of the time


class RewardClipping(Transform):
    """Clips rewards to an interval.

    Args:
        clamp_min: the least reward.
        clamp_max: the largest reward.
        in_keys: rewards; `["reward"]` if None.
        out_keys: where they go; `in_keys` if None.

    The state dict has `clamp_min` and `clamp_max`.

    Raises:
        TypeError: a bound is missing.

    Source:
        torchrl.envs.RewardClipping.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import RewardClipping
        >>> RewardClipping(-1, 1)(TensorDict(reward=np.array([4.0, -0.5])))["reward"]
        array([ 1. , -0.5])
    """

    def __init__(
        self,
        clamp_min: float | None = None,
        clamp_max: float | None = None,
        in_keys: Keys = None,
        out_keys: Keys = None,
    ) -> None:
        in_keys = ["reward"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        if clamp_min is None or clamp_max is None:
            raise TypeError(f"clamp_min and clamp_max must be numbers, got {clamp_min} and {clamp_max}.")
        self.register_buffer("clamp_min", as_buffer(clamp_min))
        self.register_buffer("clamp_max", as_buffer(clamp_max))

    def _apply_transform(self, obs: Any) -> Any:
        buffers = self.__dict__["_buffers"]
        return _clipped(obs, buffers["clamp_min"], buffers["clamp_max"])

    @apply_to_composite
    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        spec = unbounded_rewards(self, reward_spec)
        return Bounded(self.clamp_min, self.clamp_max, shape=spec.shape, dtype=spec.dtype)

    def __repr__(self) -> str:
        bounds = f"clamp_min={float(self.clamp_min):4.4f}, clamp_max={float(self.clamp_max):4.4f}"
        return f"RewardClipping({bounds}, keys={self.in_keys})"


class _BoundedValues(TwoWayTransform):
    """A function whose values are bounded, of observations, rewards and inputs."""

    def _bounds(self) -> tuple[Any, Any]:
        raise NotImplementedError

    def _inv_apply_transform(self, state: Any) -> Any:
        return self._apply_transform(state)

    @apply_to_composite
    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        low, high = self._bounds()
        dtype = self._apply_transform(observation_spec.zero()).dtype
        return Bounded(low, high, shape=observation_spec.shape, dtype=dtype)

    transform_reward_spec: Any = transform_observation_spec


class ClipTransform(_BoundedValues):
    """Clips observations, rewards, or what goes into an environment, to an interval.

    Args:
        in_keys: entries to clip; none by default.
        out_keys: where they go; `in_keys` if None.
        in_keys_inv: entries that the environment reads, which are clipped, too; none by default.
        out_keys_inv: entries that are given in their place.
        low: the least value; None for none.
        high: the largest value; None for none.

    The state dict has `low` and `high`, as far as they are given.

    Raises:
        TypeError: neither `low` nor `high` is given, or one of them is not one number.
        ValueError: `low` is not below `high`.

    Source:
        torchrl.envs.ClipTransform.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import ClipTransform
        >>> ClipTransform(["x"], low=0.0)(TensorDict(x=np.array([-2.0, 2.0])))["x"]
        array([0., 2.])
    """

    def __init__(
        self,
        in_keys: Keys = None,
        out_keys: Keys = None,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
        *,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        if low is None and high is None:
            raise TypeError("low or high must be given.")
        for name, bound in (("low", low), ("high", high)):
            if bound is not None and np.size(bound) != 1:
                raise TypeError(f"{name} must be a number or None, got {bound!r}.")
            self.register_buffer(name, None if bound is None else as_buffer(bound, floating=True))
        if low is not None and high is not None and low >= high:
            raise ValueError(f"low must be below high, got {low} and {high}.")

    def _apply_transform(self, obs: Any) -> Any:
        buffers = self.__dict__["_buffers"]
        return _clipped(obs, buffers["low"], buffers["high"])

    def _bounds(self) -> tuple[Any, Any]:
        # A little more than the bounds themselves, as values in other dtypes round to both sides of them.
        limits = np.finfo(get_default_dtype())
        low = limits.min if self.low is None else self.low - np.finfo(self.low.dtype).resolution
        high = limits.max if self.high is None else self.high + np.finfo(self.high.dtype).resolution
        return low, high


class SignTransform(_BoundedValues):
    """Signs of observations, rewards, or what goes into an environment: -1, 0 or 1.

    Args:
        in_keys: entries; none by default.
        out_keys: where they go; `in_keys` if None.
        in_keys_inv: entries that the environment reads; none by default.
        out_keys_inv: entries that are given in their place.

    Source:
        torchrl.envs.SignTransform.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import SignTransform
        >>> SignTransform(["reward"])(TensorDict(reward=np.array([-2.0, 0.0])))["reward"]
        array([-1.,  0.])
    """

    def _apply_transform(self, obs: Any) -> Any:
        return obs if obs.dtype.kind == "b" else np.sign(obs)

    def _bounds(self) -> tuple[Any, Any]:
        return -1.0, 1.0


class FiniteTensorDictCheck(Transform):
    """Refuses steps, and starts of episodes, that have NaN or infinity in some entry.

    Raises:
        ValueError: a number is not finite; the message has its key, value and position.

    Source:
        torchrl.envs.FiniteTensorDictCheck.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import FiniteTensorDictCheck
        >>> FiniteTensorDictCheck()(TensorDict(x=np.array([1.0, np.nan])))
        Traceback (most recent call last):
        ...
        ValueError: 'x' must be finite, got nan at [1].
    """

    _transforms_reset = True

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Refuse a TensorDict that has NaN or infinity in some entry; see the class."""
        try:
            for key, value in tensordict.items(True, True):
                _require_finite(key, value)
        except RuntimeError:  # rows of several shapes
            tensordict.named_apply(_require_finite, nested_keys=True)
        return tensordict

    _call = forward


def _require_finite(key: NestedKey, value: Any) -> None:
    if isinstance(value, np.ndarray) and is_inexact(value.dtype) and not np.isfinite(value).all():
        place = np.argwhere(~np.isfinite(value))[0]
        raise ValueError(f"{key!r} must be finite, got {value[tuple(place)]} at {place.tolist()}.")


belong_to("lite.envs", RewardClipping, ClipTransform, SignTransform, FiniteTensorDictCheck)


def _clipped(value: Any, low: Any, high: Any) -> Any:
    """Within bounds that may be None; of integers with bounds of floats, floats."""
    if value.dtype.kind in "iub":
        floats = [bound.dtype for bound in (low, high) if bound is not None and bound.dtype.kind == "f"]
        value = value.astype(floats[0]) if floats else value
    if type(low) is type(high) is ndarray:
        low, high = numbers(value.dtype, low.item(), high.item())
        if type(value) is ndarray and value.size > _MANY:
            return np.clip(value, low, high)
    else:  # one is None, or both are of a graph
        low = numbers(value.dtype, low.item())[0] if type(low) is ndarray else low
        high = numbers(value.dtype, high.item())[0] if type(high) is ndarray else high
    value = value if low is None else maximum(value, low)
    return value if high is None else minimum(value, high)
