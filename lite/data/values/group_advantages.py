"""Advantages among the responses to one prompt, or the episodes of one task: of a batch, or of a stream."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDict, TensorDictBase, cat, lazy_stack
from lite._arrays.public import belong_to
from lite._tree.keys import require_path
from lite._tree.nontensor import NonTensorBase
from lite.data.values.group_selection import MCAdvantageSelector, mean_return
from lite.kernels._integer import integer
from lite.nn import Module, TensorDictModuleBase
from lite.nn.values.entries import require_array, require_tensordict, require_time
from lite.nn.values.standardize import standardized

_SMALLEST = 1e-6  # deviation of rewards
_GROUP_IDS = ("collector", "group_ids")
_LOGGER = logging.getLogger("lite")
_STATS = (
    "completed_trajectories", "completed_decisions", "trajectory_return_sum", "trajectory_return_max",
    "successful_trajectories", "completed_groups", "written_groups", "dropped_groups", "rescued_groups",
    "selected_trajectories", "unselected_trajectories",
)  # fmt: skip
_RETURNS: dict[str, Any] = {"sum": np.sum, "max": np.max, "mean": np.mean}


def group_advantages(
    reward: NDArray[Any], groups: NDArray[Any] | None = None, *, divide: bool = True
) -> NDArray[Any]:
    """Rewards normalised within their group: minus the group's mean, divided by its standard deviation.

    Groups may be of different sizes. In a group of one, and in one whose rewards are all equal, all
    advantages are 0. A reward that is NaN or infinite counts for no mean or deviation, and its advantage is
    0: a reward that could not be computed spoils no other, and teaches nothing.

    Args:
        reward: real numbers of any shape.
        groups: which group each is of: numbers or strings, of the shape of the rewards but for missing last
            dimensions. None: the last dimension is the group, (prompts, responses).
        divide: whether by the deviation. Without, groups whose rewards hardly differ do not count as much as
            the others (Liu et al., 2025, "Dr. GRPO").

    Returns:
        The shape of `reward` and its floating type; float32 for integers.

    Raises:
        RuntimeError: the groups' shape does not fit.
        ValueError: a number without a group.

    Source:
        Shao et al. (2024), DeepSeekMath (arXiv:2402.03300), section 4.1.2, with the deviation of n - 1; Liu
        et al. (2025), Understanding R1-Zero-like training (arXiv:2503.20783).

    Example:
        >>> import numpy as np
        >>> from lite.data import group_advantages
        >>> reward = np.array([1.0, 0.0, 2.0, 5.0, np.nan])
        >>> group_advantages(reward, np.array([7, 7, 7, 3, 3])).tolist()
        [0.0, -1.0, 1.0, 0.0, 0.0]
    """
    rewards = np.asarray(reward)
    ids = groups
    if ids is None:
        if not rewards.ndim:
            raise ValueError("a single reward is of no group: give groups, or an array of rewards.")
        ids = np.arange(math.prod(rewards.shape[:-1])).reshape(*rewards.shape[:-1], 1)
    out = standardized(rewards, np.asarray(ids), smallest=_SMALLEST, divide=divide)
    return np.nan_to_num(out, copy=False, nan=0.0)


class GroupAdvantage(TensorDictModuleBase):
    """Write how much better than its group each response's reward is: see `group_advantages`.

    Args:
        group_key: which group each element of the batch is of, numbers or strings such as prompts. None: the
            last batch dimension is the group, [prompts, responses].
        rewards_key: one reward for each element of the batch: of the shape of the batch, or that and a last
            dimension of 1.
        advantage_key: key of the advantages, of the rewards' shape.
        divide: whether by the standard deviation of the group.

    Source:
        See `group_advantages`.

    Example:
        >>> import numpy as np
        >>> from lite import NonTensorStack, TensorDict
        >>> from lite.data import GroupAdvantage
        >>> prompts = NonTensorStack("2+2?", "2+2?", "a poem")
        >>> td = TensorDict({"query": prompts, "next": {"reward": np.array([1.0, 0, 3])}}, batch_size=[3])
        >>> GroupAdvantage(group_key="query", divide=False)(td)["advantage"]
        array([ 0.5, -0.5,  0. ])
    """

    def __init__(
        self,
        *,
        group_key: NestedKey | None = None,
        rewards_key: NestedKey = ("next", "reward"),
        advantage_key: NestedKey = "advantage",
        divide: bool = True,
    ) -> None:
        super().__init__()
        self.in_keys = [rewards_key] if group_key is None else [rewards_key, group_key]
        self.out_keys = [advantage_key]
        self.divide = divide

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the advantages to `tensordict`, and return it.

        Raises:
            KeyError: rewards or groups are missing.
            RuntimeError: they have other shapes, or there is no batch dimension.
            TypeError: the rewards are not an array, the input is not a TensorDict.
        """
        name = self.__name__
        require_tensordict(tensordict, name)
        if not tensordict.ndim:
            raise RuntimeError(f"{name} needs a batch dimension, got batch_size=().")
        reward = require_array(tensordict, require_path(self.in_keys[0]), name)
        size = tuple(tensordict.batch_size)
        if reward.shape not in (size, (*size, 1)):
            raise RuntimeError(
                f"{name} needs one reward for each element of batch_size={size}, got shape {reward.shape}."
            )
        groups = None
        if len(self.in_keys) > 1:
            groups = _ids(tensordict, self.in_keys[1], name)
        advantage = group_advantages(reward.reshape(size), groups, divide=self.divide)
        return tensordict.set(self.out_keys[0], advantage.reshape(reward.shape))


class MCAdvantage(Module):
    """Group advantages of a stream of episodes, on their way into a replay buffer.

    `inv` takes episodes in any order and keeps each until `grpo_size` of its group are there; then it gives
    them all, with their advantages. Calling the module changes nothing. Episodes of groups that are never
    filled are kept until `clear_queues`.

    Args:
        grpo_size: episodes of a group, at least 1.
        prompt_key: which group an episode is of; by default "query", or ("collector", "group_ids").
        rewards_key, advantage_key: keys of the steps' rewards and of the advantages, which have their shape.
        done_key: key of the flags that end episodes.
        trajectory_return: None compares the rewards of all steps of the group. "sum", "max" or "mean" makes
            one number of each episode and compares these; each step has its episode's advantage.
        keep_return_bounds: with `trajectory_return`: groups whose mean return is not between these two
            numbers are dropped, as when all of them failed.
        candidate_group_size: with `trajectory_return`: episodes that a group may have, of which `grpo_size`
            are chosen. It is dropped when it has so many and no choice is within the bounds.
        candidate_selection_min_size, candidate_selector: when to choose; see `MCAdvantageSelector`.
        verbose, divide: log groups to the logger "lite"; divide by their deviation, see `group_advantages`.

    Raises:
        TypeError: grpo_size is not an integer.
        ValueError: a size, trajectory_return or a bound is out of range.

    Source:
        torchrl's `MCAdvantage`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import MCAdvantage
        >>> def episode(group, *rewards):
        ...     done = np.arange(len(rewards)) == len(rewards) - 1
        ...     following = {"reward": np.array(rewards), "done": done}
        ...     return TensorDict({"group": np.full(done.shape, group), "next": following}, done.shape)
        >>> transform = MCAdvantage(2, "group", trajectory_return="sum", divide=False)
        >>> transform.inv(episode(7, 0.0, 0.0)) is None
        True
        >>> transform.inv(episode(7, 0.0, 0.0, 1.0))["advantage"]
        array([-0.5, -0.5,  0.5,  0.5,  0.5])
    """

    def __init__(
        self,
        grpo_size: int,
        prompt_key: NestedKey = "query",
        rewards_key: NestedKey = ("next", "reward"),
        advantage_key: NestedKey = "advantage",
        done_key: NestedKey = ("next", "done"),
        verbose: bool = False,
        *,
        trajectory_return: Literal["sum", "max", "mean"] | None = None,
        keep_return_bounds: tuple[float, float] | None = None,
        candidate_group_size: int | None = None,
        candidate_selection_min_size: int | None = None,
        candidate_selector: MCAdvantageSelector | None = None,
        divide: bool = True,
    ) -> None:
        super().__init__()
        integer("grpo_size", grpo_size, least=1)
        if trajectory_return is not None and trajectory_return not in _RETURNS:
            raise ValueError(
                f"trajectory_return must be one of {[*_RETURNS]} or None, got {trajectory_return!r}."
            )
        if trajectory_return is not None and grpo_size < 2:
            raise ValueError(
                f"trajectory_return compares episodes: grpo_size must be at least 2, got {grpo_size}."
            )
        if keep_return_bounds is not None:
            if trajectory_return is None:
                raise ValueError("keep_return_bounds are bounds of returns: give trajectory_return, too.")
            if len(keep_return_bounds) != 2 or not keep_return_bounds[0] < keep_return_bounds[1]:
                raise ValueError(
                    f"keep_return_bounds must be two increasing numbers, got {keep_return_bounds}."
                )
        most = grpo_size if candidate_group_size is None else candidate_group_size
        if integer("candidate_group_size", most) < grpo_size:
            raise ValueError(f"candidate_group_size must be at least grpo_size={grpo_size}, got {most}.")
        if most > grpo_size and trajectory_return is None:
            raise ValueError("candidates are chosen by their returns: give trajectory_return, too.")
        least = grpo_size if candidate_selection_min_size is None else candidate_selection_min_size
        if not grpo_size <= integer("candidate_selection_min_size", least) <= most:
            raise ValueError(
                f"candidate_selection_min_size must be from grpo_size={grpo_size} to candidate_group_size="
                f"{most}, got {least}."
            )
        self.grpo_size = grpo_size
        self.candidate_group_size = most
        self.candidate_selection_min_size = least
        self.candidate_selector = MCAdvantageSelector() if candidate_selector is None else candidate_selector
        self.verbose = verbose
        self.prompt_key = prompt_key
        self.rewards_key = rewards_key
        self.advantage_key = advantage_key
        self.done_key = done_key
        self.trajectory_return = trajectory_return
        self.keep_return_bounds = keep_return_bounds
        self.divide = divide
        self._queues: dict[Any, list[TensorDictBase]] = {}
        self.reset_stats()

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """`tensordict` as it is: samples of a buffer have their advantages."""
        return tensordict

    def inv(self, tensordict: TensorDictBase) -> TensorDictBase | None:
        """Add whole episodes, and return the complete groups.

        Args:
            tensordict: episodes, one after the other along the last batch dimension; the last of each row
                ends with it. It stays as it is, and may be used again.

        Returns:
            The steps of the complete groups, in new memory and of one batch dimension, or None. Where steps
            differ in shape, as texts do, a lazy stack of them.

        Raises:
            KeyError: an entry is missing.
            RuntimeError: the last episode of a row is not done. Then none of the rows is taken.
            TypeError: done or the rewards are not arrays, the input is not a TensorDict, or a group is not a
                string or number.
            ValueError: there is no batch dimension.
        """
        require_time(tensordict, "MCAdvantage")
        if not tensordict.numel():
            return None
        arrived = [
            (self._group(episode), episode)
            for row in tensordict.reshape(-1, tensordict.batch_size[-1])
            for episode in self._episodes(row)
        ]
        for _, episode in arrived:
            require_array(episode, require_path(self.rewards_key), "MCAdvantage")
        complete = []
        for group, episode in arrived:
            queue = self._queues.setdefault(group, [])
            queue.append(episode.clone())
            self._count_episode(episode)
            if len(queue) < self.candidate_selection_min_size:
                continue
            found = self._advantages(queue)
            if found is not None or len(queue) == self.candidate_group_size:
                del self._queues[group]
                self._count_group(group, found is not None)
                complete += found or []
        return _joined(complete) if complete else None

    @property
    def queued_groups(self) -> int:
        """How many groups wait for more episodes."""
        return len(self._queues)

    @property
    def queued_trajectories(self) -> int:
        """How many episodes wait for the rest of their group."""
        return sum(map(len, self._queues.values()))

    @property
    def withheld(self) -> TensorDictBase | None:
        """The steps of all episodes that wait, or None; what is set goes in place of them.

        A replay buffer reads it, so that they survive as its rows do.
        """
        waiting = [episode for queue in self._queues.values() for episode in queue]
        return _joined(waiting) if waiting else None

    @withheld.setter
    def withheld(self, episodes: TensorDictBase | None) -> None:
        queues: dict[Any, list[TensorDictBase]] = {}
        for episode in () if episodes is None else self._episodes(episodes):
            queues.setdefault(self._group(episode), []).append(episode)
        self._queues = queues

    def _group(self, episode: TensorDictBase) -> Any:
        key = self.prompt_key
        if key == "query" and episode.get(key, None) is None and episode.get(_GROUP_IDS, None) is not None:
            key = _GROUP_IDS
        return _identity(episode, key)

    def clear_queues(self) -> None:
        """Forget the episodes that wait."""
        self._queues.clear()

    def _episodes(self, row: TensorDictBase) -> Iterator[TensorDictBase]:
        done = require_array(row, require_path(self.done_key), "MCAdvantage")
        ends = np.flatnonzero(done.reshape(len(row), -1).any(-1)) + 1
        if not len(ends) or ends[-1] != len(row):
            raise RuntimeError(
                f"MCAdvantage needs whole episodes: {self.done_key!r} is False at the last step, {len(row)}."
            )
        yield from row.split(np.diff(ends, prepend=0).tolist(), 0)

    def _advantages(self, episodes: list[TensorDictBase]) -> list[TensorDictBase] | None:
        """The episodes that are chosen, with their advantages; None where no choice is kept."""
        rewards = [np.asarray(episode.get(self.rewards_key)) for episode in episodes]
        if self.trajectory_return is None:
            flat = np.concatenate([reward.reshape(-1) for reward in rewards])
            lengths = [reward.size for reward in rewards]
        else:
            flat = np.array([_RETURNS[self.trajectory_return](reward) for reward in rewards])
            chosen = self._chosen(episodes, flat)
            if chosen is None:
                return None
            self._stats["unselected_trajectories"] += len(episodes) - len(chosen)
            self._stats["selected_trajectories"] += len(chosen)
            episodes, rewards, flat = (
                [episodes[i] for i in chosen],
                [rewards[i] for i in chosen],
                flat[chosen],
            )
            lengths = [1] * len(rewards)
        parts = np.split(
            group_advantages(flat, np.zeros(flat.shape, np.intp), divide=self.divide), np.cumsum(lengths)[:-1]
        )
        for episode, reward, part in zip(episodes, rewards, parts, strict=True):
            of_steps = np.broadcast_to(part, reward.size).reshape(reward.shape)
            episode.set(self.advantage_key, of_steps.copy())
        return episodes

    def _chosen(self, episodes: list[TensorDictBase], returns: NDArray[Any]) -> list[int] | None:
        selector, bounds = self.candidate_selector, self.keep_return_bounds
        candidates = TensorDict({"return": returns}, batch_size=[len(episodes)])
        if "trajectories" in selector.in_keys:
            candidates.set("trajectories", lazy_stack(episodes, 0))
        chosen = selector.select(candidates, group_size=self.grpo_size, keep_return_bounds=bounds)
        if chosen is not None and bounds is not None:
            mean = mean_return(returns[chosen])  # a selector of the user's own may not have looked
            chosen = chosen if mean is not None and bounds[0] < mean < bounds[1] else None
        if chosen is not None and len(episodes) > self.grpo_size and bounds is not None:
            mean = mean_return(returns[: self.grpo_size])
            self._stats["rescued_groups"] += int(mean is None or not bounds[0] < mean < bounds[1])
        return chosen

    # -- what became of episodes ---------------------------------------------------------------------

    def reset_stats(self) -> None:
        """Set the counters of `get_stats` to 0."""
        self._stats: dict[str, float] = dict.fromkeys(_STATS, 0)
        self._stats["trajectory_return_max"] = float("-inf")

    def get_stats(self) -> dict[str, float]:
        """Counters of episodes, groups and returns so far, and of what waits.

        Example:
            >>> from lite.data import MCAdvantage
            >>> stats = MCAdvantage(2).get_stats()
            >>> stats["completed_trajectories"], stats["dropped_groups"], stats["queued_groups"]
            (0, 0, 0)
        """
        return {
            **self._stats,
            "queued_groups": self.queued_groups,
            "queued_trajectories": self.queued_trajectories,
            "max_queued_trajectories_per_group": max(map(len, self._queues.values()), default=0),
        }

    def _count_episode(self, episode: TensorDictBase) -> None:
        stats = self._stats
        stats["completed_trajectories"] += 1
        stats["completed_decisions"] += episode.numel()
        if self.trajectory_return is not None:
            total = float(np.asarray(episode.get(self.rewards_key)).sum())
            stats["trajectory_return_sum"] += total
            stats["trajectory_return_max"] = max(stats["trajectory_return_max"], total)
            stats["successful_trajectories"] += int(total > 0)

    def _count_group(self, group: Any, written: bool) -> None:
        self._stats["completed_groups"] += 1
        self._stats["written_groups" if written else "dropped_groups"] += 1
        if self.verbose:
            fate = "written" if written else "dropped, as no choice is within keep_return_bounds"
            _LOGGER.info("MCAdvantage: the group %r is %s", group, fate)


belong_to("lite.data", GroupAdvantage, MCAdvantage)


def _ids(tensordict: TensorDictBase, key: NestedKey, reader: str) -> NDArray[Any]:
    """Group ids as an array, also where they are objects such as strings."""
    entry: Any = tensordict.get(key, None)
    if entry is None:
        raise KeyError(f"{reader} reads the groups from {key!r}, which the TensorDict lacks.")
    if isinstance(entry, NonTensorBase):
        entry = np.array(entry.tolist())
    return np.asarray(entry)


def _identity(episode: TensorDictBase, key: NestedKey) -> Any:
    """The key of an episode's group, from its first step."""
    entry: Any = episode[0].get(key, None)
    if entry is None:
        raise KeyError(f"MCAdvantage reads the group from {key!r}, which the TensorDict lacks.")
    if isinstance(entry, NonTensorBase):
        entry = entry.tolist()
    if isinstance(entry, np.ndarray | np.generic):
        entry = entry.item() if entry.size == 1 else tuple(entry.reshape(-1).tolist())
    if not isinstance(entry, str | int | float | tuple):
        raise TypeError(f"the group {key!r} must be a string or numbers, got {type(entry).__name__}.")
    return entry


def _joined(episodes: Sequence[TensorDictBase]) -> TensorDictBase:
    try:
        return cat(list(episodes), 0)
    except RuntimeError:  # ragged
        return lazy_stack([step for episode in episodes for step in episode.unbind(0)], 0)
