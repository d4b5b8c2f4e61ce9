"""`Rollout`: the loop of a collector, which writes each step into preallocated arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite import TensorDict, TensorDictBase, is_leaf_nontensor, is_non_tensor
from lite._arrays.types import Path, stored
from lite._tree.keys import require_path
from lite.data.collectors.episode_statistics import EpisodeStatistics
from lite.envs.environments import RESERVED, EncodedEnvironments, EnvError, Environments, Fault, aligned
from lite.envs.transforms.step_transforms import StepTransform, TensorDictPrimer

FLAGS = ("terminated", "truncated", "done")
IDS = ("collector", "traj_ids")
MASK = ("collector", "mask")

Array = NDArray[Any]


class _Written(NamedTuple):
    """An entry that the policy writes, and where it is kept."""

    key: Any
    shape: tuple[int, ...]
    target: Array
    following: Array | None  # for entries of "next", the array of the next step's root


class _Plan(NamedTuple):
    """The copies of each step: from an array of the step to the array of all steps of a batch."""

    root: list[tuple[Array, Array]]
    following: list[tuple[Array, Array]]
    reached: list[Array]
    present: list[Array]
    carried: list[tuple[Array, Array]]
    written: list[_Written]


class Rollout:
    """Steps environments with a policy, and writes the steps into two sets of arrays in turn.

    The policy reads `entries`, the state between steps: observations, entries of step transforms, and entries
    that the policy wrote to "next" (of an EnvBase only those that a transform starts, as in its own steps).
    A row of the batch is one environment, and each of its frames is a step:
    at the end of an episode, the frame's "next" has the last observation, and the next frame starts with the
    first one of the next episode. If environments reset in a step of their own (`Environments.skips`), that
    step is a frame that the entry ("collector", "mask") marks with False. It is a truncated episode with the
    id -1, so that no sum crosses it.

    Args:
        environments: the environments.
        transforms: the step transforms.
        time: frames of each environment in a batch.
        traj_ids: write ("collector", "traj_ids").
        allow_nan: do not check for NaN.

    Raises:
        ValueError: two transforms, or one and the environments, write the same entry.
    """

    def __init__(
        self, environments: Environments, transforms: Sequence[StepTransform], time: int, *,
        traj_ids: bool, allow_nan: bool,
    ) -> None:  # fmt: skip
        batch = environments.batch
        self.environments = environments
        self.transforms = list(transforms)
        self.time = time
        self.allow_nan = allow_nan
        self.done_keys = FLAGS
        self.statistics = EpisodeStatistics(batch)
        self.steps = 0  # of each environment, in all
        self.filled = 0  # frames of the batch that is being collected
        self.skipped = 0  # frames of it that are marked
        self.next_traj = 0
        self.stale = True  # whether all environments must be reset first
        self.seed: int | list[int] | None = None  # of the next reset of all

        self.entries: dict[Path, Array] = {}
        self.following: dict[Path, Array] = {("reward",): np.zeros((*batch, 1), np.float32)}
        for name in FLAGS:
            self.following[name,] = np.zeros((*batch, 1), np.bool_)
        self._observed = [leaf.path for leaf in environments.observation.leaves]
        self._actions = [leaf.path for leaf in environments.action.leaves]
        self._primed: set[Path] = set()
        self._ids = np.zeros(batch, np.int64)
        self._skipping = np.zeros(batch, np.bool_)
        self._flat = self._without_last_dimension()
        for leaf in environments.observation.leaves:
            self.entries[leaf.path] = np.zeros((*batch, *leaf.spec.shape), leaf.spec.dtype)
        for transform in self.transforms:
            for path, first in transform.initial(batch).items():
                if path in self.entries or path[0] in RESERVED:
                    raise ValueError(
                        f"{type(transform).__name__} writes {path}, which something else writes."
                    )
                self._carry(path, first)
                if isinstance(transform, TensorDictPrimer):
                    self._primed.add(path)
        self.input = TensorDict(dict(self.entries), batch)

        names = [*(None,) * len(batch), "time"]
        self._buffers = tuple(TensorDict({}, (*batch, time), names=names) for _ in range(2))
        for path, array in self.entries.items():
            self._make_room(path, array.shape, array.dtype)
            if path in self._observed:
                self._make_room(("next", *path), array.shape, array.dtype)
        for path, array in self.following.items():
            self._make_room(("next", *path), array.shape, array.dtype)
            if path[0] in FLAGS:
                self._make_room(path, array.shape, array.dtype)
        for leaf in environments.action.leaves:
            self._make_room(leaf.path, (*batch, *leaf.spec.shape), leaf.spec.dtype)
        if traj_ids:
            self._make_room(IDS, batch, np.dtype(np.int64))
        if environments.skips:
            self._make_room(MASK, batch, np.dtype(np.bool_))
        self._rewritten: list[tuple[Any, Array]] = []
        self._written: dict[Path, tuple[int, ...]] = {path: self._shape(path) for path in self._actions}
        self._plans = [self._plan(buffer) for buffer in self._buffers]

    def _without_last_dimension(self) -> tuple[Array, ...]:
        """Views of rewards and flags, to write to."""
        return tuple(self.following[name,][..., 0] for name in ("reward", *FLAGS))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._flat = self._without_last_dimension()  # a copy, or a pickle, has the arrays, not their views

    # -- batches --------------------------------------------------------------------------------

    def run(self, policy: Callable[[Any], Any], turn: int, *, only_actions: bool = False) -> TensorDict:
        """Collect a batch.

        Args:
            policy: gets a TensorDict, the same at each step, and returns one that has the actions.
            turn: the set of arrays to write to, 0 or 1.
            only_actions: the policy writes actions alone; other entries of an earlier policy are 0.

        Raises:
            EnvError: an environment failed.

        After any error `batch` still gives the `filled` frames, and the next call resets all environments.
        """
        self.filled = self.skipped = 0
        try:
            if self.stale:
                self.start_all()
            buffer = self._buffers[turn]
            for name in FLAGS:
                buffer[name,][...] = False
            if self.environments.skips:
                buffer[MASK][...] = True
            if only_actions:
                for path in self._written:
                    if path not in self._actions:
                        buffer[path][...] = 0
            for t in range(self.time):
                self._step(policy, turn, t, only_actions)
        except Fault as fault:
            self.stale = True
            raise self._error(fault, turn) from fault.cause
        except BaseException:
            self.stale = True
            raise
        return self.batch(turn)

    def batch(self, turn: int) -> TensorDict:
        """The frames in a set of arrays, which the result shares."""
        buffer = self._buffers[turn]
        return buffer.copy() if self.filled == self.time else buffer[..., : self.filled]

    def start_all(self) -> None:
        """Start an episode in all environments."""
        seed, self.seed = self.seed, None
        arrays = self.environments.reset(seed)
        if not self.allow_nan:
            self._check_numbers(arrays)
        for path, array in zip(self._observed, arrays, strict=True):
            self.entries[path][...] = array
        self._skipping = np.zeros(self.environments.batch, np.bool_)
        self._start_entries(~self._skipping)
        self.stale = False

    def probe(self, policy: Callable[[Any], Any]) -> None:
        """Call the policy once, and ignore its actions, to find the other entries that it writes."""
        if self.stale:
            try:
                self.start_all()
            except Fault as fault:
                raise self._error(fault, 0) from fault.cause
        given = self.input.clone()
        before = {path: given.get(path) for path in self.entries}
        self._learn(policy(given), before, only_actions=True)

    # -- a step ---------------------------------------------------------------------------------

    def _step(self, policy: Callable[[Any], Any], turn: int, t: int, only_actions: bool) -> None:
        at = (slice(None), t) if self.environments.batch else (t,)
        following = self.following
        for key, array in self._rewritten:
            self.input.set(key, array)
        plan = self._plans[turn]
        for source, target in plan.root:  # before the policy can change them
            target[at] = source
        out = policy(self.input)
        if t == 0:
            self._learn(out, self.entries)
            plan = self._plans[turn]
        values = []
        for written in plan.written[: len(self._actions)] if only_actions else plan.written:
            value = self._read(out, written)
            written.target[at] = value
            values.append(value)
        actions = values[: len(self._actions)]
        if only_actions:
            for key, array in self._rewritten:
                self._buffers[turn][key][at] = array

        reached, present, reward, terminated, truncated, autoreset = self.environments.step(actions)
        rewards, terminations, truncations, dones = self._flat
        rewards[...] = reward
        terminations[...] = terminated
        truncations[...] = truncated
        if not self.allow_nan:  # in one call, as each takes a microsecond
            self._check_numbers([*reached, rewards] if autoreset is None else [*reached, *present, rewards])
        np.logical_or(terminations, truncations, dones)
        for transform in self.transforms:
            transform.step(self.entries, following)
        if not only_actions:
            for i, written in enumerate(plan.written):
                if written.following is not None:
                    written.following[...] = values[i]
        if self.environments.skips:
            self._mark_skipped(turn, at)
        for source, target in plan.following:
            target[at] = source
        for i, target in enumerate(plan.reached):  # a strict zip takes 0.2 microseconds of a step's 19
            target[at] = reached[i]
        self.filled = t + 1
        self.steps += 1

        self.statistics.add(reward)
        for i, entry in enumerate(plan.present):
            entry[...] = present[i]
        for source, target in plan.carried:
            target[...] = source
        if np.count_nonzero(dones) or np.count_nonzero(truncations):
            self._reset_some(dones | truncations, autoreset)

    def _read(self, out: Any, written: _Written) -> Array:
        """The output of the policy as an array of the entry's shape and dtype."""
        value = out.get(written.key, None)
        if type(value) is np.ndarray and value.shape == written.shape and value.dtype == written.target.dtype:
            return value
        if value is None:
            raise KeyError(
                f"the policy must write {written.key!r} at each step, got {sorted(map(str, out.keys()))}."
            )
        array = np.asarray(stored(value))
        if array.shape != written.shape:
            raise ValueError(
                f"the policy must give {written.key!r} of shape {written.shape}, got {array.shape}."
            )
        if not np.can_cast(array.dtype, written.target.dtype, "same_kind"):
            raise TypeError(
                f"the policy must give {written.key!r} of dtype {written.target.dtype}, got {array.dtype}."
            )
        return array.astype(written.target.dtype)

    def _mark_skipped(self, turn: int, at: tuple[Any, ...]) -> None:
        skipping = self._skipping
        count = int(np.count_nonzero(skipping))
        if count:
            _, terminations, truncations, dones = self._flat
            terminations[skipping] = False
            truncations[skipping] = True
            dones[skipping] = True
            self._buffers[turn][MASK][at] = ~skipping
            self.skipped += count

    def _reset_some(self, ended: NDArray[np.bool_], autoreset: NDArray[np.bool_] | None) -> None:
        """Reset environments that ended, a mask of shape `batch`, except those in `autoreset`."""
        if self.environments.skips:
            # They reset in the next step, which is not a frame of an episode.
            self._skipping = ended & ~self._skipping
            self.statistics.end(self._skipping, self.steps)
        else:
            self.statistics.end(ended, self.steps)
            asked = ended if autoreset is None else ended & ~autoreset
            if np.count_nonzero(asked):
                arrays = self.environments.reset_some(asked)
                observed = [self.entries[path] for path in self._observed]
                for entry, array in zip(observed, arrays, strict=True):
                    np.copyto(entry, array, "unsafe", aligned(asked, entry))
                if not self.allow_nan:
                    self._check_numbers(observed)
        self._start_entries(ended)

    def _start_entries(self, started: NDArray[np.bool_]) -> None:
        """Set entries other than observations to their initial values where episodes start."""
        self.statistics.start(started, self.steps)
        first: dict[Path, Array] = {}
        for transform in self.transforms:
            first.update(transform.initial(self.environments.batch))
        for path, entry in self.entries.items():
            if path not in self._observed:
                # A third of the time of entry[started] = ..., which indexes twice.
                np.copyto(entry, first.get(path, 0), "unsafe", aligned(started, entry))
        fresh = started
        if self.environments.skips:
            fresh = started & ~self._skipping
            self._ids[started] = -1
        count = int(np.count_nonzero(fresh))
        self._ids[fresh] = np.arange(self.next_traj, self.next_traj + count)
        self.next_traj += count

    def _check_numbers(self, arrays: list[Array]) -> None:
        """Raise Fault for NaN in arrays of all environments."""
        for array in arrays:
            if array.dtype.kind == "f" and array.size:
                at = array.argmax()  # of the first NaN, if there is any
                number = array.item(at)
                if number != number:
                    what = "a reward" if array is self._flat[0] else "an observation"
                    raise Fault(f"gave {what} of NaN", int(at * self.environments.count // array.size))

    # -- writes ---------------------------------------------------------------------------------

    def _learn(self, out: Any, before: dict[Path, Array], only_actions: bool = False) -> None:
        """Find the entries that the policy writes, and plan the copies."""
        if not isinstance(out, TensorDictBase):
            raise TypeError(f"the policy must return a TensorDict, got {type(out).__name__}.")
        for key in list(out.keys(True, True, is_leaf=is_leaf_nontensor)):
            path = require_path(key)
            value = out.get(key)
            if path in self._written or value is before.get(path):
                continue
            room = self._buffers[0].get(path, None)
            if path[0] == "next" and path[1:] not in self.entries and room is None:
                first = np.zeros_like(self._checked(path, value))
                self._make_room(path, first.shape, first.dtype)
                if not isinstance(self.environments, EncodedEnvironments):  # an EnvBase keeps to its specs
                    self._carry(path[1:], first)
                    self.input.set(path[1:], self.entries[path[1:]])
                    self._make_room(path[1:], first.shape, first.dtype)
                    self._primed.add(path[1:])
            elif path[0] == "next" and path[1:] not in self._primed:
                raise ValueError(
                    f"the policy must not write {path}, which the environment or a transform does."
                )
            elif path[0] in RESERVED and path[0] not in ("next", "action"):
                raise ValueError(f"the policy must not write {path}, which the collector does.")
            elif path[0] != "next":
                value = self._checked(path, value)
                if path in before:
                    self._rewritten.append((path, self.entries[path]))
                    if only_actions and value.shape != self.entries[path].shape:
                        raise ValueError(
                            f"the policy gives {path} another shape, which random frames cannot have."
                        )
                self._make_room(path, value.shape, value.dtype)
            self._written[path] = self._shape(path)
        if len(self._plans[0].written) != len(self._written):
            self._plans = [self._plan(buffer) for buffer in self._buffers]

    def _checked(self, path: Path, value: Any) -> Array:
        """An entry of the policy, which may be an array of JAX, as a NumPy array."""
        batch = self.environments.batch
        if not hasattr(value, "dtype") or is_non_tensor(value):
            raise TypeError(f"the policy must write arrays, got {type(value).__name__} at {path}.")
        array = np.asarray(stored(value))
        if array.shape[: len(batch)] != batch:
            raise ValueError(f"the policy must give {path} of shape {batch} and more, got {array.shape}.")
        return array

    def _carry(self, path: Path, first: Array) -> None:
        self.entries[path] = first.copy()
        self.following[path] = first.copy()

    def _make_room(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        lead = len(self.environments.batch)
        for buffer in self._buffers:
            buffer.set(path, np.zeros((*shape[:lead], self.time, *shape[lead:]), dtype))

    def _shape(self, path: Path) -> tuple[int, ...]:
        """The shape of an entry at one step."""
        shape, lead = self._buffers[0][path].shape, len(self.environments.batch)
        return (*shape[:lead], *shape[lead + 1 :])

    def _plan(self, buffer: TensorDict) -> _Plan:
        root = [(entry, buffer[path]) for path, entry in self.entries.items() if path not in self._written]
        if buffer.get(IDS, None) is not None:
            root.append((self._ids, buffer[IDS]))
        return _Plan(
            root=root,
            following=[(array, buffer["next", *path]) for path, array in self.following.items()],
            reached=[buffer["next", *path] for path in self._observed],
            present=[self.entries[path] for path in self._observed],
            carried=[
                (self.following[path], entry)
                for path, entry in self.entries.items()
                if path in self.following
            ],
            written=[
                _Written(
                    path[0] if len(path) == 1 else path,
                    shape,
                    buffer[path],
                    self.following.get(path[1:]) if path[0] == "next" else None,
                )
                for path, shape in self._written.items()
            ],
        )

    def _error(self, fault: Fault, turn: int) -> EnvError:
        several = f"one of {self.environments.count} environments"
        who = several if fault.index is None else f"environment {fault.index}"
        frames = self.batch(turn) if self.filled else None
        kept = f"{self.filled} frames of each environment in this batch are in the error's `frames`"
        return EnvError(
            f"{who} failed at step {self.steps}: {fault}; {kept}.", fault.index, self.steps, frames
        )
