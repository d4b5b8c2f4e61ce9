"""Samplers of slices: consecutive steps of trajectories."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey
from lite._arrays.public import belong_to
from lite.data.replay.samplers import EMPTY, Index, Sampler, SamplerWithoutReplacement, Seed, StorageView
from lite.data.replay.trajectory_index import Ints, Seen, Signal, TrajectoryIndex, values_at
from lite.kernels._integer import integer

_IDS: tuple[NestedKey, ...] = (("collector", "traj_ids"), "episode")
_END: NestedKey = ("next", "done")
_MASK: NestedKey = ("collector", "mask")
Span = bool | int | Sequence[bool | int]


class SliceSampler(Sampler):
    """Draw slices of trajectories with replacement: first a trajectory, then its slice, both uniformly.

    The slices of a batch are consecutive. In the batch `truncated_key` and "done" beside it are True at the
    last step of each slice ("done" also where it is stored); "terminated" is as stored, or False.

    Rows are in the order of time; overwritten rows cut off the start of a trajectory. In a storage of several
    dimensions the first is time, the others are environments. The time of a draw does not depend on the
    capacity. What other processes write is noticed.

    Args:
        num_slices, slice_len: slices in a batch, or steps of a slice; give one, which divides the batch size.
        end_key, end_keys: the entry that is True at the last step of a trajectory; or several, of which one
            is True.
        traj_key: the entry with the number of the trajectory. By default, and if the keys are not stored: the
            first stored one of `("collector", "traj_ids")`, `"episode"` and `("next", "done")`.
        cache_values: for TorchRL's signature, without effect.
        truncated_key: see above; None to write none of the three flags.
        init_key: an entry that is set to True at the first step of each slice, if it is stored; or None.
        strict_length: leave out trajectories shorter than a slice; if False they give shorter slices.
        pad_output: repeat the last step of shorter slices to fill the batch; `("collector", "mask")`, bool
            (batch size,), is False there. Needs `strict_length=False`.
        span: the number of steps of a slice that may lie outside of its trajectory, which are left out; one
            number, or a pair for start and end. Then steps near the ends are drawn as often as others. True:
            all but one step.
        generator: see `Sampler`.

    Raises:
        RuntimeError: both of `end_key` and `end_keys`.
        TypeError: not exactly one of `num_slices` and `slice_len`, or it is not an integer.
        ValueError: a number that is not positive; a negative `span`; `pad_output` with `strict_length`.

    Source:
        torchrl.data.SliceSampler.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import SliceSampler, TensorStorage
        >>> done = np.array([0, 0, 0, 0, 1, 0, 0, 0], bool)[:, None]
        >>> storage = TensorStorage(TensorDict({"next": {"done": done}}, [8]))
        >>> index, info = SliceSampler(slice_len=3, generator=0).sample(storage, 9)
        >>> index.reshape(3, 3).tolist()
        [[5, 6, 7], [2, 3, 4], [2, 3, 4]]
    """

    _batch_size_multiplier = 1  # steps that are drawn for each step of the batch
    _fills_front = False  # whether shorter slices begin with their first step several times

    def __init__(
        self,
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
        pad_output: bool = False,
        span: Span = False,
        generator: Seed = None,
    ) -> None:
        Sampler.__init__(self, generator=generator)
        if (num_slices is None) == (slice_len is None):
            raise TypeError(
                f"exactly one of num_slices and slice_len must be given, got num_slices={num_slices} and "
                f"slice_len={slice_len}."
            )
        if end_key is not None and end_keys is not None:
            raise RuntimeError("end_key and end_keys exclude each other.")
        self.num_slices = _count("num_slices", num_slices)
        self.slice_len = _count("slice_len", slice_len)
        self.end_key, self.traj_key = end_key, traj_key
        self.end_keys = None if end_keys is None else tuple(end_keys)
        self.cache_values = cache_values
        self.truncated_key, self.init_key = truncated_key, init_key
        self.strict_length = strict_length
        if pad_output and strict_length:
            raise ValueError("pad_output=True needs strict_length=False: others are never short.")
        self.pad_output = pad_output
        self.span = _sides(span)
        # Entries that a batch gets in addition to `truncated_key`.
        self._flags: tuple[NestedKey, ...] = ()
        if truncated_key is not None:
            self._flags = _beside(truncated_key, "done"), _beside(truncated_key, "terminated")
        self._trajectories: TrajectoryIndex | None = None

    def sample(self, storage: StorageView, batch_size: int) -> tuple[Index, dict[Any, Any]]:
        """Indices into the storage, slice by slice, and the flags of the batch.

        Raises:
            RuntimeError: the storage is empty, has no trajectory of this length, or nothing that tells
                trajectories apart; or the batch size is not divisible.
            ValueError: `span` is not below the steps of a slice.
        """
        length, count = self._slices(batch_size)
        before, after = self._over(length)
        trajectories = self._follow(storage, length)
        shortest = self._shortest(length)
        finished, going_on = trajectories.eligible(shortest)
        number = finished.shape[1] + going_on.size
        if not number:
            raise RuntimeError(f"no trajectory in the storage has the {shortest} steps of a slice.")
        first, lengths, lane = trajectories.pick(shortest, self._choose(number, count))
        taken = length if self.strict_length else np.minimum(lengths, length)
        if not before and not after:
            first = first + (self._generator().random(first.size) * (lengths - taken + 1)).astype(np.int64)
            return self._batch(storage, trajectories, first, taken, lane, length)
        before, after = np.minimum(before, taken - 1), np.minimum(after, taken - 1)
        if self._fills_front:  # steps that were overwritten are not copies of the oldest that is there
            before = np.where((first == trajectories.oldest) & (first > 0), 0, before)
        places = before + lengths - taken + after + 1
        start = (self._generator().random(first.size) * places).astype(np.int64) - before
        stop = np.minimum(start + taken, lengths)
        start = np.maximum(start, 0)
        return self._batch(storage, trajectories, first + start, stop - start, lane, length)

    def _choose(self, number: int, count: int) -> Ints:
        """The indices of the slices' trajectories, of `number`."""
        return (self._generator().random(count) * number).astype(np.int64)

    def _slices(self, batch_size: int) -> tuple[int, int]:
        """The number of steps of a slice, and of slices."""
        name, part = (
            ("num_slices", self.num_slices) if self.slice_len is None else ("slice_len", self.slice_len)
        )
        assert part is not None
        batch_size *= self._batch_size_multiplier
        if batch_size % part or not batch_size:
            raise RuntimeError(f"batch_size must be a multiple of {name}={part}, got {batch_size}.")
        other = int(batch_size) // part
        return (other, part) if self.slice_len is None else (part, other)

    def _shortest(self, length: int) -> int:
        """The shortest trajectory that a slice of `length` may be drawn from."""
        return length if self.strict_length else 1

    def _over(self, length: int) -> tuple[Any, Any]:
        """The numbers of steps of a slice that may lie before the start of a trajectory and after its end."""
        for side in self.span:
            if side is not True and side >= length:
                raise ValueError(f"span must be below the {length} steps of a slice, got {side}.")
        before, after = (length - 1 if side is True else int(side) for side in self.span)
        return before, after

    def _follow(self, storage: StorageView, length: int, seen: Seen | None = None) -> TrajectoryIndex:
        """The current trajectories in the storage, from which slices of `length` are drawn."""
        if not len(storage):
            raise RuntimeError(EMPTY)
        index = self._trajectories
        if index is None or not index.is_of(storage):
            index = self._trajectories = TrajectoryIndex(storage, self._signal(storage))
        index.follow(storage, seen)
        return index

    def _signal(self, storage: StorageView) -> Signal:
        """The entries that distinguish trajectories."""

        def stored(key: NestedKey) -> bool:
            return values_at(storage, key, slice(0, 1)) is not None

        ends = self.end_keys or (self.end_key or _END,)
        by_end = Signal(tuple(filter(stored, ends)), False)
        ids = _IDS if self.traj_key is None else (self.traj_key,)
        by_id = Signal(tuple(filter(stored, ids))[:1], True)
        ends_first = self.traj_key is None and (self.end_key is not None or self.end_keys is not None)
        for signal in (by_end, by_id) if ends_first else (by_id, by_end):
            if signal.keys:
                return signal
        raise RuntimeError(
            f"the storage has none of the entries {(*ids, *ends)}, which tell trajectories apart."
        )

    def _batch(
        self, storage: StorageView, trajectories: TrajectoryIndex, first: Ints, taken: int | Ints, lane: Ints,
        length: int,
    ) -> tuple[Index, dict[Any, Any]]:  # fmt: skip
        """The index and the flags of slices, by their first rows, lengths and lanes; `length` when padded."""
        info: dict[Any, Any] = {}
        if self._fills_front:
            steps = np.maximum(np.arange(length) - length + np.reshape(taken, (-1, 1)), 0)
            rows = (first[:, None] + steps).reshape(-1)
            starts = np.arange(first.size) * length
            last, taken = starts + length - 1, length
        elif self.pad_output:
            steps = np.arange(length)
            real = np.reshape(taken, (-1, 1))
            rows = (first[:, None] + np.minimum(steps, real - 1)).reshape(-1)
            info[_MASK] = (steps < real).reshape(-1)
            starts = np.arange(first.size) * length
            last, taken = starts + taken - 1, length
        elif isinstance(taken, int):
            rows = (first[:, None] + np.arange(taken)).reshape(-1)
            last = np.arange(taken - 1, rows.size, taken)
            starts = last - (taken - 1)
        else:
            taken = taken.astype(np.intp, copy=False)  # repeat takes no int64 where addresses have 32 bits
            stops = np.cumsum(taken)
            last, starts = stops - 1, stops - taken
            rows = np.repeat(first - starts, taken) + np.arange(stops[-1])
        lanes = np.repeat(lane, taken) if storage.ndim > 1 else lane
        index = trajectories.places(storage, rows, lanes)
        keys = self._flags if self.init_key is None else (*self._flags, self.init_key)
        flags = dict(zip(keys, trajectories.values(storage, keys, index), strict=True))
        if self.truncated_key is not None:
            done_key, terminated_key = self._flags
            truncated = np.zeros((rows.size, 1), np.bool_)
            truncated[last] = True
            done, terminated = flags[done_key], flags[terminated_key]
            info[self.truncated_key] = truncated
            info[done_key] = truncated.copy() if done is None else done | truncated.reshape(_like(done))
            info[terminated_key] = np.zeros_like(truncated) if terminated is None else terminated
        if self.init_key is not None:
            marked = flags[self.init_key]
            if marked is not None:
                marked[starts] = True
                info[self.init_key] = marked
        return index, info

    def can_sample(self, storage: StorageView, batch_size: int) -> bool:
        """Whether there is a trajectory of the length of a slice."""
        return self._numbers(storage, batch_size)[0] > 0

    def _numbers(self, storage: StorageView, batch_size: int) -> tuple[int, int]:
        """How many trajectories slices can be drawn from, and the slices of a batch."""
        if not len(storage):
            return 0, 1
        length, count = self._slices(batch_size)
        finished, going_on = self._follow(storage, length).eligible(self._shortest(length))
        return finished.shape[1] + going_on.size, count

    def _empty(self) -> None:
        self._trajectories = None

    def __getstate__(self) -> dict[str, Any]:
        # it is of one storage object, and read again from another
        return self.__dict__ | {"_trajectories": None}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_slices={self.num_slices}, slice_len={self.slice_len}, "
            f"end_key={self.end_key}, traj_key={self.traj_key}, truncated_key={self.truncated_key}, "
            f"strict_length={self.strict_length}, pad_output={self.pad_output}, span={self.span})"
        )


class SliceSamplerWithoutReplacement(SliceSampler, SamplerWithoutReplacement):
    """Draw one slice from each trajectory before any trajectory gives a second one.

    The order of trajectories is redrawn when all have been shown, and when their number has changed. The
    last batch of a round is smaller where the slices of a batch do not divide their number.

    Args:
        drop_last: leave out the last batch of a round if it would be smaller.
        shuffle: whether the order of trajectories is random; False: that of their ends.

    The other arguments and errors are those of `SliceSampler`; and a ValueError if there are fewer
    trajectories than slices in a batch, with `drop_last`.

    Source:
        `SliceSamplerWithoutReplacement` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import SliceSamplerWithoutReplacement, TensorStorage
        >>> storage = TensorStorage(TensorDict({"episode": np.repeat([7, 8, 9], 4)}, [12]))
        >>> sampler = SliceSamplerWithoutReplacement(num_slices=3, generator=0)
        >>> index, _ = sampler.sample(storage, 6)
        >>> sorted((index // 4).tolist()), sampler.ran_out
        ([0, 0, 1, 1, 2, 2], True)
    """

    def __init__(
        self,
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        drop_last: bool = False,
        end_key: NestedKey | None = None,
        end_keys: Sequence[NestedKey] | None = None,
        traj_key: NestedKey | None = None,
        truncated_key: NestedKey | None = ("next", "truncated"),
        init_key: NestedKey | None = "is_init",
        strict_length: bool = True,
        shuffle: bool = True,
        generator: Seed = None,
    ) -> None:
        SamplerWithoutReplacement.__init__(self, drop_last, shuffle)
        SliceSampler.__init__(
            self,
            num_slices=num_slices,
            slice_len=slice_len,
            end_key=end_key,
            end_keys=end_keys,
            traj_key=traj_key,
            cache_values=True,
            truncated_key=truncated_key,
            init_key=init_key,
            strict_length=strict_length,
            generator=generator,
        )

    def _choose(self, number: int, count: int) -> Ints:
        return self._next(number, count)

    def can_sample(self, storage: StorageView, batch_size: int) -> bool:
        """Whether there are as many trajectories as `drop_last` asks for."""
        number, count = self._numbers(storage, batch_size)
        return number >= (count if self.drop_last else 1)

    def _empty(self) -> None:
        SliceSampler._empty(self)
        SamplerWithoutReplacement._empty(self)

    __repr__ = SliceSampler.__repr__


belong_to("lite.data", SliceSampler, SliceSamplerWithoutReplacement)


def sampler_of_windows(length: int, repeats: bool, **kwargs: Any) -> SliceSampler:
    """A sampler of as many slices as a batch has steps, for `CatFrames.make_rb_transform_and_sampler`.

    Slices that would begin before their trajectory begin with its first step several times, if `repeats`.
    """
    sampler = SliceSampler(slice_len=length, **kwargs)
    if sampler.span[1] or not sampler.strict_length:
        raise ValueError(f"windows need strict_length=True and span=(..., False), got {kwargs}.")
    if sampler.span[0] and not repeats:
        raise ValueError(
            "windows that begin before an episode need padding='same', and neither mask nor future."
        )
    sampler._batch_size_multiplier, sampler._fills_front = length, True
    return sampler


def _count(name: str, value: int | None) -> int | None:
    return None if value is None else integer(name, value, least=1)


def _sides(span: Span) -> tuple[bool | int, bool | int]:
    """`span` at the start of trajectories, and at their end."""
    sides = span if isinstance(span, tuple | list) else (span, span)
    try:
        before, after = (
            bool(side) if isinstance(side, bool | np.bool_) else operator.index(side) for side in sides
        )
    except (TypeError, ValueError):
        raise TypeError(f"span must be a bool, a number of steps, or a pair of them, got {span!r}.") from None
    if before < 0 or after < 0:
        raise ValueError(f"span must be at least 0, got {span!r}.")
    return before, after


def _like(flags: NDArray[Any]) -> tuple[int, ...]:
    """The shape of one value for each row that broadcasts to `flags`."""
    return (-1, *[1] * (flags.ndim - 1))


def _beside(key: NestedKey, name: str) -> NestedKey:
    """`key` with another last part."""
    return name if isinstance(key, str) else (*key[:-1], name)
