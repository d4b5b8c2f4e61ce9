"""Other actions than the environment's: scaled, masked, discrete."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite import NestedKey, TensorDictBase, get_default_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import is_symbolic
from lite.envs.transforms.affine import in_common_dtype
from lite.envs.transforms.base import EnvironmentTransform, Keys, Transform, apply_to_composite_inv, as_buffer
from lite.envs.transforms.resets import where_reset
from lite.envs.transforms.spec_changes import mapped
from lite.nn._modules.initial import UninitializedBuffer
from lite.specs.arrays import Bounded, Unbounded
from lite.specs.base import TensorSpec
from lite.specs.classes import Categorical, OneHot
from lite.specs.composite import Composite
from lite.specs.multi_categorical import MultiCategorical, MultiOneHot


class ActionScaling(Transform):
    """Lets actions be from -1 to 1, which become those of the environment: `action * scale + loc`.

    Without `loc` and `scale` these are the middle and half the width of the environment's bounds. Called on a
    TensorDict, it goes the other way: `(action - loc) / scale`.

    Args:
        in_keys_inv: the action that the environment reads; "action" if None, one at most.
        out_keys_inv: the action that is given in its place.
        in_keys: the action to scale when called; `in_keys_inv` if None.
        out_keys: where it goes.
        loc: offset.
        scale: factor; both are given or none.
        standard_normal: if False, actions are from 0 to 1.

    The state dict has `loc` and `scale`.

    Raises:
        ValueError: several `in_keys_inv`, only one of `loc` and `scale`, a scale of zero, or an action of
            another size.
        RuntimeError: the bounds of the environment's actions are not finite; there are none.

    Source:
        torchrl.envs.ActionScaling.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import ActionScaling
        >>> scaling = ActionScaling(loc=1.0, scale=2.0)
        >>> scaling.inv(TensorDict(action=np.array([-1.0, 1.0])))["action"].tolist()
        [-1.0, 3.0]
    """

    invertible = True
    _alike = 0  # the first dimensions of loc and scale along which they are the same

    def __init__(
        self,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
        in_keys: Keys = None,
        out_keys: Keys = None,
        *,
        loc: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        standard_normal: bool = True,
    ) -> None:
        in_keys_inv = ["action"] if in_keys_inv is None else in_keys_inv
        super().__init__(in_keys_inv=in_keys_inv)
        if len(self.in_keys_inv) > 1:
            raise ValueError(f"in_keys_inv must be one action, got {in_keys_inv}: use several transforms.")
        if (loc is None) != (scale is None):
            raise ValueError("give loc and scale, or none of them.")
        if not self.in_keys_inv and loc is None:
            raise ValueError("loc and scale must be given where in_keys_inv is empty.")
        self.out_keys_inv = self.in_keys_inv if out_keys_inv is None else out_keys_inv
        self.in_keys = (self.in_keys_inv or ["action"]) if in_keys is None else in_keys
        self.out_keys = self.in_keys if out_keys is None else out_keys
        self.standard_normal = bool(standard_normal)
        self._explicit = loc is not None
        for name, given in (("loc", loc), ("scale", scale)):
            buffer = UninitializedBuffer() if given is None else as_buffer(given, floating=True)
            self.register_buffer(name, buffer)
        if self._explicit and (self.scale == 0).any():
            raise ValueError("scale must not be zero.")

    @classmethod
    def from_stats(
        cls,
        *,
        mean: ArrayLike | None = None,
        std: ArrayLike | None = None,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        eps: float = 1e-6,
        **kwargs: Any,
    ) -> Self:
        """One of a mean and a standard deviation, or of bounds; a scale is at least `eps`.

        Raises:
            ValueError: neither pair is given, or both; shapes differ.
        """
        if (mean is None) != (std is None) or (low is None) != (high is None):
            raise ValueError("mean and std are given together, as are low and high.")
        if (mean is None) == (low is None):
            raise ValueError("give mean and std, or low and high.")
        if mean is None:
            low, high = (np.asarray(bound, get_default_dtype()) for bound in (low, high))
            mean, std = (low + high) / 2, (high - low) / 2
        loc, scale = (np.asarray(part, get_default_dtype()) for part in (mean, std))
        if loc.shape != scale.shape:
            raise ValueError(f"shapes must be the same, got {loc.shape} and {scale.shape}.")
        return cls(loc=loc, scale=np.maximum(scale, scale.dtype.type(eps)), **kwargs)

    @property
    def initialized(self) -> bool:
        """Whether there are `loc` and `scale`."""
        return not isinstance(self.loc, UninitializedBuffer)

    def normalize(self, action: Any) -> Any:
        """The action that is given in place of one of the environment."""
        action, loc, scale = self._numbers(action)
        scaled = (action - loc) / scale
        return scaled if self.standard_normal else (scaled + 1) / 2

    def denormalize(self, action: Any) -> Any:
        """The action of the environment."""
        action, loc, scale = self._numbers(action)
        if not self.standard_normal:
            action = action * 2 - 1
        return action * scale + loc

    def _apply_transform(self, obs: Any) -> Any:
        return self.normalize(obs)

    def _inv_apply_transform(self, state: Any) -> Any:
        return self.denormalize(state)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict

    def _numbers(self, action: Any) -> tuple[Any, ...]:
        if not self.initialized:
            parent = self.parent
            if parent is None:
                raise RuntimeError("loc and scale are not set: give them, or put this into an environment.")
            self._set_from(parent.full_action_spec[self.in_keys_inv[0]])
        loc, scale = self.loc, self.scale
        if loc.ndim > 1 and action.shape[action.ndim - loc.ndim :] != loc.shape:
            # Of a batch of environments, and those of another batch are scaled alike.
            loc, scale = (part[(0,) * self._alike] for part in (loc, scale))
        if loc.size > 1 and (action.ndim == 0 or action.shape[-1] != loc.shape[-1]):
            raise ValueError(
                f"the action must end with {loc.shape[-1]}, the size of loc, got {action.shape}."
            )
        return in_common_dtype(action, loc, scale)

    def _set_from(self, spec: TensorSpec) -> None:
        if not isinstance(spec, Bounded) or not _finite(spec) or not (spec.low < spec.high).all():
            raise RuntimeError(f"ActionScaling needs actions with finite bounds that differ, got {spec}.")
        low, high = spec.low, spec.high
        while low.ndim > 1 and (low == low[:1]).all() and (high == high[:1]).all():
            low, high = low[0], high[0]
        self._alike = spec.ndim - low.ndim
        self._set_buffer("loc", as_buffer(spec.high / 2 + spec.low / 2, floating=True))
        self._set_buffer("scale", as_buffer(spec.high / 2 - spec.low / 2, floating=True))

    @apply_to_composite_inv
    def transform_action_spec(self, action_spec: TensorSpec) -> TensorSpec:
        if not self._explicit:
            if not self.initialized:
                self._set_from(action_spec)
            low = -1.0 if self.standard_normal else 0.0
            return Bounded(low, 1.0, action_spec.shape, dtype=action_spec.dtype)
        if not isinstance(action_spec, Bounded | Unbounded):
            raise RuntimeError(f"ActionScaling needs continuous actions, got {action_spec}.")
        if not isinstance(action_spec, Bounded) or not _finite(action_spec):
            return Unbounded(action_spec.shape, dtype=action_spec.dtype)
        return mapped(action_spec, self.normalize)

    def __repr__(self) -> str:
        loc, scale = (self.loc, self.scale) if self.initialized else ("<uninitialized>",) * 2
        numbers = f"loc={loc}, scale={scale}, standard_normal={self.standard_normal}"
        return f"ActionScaling({numbers}, in_keys_inv={self.in_keys_inv})"


class ActionMask(EnvironmentTransform):
    """Lets random actions be those that are allowed: an entry is the mask of the spec of actions.

    Args:
        action_key: the action, of a `Categorical`, `OneHot` or such a spec.
        mask_key: the entry, booleans (..., n).

    Raises:
        ValueError: a key is invalid; another spec.
        RuntimeError: it is in no environment.

    Source:
        torchrl.envs.ActionMask.
    """

    _needs_environment = RuntimeError, "whose spec of actions it masks"

    def __init__(self, action_key: NestedKey = "action", mask_key: NestedKey = "action_mask") -> None:
        for name, key in (("action_key", action_key), ("mask_key", mask_key)):
            if not isinstance(key, str | tuple):
                raise ValueError(f"{name} must be a key, got {key!r}.")
        super().__init__([action_key, mask_key], [])

    @property
    def action_spec(self) -> Any:
        """The spec whose mask is set."""
        spec = self.container.full_action_spec[self.in_keys[0]]
        if not isinstance(spec, Categorical | OneHot):
            raise ValueError(f"ActionMask needs classes as actions, got {spec}.")
        return spec

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self.container is None:
            return self.forward(next_tensordict)
        spec, allowed = self.action_spec, np.asarray(self._read(next_tensordict, self.in_keys[1]), np.bool_)
        ended = self.parent.done_states.ended(next_tensordict)
        if ended is not None:  # where an episode ended nothing may be allowed, as no action follows
            ended = ended.reshape((*ended.shape, *(1,) * (allowed.ndim - ended.ndim)))
            allowed = allowed | (ended & ~allowed.any(-1, keepdims=True))
        spec.update_mask(allowed)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        starts = tensordict.get("_reset", None)
        if self.container is None or starts is None or starts.all():
            return self._call(tensordict_reset)
        spec = self.action_spec  # those that go on keep their masks: what a reset gives for them is void
        starts, allowed = starts.reshape(tensordict.batch_size), tensordict_reset.get(self.in_keys[1])
        spec.update_mask(where_reset(starts, allowed, spec.mask))
        return tensordict_reset


class DiscreteActionProjection(Transform):
    """Lets actions have more classes than the environment: those beyond are drawn among its own.

    Args:
        num_actions_effective: classes of the environment.
        max_actions: classes that are given.
        action_key: the action, one-hot vectors.
        include_forward: when called on a TensorDict, give actions of the environment `max_actions` classes.
        generator: a seed or a `numpy.random.Generator`, for the draws.

    Raises:
        RuntimeError: `max_actions` is less; an action of another size.

    Source:
        torchrl.envs.DiscreteActionProjection.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import DiscreteActionProjection
        >>> projection = DiscreteActionProjection(2, 3)
        >>> projection.inv(TensorDict(action=np.array([0, 1, 0])))["action"]
        array([0, 1])
    """

    _shown = ("num_actions_effective", "max_actions", "in_keys_inv")

    def __init__(
        self,
        num_actions_effective: int,
        max_actions: int,
        action_key: NestedKey = "action",
        include_forward: bool = True,
        *,
        generator: np.random.Generator | int | None = None,
    ) -> None:
        keys = [action_key]
        super().__init__(keys if include_forward else [], keys if include_forward else [], keys, keys)
        if max_actions < num_actions_effective:
            raise RuntimeError(
                f"max_actions must be at least {num_actions_effective}, the other number, got {max_actions}."
            )
        self.num_actions_effective, self.max_actions = num_actions_effective, max_actions
        self.generator = np.random.default_rng(generator)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict

    def _apply_transform(self, obs: Any) -> Any:
        return _vectors(obs.argmax(-1), self.max_actions)

    def _inv_apply_transform(self, state: Any) -> Any:
        if state.shape[-1] != self.max_actions:
            raise RuntimeError(f"actions must end with max_actions={self.max_actions}, got {state.shape}.")
        classes = np.asarray(state.argmax(-1))
        drawn = self.generator.integers(0, self.num_actions_effective, classes.shape)
        return _vectors(
            np.where(classes < self.num_actions_effective, classes, drawn), self.num_actions_effective
        )

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        action_spec, key = action_spec.clone(), self.in_keys_inv[0]
        shape = (*action_spec[key].shape[:-1], self.max_actions)
        action_spec[key] = OneHot(self.max_actions, shape, dtype=action_spec[key].dtype)
        return action_spec


class ActionDiscretizer(Transform):
    """Lets actions be classes: each dimension of the environment's, from its low to its high, in equal parts.

    Args:
        num_intervals: parts of each dimension, a number or one for each.
        action_key: the action that the environment reads.
        out_action_key: the action that is given in its place; `action_key` if None.
        sampling: which value of a part becomes the action: a `SamplingStrategy`, the middle by default.
        categorical: if False, actions are one-hot vectors, one for each dimension, joined.
        generator: a seed or a `numpy.random.Generator`, for `SamplingStrategy.RANDOM`.

    Raises:
        TypeError: the environment's actions have no bounds.
        RuntimeError: it is in no environment.

    Source:
        torchrl.envs.ActionDiscretizer.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import ActionDiscretizer, GymEnv, TransformedEnv
        >>> env = TransformedEnv(GymEnv("Pendulum-v1"), ActionDiscretizer(4))
        >>> env.action_spec.nvec.tolist()
        [4]
        >>> env.transform.inv(TensorDict(action=np.array([3])))["action"].tolist()
        [1.5]
    """

    class SamplingStrategy(IntEnum):
        """The value of a part: its middle, its ends, or drawn uniformly."""

        MEDIAN = 0
        LOW = 1
        HIGH = 2
        RANDOM = 3

    def __init__(
        self,
        num_intervals: ArrayLike,
        action_key: NestedKey = "action",
        out_action_key: NestedKey | None = None,
        sampling: SamplingStrategy | None = None,
        categorical: bool = True,
        *,
        generator: np.random.Generator | int | None = None,
    ) -> None:
        out_action_key = action_key if out_action_key is None else out_action_key
        super().__init__(in_keys_inv=[action_key], out_keys_inv=[out_action_key])
        self.action_key, self.out_action_key = action_key, out_action_key
        self.num_intervals = num_intervals
        self.sampling = self.SamplingStrategy.MEDIAN if sampling is None else sampling
        self.categorical = categorical
        self.generator = np.random.default_rng(generator)
        self._found: tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None = None

    def _grid(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The low end and the width of parts, and their numbers, by the dimensions of an action."""
        if self._found is None:
            parent = self.parent
            if parent is None:
                raise RuntimeError("ActionDiscretizer needs an environment, whose actions have bounds.")
            spec = parent.full_action_spec[self.in_keys_inv[0]]
            if not isinstance(spec, Bounded):
                raise TypeError(f"ActionDiscretizer needs actions with bounds, got {spec}.")
            row = (0,) * parent.ndim  # bounds are the same in the batch
            low, high = spec.low[row], spec.high[row]
            counts = np.broadcast_to(np.asarray(self.num_intervals, np.int64).squeeze(), low.shape)
            self._found = low, (high - low) / counts.astype(low.dtype), counts
        return self._found

    def _inv_apply_transform(self, state: Any) -> Any:
        low, width, counts = self._grid()
        classes = state if self.categorical else self._classes(state, counts)
        strategy = self.SamplingStrategy
        place: Any = {strategy.MEDIAN: 0.5, strategy.LOW: 0.0, strategy.HIGH: 1.0}.get(self.sampling)
        if place is None:
            if is_symbolic(state):
                raise NotImplementedError("sampling must not be RANDOM: a graph draws nothing.")
            place = self.generator.random(width.shape)
        within = classes.astype(low.dtype) + np.asarray(place).astype(low.dtype)
        return (low + within * width).astype(low.dtype)

    def _classes(self, vectors: Any, counts: NDArray[Any]) -> Any:
        if not counts.ndim:
            return vectors.argmax(-1)
        ends = np.cumsum(counts)[:-1]
        return np.stack([part.argmax(-1) for part in np.split(vectors, ends, -1)], -1)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        input_spec = input_spec.clone()
        self._found = None
        low, _, counts = self._grid()
        batch = self.parent.batch_size
        made: Any
        if low.ndim:
            made = MultiCategorical(counts, low.shape) if self.categorical else MultiOneHot(counts.tolist())
        else:
            made = Categorical(int(counts)) if self.categorical else OneHot(int(counts))
        actions, states = input_spec["full_action_spec"], input_spec["full_state_spec"]
        source, target = self.in_keys_inv[0], self.out_keys_inv[0]
        if source != target:
            states[source] = actions[source]
            del actions[source]
        actions[target] = made.expand(*batch, *made.shape)
        return input_spec

    def inv(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Actions of the environment; written into the TensorDict itself where they have another key."""
        same = self.out_keys_inv == self.in_keys_inv
        return self._inv_call(tensordict.copy() if same else tensordict)

    def __repr__(self) -> str:
        names = ("num_intervals", "action_key", "out_action_key", "sampling", "categorical")
        lines = ",\n    ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"ActionDiscretizer(\n    {lines})"


belong_to("lite.envs", ActionScaling, ActionMask, DiscreteActionProjection, ActionDiscretizer)


def _vectors(classes: Any, count: int) -> Any:
    return (np.asarray(classes)[..., None] == np.arange(count)).astype(np.int64)


def _finite(spec: Bounded) -> bool:
    """Whether bounds are numbers, and not the largest ones, which stand for none."""
    low, high = spec.low, spec.high
    if low.dtype.kind != "f":
        return True
    limits = np.finfo(low.dtype)
    return bool(((low > limits.min) & (high < limits.max)).all())
