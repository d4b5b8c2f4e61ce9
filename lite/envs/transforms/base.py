"""`Transform`: what is done to entries, in an environment, on the way through a buffer, or alone."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, get_default_dtype, unravel_key
from lite._arrays.public import belong_to
from lite._arrays.types import is_symbolic
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.specs.arrays import Unbounded
from lite.specs.base import Stacked, TensorSpec
from lite.specs.composite import Composite

Keys = Sequence[NestedKey] | NestedKey | None


class Transform(TensorDictModuleBase):
    """A change of the entries of a TensorDict; base class of all transforms.

    The same object is a module, a transform of a `TransformedEnv` and one of a replay buffer:

    - called on a TensorDict, and on the way out of a buffer, it runs `forward`;
    - in an environment it runs `_step` on what follows a step, `_reset` on what an episode starts with, and
      `_inv_call` on the actions that go in;
    - on the way into a buffer it runs `inv`.

    A subclass overrides `_apply_transform(value)`, which maps an entry of `in_keys` to that of `out_keys` at
    the same place, and `_inv_apply_transform(value)`, which maps an entry of `out_keys_inv` to one of
    `in_keys_inv`; or `_call`, `_step`, `_reset`, `_inv_call` and `forward`, which are made of these. Where
    shapes, dtypes or bounds change, it overrides `transform_observation_spec` and its like, too.

    Args:
        in_keys: entries to read; one key or a list.
        out_keys: entries to write.
        in_keys_inv: entries that the environment reads.
        out_keys_inv: entries that are given in their place.

    Attributes:
        parent: the environment with the transforms before this one; None outside of an environment.
        container: the `TransformedEnv` that it is in; None outside of one.

    Source:
        torchrl.envs.Transform.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import Transform
        >>> class Double(Transform):
        ...     def _apply_transform(self, value):
        ...         return 2 * value
        >>> Double(["x"], ["y"])(TensorDict(x=np.arange(3)))["y"]
        array([0, 2, 4])
    """

    invertible: ClassVar[bool] = False
    enable_inv_on_reset: ClassVar[bool] = False
    # Whether what an episode starts with is transformed, too, as far as it has the entries.
    _transforms_reset: ClassVar[bool] = False
    # Whether it may read any entry: the graph of a file has all of the example that something reads.
    reads_all: ClassVar[bool] = False
    # The attributes that `repr` shows; "keys" stands for `in_keys`.
    _shown: ClassVar[tuple[str, ...]] = ("keys",)
    # What `forward` of an `EnvironmentTransform` raises, and why. Graphs leave it out.
    _needs_environment: ClassVar[tuple[type[Exception], str] | None] = None

    def __init__(
        self, in_keys: Keys = None, out_keys: Keys = None, in_keys_inv: Keys = None, out_keys_inv: Keys = None
    ) -> None:
        super().__init__()
        names = ("in_keys", "out_keys", "in_keys_inv", "out_keys_inv")
        for name, keys in zip(names, (in_keys, out_keys, in_keys_inv, out_keys_inv), strict=True):
            self.__dict__.setdefault(f"_{name}")  # those that are given before stay
            if keys is not None:
                setattr(self, name, keys)
        self._missing_tolerance = False
        self._container: Callable[[], Any] | None = None
        self.__dict__["_parent"] = None  # an environment is a module, which would become a child

    # -- keys -----------------------------------------------------------------------------------

    @property
    def in_keys(self) -> list[NestedKey]:
        """Entries that are read."""
        self.__dict__["_listed"] = None  # the caller may change the list
        keys: list[NestedKey] | None = self.__dict__.get("_in_keys")
        return self._default_in_keys() if keys is None else keys

    @in_keys.setter
    def in_keys(self, keys: Keys) -> None:
        self.__dict__["_in_keys"] = key_list(keys)
        self.empty_cache()

    def _default_in_keys(self) -> list[NestedKey]:
        return []

    @property
    def out_keys(self) -> list[NestedKey]:
        """Entries that are written; assigning drops a selection."""
        self.__dict__["_listed"] = None
        keys = self.__dict__.get("_out_keys_apparent") or self.__dict__.get("_out_keys")
        return self._default_out_keys() if keys is None else keys

    @out_keys.setter
    def out_keys(self, keys: Keys) -> None:
        self.__dict__["_out_keys"] = key_list(keys)
        self.__dict__.pop("_out_keys_apparent", None)
        self.empty_cache()

    def _default_out_keys(self) -> list[NestedKey]:
        return []

    @property
    def in_keys_inv(self) -> list[NestedKey]:
        """Entries that the environment reads."""
        return self.__dict__.get("_in_keys_inv") or []

    @in_keys_inv.setter
    def in_keys_inv(self, keys: Keys) -> None:
        self.__dict__["_in_keys_inv"] = key_list(keys)

    @property
    def out_keys_inv(self) -> list[NestedKey]:
        """Entries that are given in place of `in_keys_inv`."""
        return self.__dict__.get("_out_keys_inv") or []

    @out_keys_inv.setter
    def out_keys_inv(self, keys: Keys) -> None:
        self.__dict__["_out_keys_inv"] = key_list(keys)

    @property
    def missing_tolerance(self) -> bool:
        """Whether entries of `in_keys` may be missing; they are passed over then."""
        return self._missing_tolerance

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Set `missing_tolerance`."""
        self.__dict__["_missing_tolerance"] = mode

    # -- calls ----------------------------------------------------------------------------------

    def _apply_transform(self, obs: Any, /) -> Any:
        """The entry of `out_keys` for one of `in_keys`."""
        raise NotImplementedError(
            f"{type(self).__name__} must define _apply_transform, or _call for environments and forward for "
            "modules and replay buffers."
        )

    def _inv_apply_transform(self, state: Any) -> Any:
        """The entry of `in_keys_inv` for one of `out_keys_inv`."""
        if self.invertible:
            raise NotImplementedError(f"{type(self).__name__} must define _inv_apply_transform.")
        return state

    def _call(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Transform the entries of a TensorDict, such as what a step of an environment led to, in place.

        Raises:
            KeyError: an entry is missing, and `missing_tolerance` is not set.
        """
        state = self.__dict__
        sources, targets = state["_in_keys"] or self.in_keys, state["_out_keys"] or self.out_keys
        return converted(self, tensordict, self._apply_transform, sources, targets)

    forward = dispatch(source="in_keys", dest="out_keys")(_call)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Transform what goes into an environment."""
        targets = self.in_keys_inv
        if not targets:
            return tensordict
        return converted(self, tensordict, self._inv_apply_transform, self.out_keys_inv, targets)

    @dispatch(source="out_keys_inv", dest="in_keys_inv")
    def inv(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Transform what goes into an environment or a buffer; the TensorDict itself stays as it is."""
        return self._inv_call(tensordict.copy())

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Transform what a step led to, given what it started from."""
        return self._call(next_tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        """Transform what an episode starts with.

        Args:
            tensordict: what `reset` was called with; its entry "_reset" says where episodes start.
            tensordict_reset: what the environment gave.
        """
        if not self._transforms_reset:
            return tensordict_reset
        with tolerant(self):
            return self._call(tensordict_reset)

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        """Transform what `reset` was called with, before the environment sees it."""
        if self.enable_inv_on_reset and tensordict is not None:
            with tolerant(self):
                return self._inv_call(tensordict)
        return tensordict

    def init(self, tensordict: TensorDictBase) -> None:
        """Run on the first TensorDict; nothing, unless a subclass says otherwise."""

    def close(self) -> None:
        """Free what the transform holds; nothing, unless a subclass says otherwise."""

    def dump(self, **kwargs: Any) -> None:
        """Write what the transform gathered; nothing, unless a subclass says otherwise."""

    def graph_states(self, batch: tuple[int, ...]) -> dict[NestedKey, Any]:
        """Examples of what a graph takes and gives again for the next step, besides `in_keys`; none here.

        Args:
            batch: the batch size of the example that the graph is traced with.
        """
        return {}

    def _read(self, td: TensorDictBase, key: NestedKey) -> Any:
        """An entry; KeyError where it is missing."""
        value = td.get(key, None)
        if value is None:
            there = sorted(td.keys(True, True), key=str)
            raise KeyError(f"{type(self).__name__} reads {key!r}, which is missing; there are {there}.")
        return value

    # -- specs ----------------------------------------------------------------------------------

    def transform_env_batch_size(self, batch_size: tuple[int, ...]) -> tuple[int, ...]:
        """The batch size of the environment with this transform."""
        return batch_size

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs of what the environment gives, by "full_observation_spec" and its like.

        Raises:
            KeyError: there is no spec of an entry that the transform adds.
        """
        output_spec = output_spec.clone()
        for name in ("observation", "reward", "done"):
            key = f"full_{name}_spec"
            if key in output_spec or name == "observation":
                output_spec[key] = getattr(self, f"transform_{name}_spec")(output_spec[key])
        known = {unravel_key(key[1:]) for key in output_spec.keys(True) if isinstance(key, tuple)}
        unknown = {*self.out_keys} - {*self.in_keys} - known
        if unknown:
            raise KeyError(
                f"{type(self).__name__} writes {sorted(unknown, key=str)}, of which there is no spec: its "
                "transform_observation_spec, or transform_output_spec, must add one."
            )
        return output_spec

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """The specs of what the environment takes: "full_state_spec" and "full_action_spec"."""
        input_spec = input_spec.clone()
        for name in ("state", "action"):
            key = f"full_{name}_spec"
            input_spec[key] = getattr(self, f"transform_{name}_spec")(input_spec[key])
        return input_spec

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The specs of observations."""
        return observation_spec

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """The specs of rewards."""
        return reward_spec

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """The specs of done entries."""
        return done_spec

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """The specs of actions."""
        return action_spec

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """The specs of what else the environment takes."""
        return state_spec

    # -- where it is ----------------------------------------------------------------------------

    def set_container(self, container: Any) -> None:
        """Put the transform into a `Compose` or an environment; None takes it out.

        Raises:
            AttributeError: it is in an environment already.
        """
        if self.container is not None:
            raise AttributeError(
                f"{type(self).__name__} is in an environment already: give a `clone()` of it."
            )
        self._container = None if container is None else weakref.ref(container)
        self.__dict__["_parent"] = None

    def reset_parent(self) -> None:
        """Remove the transform from its parent."""
        self._container = self.__dict__["_parent"] = None

    def empty_cache(self) -> None:
        """Forget the parent, which is rebuilt when it is asked for."""
        self.__dict__["_parent"] = self.__dict__["_listed"] = None

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["_listed"] = None  # what each call reads of the attributes, listed once
        super().__setattr__(name, value)

    @property
    def container(self) -> Any:
        """The environment that it is in, maybe within a `Compose`; None outside of one."""
        holder: Any = self
        while isinstance(holder, Transform):
            reference = holder.__dict__.get("_container")
            holder = None if reference is None else reference()
        return holder

    @property
    def parent(self) -> Any:
        """The environment with the transforms before this one; None outside of an environment."""
        state = self.__dict__
        if state["_parent"] is None and state["_container"] is not None:
            holder = state["_container"]()
            state["_parent"] = None if holder is None else holder._environment_before(self)
        return state["_parent"]

    def clone(self) -> Self:
        """A transform that shares the arrays of this one, and is in no environment."""
        return copy.copy(self)

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles are in no environment: what holds them takes them in.
        state = {**self.__dict__, "_container": None, "_parent": None, "_listed": None}
        for registry in ("_parameters", "_buffers", "_modules"):
            state[registry] = dict(state[registry])
        return state

    def __repr__(self) -> str:
        values = {name: self.in_keys if name == "keys" else getattr(self, name) for name in self._shown}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in values.items())})"


class EnvironmentTransform(Transform):
    """Base of transforms that do nothing without an environment, and say so where they are called."""

    @dispatch(source="in_keys", dest="out_keys")
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Refuse the call; see the class."""
        if is_graph(tensordict):
            return tensordict
        assert self._needs_environment is not None
        error, reason = self._needs_environment
        raise error(f"{type(self).__name__} needs an environment, {reason}.")


class ObservationTransform(Transform):
    """A transform of observations: `in_keys` are "observation" and "pixels", unless given.

    Source:
        torchrl.envs.ObservationTransform.
    """

    def __init__(
        self, in_keys: Keys = None, out_keys: Keys = None, in_keys_inv: Keys = None, out_keys_inv: Keys = None
    ) -> None:
        in_keys = ["observation", "pixels"] if in_keys is None else in_keys
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)


class TwoWayTransform(Transform):
    """A transform that goes both ways, and writes where it reads unless it is told otherwise."""

    _transforms_reset = True

    def __init__(
        self, in_keys: Keys = None, out_keys: Keys = None, in_keys_inv: Keys = None, out_keys_inv: Keys = None
    ) -> None:
        there, back = in_keys or [], in_keys_inv or []
        out_keys = there if out_keys is None else out_keys
        super().__init__(there, out_keys, back, back if out_keys_inv is None else out_keys_inv)


belong_to("lite.envs", Transform, ObservationTransform)


def key_list(keys: Keys) -> list[NestedKey] | None:
    """One key or several as a list."""
    if keys is None:
        return None
    several = isinstance(keys, Iterable) and not isinstance(keys, str | tuple)
    return [unravel_key(key) for key in (keys if several else [keys])]


def converted(
    transform: Transform,
    tensordict: TensorDictBase,
    function: Callable[[Any], Any],
    sources: list[NestedKey],
    targets: list[NestedKey],
) -> TensorDictBase:
    """The TensorDict with the entries to write, made of those to read."""
    if len(sources) != len(targets):
        raise ValueError(
            f"{type(transform).__name__} needs as many out_keys as in_keys, got {targets} for {sources}."
        )
    # Read directly, and the place counted by hand: a call and a strict zip take a fifth of a small transform.
    dense = type(tensordict) is TensorDict
    entries: Any = tensordict._data if dense else {}
    place = 0
    for source in sources:
        value = entries.get(source)
        if value is None:
            value = tensordict.get(source, None)
        if value is not None:
            target = targets[place]
            if dense and type(target) is str:
                tensordict._set_here(target, function(value), False)
            else:
                tensordict.set(target, function(value))
        elif not transform._missing_tolerance and not is_graph(tensordict):
            transform._read(tensordict, source)  # which raises
        place += 1  # noqa: SIM113 - enumerate takes a twentieth of it
    return tensordict


def as_buffer(value: Any, floating: bool = False) -> Any:
    """An array as it is; numbers of Python in the dtype that torch gives them, floats if `floating`."""
    array = np.asarray(value)
    keeps = isinstance(value, np.ndarray) or array.dtype.kind != "f"
    keeps = keeps and (array.dtype.kind == "f" or not floating)
    return array if keeps else array.astype(get_default_dtype())


def unbounded_rewards(transform: Transform, spec: TensorSpec) -> Unbounded:
    """The spec of rewards, which must be `Unbounded`."""
    if not isinstance(spec, Unbounded):
        name = type(transform).__name__
        raise NotImplementedError(f"{name} needs an Unbounded spec of rewards, got {type(spec).__name__}.")
    return spec


@functools.lru_cache(256)
def numbers(dtype: Any, *values: Any) -> list[Any]:
    """Arrays () of numbers, which NumPy computes with in half the time of the numbers themselves."""
    return [np.asarray(value).astype(dtype) for value in values]


def is_graph(tensordict: TensorDictBase) -> bool:
    """Whether a graph is traced, which acts: there are no rewards, and no steps to count."""
    return any(is_symbolic(value) for value in tensordict.values(True, True))


@contextmanager
def tolerant(transform: Transform) -> Iterator[None]:
    """Entries of `in_keys` may be missing."""
    before = transform.missing_tolerance
    transform.set_missing_tolerance(True)
    try:
        yield
    finally:
        transform.set_missing_tolerance(before)


def of_one_shape(transform: Transform, key: NestedKey, spec: TensorSpec) -> TensorSpec:
    """The spec of an entry, which must not be one of stacked environments whose shapes differ."""
    if isinstance(spec, Stacked) and -1 in spec.shape:
        raise NotImplementedError(
            f"{type(transform).__name__} takes {key!r} in one shape, and environments have {spec.shape}: put "
            "one into each of them."
        )
    return spec


def apply_to_composite(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a method that maps one spec map those of `in_keys` in a Composite to `out_keys`."""

    @functools.wraps(function)
    def method(self: Transform, spec: TensorSpec) -> Any:
        if not isinstance(spec, Composite):
            return function(self, spec)
        spec = spec.clone()
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            found = spec.get(source, None)
            if found is not None:
                spec[target] = function(self, of_one_shape(self, source, found).clone())
        return spec

    return method


def apply_to_composite_inv(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Likewise for specs of inputs: those of `in_keys_inv` make place for those of `out_keys_inv`."""

    @functools.wraps(function)
    def method(self: Transform, spec: TensorSpec) -> Any:
        if not isinstance(spec, Composite):
            return function(self, spec)
        spec = spec.clone()
        parts = [spec[name] for name in ("full_action_spec", "full_state_spec") if name in spec] or [spec]
        for source, target in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            for part in parts:
                found = part.get(source, None)
                if found is not None:
                    part[target] = function(self, of_one_shape(self, source, found).clone())
                    if source != target:
                        del part[source]
                    break
        return spec

    return method


# TorchRL's names, which transforms that users wrote for it import.
_apply_to_composite = apply_to_composite
_apply_to_composite_inv = apply_to_composite_inv
