"""`PettingZooWrapper` and `PettingZooEnv`: PettingZoo's environments, parallel and AEC, as `EnvBase`."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.public import belong_to
from lite.envs.base import EnvWrapper, Listed
from lite.envs.spaces import FLAGS, Encoding, Layout, flags_of_batch
from lite.kernels._install import needed
from lite.specs.arrays import Unbounded
from lite.specs.classes import Categorical, OneHot
from lite.specs.composite import Composite, stacked_alike

GroupMap = Mapping[str, Sequence[str]]


class MarlGroupMapType(Enum):
    """Ways to group agents.

    Source:
        torchrl.envs.MarlGroupMapType.

    Example:
        >>> from lite.envs import MarlGroupMapType
        >>> MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(["a_0", "a_1"])
        {'agents': ['a_0', 'a_1']}
    """

    ALL_IN_ONE_GROUP = 1
    ONE_GROUP_PER_AGENT = 2

    def get_group_map(self, agent_names: list[str]) -> dict[str, list[str]]:
        """The names of the agents of each group: "agents", or each agent's own name."""
        if self is MarlGroupMapType.ALL_IN_ONE_GROUP:
            return {"agents": agent_names}
        return {name: [name] for name in agent_names}


def check_marl_grouping(group_map: GroupMap, agent_names: Sequence[str]) -> None:
    """Check that each agent is in one group.

    Args:
        group_map: the names of the agents of each group.
        agent_names: all agents.

    Raises:
        ValueError: an agent is in no group, or in more; a group is empty, or has an agent that there is not;
            there are no agents, or two of one name.

    Source:
        torchrl.envs.check_marl_grouping.
    """
    if not agent_names or len({*agent_names}) < len(agent_names):
        raise ValueError(f"agent_names must be one or more names that differ, got {agent_names}.")
    grouped = [name for names in group_map.values() for name in names]
    if sorted(grouped) != sorted(agent_names) or not all(group_map.values()):
        raise ValueError(
            f"group_map must have each of {list(agent_names)} once, and no empty group, got {group_map}."
        )


class PettingZooWrapper(EnvWrapper):
    """A parallel or an AEC environment of PettingZoo's interface as an `EnvBase` of groups of agents.

    The entries of a group are below its name, in a node of as many rows as it has agents: "action",
    "observation", "reward" (float32), "done", "terminated" and "truncated", the last four of shape
    (agents, 1), and "info" with the numbers and arrays that each agent's first info has. Members of a Dict
    space are below "observation", and classes that are observed are one-hot vectors, int64. An
    "action_mask" of observations or infos is an entry of the group, bool (agents, n), and the mask of the
    spec of its actions: random actions are those that are allowed. It is True for agents that do not act.

    In a parallel environment all agents act in each step, in an AEC environment `agent_selection`; what is
    given for the others is not read. Agents that died have zeros, and True as "done".

    Args:
        env: the environment.
        return_state: give `env.state()` as "state", at the root.
        group_map: the names of the agents of each group, or a `MarlGroupMapType`. By default, each agent is a
            group in an AEC environment; in a parallel one names that end in a number are grouped by what is
            before it: "piston" has piston_0 and piston_1.
        use_mask: give "mask", bool (agents,): who acts next. AEC environments need it, and agents that die.
        categorical_actions: give classes of actions as integers; False for one-hot vectors.
        seed: the seed of the first reset.
        done_on_any: an episode ends with that of any agent; False for that of all. True for parallel
            environments by default, False for others.
        device: None or "cpu".

    Attributes:
        group_map, return_state, use_mask, categorical_actions, seed, done_on_any: as given, or by default.
        parallel: whether all agents act at once.

    What the environment has besides is an attribute of this one, too: `agents`, `possible_agents`, `render`.

    Raises:
        TypeError: `env` is not one of these environments.
        ValueError: an AEC environment without `use_mask`; a bad `group_map`, also where the spaces of a
            group's agents differ in more than bounds; later, an agent that died without `use_mask`, or an
            observation of another shape.
        RuntimeError: a reset of some environments, of which there is one.

    Source:
        torchrl.envs.PettingZooWrapper.

    Example:
        >>> from gymnasium.spaces import Box, Discrete
        >>> from lite.envs import PettingZooWrapper
        >>> class Pair:  # best a pettingzoo.ParallelEnv
        ...     possible_agents = agents = ["player_0", "player_1"]
        ...     def observation_space(self, agent):
        ...         return Box(-1, 1, (3,))
        ...     def action_space(self, agent):
        ...         return Discrete(2)
        ...     def told(self, value):
        ...         return dict.fromkeys(self.agents, value)
        ...     def reset(self, seed=None, options=None):
        ...         return self.told([0, 0, 0]), self.told({})
        ...     def step(self, actions):
        ...         flags = self.told(False)
        ...         return self.told([1, 1, 1]), self.told(1.0), flags, flags, self.told({})
        >>> td = PettingZooWrapper(Pair()).rollout(5)
        >>> td["player", "action"].shape, td["next", "player", "observation"].shape
        ((5, 2), (5, 2, 3))
    """

    def __init__(
        self, env: Any, return_state: bool = False, group_map: MarlGroupMapType | GroupMap | None = None,
        use_mask: bool = False, categorical_actions: bool = True, seed: int | None = None,
        done_on_any: bool | None = None, *, device: Any = None,
    ) -> None:  # fmt: skip
        if not (hasattr(env, "possible_agents") and callable(getattr(env, "observation_space", None))):
            raise TypeError(f"env must be a PettingZoo environment, got {type(env).__name__}.")
        super().__init__(device=device, allow_done_after_reset=True)
        self._env, self.parallel = env, not hasattr(env, "observe")
        if not (self.parallel or use_mask):
            raise ValueError("use_mask must be True for an AEC environment, where one agent acts at a time.")
        self.return_state, self.use_mask, self.seed = return_state, use_mask, seed
        self.categorical_actions = categorical_actions
        self.done_on_any = self.parallel if done_on_any is None else done_on_any
        names = list(env.possible_agents)
        if group_map is None:
            group_map = _by_name(names) if self.parallel else MarlGroupMapType.ONE_GROUP_PER_AGENT
        grouped = group_map.get_group_map(names) if isinstance(group_map, MarlGroupMapType) else group_map
        check_marl_grouping(grouped, names)
        self.group_map = dict(grouped)
        self._places = {name: (group, i) for group in grouped for i, name in enumerate(grouped[group])}
        self._observed = {n: _entries_of(env.observation_space(n), "observation") for n in names}
        self._acted = {n: _entries_of(env.action_space(n), "action", categorical_actions) for n in names}
        self._set_specs(*self._restarted(seed=seed))

    def _set_specs(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        """Set the specs, of the spaces and of what the first reset told."""
        specs = {kind: Composite() for kind in ("observation", "action", "reward")}
        done_spec = flags_of_batch(())
        for group, names in self.group_map.items():
            told = [_readable(infos.get(name, {})) for name in names]
            keys = [key for key in told[0] if all(key in info for info in told)]
            try:
                observed = stacked_alike([self._observed[name].spec(()) for name in names])
                acted = stacked_alike([self._acted[name].spec(()) for name in names])
                if keys:
                    shapes = [{key: Unbounded(info[key].shape) for key in keys} for info in told]
                    observed["info"] = stacked_alike([Composite(each) for each in shapes])
            except ValueError as error:
                raise ValueError(
                    f"group_map must part the agents of {group!r}, which differ: {error}"
                ) from None
            if all(_mask_of(observations.get(name), infos.get(name)) is not None for name in names):
                shape = acted["action"].to_one_hot_spec().shape
                observed["action_mask"] = Categorical(2, shape, dtype=np.bool_)
            if self.use_mask:
                observed["mask"] = Categorical(2, (len(names),), dtype=np.bool_)
            rewards = Composite(reward=Unbounded((len(names), 1)), shape=(len(names),))
            for kind, spec in (("observation", observed), ("action", acted), ("reward", rewards)):
                specs[kind][group] = spec
            done_spec[group] = flags_of_batch((len(names),))
        if self.return_state:
            space, state = getattr(self._env, "state_space", None), np.asarray(self._env.state())
            self._state = None if space is None else _entries_of(space, "state")
            found = Unbounded(state.shape, dtype=state.dtype) if self._state is None else self._state.spec(())
            specs["observation"].update(found if isinstance(found, Composite) else {"state": found})
        self.observation_spec, self.action_spec, self.reward_spec = specs.values()
        self.done_spec = done_spec
        start = self.observation_spec.zero().update(self.full_done_spec.zero())
        self._zeros = start, start.clone().update(self.full_reward_spec.zero())

    def _restarted(self, **kwargs: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The observations and infos of all agents at the start of an episode."""
        env, found = self._env, self._env.reset(**kwargs)
        return found if self.parallel else ({name: env.observe(name) for name in self._places}, env.infos)

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if not (mask is None or mask.all()):
            raise RuntimeError(f"there is one environment to reset, got the '_reset' entry {mask}.")
        return self._entries(*self._restarted(**kwargs))

    def _step(self, tensordict: Any) -> Any:
        env = self._env
        if self.parallel:
            observations, *outcome, infos = env.step({n: self._action(tensordict, n) for n in self._places})
            return self._entries(observations, infos, outcome)
        name = env.agent_selection
        ended = env.terminations[name] or env.truncations[name]
        env.step(None if ended else self._action(tensordict, name))
        outcome = env.rewards, env.terminations, env.truncations
        observations = {name: env.observe(name) for name in self._places if name in env.rewards}
        return self._entries(observations, env.infos, outcome)

    def _action(self, tensordict: Any, name: str) -> Any:
        """The action of an agent as a value of its space."""
        (group, i), layout = self._places[name], self._acted[name]
        node = tensordict.get(group)
        return layout.value([part.value(node.get(part.key)[i]) for part in layout.leaves])

    def _entries(self, observations: Mapping[str, Any], infos: Mapping[str, Any], outcome: Any = ()) -> Any:
        """The entries of a reset; with the rewards, terminations and truncations of the agents, of a step."""
        out = self._zeros[bool(outcome)].clone()
        acting = self._env.agents if self.parallel else [self._env.agent_selection]
        for name, (group, i) in self._places.items():
            node = out.get(group)
            if self.use_mask:
                node.get("mask")[i] = name in acting
            if "action_mask" in node:
                allowed = _mask_of(observations.get(name), infos.get(name)) if name in acting else None
                node.get("action_mask")[i] = True if allowed is None else allowed
            if name in observations:
                _write(node, i, self._observed[name], observations[name], name)
                if "info" in node:
                    told, into = _readable(infos[name]), node.get("info")
                    for key in told.keys() & into.keys():
                        into.get(key)[i] = told[key]
            elif not self.use_mask or (outcome and name in self._env.agents):
                raise ValueError(
                    f"{name!r} was not observed: who died is not in env.agents, and needs use_mask=True."
                )
            if outcome:
                rewards, *ends = outcome
                lives = name in observations
                terminated, truncated = (end[name] if lives else end.get(name, True) for end in ends)
                values = rewards[name] if lives else 0, terminated or truncated, terminated, truncated
                for key, value in zip(("reward", *FLAGS), values, strict=True):
                    node.get(key)[i] = value
        for group in self.group_map:
            spec, allowed = self.full_action_spec[group, "action"], out.get((group, "action_mask"), None)
            if allowed is not None and isinstance(spec, Categorical | OneHot):
                spec.update_mask(allowed | ~allowed.any(-1, keepdims=True))  # nothing is allowed at an end
        if outcome:
            reduce = np.any if self.done_on_any else np.all
            for key in FLAGS:
                flags = np.concatenate([out.get((group, key)) for group in self.group_map])
                out.set(key, reduce(flags, keepdims=True)[0])
        if self.return_state:
            state = self._env.state()
            if self._state is None:
                out.set("state", np.array(state))
            else:
                _write(out, ..., self._state, state, "state")
        return out

    def _set_seed(self, seed: int | None) -> None:
        self.seed = seed
        self.reset(seed=seed)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environment."""
        self._env.close()
        super().close(raise_if_closed=raise_if_closed)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._env}, group_map={self.group_map})"


def _tasks() -> dict[str, str]:
    """The modules of PettingZoo's environments by name, as "butterfly/pistonball_v6"."""
    home = needed("pettingzoo", "PettingZooEnv needs pettingzoo", "pip install pettingzoo")
    found = {}
    for folder in ("mpe2", *(f"pettingzoo.{part.name}" for part in pkgutil.iter_modules(home.__path__))):
        spec = find_spec(folder)
        for part in pkgutil.iter_modules((spec and spec.submodule_search_locations) or []):
            if re.search(r"_v\d+$", part.name):
                found[f"{folder.rpartition('.')[2].rstrip('2')}/{part.name}"] = f"{folder}.{part.name}"
    return found


class PettingZooEnv(PettingZooWrapper):
    """An environment of PettingZoo by its name; see `PettingZooWrapper`.

    Args:
        task: its name, as "butterfly/pistonball_v6" or "pistonball_v6".
        parallel: make the parallel environment; False for the AEC one.
        return_state, group_map, use_mask, categorical_actions, seed, done_on_any, device: as for
            `PettingZooWrapper`.
        **kwargs: for the environment.

    Raises:
        ImportError: without PettingZoo, or what the task needs.
        RuntimeError: there is no such task; the message has their names.
        ValueError: as for `PettingZooWrapper`.

    Source:
        torchrl.envs.PettingZooEnv.
    """

    available_envs = Listed(lambda: [*_tasks()])

    def __init__(
        self, task: str, parallel: bool, return_state: bool = False,
        group_map: MarlGroupMapType | GroupMap | None = None, use_mask: bool = False,
        categorical_actions: bool = True, seed: int | None = None, done_on_any: bool | None = None, *,
        device: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        tasks = _tasks()
        found = next((name for name in tasks if task in (name, name.partition("/")[2])), None)
        if found is None:
            raise RuntimeError(f"task must be one of {[*tasks]}, got {task!r}.")
        module = import_module(tasks[found])
        super().__init__(
            (module.parallel_env if parallel else module.env)(**kwargs), return_state, group_map, use_mask,
            categorical_actions, seed, done_on_any, device=device,
        )  # fmt: skip
        self.task_name = task


belong_to("lite.envs", MarlGroupMapType, PettingZooWrapper, PettingZooEnv)


def _by_name(names: Sequence[str]) -> dict[str, list[str]]:
    """Groups of names that are equal but for a number at their end."""
    groups: dict[str, list[str]] = {}
    for name in names:
        start, line, number = name.rpartition("_")
        groups.setdefault(start if line and number.isdecimal() else name, []).append(name)
    return groups


def _entries_of(space: Any, name: str, categorical: bool = False) -> Layout:
    """The layout of the entries of a space, without the mask of actions."""
    layout = Layout(space, name)
    leaves = [leaf for leaf in layout.leaves if leaf.path != ("observation", "action_mask")]
    return layout.encoded(Encoding(leaf, leaf.path, categorical) for leaf in leaves)


def _write(node: Any, index: Any, layout: Layout, value: Any, name: str) -> None:
    """Write a value of a space into the rows of a node."""
    for part, array in zip(layout.leaves, layout.arrays(value), strict=True):
        column, entry = node.get(part.key)[index], part.entry(array)
        if entry.size != column.size:
            raise ValueError(f"{part.key!r} of {name!r} must have shape {column.shape}, got {entry.shape}.")
        column[...] = entry.reshape(column.shape)


def _mask_of(*told: Any) -> Any:
    """The mask of actions in an observation or an info; None without one."""
    return next(
        (part["action_mask"] for part in told if isinstance(part, Mapping) and "action_mask" in part), None
    )


def _readable(info: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The numbers and arrays of an info but for the mask of actions."""
    arrays = {key: np.asarray(value) for key, value in info.items() if key != "action_mask"}
    return {key: array for key, array in arrays.items() if array.dtype.kind in "biuf"}
