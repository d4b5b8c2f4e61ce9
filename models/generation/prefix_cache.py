"""Rows of a decoder, kept after a call or filled at once, so that what they share is read once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from numpy.typing import NDArray

from lite.kernels._integer import integer
from lite.models.decoder.device_logits import Logits, stacked
from lite.models.decoder.protocol import Decoder, RewindableDecoder, require_rewindable, rewindable

SHORTEST = 16  # tokens in common that are worth a copy: a run costs about as much whatever its tokens


def common_length(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    """How many tokens two sequences share from the start.

    Example:
        >>> common_length(np.array([1, 2, 3]), np.array([1, 2, 4, 5]))
        2
    """
    shorter = min(len(first), len(second))
    differs = first[:shorter] != second[:shorter]
    at = int(differs.argmax()) if shorter else 0
    return at if shorter and differs[at] else shorter


@dataclass(eq=False)
class _Entry:
    row: int
    ids: NDArray[np.int64]
    adapter: tuple[Any, int]
    nbytes: int


class PrefixCache:
    """Caches tokens that a decoder has read and written, so that a growing conversation is not read again.

    Given to `generate`, `stream` or `generate_each` it keeps the rows of responses that have ended. A later
    prompt that begins as one of them, token for token and under the same adapter, starts from a copy; the
    results are those of a call without it. The rows used longest ago go first when there is no room.
    Any number of threads may share it.

    Args:
        decoder: the model; its rows are held until `clear` is called or the object is gone.
        max_bytes: most bytes of keys and values to keep.
        max_rows: most rows to keep.

    Attributes:
        decoder: as given.
        hits: prompts that found a beginning here.
        misses: prompts that did not.
        tokens_reused: tokens that did not run again.

    Raises:
        TypeError: the decoder's rows cannot be cut (it is no `RewindableDecoder`).
        ValueError: a size is negative.

    Example:
        >>> from lite.models import GenerationConfig, OnnxDecoder, PrefixCache, embedded_model_path, generate
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> cache = PrefixCache(decoder, max_bytes=2**20)
        >>> prompt, config = list(range(20, 50)), GenerationConfig(max_new_tokens=4)
        >>> (first,) = generate(decoder, [prompt], config, prefix_cache=cache)
        >>> (second,) = generate(decoder, [[*prompt, *first.tokens, 7]], config, prefix_cache=cache)
        >>> cache.hits, cache.tokens_reused, cache.rows
        (1, 33, 1)
    """

    def __init__(self, decoder: RewindableDecoder, max_bytes: int, *, max_rows: int = 64) -> None:
        require_rewindable(decoder, "decoder", ", so that rows can be kept")
        for name, value in (("max_bytes", max_bytes), ("max_rows", max_rows)):
            if isinstance(value, bool) or integer(name, value) < 0:
                raise ValueError(f"{name} must be an integer of at least 0, got {value!r}")
        self.decoder = decoder
        self.max_bytes = max_bytes
        self.max_rows = max_rows
        self.hits = self.misses = self.tokens_reused = 0
        self._entries: list[_Entry] = []  # used longest ago first
        self._lock = threading.RLock()
        release_left_behind(decoder)
        _caches.setdefault(decoder, WeakSet()).add(self)
        self._left_behind = _left_behind.setdefault(decoder, deque())

    @property
    def rows(self) -> int:
        """Rows that are kept."""
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values that are kept."""
        with self._lock:
            return sum(entry.nbytes for entry in self._entries)

    def state(self) -> dict[str, int]:
        """All counters: hits, misses, tokens_reused, rows, nbytes."""
        with self._lock:
            names = ("hits", "misses", "tokens_reused", "rows", "nbytes")
            return {name: getattr(self, name) for name in names}

    def clear(self) -> None:
        """Give all rows back to the decoder; the counters stay."""
        with self._lock:
            self._drop(list(self._entries))

    def __del__(self) -> None:
        # the collector may call this inside a method of the decoder, so the rows are given back later
        if entries := self.__dict__.get("_entries"):
            self._left_behind.extend(entry.row for entry in entries)

    def longest(self, ids: NDArray[np.int64]) -> int:
        """How many tokens at the start of `ids` a row here holds; never all of them."""
        with self._lock:
            return self._find(ids[:-1], adapter_of(self.decoder))[1]

    def fetch(self, ids: NDArray[np.int64], row: int) -> tuple[int, int]:
        """Copy the longest cached prefix of `ids` to a row; nothing if it is short.

        Args:
            ids: a prompt, (L,).
            row: an acquired row of the decoder, of any content.

        Returns:
            The row, and how many tokens it holds, fewer than L. It may be another row, taken in exchange:
            one whose tokens are all in `ids` has been of use, and is not copied.
        """
        with self._lock:
            adapter = adapter_of(self.decoder)
            self._drop([e for e in self._entries if e.adapter[0] == adapter[0] and e.adapter != adapter])
            entry, length = self._find(ids[:-1], adapter)
            if entry is None or length < SHORTEST:
                self.misses += 1
                self.decoder.reset(row)
                return row, 0
            if length == len(entry.ids):
                self._entries.remove(entry)
                self.decoder.release([row])
                row = entry.row
            else:
                self._touch(entry)
                self.decoder.fork(entry.row, row)
                self.decoder.truncate(row, length)
            self.hits += 1
            self.tokens_reused += length
            return row, length

    def keep(self, row: int, ids: NDArray[np.int64], adapter: tuple[Any, int]) -> int:
        """Cache a row that holds `ids`, read under an adapter; returns an empty row in exchange."""
        with self._lock:
            longer, shared = self._find(ids, adapter)
            if longer is not None and shared == len(ids):
                self._touch(longer)
                size = 0
            else:
                size = self.decoder.settle(row) if len(ids) >= SHORTEST and self.max_rows else 0
            if not 0 < size <= self.max_bytes:
                self.decoder.reset(row)
                return row
            (empty,) = self.decoder.acquire(1)
            self._drop([e for e in self._entries if e.adapter == adapter and _begins(ids, e.ids)])
            self._entries.append(_Entry(row, ids.copy(), adapter, size))
            while len(self._entries) > self.max_rows or self.nbytes > self.max_bytes:
                self._drop(self._entries[:1])
            return empty

    def _find(self, ids: NDArray[np.int64], adapter: tuple[Any, int]) -> tuple[_Entry | None, int]:
        best, longest = None, 0
        for entry in reversed(self._entries):
            length = common_length(entry.ids, ids) if entry.adapter == adapter else 0
            if length > longest:
                best, longest = entry, length
        return best, longest

    def _touch(self, entry: _Entry) -> None:
        self._entries.remove(entry)
        self._entries.append(entry)

    def _drop(self, entries: list[_Entry]) -> None:
        for entry in entries:
            self._entries.remove(entry)
            self.decoder.release([entry.row])


_left_behind: WeakKeyDictionary[Any, deque[int]] = WeakKeyDictionary()
"""Rows of caches that are gone, by decoder."""


def release_left_behind(decoder: Decoder) -> None:
    """Give rows of caches that are gone back to the decoder."""
    try:
        rows = _left_behind.get(decoder)
    except TypeError:  # it cannot be referred to weakly, so there is no cache for it
        return
    while rows:
        decoder.release([rows.pop()])


_caches: WeakKeyDictionary[Any, WeakSet[PrefixCache]] = WeakKeyDictionary()
"""The caches of a decoder's rows."""


def forget_rows(decoder: Decoder) -> None:
    """Clear all caches of a decoder's rows, as what they hold is not what it would read now."""
    release_left_behind(decoder)
    for cache in list(_caches.get(decoder, ())):
        cache.clear()


def adapter_of(decoder: Decoder) -> tuple[Any, int]:
    """The adapter that a decoder runs with at this moment, None if it has none, and how often it changed."""
    return getattr(decoder, "adapter", None), getattr(decoder, "adapter_version", 0)


def _begins(ids: NDArray[np.int64], start: NDArray[np.int64]) -> bool:
    return common_length(ids, start) == len(start)


_CANDIDATES = 64  # prompts that one is compared with: the first that begins alike, and the latest

Ids = NDArray[np.int64]


@dataclass
class _Plan:
    """How a prompt gets into its row.

    Attributes:
        row: the row.
        length: tokens at its start that need not run.
        source: the busy row that has them; with none of the three, `row` itself.
        after: the prompt of this call that has them once it has run.
        cached: the cache has them.
    """

    row: int
    length: int = 0
    source: int | None = None
    after: int | None = None
    cached: bool = False


class Rows:
    """Rows of a decoder, some of them free.

    A prompt that begins as another row does starts from a copy of that row; one that begins as its own row
    does (as samples of one prompt do that follow each other) goes on from there; `PrefixCache` has more.
    What a row is filled with is the same either way, to rounding.

    Args:
        decoder: the model.
        count: how many rows to take.
        cache: where rows come from and go to beside.
    """

    def __init__(self, decoder: Decoder, count: int, cache: PrefixCache | None = None) -> None:
        release_left_behind(decoder)
        self.decoder = decoder
        self._rewindable = rewindable(decoder)
        self._shares = self._rewindable is not None and self._rewindable.bytes_per_token > 0
        self._cache = cache
        self._adapter = None if cache is None else adapter_of(decoder)
        self._reserved = (0, 0)
        self._known: tuple[Ids, Logits] | None = None  # the last prompt, and the logits (1, V) after it
        self._taken = decoder.acquire(count)
        self._free: dict[int, Ids] = dict.fromkeys(self._taken, _NOTHING)  # and what they hold

    def reserve(self, length: int) -> None:
        """Expect rows of up to so many tokens."""
        rows = len(self._taken) + (self._cache.rows if self._cache else 0)
        if length > self._reserved[0] or rows > self._reserved[1]:
            self._reserved = max(length, self._reserved[0]), max(rows, self._reserved[1])
            self.decoder.reserve(*self._reserved)

    def fill(self, prompts: Sequence[Ids], busy: Mapping[int, Ids]) -> tuple[list[int], Logits]:
        """Put prompts into free rows.

        Args:
            prompts: token ids (L,), as many as there are free rows at most.
            busy: rows that are not free, and what they hold.

        Returns:
            The row of each prompt, and the logits after it, float32 (n, V).
        """
        plans = self._plan(prompts, busy)
        for plan in plans:
            del self._free[plan.row]
        found: dict[int, Logits] = {}  # the logits (1, V) of prompts
        waiting, done = list(range(len(prompts))), set[int | None]([None])
        while waiting:
            ready = [i for i in waiting if plans[i].after in done]
            self._run(ready, plans, prompts, found)
            done.update(ready)
            waiting = [i for i in waiting if i not in done]
        logits = found[0] if len(prompts) == 1 else stacked([found[i] for i in range(len(prompts))])
        self._known = prompts[-1], stacked([logits[-1:]])
        return [plan.row for plan in plans], logits

    def take(self, count: int) -> list[int]:
        """Rows to copy others to, whatever they hold; as many as are free at most."""
        order = sorted(self._free, key=lambda row: len(self._free[row]))  # what holds least is the least loss
        for row in order[:count]:
            del self._free[row]
        return order[:count]

    def extend(self, count: int) -> None:
        """Add rows up to this number."""
        if count > len(self._taken):
            more = self.decoder.acquire(count - len(self._taken))
            self._taken += more
            self._free.update(dict.fromkeys(more, _NOTHING))

    def free(self, row: int, ids: Ids) -> None:
        """Release a row that holds `ids`; the cache may keep it, and frees another one instead."""
        if self._cache is not None and adapter_of(self.decoder) == self._adapter:
            other = self._cache.keep(row, ids, self._adapter)
            self._taken[self._taken.index(row)] = other
            row, ids = other, _NOTHING
        self._free[row] = ids

    def empty(self) -> None:
        """Forget what free rows hold: nothing is to come."""
        for row, ids in self._free.items():
            if len(ids):
                self.decoder.reset(row)
                self._free[row] = _NOTHING

    def release(self) -> None:
        """Give all rows back."""
        self.decoder.release(self._taken)

    # -- what a prompt has in common with rows -----------------------------------------------------

    def _plan(self, prompts: Sequence[Ids], busy: Mapping[int, Ids]) -> list[_Plan]:
        plans: list[_Plan] = []
        holding = {row: ids for row, ids in self._free.items() if len(ids)}
        spare = sorted(set(self._free) - set(holding)) + sorted(holding)
        same: dict[bytes, int] = {}  # prompt -> place
        alike: dict[bytes, list[int]] = {}  # how it begins -> places
        for i, ids in enumerate(prompts):
            content = ids.tobytes()
            twin = same.setdefault(content, i)
            plan = self._own(ids, holding, spare)
            if self._shares:
                self._compare(plan, ids, busy)
                group = alike.setdefault(content[: SHORTEST * ids.itemsize], [])
                for place in [*group[:1], *group[1:][1 - _CANDIDATES :]]:
                    length = common_length(prompts[place], ids[:-1])
                    if length >= max(plan.length + (not plan.cached), SHORTEST):
                        plan.length, plan.after, plan.source, plan.cached = length, place, None, False
                group.append(i)
            if twin != i and plan.length < len(ids):
                plan = _Plan(plan.row, len(ids), after=twin)
            holding.pop(plan.row, None)
            spare.remove(plan.row)
            plans.append(plan)
        return plans

    def _own(self, ids: Ids, holding: Mapping[int, Ids], spare: Sequence[int]) -> _Plan:
        """The free row that begins like the prompt, or any."""
        best = _Plan(spare[0])
        for row, held in holding.items() if self._shares else ():
            length = self._usable(held, ids)
            if length > best.length:
                best = _Plan(row, length)
        return best

    def _compare(self, plan: _Plan, ids: Ids, busy: Mapping[int, Ids]) -> None:
        """Look for more of the prompt in busy rows and in the cache."""
        for row, held in busy.items():
            length = self._usable(held, ids)
            if length > plan.length:
                plan.length, plan.source = length, row
        if self._cache is not None and plan.length < len(ids):
            length = self._cache.longest(ids)
            if length > max(plan.length, SHORTEST - 1):
                plan.length, plan.source, plan.cached = length, None, True

    def _usable(self, held: Ids, ids: Ids) -> int:
        """Tokens of a prompt that need not run where a row holds `held`: all, if the logits are known."""
        length = common_length(held, ids)
        if length == len(ids):
            if self._known is not None and np.array_equal(self._known[0], ids):
                return length
            length -= 1
        return length if length >= SHORTEST else 0

    # -- runs -------------------------------------------------------------------------------------

    def _run(
        self, places: Sequence[int], plans: list[_Plan], prompts: Sequence[Ids], found: dict[int, Logits]
    ) -> None:
        """Fill the rows of prompts whose sources are there."""
        new: list[int] = []
        longer: list[int] = []
        for i in places:
            plan = plans[i]
            if self._cache is not None and (plan.cached or not plan.length):
                row, plan.length = self._cache.fetch(prompts[i], plan.row)
                self._taken[self._taken.index(plan.row)] = plan.row = row
            else:
                source = plan.source if plan.after is None else plans[plan.after].row
                if source is not None:
                    self.decoder.fork(source, plan.row)
                if self._rewindable is not None and plan.length:
                    self._rewindable.truncate(plan.row, plan.length)
            if plan.length < len(prompts[i]):
                (longer if plan.length else new).append(i)
            elif plan.after is not None:
                found[i] = found[plan.after]
            elif self._known is not None:
                found[i] = self._known[1]
        if new:
            logits = self.decoder.prefill_rows([plans[i].row for i in new], [prompts[i] for i in new])
            found |= {i: logits[at : at + 1] for at, i in enumerate(new)}
        if longer and self._rewindable is not None:
            rest = [prompts[i][plans[i].length :] for i in longer]
            logits = self._rewindable.continue_rows([plans[i].row for i in longer], rest)
            found |= {i: logits[at : at + 1] for at, i in enumerate(longer)}


_NOTHING = np.empty(0, np.int64)
