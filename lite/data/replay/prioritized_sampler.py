"""Entries, or pieces of trajectories, are drawn in proportion to a priority, such as their last error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lite import NestedKey
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite._arrays.types import stored
from lite._files.mapping import read_file
from lite.data.replay.samplers import EMPTY, Index, Sampler, Seed, StorageView
from lite.data.replay.slice_sampler import SliceSampler, Span
from lite.data.replay.storages import PathLike, read_json, write_json
from lite.data.replay.trajectory_index import Ints, Seen, TrajectoryIndex
from lite.kernels import min_tree, search_sum_tree, sum_tree, update_min_tree, update_sum_tree

Floats = NDArray[np.floating[Any]]

_REDUCTIONS = ("max", "min", "mean", "median", "sum")
_METADATA, _SUMS = "sampler_metadata.json", "sumtree.memmap"


class PrioritizedSampler(Sampler):
    """Draw entries with a probability in proportion to (priority + eps) ** alpha, with replacement.

    The batch gets `"priority_weight"`: (p / least p) ** -beta of these powers p, which undoes what the
    priorities do to averages (wholly for beta 1) and is 1 at most. A draw of n from N entries, and a change
    of n priorities, take time in n log N.

    A new entry has the highest priority so far, 1 before there is any: so each is drawn soon.

    Args:
        max_capacity: how many entries the storage has room for.
        alpha: 0 draws uniformly, 1 in proportion to the priorities.
        beta: 0 leaves all weights at 1.
        eps: added to each priority, so that none is 0.
        dtype: float32 or float64, for the tree of sums and the weights. In float32 the probabilities of a
            million entries are right to some 6 digits.
        reduction: what a buffer makes of several priorities for one entry, as a stored trajectory has: "max",
            "min", "mean", "median" or "sum".
        max_priority_within_buffer: whether the priority of new entries is the highest that is stored now,
            not the highest ever given. Each loss of the highest takes time in N.
        generator: see `Sampler`.

    `alpha` and `beta` are attributes and may be changed at any time; the former takes time in N.

    Raises:
        NotImplementedError: another dtype or reduction.
        ValueError: alpha or beta below 0, a capacity below 1.

    Source:
        Schaul et al. (2016), Prioritized experience replay (arXiv:1511.05952), as in TorchRL.

    Example:
        >>> from lite.data import ListStorage, PrioritizedSampler
        >>> storage = ListStorage(10)
        >>> storage.set(range(3), ["a", "b", "c"])
        >>> sampler = PrioritizedSampler(10, alpha=1.0, beta=1.0, eps=0.0, generator=0)
        >>> sampler.update_priority([0, 1, 2], [1.0, 8.0, 1.0])
        >>> index, info = sampler.sample(storage, 6)
        >>> index.tolist(), info["priority_weight"].tolist()
        ([1, 1, 0, 0, 1, 2], [0.125, 0.125, 1.0, 1.0, 0.125, 1.0])
    """

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: DTypeLike = np.float32,
        reduction: str = "max",
        max_priority_within_buffer: bool = False,
        *,
        generator: Seed = None,
    ) -> None:
        super().__init__(generator=generator)
        self._max_capacity = max_capacity
        self._alpha = _not_negative("alpha", alpha)
        self._beta = _not_negative("beta", beta)
        self._eps = eps
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise NotImplementedError(f"dtype must be float32 or float64, got {self.dtype}.")
        if reduction not in _REDUCTIONS:
            raise NotImplementedError(f"reduction must be one of {_REDUCTIONS}, got {reduction!r}.")
        self.reduction = reduction
        self._max_priority_within_buffer = max_priority_within_buffer
        self._empty()

    def _empty(self) -> None:
        self._sum_tree = sum_tree(self._max_capacity, self.dtype)
        self._min_tree = min_tree(self._max_capacity, self.dtype)
        self._max_priority: float | None = None
        self._max_index = -1

    @property
    def max_size(self) -> int:
        return self._max_capacity

    @property
    def alpha(self) -> float:
        """The exponent of the priorities.

        Set again, it changes the priorities that are stored, too. Those stored with alpha 0 are not known:
        they stay equal until they are next updated.
        """
        return self._alpha

    @alpha.setter
    def alpha(self, value: float) -> None:
        before, self._alpha = self._alpha, _not_negative("alpha", value)
        leaves = self._leaves()
        written = np.flatnonzero(leaves > 0)
        if value == before or not written.size:
            return
        if not before:
            warn(
                "alpha was 0, so the priorities are not known: entries stay equally likely until their "
                "priorities are next updated.",
                UserWarning,
            )
            return
        raw = np.maximum(leaves[written].astype(np.float64) ** (1 / before) - self._eps, 0)
        self._set_leaves(written, ((raw + self._eps) ** value).astype(self.dtype))

    @property
    def beta(self) -> float:
        """The exponent of the weights."""
        return self._beta

    @beta.setter
    def beta(self, value: float) -> None:
        self._beta = _not_negative("beta", value)

    @property
    def default_priority(self) -> float:
        return 1.0 if self._max_priority is None else self._max_priority

    def sample(self, storage: StorageView, batch_size: int) -> tuple[Index, dict[Any, Any]]:
        """Indices into the storage, and `"priority_weight"`, `(batch_size,)` of `dtype`.

        Raises:
            RuntimeError: the storage is empty, or no entry of it has a priority, or one has the priority 0
                with eps=0.
        """
        index, weight = self._draw(storage, batch_size)
        if storage.ndim > 1:
            return tuple(np.unravel_index(index, storage.shape)), {"priority_weight": weight}
        return index, {"priority_weight": weight}

    def _draw(self, storage: StorageView, count: int) -> tuple[NDArray[np.int64], Floats]:
        """Places in the flat storage, and weights."""
        length = len(storage)
        if not length:
            raise RuntimeError(EMPTY)
        total, least = self._sum_tree[1], self._min_tree[1]
        if not 0 < total < np.inf or not least > 0:
            raise RuntimeError(
                f"priorities must sum to a positive number and none be 0, got the sum {total} and the "
                f"least {least}."
            )
        index = search_sum_tree(self._sum_tree, self._generator().random(count) * float(total))
        if count and index.max() >= length:
            raise RuntimeError(f"entry {index.max()} has a priority, but the storage has {length} entries.")
        weight = (self._sum_tree[self._sum_tree.size // 2 + index] / least) ** self._number(-self._beta)
        return index, weight

    def mark_update(self, index: Any, *, storage: StorageView | None = None) -> None:
        """Give the entries at `index`, which are new, the default priority."""
        highest = self._max_index
        self.update_priority(index, self.default_priority, storage=storage)
        if self._max_priority_within_buffer and (flat_places(index, storage) == highest).any():
            self._max_priority, self._max_index = None, -1  # it was written over

    def update_priority(
        self, index: Any, priority: ArrayLike, *, storage: StorageView | None = None
    ) -> dict[str, Any] | None:
        """Change priorities. Of several for one entry the last counts.

        Args:
            index: integers, `(entries,)` or one, or a tuple of them for a storage of several dimensions (or
                `(entries, dimensions)`). Negative ones are left out, as writers that drop data give.
            priority: numbers of at least 0, one for each index or one for all.
            storage: needed for its shape where it has several dimensions.

        Raises:
            IndexError: an index beyond the capacity. Nothing has changed then, as with all errors.
            RuntimeError: as many priorities as fit no index, indices in several dimensions without a storage.
            TypeError: an index of no integers.
            ValueError: NaN, infinite or negative priorities.
        """
        places = flat_places(index, storage)
        given = np.asarray(stored(priority))
        if given.size == 1:
            given = given.reshape(())
        elif given.shape != places.shape:
            if given.size != places.size:
                raise RuntimeError(
                    f"priority must be one number or one for each index, got the shape {given.shape} for "
                    f"{places.size} indices."
                )
            given = given.reshape(places.shape)
        if not places.size:
            return None
        if places.min() < 0:
            kept = places >= 0
            places = places[kept]
            given = given[kept] if given.ndim else given
            if not places.size:
                return None
        top = float(given.max())
        if not (given.min() >= 0 and top < np.inf):  # NaN is the least and the highest of all
            wrong = given[~((given >= 0) & (given < np.inf))] if given.ndim else given
            raise ValueError(f"priority must be finite and at least 0, got {wrong.reshape(-1)[0]}.")
        if places.max() >= self._max_capacity:
            raise IndexError(f"index must be below max_capacity={self._max_capacity}, got {places.max()}.")
        with np.errstate(over="ignore"):  # what is too large is refused as infinite
            leaves = (given.astype(self.dtype) + self._number(self._eps)) ** self._number(self._alpha)
        self._set_leaves(places, leaves if given.ndim else np.full(places.shape, leaves))
        if self._max_priority is None or top > self._max_priority:
            self._max_priority = top
            self._max_index = int(places[int(given.argmax()) if given.ndim else 0])
        if self._max_priority_within_buffer and self._alpha and (places == self._max_index).any():
            leaves = self._leaves()
            self._max_index = int(leaves.argmax())
            self._max_priority = max(float(leaves[self._max_index]) ** (1 / self._alpha) - self._eps, 0.0)
        return None

    def _number(self, value: float) -> Any:
        """A number that leaves arrays in their type."""
        return self.dtype.type(value)

    def _leaves(self) -> Floats:
        """(priority + eps) ** alpha of each entry, 0 for those without one."""
        half = self._sum_tree.size // 2
        return self._sum_tree[half : half + self._max_capacity]

    def _set_leaves(self, places: NDArray[np.int64], leaves: Floats) -> None:
        update_sum_tree(self._sum_tree, places, leaves)
        update_min_tree(self._min_tree, places, leaves)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "_alpha": self._alpha,
            "_beta": self._beta,
            "_eps": self._eps,
            "_max_priority": -1.0 if self._max_priority is None else self._max_priority,
            "_max_index": self._max_index,
            "_leaves": self._leaves().copy(),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the state of another sampler.

        Raises:
            KeyError: something is missing.
            RuntimeError: it is one of another capacity.
            ValueError: its priorities are negative, NaN or infinite.
        """
        leaves = np.asarray(state_dict["_leaves"])
        if leaves.shape != (self._max_capacity,):
            raise RuntimeError(
                f"max_capacity is {self._max_capacity}, got a state of the shape {leaves.shape}."
            )
        alpha = _not_negative("alpha", float(state_dict["_alpha"]))
        beta = _not_negative("beta", float(state_dict["_beta"]))
        eps, highest = _not_negative("eps", float(state_dict["_eps"])), float(state_dict["_max_priority"])
        if not np.isfinite([alpha, beta, eps, highest]).all():
            raise ValueError(
                f"numbers must be finite, got {alpha=}, {beta=}, {eps=}, max_priority={highest}."
            )
        place = int(state_dict["_max_index"])
        sums, least = sum_tree(self._max_capacity, self.dtype), min_tree(self._max_capacity, self.dtype)
        places = np.arange(self._max_capacity)
        update_sum_tree(sums, places, leaves)
        update_min_tree(least, places, np.where(leaves > 0, leaves, np.inf))
        super().load_state_dict(state_dict)
        self._sum_tree, self._min_tree = sums, least
        self._alpha, self._beta, self._eps = alpha, beta, eps
        self._max_priority, self._max_index = (None, -1) if highest < 0 else (highest, place)

    def dumps(self, path: PathLike) -> None:
        """Write the files of torchrl's sampler to the folder `path`, and the state of the generator."""
        folder, state = Path(path), self.state_dict()
        folder.mkdir(parents=True, exist_ok=True)
        leaves = state.pop("_leaves").astype("<f8")
        least = np.where(leaves > 0, leaves, float(np.finfo(self.dtype).max))
        (folder / _SUMS).write_bytes(leaves.tobytes())
        (folder / "mintree.memmap").write_bytes(least.tobytes())
        highest = [self._max_priority, self._max_index]
        about = {"_max_priority": highest, "_max_capacity": self._max_capacity, "_schema_version": 1}
        write_json(folder / _METADATA, {**state, **about})

    def loads(self, path: PathLike) -> None:
        """Restore what `dumps` wrote, here or in torchrl.

        Raises:
            ValueError, RuntimeError: see `load_state_dict`; or damaged files.
        """
        folder = Path(path)
        if not (folder / _METADATA).exists():
            return super().loads(path)  # files of version 0.2
        state = read_json(folder / _METADATA)
        highest, place = state["_max_priority"]
        if state["_max_capacity"] != self._max_capacity:
            raise RuntimeError(
                f"max_capacity is {self._max_capacity}, {folder} has {state['_max_capacity']}."
            )
        leaves = np.frombuffer(read_file(str(folder / _SUMS), 8 * self._max_capacity), "<f8")
        numbers = {"_max_priority": -1.0 if highest is None else highest, "_max_index": place}
        return self.load_state_dict({**state, **numbers, "_leaves": leaves})

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(alpha={self._alpha}, beta={self._beta}, eps={self._eps}, "
            f"reduction={self.reduction})"
        )


def flat_places(index: Any, storage: StorageView | None) -> NDArray[np.int64]:
    """An index of any form as places in the flat storage, (entries,)."""
    if isinstance(index, tuple) or (isinstance(index, np.ndarray) and index.ndim > 1):
        parts = index if isinstance(index, tuple) else tuple(np.moveaxis(index, -1, 0))
        if storage is None:
            raise RuntimeError(
                "storage must be given with an index in several dimensions, as its shape is needed."
            )
        if len(parts) != storage.ndim:
            raise RuntimeError(f"index must have {storage.ndim} parts for this storage, got {len(parts)}.")
        flat = np.asarray(parts[0])
        for part, size in zip(parts[1:], storage.shape[1:], strict=True):
            flat = flat * size + np.asarray(part)
        index = flat
    places = np.asarray(index)
    if places.dtype.kind not in "iu" and places.size:
        raise TypeError(f"index must be integers, got {places.dtype}.")
    return places.reshape(-1).astype(np.int64, copy=False)


def _not_negative(name: str, value: float) -> float:
    if not value >= 0:
        raise ValueError(f"{name} must be at least 0, got {value}.")
    return value


class PrioritizedSliceSampler(SliceSampler, PrioritizedSampler):
    """Draw slices of trajectories by the priorities of their first steps.

    The probability is proportional to (priority + eps) ** alpha. A slice starts at steps that are followed by
    enough steps of their trajectory; without `strict_length` also at the first step of a shorter trajectory,
    which gives a shorter slice. The batch gets the flags of `SliceSampler` and, for each step, the weight
    that `PrioritizedSampler` gives its slice.

    The steps that may start a slice are updated as rows are written, for one length of slices; a batch of
    another length reads all rows once.

    Args:
        max_capacity, alpha, beta, eps, dtype, reduction, max_priority_within_buffer: see
            `PrioritizedSampler`.
        span: see `SliceSampler`; only the end of a slice may lie outside of its trajectory.

    The other arguments and the errors are those of `SliceSampler`.

    Raises:
        RuntimeError: the storage is larger than `max_capacity`.

    Source:
        `PrioritizedSliceSampler` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import PrioritizedSliceSampler, TensorStorage
        >>> storage = TensorStorage(TensorDict({"episode": np.repeat([7, 8], 4)}, [8]))
        >>> sampler = PrioritizedSliceSampler(8, alpha=1.0, beta=1.0, slice_len=3, generator=0)
        >>> sampler.update_priority(np.arange(8), [0, 9, 99, 99, 0, 1, 99, 99])
        >>> index, info = sampler.sample(storage, 6)
        >>> index.tolist()
        [1, 2, 3, 1, 2, 3]
    """

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: DTypeLike = np.float32,
        reduction: str = "max",
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        end_key: NestedKey | None = None,
        end_keys: Sequence[NestedKey] | None = None,
        traj_key: NestedKey | None = None,
        cache_values: bool = False,
        truncated_key: NestedKey | None = ("next", "truncated"),
        init_key: NestedKey | None = "is_init",
        strict_length: bool = True,
        span: Span = False,
        max_priority_within_buffer: bool = False,
        generator: Seed = None,
    ) -> None:
        SliceSampler.__init__(
            self,
            num_slices=num_slices,
            slice_len=slice_len,
            end_key=end_key,
            end_keys=end_keys,
            traj_key=traj_key,
            cache_values=cache_values,
            truncated_key=truncated_key,
            init_key=init_key,
            strict_length=strict_length,
            span=span,
        )
        if self.span[0]:
            warn(
                "slices by priority start at the step that was drawn: span counts at the end alone.",
            )
            self.span = (False, self.span[1])
        PrioritizedSampler.__init__(
            self,
            max_capacity,
            alpha,
            beta,
            eps,
            dtype,
            reduction,
            max_priority_within_buffer,
            generator=generator,
        )

    def _empty(self) -> None:
        SliceSampler._empty(self)
        PrioritizedSampler._empty(self)
        # The sum tree holds 0 where no slice may start; these are the priorities of all steps.
        self._raw: Floats = np.zeros(self._max_capacity, self.dtype)
        self._may_start: NDArray[np.bool_] = np.zeros(self._max_capacity, np.bool_)
        self._required_length = 0

    def sample(self, storage: StorageView, batch_size: int) -> tuple[Index, dict[Any, Any]]:
        length, count = self._slices(batch_size)
        _, after = self._over(length)
        trajectories = self._follow(storage, length)
        rows, lanes = trajectories.rows, trajectories.lanes
        if not self._sum_tree[1] > 0:
            raise RuntimeError(f"no trajectory in the storage has the {length - after} steps of a slice.")
        place, weight = self._draw(storage, count)
        oldest = trajectories.oldest
        first, lane = oldest + (place // lanes - oldest) % rows, place % lanes
        taken: int | Ints = length
        if after or not self.strict_length:
            taken = trajectories.lengths_from(storage, first, lane, length)
        index, info = self._batch(storage, trajectories, first, taken, lane, length)
        return index, {"priority_weight": np.repeat(weight, taken), **info}

    def _shortest(self, length: int) -> int:
        return length - self._over(length)[1] if self.strict_length else 1

    def _follow(self, storage: StorageView, length: int, seen: Seen | None = None) -> TrajectoryIndex:
        if storage.max_size > self._max_capacity:
            raise RuntimeError(
                f"max_capacity must be that of the storage, {storage.max_size}, got {self._max_capacity}."
            )
        required = length - self._over(length)[1]
        if self._trajectories is not None and required != self._required_length:
            self._trajectories.forget()
        self._required_length = required
        trajectories = SliceSampler._follow(self, storage, length, self._update_starts)
        if not self.strict_length:
            lanes = trajectories.lanes
            self._add_starts(trajectories.oldest % trajectories.rows * lanes + np.arange(lanes))
        return trajectories

    def _update_starts(self, start: int, starts: Ints, void: bool) -> None:
        """Update the rows that may start a slice after rows were written; see `TrajectoryIndex.follow`."""
        trajectories = self._trajectories
        assert trajectories is not None
        rows, lanes = trajectories.rows, trajectories.lanes
        if void:
            self._may_start[:] = False
            self._sum_tree = sum_tree(self._max_capacity, self.dtype)
        count = len(starts)
        new = np.arange(start, start + count)[:, None]
        # Each new row is the last one of a slice, whose first row must be of the same trajectory.
        candidate = new - (self._required_length - 1)
        long_enough = (starts <= candidate) & (candidate >= start + count - rows)
        inner = np.arange(lanes)
        written = (new % rows * lanes + inner).reshape(-1)
        self._may_start[written] = False
        allowed = (candidate % rows * lanes + inner)[long_enough]
        self._may_start[allowed] = True
        if not self.strict_length:
            first = (new % rows * lanes + inner)[starts == new]
            self._may_start[first] = True
        changed = np.concatenate((written, allowed))
        update_sum_tree(self._sum_tree, changed, np.where(self._may_start[changed], self._raw[changed], 0))

    def _add_starts(self, places: Ints) -> None:
        """Let the oldest rows start a slice, as the first rows of their trajectories were overwritten."""
        missing = places[~self._may_start[places]]
        if missing.size:
            self._may_start[missing] = True
            update_sum_tree(self._sum_tree, missing, self._raw[missing])

    def _leaves(self) -> Floats:
        return self._raw

    def _set_leaves(self, places: Ints, leaves: Floats) -> None:
        update_min_tree(self._min_tree, places, leaves)
        self._raw[places] = leaves
        update_sum_tree(self._sum_tree, places, np.where(self._may_start[places], leaves, 0))

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        PrioritizedSampler.load_state_dict(self, state_dict)
        self._raw = np.array(state_dict["_leaves"], self.dtype)
        self._trajectories = None  # which steps may start a slice is read from the storage again

    def __repr__(self) -> str:
        return (
            SliceSampler.__repr__(self)[:-1] + f", alpha={self._alpha}, beta={self._beta}, eps={self._eps})"
        )


belong_to("lite.data", PrioritizedSampler, PrioritizedSliceSampler)
