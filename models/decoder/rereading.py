"""Rows that are read again if their cached content does not fit.

Two kinds of graphs ask for that: those that compute otherwise for texts longer than a limit (see
`with_limits_as_inputs`), and those that keep a state of fixed size, which cannot be cut back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.binding import Side
from lite.models.decoder.cache import KVCache
from lite.models.decoder.device_logits import Logits, merged, stacked
from lite.models.decoder.states import States


class Reader(Protocol):
    """Appends tokens to rows of a cache, in runs that are not too large, and returns what `extend` does."""

    def __call__(
        self,
        cache: KVCache,
        rows: list[int],
        ids: list[NDArray[np.int64]],
        *,
        last: bool,
        hidden: bool = False,
    ) -> list[Logits]: ...


class RereadingCache:
    """Rows whose logits after n tokens are those of one run over them, on their side of the limits.

    So they depend neither on other rows nor on how the tokens came in: as a prompt, in pieces or one by one.
    Rows on two sides never share a run. What a row holds was computed on one side: a row that passes a limit,
    or is cut back behind one, is read again, as transformers and onnxruntime-genai do; so is a row with
    states that is cut back anywhere.

    Args:
        cache: where keys and values are kept, empty.
        side: tells the cache's graph on which side a run is.
        limits: most tokens of each side but the last one, in ascending order.
        read: how tokens are appended to `cache`.
        reread: read rows again at limits. Otherwise each token stays as it was computed when it was the last
            one: as in a loop that appends token after token.
        states: states of the cache's rows, if its graph has any.
    """

    def __init__(
        self, cache: KVCache, side: Side, limits: Sequence[int], read: Reader, *, reread: bool,
        states: States | None,
    ) -> None:  # fmt: skip
        self._cache = cache
        self._side = side
        self._bounds = [0, *limits, 2**63 - 1]
        self._read = read
        self._reread = reread
        self._states = states
        rows = len(cache.lengths)
        self._ids: list[list[int]] = [[] for _ in range(rows)]
        self._sides = np.zeros(rows, np.int64)  # of what the cache holds
        self.lengths: NDArray[np.int64] = np.zeros(rows, np.int64)

    @property
    def nbytes(self) -> int:
        return self._cache.nbytes + (self._states.nbytes if self._states else 0)

    def extend(
        self, rows: Sequence[int], ids: Sequence[NDArray[np.int64]], *, last: bool, hidden: bool = False
    ) -> list[Logits]:
        """As `KVCache.extend`, for tokens of any number."""
        texts = [[*self._ids[row], *new.tolist()] for row, new in zip(rows, ids, strict=True)]
        starts = [len(self._ids[row]) for row in rows]
        out: list[list[Logits]] = [[] for _ in rows]
        for side, (lower, upper) in enumerate(zip(self._bounds, self._bounds[1:], strict=False)):
            ends = [min(len(text), upper) for text in texts]
            here = [
                i
                for i, (text, end) in enumerate(zip(texts, ends, strict=True))
                if max(starts[i], lower) < end and not (last and self._reread and end < len(text))
            ]
            if not here:
                continue
            begins = [self._begin(rows[i], side) for i in here]
            self._turn_to(side)
            if not last:  # of what is read again no logits are wanted
                for i, begin in zip(here, begins, strict=True):
                    if begin < (wanted := max(starts[i], lower)):
                        self._append([rows[i]], [texts[i][begin:wanted]], last=True)
                begins = [max(starts[i], lower) for i in here]
            new = [texts[i][begin : ends[i]] for i, begin in zip(here, begins, strict=True)]
            parts = self._append([rows[i] for i in here], new, last=last, hidden=hidden)
            for i, part in zip(here, parts, strict=True):
                out[i] = [part] if last else [*out[i], part]
                self._ids[rows[i]] = texts[i][: ends[i]]
                self._sides[rows[i]], self.lengths[rows[i]] = side, ends[i]
        return [parts[0] if len(parts) == 1 else stacked(parts) for parts in out]

    def step(self, rows: Sequence[int], tokens: NDArray[np.int64]) -> Logits:
        index = np.array(rows)
        sides = np.searchsorted(self._bounds[1:], self.lengths[index] + 1)
        kept = self._cache.lengths[index] == self.lengths[index]
        if self._reread:
            kept &= (self._sides[index] == sides) | (self.lengths[index] == 0)
        parts: list[tuple[list[int], Logits]] = []
        for side in np.unique(sides):
            places = np.flatnonzero((sides == side) & kept).tolist()
            if places:
                parts.append((places, self._step([rows[i] for i in places], tokens[places], int(side))))
        if not kept.all():
            places = np.flatnonzero(~kept).tolist()
            read = self.extend([rows[i] for i in places], list(tokens[places, None]), last=True)
            parts.append((places, stacked(read)))
        return parts[0][1] if len(parts) == 1 else merged(len(rows), parts)

    def _step(self, rows: list[int], tokens: NDArray[np.int64], side: int) -> Logits:
        if self._sides[rows[0]] != side:
            self._cache.truncate(rows[0], int(self.lengths[rows[0]]))  # so that the next step binds the side
        self._turn_to(side)
        logits = self._cache.step(rows, tokens)
        for row, token in zip(rows, tokens.tolist(), strict=True):
            self._ids[row].append(token)
        self._sides[rows] = side
        self.lengths[rows] += 1
        return logits

    def fork(self, source: int, target: int) -> None:
        self._cache.fork(source, target)
        if self._states:
            self._states.fork(source, target)
        self._ids[target] = self._ids[source].copy()
        self._sides[target], self.lengths[target] = self._sides[source], self.lengths[source]

    def truncate(self, row: int, length: int) -> None:
        if self._states and length < self.lengths[row]:
            self._empty(row)
        self._cache.truncate(row, min(length, int(self._cache.lengths[row])))
        self._ids[row] = self._ids[row][:length]
        self.lengths[row] = length

    def settle(self, row: int) -> None:
        self._cache.settle(row)

    def resize(self, rows: int) -> None:
        self._cache.resize(rows)
        if self._states:
            self._states.resize(rows)
        new = max(0, rows - len(self._ids))
        self._ids += [[] for _ in range(new)]
        self._sides = np.concatenate([self._sides, np.zeros(new, np.int64)])
        self.lengths = np.concatenate([self.lengths, np.zeros(new, np.int64)])

    def reserve(self, length: int, rows: int) -> None:
        self._cache.reserve(length, rows)

    def _begin(self, row: int, side: int) -> int:
        """The number of a row's tokens in the cache that this side can use; other ones are removed."""
        held = int(self._cache.lengths[row])
        if held != self.lengths[row] or (self._reread and self._sides[row] != side):
            self._empty(row)
            return 0
        return held

    def _empty(self, row: int) -> None:
        self._cache.truncate(row, 0)
        if self._states:
            self._states.reset(row)

    def _turn_to(self, side: int) -> None:
        self._side.most = self._bounds[side + 1]

    def _append(
        self, rows: list[int], ids: list[list[int]], *, last: bool, hidden: bool = False
    ) -> list[Logits]:
        return self._read(
            self._cache, rows, [np.array(new, np.int64) for new in ids], last=last, hidden=hidden
        )
