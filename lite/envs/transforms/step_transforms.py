"""Transforms with a state of each episode: step counts, reward sums, initial flags, recurrent states.

More than 600 lines: one base, and the five that a collector steps without an environment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy import asarray, empty
from numpy.typing import NDArray

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite._arrays.types import Path
from lite._tree.keys import require_path, to_key
from lite.envs.env_specs import beside
from lite.envs.transforms.base import EnvironmentTransform, Keys, is_graph, key_list
from lite.envs.transforms.resets import ResetKey, reset_mask, where_reset
from lite.kernels._integer import integer
from lite.specs.arrays import ArraySpec, Bounded, Unbounded
from lite.specs.base import TensorSpec
from lite.specs.classes import Categorical
from lite.specs.composite import Composite

Entries = Mapping[Path, NDArray[Any]]
_ONE = np.ones((), np.int64)  # half the time of a Python number
_FLAGS: tuple[Path, ...] = (("terminated",), ("truncated",), ("done",))


class StepTransform(EnvironmentTransform, ABC):
    """Base of transforms such as `StepCounter`, which compute entries of a step from those of the step
    before.

    A subclass defines `initial`, the entries at the start of an episode, and `step`, the next ones. A
    `Collector` calls both on arrays that it keeps; in a `TransformedEnv`, `_reset` and `_step` call them.
    """

    _needs_environment = NotImplementedError, "which takes the steps"
    _is_state: ClassVar[bool] = True  # whether the next step reads the entries
    _changes_done: ClassVar[bool] = True  # whether `step` may write done entries
    _keeps_next: ClassVar[bool] = False  # whether entries that the policy wrote to "next" are kept
    _own_flags: ClassVar[list[Path]] = []  # done entries of its own
    _sources: ClassVar[list[Path]] = [("reward",)]  # entries of "next" that `step` reads, besides its own
    _at_root: ClassVar[bool] = False  # whether keys are those of the root where agents alone are done, too
    reset_key = ResetKey()

    @abstractmethod
    def initial(self, batch: tuple[int, ...]) -> dict[Path, NDArray[Any]]:
        """The entries at the start of an episode.

        Args:
            batch: (environments,), or () for one alone; all shapes start with it.
        """

    @abstractmethod
    def step(self, entries: Entries, following: Entries) -> None:
        """Write the values that follow `entries` into `following`, the entries of "next".

        Args:
            entries: the entries of the step, at first those of `initial`; read-only.
            following: the same keys, and ("reward",), ("terminated",), ("truncated",) and ("done",) of
                shape (*batch, 1), which may be changed: an environment that is done or truncated restarts.
        """

    # -- in an environment ----------------------------------------------------------------------

    @property
    def _nodes(self) -> list[Path]:
        """The nodes whose done entries decide: the root or, without any there, those of agents."""
        if self._at_root or self.parent is None:
            return [()]
        return [require_path(key)[:-1] for key in self.parent._filtered_reset_keys]

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for node in self._nodes:
            made = tensordict_reset.get(node) if node else tensordict_reset
            given = tensordict.get(node, made.empty()) if node else tensordict
            mask = reset_mask("_reset" if node else self.reset_key, given)
            for path, fresh in self.initial(mask.shape).items():
                key = to_key(path)
                made.set(key, where_reset(mask, fresh, given.get(key, None)))
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        nodes, sources, paths, ends = self.__dict__["_listed"] or self._list()
        for node in nodes:
            td, after = tensordict, next_tensordict
            if node:
                td, after = td.get(node), after.get(node)
            entries, following, written = {}, {}, paths
            for path, key in sources:
                following[path] = self._read(after, key)
            for path, key in paths:
                before = td.get(key, None) if self._is_state else None
                if before is None:
                    before = self.initial(tuple(td.batch_size))[path]
                entries[path] = before = asarray(before)
                # What is read, too, as by a sum in place, is a copy, as the environment may own the array.
                read = following.get(path)
                following[path] = empty(before.shape, before.dtype) if read is None else np.array(read)
            if ends:
                # Copies, as the environment may own the arrays.
                done = after.get("done")
                for path in _FLAGS:
                    flag = after.get(path[0], None)
                    following[path] = np.zeros_like(done) if flag is None else np.array(flag)
                written = [*paths, *((path, path[0]) for path in _FLAGS)]
            self.step(entries, following)
            for path, key in written:
                if not self._keeps_next or key not in after:
                    after.set(key, following[path])
        return next_tensordict

    def _list(self) -> tuple[Any, ...]:
        # Once, until an attribute is assigned: steps take a third less.
        sources, paths = ([(path, to_key(path)) for path in x] for x in (self._sources, self._paths()))
        self.__dict__["_listed"] = listed = self._nodes, sources, paths, self._changes_done
        return listed

    def _paths(self) -> list[Path]:
        """Entries that `step` writes: the keys of `initial`; overridden where making its arrays is slow."""
        return list(self.initial(()))

    # -- specs ----------------------------------------------------------------------------------

    def _specs(self, batch: tuple[int, ...]) -> dict[Path, TensorSpec]:
        """Specs of the entries."""
        return {path: Unbounded(a.shape, dtype=a.dtype) for path, a in self.initial(batch).items()}

    def _with_specs(self, spec: Composite) -> Composite:
        spec = spec.clone()
        for node in self._nodes:
            shape = self.parent.full_done_spec[node].shape if node else spec.shape
            for path, added in self._specs(shape).items():
                spec[to_key((*node, *path))] = added
        return spec

    transform_observation_spec: Any = _with_specs

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        return self._with_specs(state_spec) if self._is_state else state_spec

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        if not self._changes_done:
            return done_spec
        done_spec = done_spec.clone()
        for node in self._nodes:
            beside = done_spec[node] if node else done_spec
            for (name,) in (*_FLAGS, *self._own_flags):
                if name not in beside:
                    beside[name] = Categorical(2, (*beside.shape, 1), dtype=np.bool_)
        return done_spec


class StepCounter(StepTransform):
    """Counts the steps of an episode, and truncates the episode after `max_steps`.

    `"step_count"`, int64 of shape (*batch, 1), is 0 at the first step of an episode, and one more in
    `"next"`. Every `Collector` has a counter, unless it is given one. In an environment whose agents alone
    are done, counts and flags are beside theirs, as `("agents", "step_count")`.

    Args:
        max_steps: number of steps after which an episode is truncated; None for never.
        truncated_key: the entry that is set at truncation, with the shape of the count.
        step_count_key: the entry of the count.
        update_done: set `"done"` at truncation, too. Environments that are done or `"truncated"` are reset,
            and their agents with them: entries such as `("agents", "done")` are set as those at the root.

    Raises:
        ValueError: `max_steps` is below 1, or a key is not a string.

    Source:
        torchrl.envs.StepCounter.

    Example:
        >>> import gymnasium
        >>> from lite.data import Collector, StepCounter
        >>> env = gymnasium.make("CartPole-v1")
        >>> for td in Collector(env, frames_per_batch=6, total_frames=6, transforms=[StepCounter(4)]):
        ...     print(td["step_count"].ravel(), td["next", "truncated"].ravel())
        [0 1 2 3 0 1] [False False False  True False False]
    """

    _sources: ClassVar[list[Path]] = []

    def __init__(
        self,
        max_steps: int | None = None,
        truncated_key: str | None = "truncated",
        step_count_key: str | None = "step_count",
        update_done: bool = True,
    ) -> None:
        super().__init__()
        if max_steps is not None:
            integer("max_steps", max_steps, least=1)
        for name, key in (("truncated_key", truncated_key), ("step_count_key", step_count_key)):
            if not isinstance(key, str):
                raise ValueError(f"{name} must be a string, got {key!r}.")
        self.max_steps = max_steps
        self.truncated_key = str(truncated_key)
        self.step_count_key = str(step_count_key)
        self.update_done = update_done

    def initial(self, batch: tuple[int, ...]) -> dict[Path, NDArray[Any]]:
        flags = {path: np.zeros((*batch, 1), np.bool_) for path in self._own_flags}
        return {(self.step_count_key,): np.zeros((*batch, 1), np.int64), **flags}

    def step(self, entries: Entries, following: Entries) -> None:
        count = following[self.step_count_key,]
        np.add(entries[self.step_count_key,], _ONE, out=count)
        if self.max_steps is None:
            return
        late = count >= self.max_steps
        truncated = following[self.truncated_key,]
        if self.truncated_key == "truncated":
            np.logical_or(truncated, late, out=truncated)
        else:
            truncated[...] = late
        if self.update_done:
            done = following["done",]
            np.logical_or(done, late, out=done)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        next_tensordict = super()._step(tensordict, next_tensordict)
        ends = (self.truncated_key, "done")[: 1 + self.update_done]
        for key in self.parent.done_keys if self.max_steps is not None else ():
            *nodes, name = require_path(key)
            if nodes and name in ends and name in next_tensordict:  # not where agents alone are done
                flag, whole = next_tensordict.get(key), next_tensordict.get(name)
                agents = tuple(range(whole.ndim - 1, flag.ndim - 1))
                next_tensordict.set(key, flag | np.expand_dims(whole, agents))
        return next_tensordict

    def _paths(self) -> list[Path]:
        return [(self.step_count_key,), *self._own_flags]

    @property
    def _own_flags(self) -> list[Path]:  # type: ignore[override]
        named = self.max_steps is not None and self.truncated_key != "truncated"
        return [(self.truncated_key,)] if named else []

    @property
    def _changes_done(self) -> bool:  # type: ignore[override]
        return self.max_steps is not None

    def _specs(self, batch: tuple[int, ...]) -> dict[Path, TensorSpec]:
        most = np.iinfo(np.int64).max
        return {(self.step_count_key,): Bounded(0, most, (*batch, 1), dtype=np.int64)}


class RewardSum(StepTransform):
    """Sums the rewards of an episode.

    The sum is 0 at the first step; in `"next"` it is the sum so far, with the dtype and shape of the reward.
    Called on a TensorDict with a dimension "time", it computes the cumulative sum along that dimension.

    Args:
        in_keys: the rewards to sum; None for all rewards of the environment, `["reward"]` without one.
        out_keys: the entries of the sums; None for `in_keys` with the prefix `"episode_"`.
        reset_keys: the entries that restart each sum; None for those of the environment.
        reward_spec: add the specs of the sums to the specs of rewards instead of observations.

    Raises:
        ValueError: the numbers of keys differ; when called, there is no dimension "time".
        TypeError: `reset_keys` is read without being given and without an environment.

    Source:
        torchrl.envs.RewardSum.

    Example:
        >>> import gymnasium
        >>> from lite.data import Collector, RewardSum
        >>> env = gymnasium.make("CartPole-v1")
        >>> for td in Collector(env, frames_per_batch=3, total_frames=3, transforms=[RewardSum()]):
        ...     print(td["episode_reward"].ravel(), td["next", "episode_reward"].ravel())
        [0. 1. 2.] [1. 2. 3.]
    """

    _changes_done = False
    _at_root = True

    def __init__(
        self,
        in_keys: Keys = None,
        out_keys: Keys = None,
        reset_keys: Keys = None,
        *,
        reward_spec: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys)
        self._reset_keys = key_list(reset_keys)
        self.reward_spec = reward_spec
        if out_keys is not None and len(self.in_keys) != len(self.out_keys):
            raise ValueError(
                f"out_keys must be as many as in_keys, got {len(self.out_keys)} and {len(self.in_keys)}."
            )

    def _default_in_keys(self) -> list[NestedKey]:
        return ["reward"] if self.parent is None else list(self.parent.reward_keys)

    def _default_out_keys(self) -> list[NestedKey]:
        return [beside(key, f"episode_{require_path(key)[-1]}") for key in self.in_keys]

    @property
    def reset_keys(self) -> list[NestedKey]:
        """The keys of the entries that restart the sums."""
        keys, parent = self._reset_keys, self.parent
        if keys is None:
            if parent is None:
                raise TypeError("RewardSum has no environment: reset_keys must be given.")
            keys = parent._filtered_reset_keys
            keys = keys * (len(self.in_keys) if len(keys) == 1 else 1)
        if len(keys) != len(self.in_keys):
            raise ValueError(f"reset_keys must be as many as in_keys, got {keys} and {self.in_keys}.")
        return keys

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        fresh = self.initial(tuple(tensordict_reset.batch_size))
        for reset_key, (path, zero) in zip(self.reset_keys, fresh.items(), strict=True):
            key, mask = to_key(path), reset_mask(reset_key, tensordict)
            tensordict_reset.set(key, where_reset(mask, zero, tensordict.get(key, None)))
        return tensordict_reset

    @property
    def _pairs(self) -> list[tuple[Path, Path]]:
        keys = zip(self.in_keys, self.out_keys, strict=True)
        return [(require_path(source), require_path(target)) for source, target in keys]

    def initial(self, batch: tuple[int, ...]) -> dict[Path, NDArray[Any]]:
        parent = self.parent
        if parent is None:
            return {path: np.zeros((*batch, 1), np.float32) for _, path in self._pairs}
        lead = batch[: len(batch) - parent.ndim]
        return {path: parent.full_reward_spec[to_key(source)].zero(lead) for source, path in self._pairs}

    def step(self, entries: Entries, following: Entries) -> None:
        _, sources, paths, _ = self.__dict__["_listed"] or self._list()
        for place, (path, _) in enumerate(paths):
            np.add(entries[path], following[sources[place][0]], out=following[path])

    @property
    def _sources(self) -> list[Path]:  # type: ignore[override]
        return [source for source, _ in self._pairs]

    def _paths(self) -> list[Path]:
        return [path for _, path in self._pairs]

    def _specs(self, batch: tuple[int, ...]) -> dict[Path, TensorSpec]:
        specs = self.parent.full_reward_spec
        for source, _ in self._pairs:
            if to_key(source) not in specs:
                raise ValueError(f"RewardSum sums {to_key(source)!r}, of which there is no spec of a reward.")
        return {path: specs[to_key(source)].clone() for source, path in self._pairs}

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        return observation_spec if self.reward_spec else self._with_specs(observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        return self._with_specs(reward_spec) if self.reward_spec else reward_spec

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Sum along the dimension "time", in place."""
        if is_graph(tensordict):
            return tensordict
        if "time" not in tensordict.names:
            raise ValueError(f"RewardSum needs a dimension called 'time', got {tensordict.names}.")
        axis = tensordict.names.index("time")
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            reward = np.asarray(tensordict[source])
            dtype = np.dtype(np.int64) if reward.dtype.kind in "biu" else reward.dtype  # as torch's sums
            tensordict.set(target, np.cumsum(reward, axis, dtype=dtype))
        return tensordict


class InitTracker(StepTransform):
    """Marks the first step of each episode: a boolean of shape (*batch, 1), False in `"next"`.

    Args:
        init_key: the entry of the flag.

    Source:
        torchrl.envs.InitTracker.

    Example:
        >>> import gymnasium
        >>> from lite.data import Collector, InitTracker
        >>> env = gymnasium.make("CartPole-v1", max_episode_steps=2)
        >>> for td in Collector(env, frames_per_batch=4, total_frames=4, transforms=[InitTracker()]):
        ...     print(td["is_init"].ravel())
        [ True False  True False]
    """

    _is_state = False
    _changes_done = False
    _sources: ClassVar[list[Path]] = []

    def __init__(self, init_key: str = "is_init") -> None:
        super().__init__()
        if not isinstance(init_key, str):
            raise ValueError(f"init_key must be a string, got {init_key!r}.")
        self.init_key = init_key

    def initial(self, batch: tuple[int, ...]) -> dict[Path, NDArray[Any]]:
        return {(self.init_key,): np.ones((*batch, 1), np.bool_)}

    def step(self, entries: Entries, following: Entries) -> None:
        following[self.init_key,][...] = False

    def _paths(self) -> list[Path]:
        return [(self.init_key,)]

    def _specs(self, batch: tuple[int, ...]) -> dict[Path, TensorSpec]:
        return {(self.init_key,): Categorical(2, (*batch, 1), dtype=np.bool_)}


class TensorDictPrimer(StepTransform):
    """Initial values of entries that a policy updates at each step, such as recurrent states.

    A policy that reads `"state"` and writes `("next", "state")` reads that value at the next step, and the
    primer's value at the start of an episode. Entries that it does not write keep their values. Called on a
    TensorDict, the primer writes its values there.

    Args:
        primers: specs by key, without the batch.
        random: draw values from the specs instead of using `default_value`.
        default_value: a number, or a function without arguments that returns an array of the spec's shape;
            one for all entries, or a dict by key (0 for others).
        reset_key: the entry that marks environments at the start of an episode; None for the environment's.
        expand_specs: False for specs that have the batch dimensions already, as a Composite of the
            environment's shape says, too.
        call_before_env_reset: write the values before the environment is reset: its `_reset` reads them, as
            the level to start in.
        generator: a seed or a `numpy.random.Generator`, for `random`.
        **specs: specs by key, too.

    Raises:
        ValueError: no specs are given, or `random` and a `default_value`.
        TypeError: a value is not a spec of an array, or `default_value` is not a number.

    Source:
        torchrl.envs.TensorDictPrimer.

    Example:
        >>> import gymnasium
        >>> import numpy as np
        >>> from lite.data import Collector, TensorDictPrimer, Unbounded
        >>> def policy(td):
        ...     return td.update({"action": np.int64(0), ("next", "memory"): td["memory"] + 1})
        >>> env = gymnasium.make("CartPole-v1", max_episode_steps=3)
        >>> primer = TensorDictPrimer(memory=Unbounded((1,)))
        >>> for td in Collector(env, policy, frames_per_batch=5, total_frames=5, transforms=[primer]):
        ...     print(td["memory"].ravel(), td["next", "memory"].ravel())
        [0. 1. 2. 0. 1.] [1. 2. 3. 1. 2.]
    """

    _changes_done = False
    _sources: ClassVar[list[Path]] = []
    _keeps_next = True
    _at_root = True
    _shown = ("primers", "default_value", "random")

    def __init__(
        self,
        primers: Composite | Mapping[Any, Any] | None = None,
        random: bool | None = None,
        default_value: float | Callable[[], Any] | Mapping[Any, Any] | None = None,
        reset_key: NestedKey | None = None,
        expand_specs: bool | None = None,
        *,
        call_before_env_reset: bool = False,
        generator: np.random.Generator | int | None = None,
        **specs: TensorSpec,
    ) -> None:
        super().__init__()
        self.reset_key = reset_key
        self.call_before_env_reset = call_before_env_reset
        self.expand_specs = expand_specs
        self.primers = Composite(primers, shape=getattr(primers, "shape", ()))
        self.primers.update(specs)
        self._by_path: dict[Path, Any] = {require_path(k): spec for k, spec in self.primers.items(True, True)}
        if not self._by_path:
            raise ValueError("primers must have at least one spec, got none.")
        for path, spec in self._by_path.items():
            if not isinstance(spec, ArraySpec):
                raise TypeError(f"primers must be specs of arrays, got {type(spec).__name__} at {path}.")
        if random and default_value:
            raise ValueError("give random=True or a default_value, not both.")
        self.random = bool(random)
        self.generator = np.random.default_rng(generator)
        values = (
            default_value
            if isinstance(default_value, Mapping)
            else dict.fromkeys(self._by_path, default_value)
        )
        self.default_value = {
            require_path(key): value if callable(value) else float(value or 0)
            for key, value in values.items()
        }

    def _lead(self, batch: tuple[int, ...]) -> tuple[int, ...]:
        """The batch dimensions that the specs lack."""
        has = self.expand_specs is False or self.primers.shape[: len(batch)] == batch
        return () if has else batch

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        if not self.call_before_env_reset:
            return tensordict
        given = TensorDict({}, self.parent.batch_size) if tensordict is None else tensordict
        return super()._reset(given, given)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if not self.call_before_env_reset:
            return super()._reset(tensordict, tensordict_reset)
        for key in map(to_key, self._by_path):
            if key not in tensordict_reset:
                tensordict_reset.set(key, tensordict.get(key))
        return tensordict_reset

    def initial(self, batch: tuple[int, ...]) -> dict[Path, NDArray[Any]]:
        lead = self._lead(batch)
        if self.random:
            return {path: spec.rand(lead, rng=self.generator) for path, spec in self._by_path.items()}
        return {path: self._default(path, spec, lead) for path, spec in self._by_path.items()}

    def _default(self, path: Path, spec: ArraySpec, lead: tuple[int, ...]) -> NDArray[Any]:
        value = self.default_value.get(path, 0.0)
        made = np.asarray(value() if callable(value) else value).astype(spec.dtype)
        return spec.zero(lead) + made

    def step(self, entries: Entries, following: Entries) -> None:
        for path in self._by_path:
            following[path][...] = entries[path]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the initial values, in place."""
        if is_graph(tensordict):  # the values are inputs of a graph
            return tensordict
        for path, value in self.initial(tuple(tensordict.batch_size)).items():
            tensordict.set(to_key(path), value)
        return tensordict

    def _paths(self) -> list[Path]:
        return list(self._by_path)

    def _specs(self, batch: tuple[int, ...]) -> dict[Path, TensorSpec]:
        lead = self._lead(batch)
        return {path: spec.expand(*lead, *spec.shape) for path, spec in self._by_path.items()}


class gSDENoise(TensorDictPrimer):
    """The initial noise of `lite.nn.gSDEModule`: zeros, which the module replaces, or drawn noise.

    Args:
        state_dim: size of the state.
        action_dim: size of the action; with both sizes noise is drawn, (*shape, action_dim, state_dim).
        shape: the batch of the environment, if `expand_specs=False`.
        **options: the other arguments of `TensorDictPrimer`, which has the errors, too.

    Source:
        torchrl.envs.gSDENoise.

    Example:
        >>> from lite.envs import GymEnv, TransformedEnv, gSDENoise
        >>> env = TransformedEnv(GymEnv("Pendulum-v1"), gSDENoise())
        >>> env.reset()["_eps_gSDE"]
        array([0.], dtype=float32)
    """

    def __init__(
        self,
        state_dim: int | None = None,
        action_dim: int | None = None,
        shape: tuple[int, ...] | None = None,
        **options: Any,
    ) -> None:
        self.state_dim = state_dim
        self.action_dim = action_dim
        batch = () if shape is None else tuple(shape)
        known = state_dim is not None and action_dim is not None
        own = (action_dim, state_dim) if known else (1,)
        primers = Composite({"_eps_gSDE": Unbounded((*batch, *own))}, shape=batch)
        super().__init__(primers, known, **options)


belong_to("lite.envs", StepTransform, StepCounter, RewardSum, InitTracker, TensorDictPrimer, gSDENoise)


def primer_of_states(shapes: Mapping[Any, tuple[int, ...]]) -> TensorDictPrimer:
    """A primer of float32 states of these shapes by key, which are zeros at the start of episodes."""
    return TensorDictPrimer({key: Unbounded(shape, dtype=np.float32) for key, shape in shapes.items()})


def primer_of_masks(
    key: NestedKey, shape: tuple[int, ...], dtype: np.dtype[Any], draw: Callable[[], Any]
) -> TensorDictPrimer:
    """A primer of a mask that `draw` makes at the start of episodes; `shape` includes the batch."""
    return TensorDictPrimer({key: Unbounded(shape, dtype=dtype)}, default_value=draw, expand_specs=False)
