"""Other shapes, of entries (`UnsqueezeTransform` and its like) or of the batch (`BatchSizeTransform`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lite import TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite.envs.transforms.base import Keys, Transform, TwoWayTransform, apply_to_composite_inv
from lite.envs.transforms.images import ImageTransform
from lite.envs.transforms.spec_changes import map_inputs, map_outputs, mapped
from lite.specs.base import Shape, TensorSpec, as_size
from lite.specs.composite import Composite


class UnsqueezeTransform(TwoWayTransform):
    """Inserts a dimension of size 1, and takes it out of inputs.

    Args:
        dim: where, from the end: -1 is after the last one.
        allow_positive_dim: take numbers from the start, too, which in an environment count after its batch.
        in_keys: entries; none by default.
        out_keys: where they go; `in_keys` if None.
        in_keys_inv: entries that the environment reads, without the dimension; none by default.
        out_keys_inv: entries that are given in their place.

    Raises:
        RuntimeError: `dim` is not negative.

    Source:
        torchrl.envs.UnsqueezeTransform.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import UnsqueezeTransform
        >>> UnsqueezeTransform(-2, in_keys=["x"])(TensorDict(x=np.ones((2, 3))))["x"].shape
        (2, 1, 3)
    """

    invertible = True
    _shown = ("dim", "in_keys", "out_keys", "in_keys_inv", "out_keys_inv")

    def __init__(
        self,
        dim: int,
        *,
        allow_positive_dim: bool = False,
        in_keys: Keys = None,
        out_keys: Keys = None,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        if dim >= 0 and not allow_positive_dim:
            raise RuntimeError(
                f"dim must be negative, got {dim}: batches come in front. allow_positive_dim=True takes it."
            )
        self._dim = dim

    @property
    def dim(self) -> int:
        """Where the dimension is."""
        return _from_start(self, self._dim)

    def _apply_transform(self, obs: Any) -> Any:
        dim = self.__dict__["_dim"]
        return obs[..., None] if dim == -1 else _unsqueezed(obs, _from_start(self, dim))

    def _inv_apply_transform(self, state: Any) -> Any:
        return _squeezed(state, self.dim)

    transform_action_spec = transform_state_spec = map_inputs
    transform_observation_spec = transform_reward_spec = map_outputs


class SqueezeTransform(UnsqueezeTransform):
    """Takes out a dimension of size 1, and inserts it into inputs; arguments as for `UnsqueezeTransform`.

    A dimension of another size stays.

    Source:
        torchrl.envs.SqueezeTransform.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import SqueezeTransform
        >>> SqueezeTransform(-1, in_keys=["x"])(TensorDict(x=np.ones((2, 1))))["x"].shape
        (2,)
    """

    def _apply_transform(self, obs: Any) -> Any:
        return _squeezed(obs, self.dim)

    def _inv_apply_transform(self, state: Any) -> Any:
        return _unsqueezed(state, self.dim)


class PermuteTransform(TwoWayTransform):
    """Reorders the last dimensions, and puts those of inputs back.

    Args:
        dims: the order of the last dimensions, as negative numbers: (-1, -3, -2) puts the last one in front
            of two others.
        in_keys: entries; none by default.
        out_keys: where they go; `in_keys` if None.
        in_keys_inv: entries that the environment reads; none by default.
        out_keys_inv: entries that are given in their place.

    Raises:
        ValueError: `dims` are not the numbers from -1 down.

    Source:
        torchrl.envs.PermuteTransform.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import PermuteTransform
        >>> PermuteTransform((-1, -3, -2), in_keys=["x"])(TensorDict(x=np.ones((4, 5, 3))))["x"].shape
        (3, 4, 5)
    """

    def __init__(
        self,
        dims: Sequence[int],
        in_keys: Keys = None,
        out_keys: Keys = None,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        count = len(dims)
        if sorted(dims) != list(range(-count, 0)):
            raise ValueError(f"dims must be the numbers from {-count} to -1 in any order, got {dims}.")
        self.dims = dims

    def _apply_transform(self, obs: Any) -> Any:
        return _permuted(obs, self.dims)

    def _inv_apply_transform(self, state: Any) -> Any:
        count = len(self.dims)
        return _permuted(state, [int(place) - count for place in np.argsort(self.dims)])

    transform_observation_spec = map_outputs

    @apply_to_composite_inv
    def transform_input_spec(self, input_spec: TensorSpec) -> TensorSpec:
        return mapped(input_spec, self._inv_apply_transform)


class FlattenObservation(ImageTransform):
    """Joins dimensions of observations.

    Args:
        first_dim: the first of them, from the end.
        last_dim: the last of them, likewise.
        in_keys: entries; `["pixels"]` if None.
        out_keys: where they go; `in_keys` if None.
        allow_positive_dim: take numbers from the start, too, which in an environment count after its batch.

    Raises:
        ValueError: a dim is not negative.

    Source:
        torchrl.envs.FlattenObservation.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import FlattenObservation
        >>> FlattenObservation(-3, -2, ["x"])(TensorDict(x=np.ones((2, 3, 4))))["x"].shape
        (6, 4)
    """

    _shown = ("first_dim", "last_dim", "in_keys", "out_keys")

    def __init__(
        self,
        first_dim: int,
        last_dim: int,
        in_keys: Keys = None,
        out_keys: Keys = None,
        allow_positive_dim: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys)
        for name, dim in (("first_dim", first_dim), ("last_dim", last_dim)):
            if dim >= 0 and not allow_positive_dim:
                raise ValueError(
                    f"{name} must be negative, got {dim}: batches come in front, unless allow_positive_dim."
                )
        self._first_dim, self._last_dim = first_dim, last_dim

    @property
    def first_dim(self) -> int:
        """The first dimension that is joined."""
        return _from_start(self, self._first_dim)

    @property
    def last_dim(self) -> int:
        """The last dimension that is joined."""
        return _from_start(self, self._last_dim)

    def _apply_transform(self, obs: Any) -> Any:
        first, last = (dim + obs.ndim * (dim < 0) for dim in (self.first_dim, self.last_dim))
        if not 0 <= first <= last < obs.ndim:
            raise IndexError(f"{self!r} joins dimensions that an entry of shape {tuple(obs.shape)} lacks.")
        # Written out, not -1: while a graph is traced, that would be the size of the batch.
        joined = 1
        for size in obs.shape[first : last + 1]:
            joined = joined * size
        return obs.reshape((*obs.shape[:first], joined, *obs.shape[last + 1 :]))


class BatchSizeTransform(Transform):
    """Gives an environment another batch size; as a module, reshapes what it is called on.

    Args:
        batch_size: the new one, for environments that take any.
        reshape_fn: a function from a TensorDict to one of the new batch size, in place of `batch_size`.
        reset_func: makes what an episode starts with, of what `reset` was called with and what the
            environment gave.
        env_kwarg: pass it the environment as `env`, too.

    Raises:
        ValueError: both of `batch_size` and `reshape_fn`, or neither.

    Source:
        torchrl.envs.BatchSizeTransform.

    Example:
        >>> from lite.envs import BatchSizeTransform, GymEnv, TransformedEnv
        >>> transform = BatchSizeTransform(reshape_fn=lambda td: td.reshape(1, 1))
        >>> TransformedEnv(GymEnv("CartPole-v1"), transform).rollout(4)["observation"].shape
        (1, 1, 4, 4)
    """

    enable_inv_on_reset = True

    def __init__(
        self,
        *,
        batch_size: Any = None,
        reshape_fn: Callable[[Any], Any] | None = None,
        reset_func: Callable[..., Any] | None = None,
        env_kwarg: bool = False,
    ) -> None:
        super().__init__()
        if (batch_size is None) == (reshape_fn is None):
            raise ValueError(f"give one of batch_size and reshape_fn, got {batch_size} and {reshape_fn}.")
        self.batch_size = None if batch_size is None else as_size(batch_size)
        self.reshape_fn, self.reset_func, self.env_kwarg = reshape_fn, reset_func, env_kwarg

    def _changed(self, tensordict: Any) -> Any:
        return tensordict.expand(self.batch_size) if self.reshape_fn is None else self.reshape_fn(tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self.reset_func is not None:
            env = {"env": self.container} if self.env_kwarg else {}
            tensordict_reset = self.reset_func(tensordict, tensordict_reset, **env)
        return self._changed(tensordict_reset)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The result of `reshape_fn` for a TensorDict; without it, the TensorDict itself."""
        return tensordict if self.reshape_fn is None else self.reshape_fn(tensordict)

    _call = forward

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        parent = None if self.reshape_fn is None else self.parent
        return tensordict if parent is None else tensordict.reshape(parent.batch_size)

    def transform_env_batch_size(self, batch_size: Shape) -> Shape:
        return tuple(self._changed(TensorDict(batch_size=batch_size)).batch_size)

    def _spec(self, spec: Any) -> Composite:
        batch = spec.shape
        made = Composite(shape=self.transform_env_batch_size(batch))

        def value(array: Any) -> Any:
            return self._changed(TensorDict({"value": array}, batch))["value"]

        for key, part in spec.items():
            made[key] = self._spec(part) if isinstance(part, Composite) else mapped(part, value)
        return made

    transform_output_spec: Any = _spec
    transform_input_spec: Any = _spec


belong_to(
    "lite.envs", UnsqueezeTransform, SqueezeTransform, PermuteTransform, FlattenObservation,
    BatchSizeTransform,
)  # fmt: skip


def _from_start(transform: Transform, dim: int) -> int:
    """A dimension: numbers from 0 on count after the batch of the environment."""
    parent = None if dim < 0 else transform.parent
    return dim if parent is None else dim + len(parent.batch_size)


def _unsqueezed(value: Any, dim: int) -> Any:
    # A fifth of the time of np.expand_dims.
    whole = (slice(None),)
    return value[(*whole * dim, None)] if dim >= 0 else value[(..., None, *whole * (-dim - 1))]


def _squeezed(value: Any, dim: int) -> Any:
    return np.squeeze(value, dim) if (value.ndim or dim not in (0, -1)) and value.shape[dim] == 1 else value


def _permuted(value: Any, dims: Sequence[int]) -> Any:
    front = value.ndim - len(dims)
    if front < 0:
        raise RuntimeError(f"dims={dims} are of {len(dims)} dimensions, got an entry of shape {value.shape}.")
    return np.transpose(value, (*range(front), *(dim + value.ndim for dim in dims)))
