"""Rows of graphs without a cache: all of a row's tokens run again at every step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.binding import BoundGraph, PlacedGraph, RunInputs
from lite.models.decoder.cache import MAX_TOKENS, pad_right, similar_lengths
from lite.models.decoder.device_logits import Logits, stacked
from lite.models.decoder.gpu_binding import bound_graph

MAX_LOGITS_BYTES = 256 * 2**20  # of one run, where it takes more than one row


class RecomputeCache:
    """Rows that keep their tokens and nothing else.

    A run takes whole rows, so nothing lies before the new tokens and every graph can be padded on the right:
    no token of a causal model sees what follows it, whatever the graph does with mask and positions. Only
    where a run gives the logits of its last position alone, its rows are equally long.
    """

    def __init__(self, graph: PlacedGraph, rows: int) -> None:
        self._placed = graph
        self._graph = bound_graph(graph)
        self._hidden: BoundGraph | None = None  # gives hidden states; made when it is asked for
        self._spec = graph.spec
        self._ids: list[NDArray[np.int64]] = [_NOTHING] * rows
        self.lengths: NDArray[np.int64] = np.zeros(rows, np.int64)

    @property
    def nbytes(self) -> int:
        return 0

    def extend(
        self, rows: Sequence[int], ids: Sequence[NDArray[np.int64]], *, last: bool, hidden: bool = False
    ) -> list[Logits]:
        whole = [np.concatenate([self._ids[row], new]) for row, new in zip(rows, ids, strict=True)]
        counts = [1 if last else len(new) for new in ids]
        out: list[Logits] = [np.empty(0, np.float32)] * len(rows)
        for places in self._runs([len(row) for row in whole], max(counts), last):
            logits = self._run([whole[i] for i in places], [counts[i] for i in places], last, hidden)
            for i, row_logits in zip(places, logits, strict=True):
                out[i] = row_logits
                self._ids[rows[i]], self.lengths[rows[i]] = whole[i], len(whole[i])
        return out

    def step(self, rows: Sequence[int], tokens: NDArray[np.int64]) -> Logits:
        return stacked(self.extend(rows, list(tokens[:, None]), last=True))

    def fork(self, source: int, target: int) -> None:
        self._ids[target], self.lengths[target] = self._ids[source], self.lengths[source]

    def truncate(self, row: int, length: int) -> None:
        self._ids[row] = self._ids[row][:length]
        self.lengths[row] = length

    def settle(self, row: int) -> None: ...  # tokens are small

    def resize(self, rows: int) -> None:
        new = max(0, rows - len(self._ids))
        self._ids += [_NOTHING] * new
        self.lengths = np.concatenate([self.lengths, np.zeros(new, np.int64)])

    def reserve(self, length: int, rows: int) -> None: ...  # there is nothing to allocate

    def _runs(self, lengths: Sequence[int], wanted: int, last: bool) -> list[list[int]]:
        """Split the request into runs; returns places in it. Of each row, `wanted` logits are needed."""
        only_last = self._spec.gives_last_only(last)

        def most(length: int) -> int:
            if self._spec.one_row:
                return 1
            computed = 1 if only_last else wanted if self._spec.gather else length
            logits = 4 * self._placed.vocab_size * computed
            return min(MAX_TOKENS // length, MAX_LOGITS_BYTES // logits)

        return similar_lengths(lengths, most, filler=0 if only_last else math.inf)

    def _run(
        self, rows: Sequence[NDArray[np.int64]], counts: Sequence[int], last: bool, hidden: bool
    ) -> list[Logits]:
        """Logits of the last `counts` positions of each row."""
        ids, lengths = pad_right(rows)
        columns = np.arange(ids.shape[1])
        mask = (columns < lengths[:, None]).astype(np.int64)
        positions = np.broadcast_to(columns, ids.shape)
        starts = lengths - counts
        at = np.minimum(starts[:, None] + np.arange(max(counts)), lengths[:, None] - 1)
        graph = self._graph
        if hidden:
            graph = self._hidden = self._hidden or BoundGraph(self._placed, hidden=True)
        logits = graph.run_rows(RunInputs(ids, mask, positions, at, last, with_past=False))
        if (self._spec.gather and not hidden) or self._spec.gives_last_only(last):
            starts = np.zeros_like(starts)  # nothing else was computed
        return [row[start : start + n] for row, start, n in zip(logits, starts, counts, strict=True)]


_NOTHING = np.empty(0, np.int64)
