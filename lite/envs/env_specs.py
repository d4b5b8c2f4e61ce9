"""`EnvSpecs`: the specs of an environment's inputs and outputs, and the keys of each kind of entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from lite import NestedKey
from lite._tree.keys import to_path
from lite.nn._modules.module import Module
from lite.specs.base import Shape, TensorSpec, as_size
from lite.specs.classes import Categorical
from lite.specs.composite import Composite

_OUTPUTS = ("full_observation_spec", "full_reward_spec", "full_done_spec")
_INPUTS = ("full_action_spec", "full_state_spec")


def _unbatched(name: str) -> Any:
    """A property: the spec of this name without the batch; an assigned spec is expanded to the batch."""

    def read(env: Any) -> Any:
        spec = getattr(env, name)
        return spec[(0,) * env.ndim] if env.ndim else spec

    def write(env: Any, spec: TensorSpec) -> None:
        setattr(env, name, spec.expand(*env.batch_size, *spec.shape))

    return property(read, write, doc=f"`{name}` of one environment, without the batch.")


def _alias(name: str) -> Any:
    """A property: another name of one, which is assigned, too."""
    return property(
        lambda env: getattr(env, name),
        lambda env, value: setattr(env, name, value),
        doc=f"Alias of `{name}`.",
    )


def _keys_of(kind: str, plural: str) -> Any:
    """A property: the cached list of keys of a kind of entries."""
    return property(lambda env: env._keys_of(kind), doc=f"The keys of {plural}, those of the root first.")


def _key_of(kind: str) -> Any:
    """A property: the key of the one entry of a kind."""
    return property(
        lambda env: env._only(kind), doc=f"The key of the {kind} entry; KeyError if there are several."
    )


class EnvSpecs(Module):
    """The specs of an environment, as two composites: `input_spec` and `output_spec`.

    All other properties read one of the two, so a class may compute these two alone. Lists of keys are cached
    until a spec is assigned; after changing a spec in place call `empty_cache`.
    """

    _batch_locked = True

    def _init_specs(self, batch_size: Any) -> None:
        state = self.__dict__
        if batch_size is not None:
            state["_batch_size"] = as_size(batch_size)
        size = state.setdefault("_batch_size", ())
        state.setdefault("_cache", {})
        for name, parts in (("_output_spec", _OUTPUTS), ("_input_spec", _INPUTS)):
            spec = state.setdefault(name, Composite(shape=size))
            for part in parts:
                if part not in spec:
                    spec[part] = Composite(shape=size)

    # -- the batch ------------------------------------------------------------------------------

    @property
    def batch_size(self) -> Shape:
        """The shape of the environments that step at once; () for one. All specs begin with it."""
        return self.__dict__.get("_batch_size", ())

    @batch_size.setter
    def batch_size(self, value: Any) -> None:
        self.__dict__["_batch_size"] = as_size(value)
        for name in ("_output_spec", "_input_spec"):
            self.__dict__.pop(name, None)
        self._init_specs(None)
        self.empty_cache()

    @property
    def shape(self) -> Shape:
        """Alias of `batch_size`."""
        return self.batch_size

    @property
    def batch_dims(self) -> int:
        """The number of dimensions of `batch_size`."""
        return len(self.batch_size)

    @property
    def ndim(self) -> int:
        """Alias of `batch_dims`."""
        return len(self.batch_size)

    def numel(self) -> int:
        """The number of environments."""
        return int(np.prod(self.batch_size, dtype=np.int64))

    @property
    def batch_locked(self) -> bool:
        """Whether the environment takes TensorDicts of its own batch size only."""
        return self._batch_locked

    # -- the two composites ---------------------------------------------------------------------

    @property
    def output_spec(self) -> Composite:
        """The specs of a step's results: `full_observation_spec`, `full_reward_spec`, `full_done_spec`."""
        return self._held("_output_spec")

    @property
    def input_spec(self) -> Composite:
        """The specs of a step's inputs: `full_action_spec` and `full_state_spec`."""
        return self._held("_input_spec")

    @property
    def specs(self) -> Composite:
        """Both: `output_spec` and `input_spec`."""
        return Composite(output_spec=self.output_spec, input_spec=self.input_spec, shape=self.batch_size)

    def empty_cache(self) -> None:
        """Clear the cached lists of keys."""
        self.__dict__.setdefault("_cache", {}).clear()

    def set_spec_lock_(self, mode: bool = True) -> Self:
        """Read changed specs again; returns self. Specs are never locked, whatever `mode` is."""
        self.empty_cache()
        return self

    # -- observations ---------------------------------------------------------------------------

    @property
    def observation_spec(self) -> Composite:
        """The specs of observations by key; a spec that is assigned is that of "observation"."""
        return self.output_spec["full_observation_spec"]

    @observation_spec.setter
    def observation_spec(self, value: TensorSpec) -> None:
        self._assign("_output_spec", "full_observation_spec", "observation", value)

    full_observation_spec: Composite = _alias("observation_spec")
    observation_keys: list[NestedKey] = _keys_of("observation", "observations")

    # -- actions and states ---------------------------------------------------------------------

    @property
    def action_spec(self) -> Any:
        """The spec of "action" if that is the only action, else the `Composite` of all."""
        return _alone(self.full_action_spec, "action")

    @action_spec.setter
    def action_spec(self, value: TensorSpec) -> None:
        self._assign("_input_spec", "full_action_spec", "action", value)

    @property
    def full_action_spec(self) -> Composite:
        """The specs of actions by key."""
        return self.input_spec["full_action_spec"]

    @full_action_spec.setter
    def full_action_spec(self, value: TensorSpec) -> None:
        self.action_spec = value

    action_keys: list[NestedKey] = _keys_of("action", "actions")
    action_key: NestedKey = _key_of("action")

    @property
    def state_spec(self) -> Composite:
        """The specs of a step's inputs other than actions, by key."""
        return self.input_spec["full_state_spec"]

    @state_spec.setter
    def state_spec(self, value: Composite | None) -> None:
        if value is not None and not isinstance(value, Composite):
            raise TypeError(f"state_spec must be a Composite, got {type(value).__name__}.")
        empty = Composite(shape=self.batch_size)
        self._assign("_input_spec", "full_state_spec", "state", empty if value is None else value)

    full_state_spec: Composite = _alias("state_spec")
    state_keys: list[NestedKey] = _keys_of("state", "states")

    # -- rewards --------------------------------------------------------------------------------

    @property
    def reward_spec(self) -> Any:
        """The spec of "reward" if that is the only reward, else the `Composite` of all."""
        return _alone(self.full_reward_spec, "reward")

    @reward_spec.setter
    def reward_spec(self, value: TensorSpec) -> None:
        self._assign("_output_spec", "full_reward_spec", "reward", _with_dimension("reward_spec", value))

    @property
    def full_reward_spec(self) -> Composite:
        """The specs of rewards by key."""
        return self.output_spec["full_reward_spec"]

    @full_reward_spec.setter
    def full_reward_spec(self, value: TensorSpec) -> None:
        self.reward_spec = value

    reward_keys: list[NestedKey] = _keys_of("reward", "rewards")
    reward_key: NestedKey = _key_of("reward")

    # -- done -----------------------------------------------------------------------------------

    @property
    def done_spec(self) -> Composite:
        """The specs of done entries by key.

        Where "done" or "terminated" is assigned alone, the other one is added; to an empty spec, both.
        """
        return self.output_spec["full_done_spec"]

    @done_spec.setter
    def done_spec(self, value: TensorSpec) -> None:
        value = _with_dimension("done_spec", value)
        if not isinstance(value, Composite):
            value = Composite(done=value, terminated=value.clone(), shape=self.batch_size)
        self._assign("_output_spec", "full_done_spec", "done", value)

    full_done_spec: Composite = _alias("done_spec")
    done_keys: list[NestedKey] = _keys_of("done", "done entries")
    done_key: NestedKey = _key_of("done")

    @property
    def done_keys_groups(self) -> list[list[NestedKey]]:
        """The done entries of each level, in the order of `reset_keys`."""
        return self._cached("done_keys_groups", self._group_done_keys)

    @property
    def reset_keys(self) -> list[NestedKey]:
        """The keys of the masks of partial resets, one at each level with done entries."""
        return self._cached(
            "reset_keys", lambda: [beside(group[0], "_reset") for group in self.done_keys_groups]
        )

    @property
    def _filtered_reset_keys(self) -> list[NestedKey]:
        """The masks that decide: those below the node of another follow that one."""

        def find() -> list[NestedKey]:
            found: dict[tuple[str, ...], NestedKey] = {}
            for key in self.reset_keys:  # those of the outer nodes come first
                node = key[:-1] if isinstance(key, tuple) else ()
                if not any(node[: len(outer)] == outer for outer in found):
                    found[node] = key
            return list(found.values())

        return self._cached("filtered_reset_keys", find)

    # -- of one environment ---------------------------------------------------------------------

    observation_spec_unbatched = _unbatched("observation_spec")
    full_observation_spec_unbatched = _unbatched("full_observation_spec")
    action_spec_unbatched = _unbatched("action_spec")
    full_action_spec_unbatched = _unbatched("full_action_spec")
    state_spec_unbatched = _unbatched("state_spec")
    full_state_spec_unbatched = _unbatched("full_state_spec")
    reward_spec_unbatched = _unbatched("reward_spec")
    full_reward_spec_unbatched = _unbatched("full_reward_spec")
    done_spec_unbatched = _unbatched("done_spec")
    full_done_spec_unbatched = _unbatched("full_done_spec")

    def add_truncated_keys(self) -> Self:
        """Add a "truncated" entry beside each done entry; returns self."""
        for key in self.done_keys:
            self.full_done_spec[beside(key, "truncated")] = self.full_done_spec[key].clone()
        self.empty_cache()
        return self

    # -- inside ---------------------------------------------------------------------------------

    def _held(self, name: str) -> Any:
        spec = self.__dict__.get(name)
        if spec is None:
            self._init_specs(None)
            spec = self.__dict__[name]
        if name == "_output_spec":
            done = spec["full_done_spec"]
            if done.is_empty():
                _complete(done)
        return spec

    def _assign(self, held: str, part: str, name: str, value: TensorSpec) -> None:
        if not isinstance(value, TensorSpec):
            raise TypeError(f"{name}_spec must be a spec, as Composite is, got {type(value).__name__}.")
        size = self.batch_size
        if value.shape[: len(size)] != size:
            raise ValueError(
                f"the shape of {name}_spec must begin with the batch size {size}, got {value.shape}."
            )
        if not isinstance(value, Composite):
            value = Composite({name: value}, shape=size)
        if part == "full_done_spec":
            _complete(value)
        self._init_specs(None)
        self.__dict__[held][part] = value
        self.empty_cache()

    def _cached(self, name: str, make: Callable[[], Any]) -> Any:
        cache = self.__dict__.get("_cache")
        if cache is None:
            cache = self.__dict__["_cache"] = {}
        found = cache.get(name)
        if found is None:
            found = cache[name] = make()
        return found

    def _keys_of(self, kind: str) -> list[NestedKey]:
        return self._cached(
            f"{kind}_keys", lambda: sorted(getattr(self, f"full_{kind}_spec").keys(True, True), key=_by_depth)
        )

    def _only(self, kind: str) -> NestedKey:
        keys = self._keys_of(kind)
        if len(keys) != 1:
            raise KeyError(f"{kind}_key needs exactly one {kind} entry, there are {keys}.")
        return keys[0]

    def _group_done_keys(self) -> list[list[NestedKey]]:
        groups: dict[tuple[str, ...], list[NestedKey]] = {}
        for key in self.done_keys:
            groups.setdefault(to_path(key)[:-1], []).append(key)
        return list(groups.values())


def _by_depth(key: NestedKey) -> tuple[int, str]:
    path = to_path(key)
    return len(path) - 1, ".".join(path)


def beside(key: NestedKey, name: str) -> NestedKey:
    """The key of an entry in the same node as another one."""
    root = to_path(key)[:-1]
    return (*root, name) if root else name


def _alone(spec: Composite, name: str) -> Any:
    return spec[name] if spec.keys(True, True) == [name] else spec


def _with_dimension(name: str, spec: Any) -> Any:
    leaves = spec.values(True, True) if isinstance(spec, Composite) else [spec]
    if any(isinstance(leaf, TensorSpec) and not leaf.shape for leaf in leaves):
        raise RuntimeError(f"{name} must have at least one dimension, such as (1,), got shape ().")
    return spec


def _complete(spec: Composite) -> None:
    """Add "done" or "terminated" at levels with only the other one, and both to an empty spec."""
    if spec.is_empty():
        for flag in ("done", "terminated"):
            spec[flag] = Categorical(2, (*spec.shape, 1), dtype=np.bool_)
        return
    for part in spec.values():
        if isinstance(part, Composite):
            _complete(part)
    for name, other in (("done", "terminated"), ("terminated", "done")):
        if name in spec and other not in spec:
            spec[other] = spec[name].clone()
    shapes = {part.shape for part in spec.values() if not isinstance(part, Composite)}
    if len(shapes) > 1:
        raise ValueError(f"the done entries of a level must have one shape, got {sorted(shapes)}.")
