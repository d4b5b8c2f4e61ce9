"""Rows of a decoder that are kept after a call, so that what continues them need not be read again."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from numpy.typing import NDArray

from lite.kernels._integer import integer
from lite.models.decoder.protocol import Decoder, RewindableDecoder, require_rewindable

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
