"""`ObservationNorm` and `RewardScaling`: a scale and an offset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.typing import ArrayLike

from lite import NestedKey, get_default_dtype
from lite._arrays.dtypes import is_floating
from lite._arrays.public import belong_to
from lite._arrays.types import HostArray, is_symbolic
from lite.envs.transforms.base import Keys, Transform, apply_to_composite, as_buffer, unbounded_rewards
from lite.envs.transforms.spec_changes import map_inputs, map_outputs
from lite.nn._modules.initial import UninitializedBuffer
from lite.nn.layers.large_arrays import affine
from lite.specs.base import TensorSpec

_LARGE = 1 << 20  # numbers that do not stay in the cache between two operations


class _Affine(Transform):
    """`value * scale + loc`, or `(value - loc) / scale` where the buffer `standard_normal` is set."""

    loc: Any
    scale: Any
    standard_normal: Any

    def _apply_transform(self, obs: Any) -> Any:
        buffers = self.__dict__["_buffers"]
        loc, scale, standard = buffers["loc"], buffers["scale"], buffers["standard_normal"]
        plain = type(loc) is type(scale) is type(standard) is ndarray
        if not (plain and obs.dtype is loc.dtype is scale.dtype):
            loc, scale, standard = _numbers(buffers)
            obs, loc, scale = in_common_dtype(obs, loc, scale)
        if plain and obs.size < _LARGE:  # here, as three calls take a tenth of the time of a small one
            return (obs - loc) / scale if standard else obs * scale + loc
        if plain and type(obs) is np.ndarray and obs.dtype.kind == "f":
            return affine(obs, loc, scale, bool(standard))
        return _scaled(obs, loc, scale, standard)

    def _inv_apply_transform(self, state: Any) -> Any:
        loc, scale, standard = _numbers(self.__dict__["_buffers"])
        state, loc, scale = in_common_dtype(state, loc, scale)
        return _scaled(state, loc, scale, np.logical_not(standard))

    def __repr__(self) -> str:
        loc, scale = self.loc, self.scale
        if isinstance(loc, UninitializedBuffer) or loc.size != 1 or scale.size != 1:
            return super().__repr__()
        numbers = f"loc={float(loc.item()):4.4f}, scale={float(scale.item()):4.4f}"
        return f"{type(self).__name__}({numbers}, keys={self.in_keys})"


class ObservationNorm(_Affine):
    """Normalises observations: `scale * obs + loc`, or with `standard_normal` `(obs - loc) / scale`.

    Args:
        loc: offset, a number or an array that broadcasts to observations; None to find it by `init_stats`.
        scale: factor, likewise; both are given or none. A number of less than `eps` is `eps`.
        in_keys: entries to normalise; needed.
        out_keys: where they go; `in_keys` if None.
        in_keys_inv: entries that the environment reads; none by default. They are denormalised.
        out_keys_inv: entries that are given in their place.
        standard_normal: subtract and divide.
        eps: the least scale; 1e-6 by default, the spacing of floats at 1 where `scale` is an array of floats.

    The state dict has `loc`, `scale` and `standard_normal`.

    Raises:
        RuntimeError: `in_keys` are not given.
        ValueError: only one of `loc` and `scale` is given.

    Source:
        torchrl.envs.ObservationNorm.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import ObservationNorm
        >>> norm = ObservationNorm(loc=1.0, scale=2.0, in_keys=["x"], standard_normal=True)
        >>> norm(TensorDict(x=np.array([1.0, 5.0])))["x"]
        array([0., 2.])
    """

    _transforms_reset = True

    def __init__(
        self,
        loc: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        in_keys: Keys = None,
        out_keys: Keys = None,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
        standard_normal: bool = False,
        eps: float | None = None,
    ) -> None:
        if in_keys is None:
            raise RuntimeError("ObservationNorm needs in_keys, got none.")
        if (loc is None) != (scale is None):
            raise ValueError("give loc and scale, or none of them and call init_stats.")
        out_keys = in_keys if out_keys is None else out_keys
        in_keys_inv = [] if in_keys_inv is None else in_keys_inv
        out_keys_inv = in_keys_inv if out_keys_inv is None else out_keys_inv
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        if eps is None:
            eps = 1e-6
            if isinstance(scale, np.ndarray) and scale.dtype.kind == "f":
                eps = float(np.finfo(scale.dtype).eps)
        self.eps = eps
        self.register_buffer("standard_normal", np.asarray(standard_normal))
        if loc is None or scale is None:
            self.register_buffer("loc", UninitializedBuffer())
            self.register_buffer("scale", UninitializedBuffer())
            return
        given = isinstance(scale, np.ndarray)
        self.register_buffer("loc", as_buffer(loc, not isinstance(loc, np.ndarray)))
        factor = as_buffer(scale, not given)
        self.register_buffer("scale", factor if given else np.maximum(factor, factor.dtype.type(self.eps)))

    @property
    def initialized(self) -> bool:
        """Whether there are `loc` and `scale`."""
        return not isinstance(self.loc, UninitializedBuffer)

    def init_stats(
        self,
        num_iter: int,
        reduce_dim: int | tuple[int, ...] = 0,
        cat_dim: int | None = None,
        key: NestedKey | None = None,
        keep_dims: tuple[int, ...] | None = None,
    ) -> None:
        """Find `loc` and `scale` from random steps of the environment, with the transforms before this one.

        Afterwards observations of these steps have the mean 0 and the standard deviation 1.

        Args:
            num_iter: steps, in all environments together at least.
            reduce_dim: dimensions of the collected observations, the batch and time first, that means are
                taken over.
            cat_dim: the dimension along which rollouts are joined; `reduce_dim` if None.
            key: the entry; the only one of `in_keys` if None.
            keep_dims: those of `reduce_dim` that stay, with the size 1.

        Raises:
            ValueError: `cat_dim` is not in `reduce_dim`, or `keep_dims` are not.
            RuntimeError: there are statistics already, or none of a transform before this one; the transform
                is in no environment; there are several `in_keys` and no `key`; the statistics are not finite.
        """
        dims = [reduce_dim] if isinstance(reduce_dim, int) else list(reduce_dim)
        if cat_dim is None:
            if not isinstance(reduce_dim, int):
                raise ValueError("cat_dim must be given where reduce_dim is not an integer.")
            cat_dim = reduce_dim
        if cat_dim not in dims:
            raise ValueError(f"cat_dim must be in reduce_dim={reduce_dim}, got {cat_dim}.")
        if self.initialized:
            raise RuntimeError(f"there are statistics already: loc={self.loc}, scale={self.scale}.")
        if len(self.in_keys) > 1 and key is None:
            raise RuntimeError(f"key must be given, as there are several in_keys: {self.in_keys}.")
        data = self._collected(num_iter, self.in_keys[0] if key is None else key, cat_dim)
        dims = sorted(dim if dim < 0 else dim - data.ndim for dim in dims)
        kept = [dim if dim < 0 else dim - data.ndim for dim in keep_dims or ()]
        if not set(kept) <= set(dims):
            raise ValueError(f"keep_dims must be among reduce_dim={reduce_dim}, got {keep_dims}.")
        dropped = tuple(dim for dim in dims if dim not in kept)
        loc = data.mean(tuple(dims), keepdims=True).squeeze(dropped)
        scale = data.std(tuple(dims), keepdims=True, ddof=1).squeeze(dropped)
        if not self.standard_normal:
            scale = 1 / np.maximum(scale, loc.dtype.type(self.eps))
            loc = -loc * scale
        for name, value in (("loc", loc), ("scale", scale)):
            if not np.isfinite(value).all():
                raise RuntimeError(f"{name} is not finite.")
        self.register_buffer("loc", np.asarray(loc))
        self.register_buffer("scale", np.maximum(scale, scale.dtype.type(self.eps)))

    def _collected(self, num_iter: int, key: NestedKey, cat_dim: int) -> Any:
        parent = self.parent
        if parent is None:
            raise RuntimeError("init_stats needs an environment: put this into a TransformedEnv first.")
        for module in parent.transform.modules():
            if isinstance(module, ObservationNorm) and not module.initialized:
                raise RuntimeError("an ObservationNorm before this one has no statistics: start with that.")
        frames, rollouts = 0, []
        while frames < num_iter:
            rollout = parent.rollout(max_steps=num_iter)
            frames += rollout.numel()
            rollouts.append(rollout.get(key))
        return np.concatenate(rollouts, cat_dim)

    transform_observation_spec = map_outputs
    transform_action_spec = transform_state_spec = map_inputs


class RewardScaling(_Affine):
    """Scales rewards: `reward * scale + loc`, or with `standard_normal` `(reward - loc) / scale`.

    Args:
        loc: offset.
        scale: factor, at least 1e-6.
        in_keys: rewards; `["reward"]` if None.
        out_keys: where they go; `in_keys` if None.
        standard_normal: subtract and divide.

    The state dict has `loc`, `scale` and `standard_normal`.

    Source:
        torchrl.envs.RewardScaling.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import RewardScaling
        >>> RewardScaling(loc=1.0, scale=0.5)(TensorDict(reward=np.array([4.0])))["reward"]
        array([3.])
    """

    def __init__(
        self,
        loc: ArrayLike,
        scale: ArrayLike,
        in_keys: Keys = None,
        out_keys: Keys = None,
        standard_normal: bool = False,
    ) -> None:
        in_keys = ["reward"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        self.register_buffer("standard_normal", np.asarray(standard_normal))
        self.register_buffer("loc", as_buffer(loc))
        factor = as_buffer(scale, floating=True)
        self.register_buffer("scale", np.maximum(factor, factor.dtype.type(1e-6)))

    @apply_to_composite
    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        return unbounded_rewards(self, reward_spec)


belong_to("lite.envs", ObservationNorm, RewardScaling)


def _numbers(buffers: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Offset, scale, and whether they are subtracted and divided by: a bool, unless it is a traced array."""
    loc, flag = buffers["loc"], buffers["standard_normal"]
    if type(loc) is UninitializedBuffer:
        raise RuntimeError("loc and scale are not set: give them, or call init_stats.")
    if is_symbolic(flag):  # a weight of a graph that acts; in a training step it is an argument
        flag = flag.graph.weights.get(flag.name, flag)
    return loc, buffers["scale"], flag if isinstance(flag, HostArray) else bool(flag)


def _scaled(x: Any, loc: Any, scale: Any, divide: Any) -> Any:
    """`(x - loc) / scale` where `divide` is true, else `x * scale + loc`."""
    if isinstance(divide, HostArray):
        choose: Any = np.where
        return choose(divide, (x - loc) / scale, x * scale + loc)
    return (x - loc) / scale if divide else x * scale + loc


def in_common_dtype(value: Any, *buffers: Any) -> tuple[Any, ...]:
    """The arrays in the dtype that torch computes them in: buffers of no dimension widen nothing."""
    dtype = value.dtype
    if all(buffer.dtype == dtype for buffer in buffers):
        return value, *buffers
    floating = is_floating(dtype)
    wide = [part.dtype for part in buffers if (part.ndim or not floating) and is_floating(part.dtype)]
    if not floating:
        dtype = wide[0] if wide else np.dtype(get_default_dtype())
    dtype = np.result_type(dtype, *wide) if wide else dtype
    return tuple(array.astype(dtype, copy=False) for array in (value, *buffers))
