"""The protocol of key/value caches of a batch of rows, and functions that the caches share.

A row is a sequence of its own length that can be extended, forked, truncated and reset. The graph decides how
rows share a run:

- `SlotCache`, for GroupQueryAttention: one buffer per cache tensor with a slot for each row, bound as past
  and as present at once, so that nothing is moved from step to step.
- `BlockCache`, for graphs that return past and new keys concatenated: two buffers per cache tensor, which are
  past and present in turn.
- `RecomputeCache`, for graphs without a cache: it keeps the tokens instead.

Many prompts run in waves, so that the activations do not grow with their number (`similar_lengths`). Rows
with different numbers of new tokens are padded on the right, which is exact for every causal graph, as no
token attends to later ones. If a graph gives the logits of the last position alone, the rows of a run have
equally many new tokens.

Only the graph computes on cache contents. They stay in memory on the graph's device and are bound by pointer;
rows move between buffers by byte copies on that device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.binding import PlacedGraph
from lite.models.decoder.conventions import GraphSpec
from lite.models.decoder.device_logits import Logits
from lite.models.decoder.memory import DeviceBuffer, copy_runs
from lite.models.graph.session import runtime_of
from lite.models.graph.tensors import ELEMENT_TYPES

MAX_TOKENS = 4096  # of one run, padding included: bounds the activations
ENOUGH_TOKENS = 512  # of one run: its fixed costs are a few per cent of the time then


class KVCache(Protocol):
    """The protocol of caches for the decoder. Rows are numbered from 0; a new row is empty."""

    lengths: NDArray[np.int64]

    def extend(
        self, rows: Sequence[int], ids: Sequence[NDArray[np.int64]], *, last: bool, hidden: bool = False
    ) -> list[Logits]:
        """Append tokens to rows; returns the logits of each row's new positions, or its last one.

        They may stay on the graph's GPU. With `hidden`, for graphs with `output_rows`, the result is hidden
        states instead.
        """

    def step(self, rows: Sequence[int], tokens: NDArray[np.int64]) -> Logits:
        """Append one token to each row; returns logits (n, V), which may stay on the graph's GPU.

        It is fast for the rows of the last step, and may then return the same array with new contents.
        """

    def fork(self, source: int, target: int) -> None:
        """Make `target` a copy of `source`."""

    def truncate(self, row: int, length: int) -> None:
        """Remove all tokens of a row after the first `length`."""

    def settle(self, row: int) -> None:
        """Shrink the memory of an idle row to what its tokens need."""

    def resize(self, rows: int) -> None:
        """Set the number of rows."""

    def reserve(self, length: int, rows: int) -> None:
        """Expect `rows` rows of up to `length` tokens; 0 for unknown."""

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""


class Line(NamedTuple):
    """Positions of one row in the buffers of all cache tensors, each [lines, heads, length, head size].

    Attributes:
        buffers: one per cache tensor.
        number: index of the line.
        length: positions of a line.
        start: the first position of the row.
    """

    buffers: list[DeviceBuffer]
    number: int
    length: int
    start: int = 0


def new_buffers(graph: PlacedGraph, lines: int, length: int) -> list[DeviceBuffer]:
    """A buffer for each cache tensor, with room for `lines` lines of `length` positions."""
    size = lines * line_bytes(graph.spec, length)
    buffers = [DeviceBuffer(size, graph.device, graph.index, stream=graph.stream) for _ in graph.spec.cache]
    if runtime_of(graph.session) == "numpy":  # uninitialized memory may hold NaN, which a mask of 0 keeps
        for buffer in buffers:
            buffer.zero()
    return buffers


def line_bytes(spec: GraphSpec, length: int) -> int:
    """Bytes of a line of `length` positions of one cache tensor: all heads, one after the other."""
    return spec.num_heads * length * _vector_bytes(spec)


def copy_positions(spec: GraphSpec, source: Line, target: Line, count: int) -> None:
    """Copy `count` positions, of all heads and all cache tensors, to another line."""
    size = _vector_bytes(spec)
    (start, pitch), (target_start, target_pitch) = (
        (line.number * line_bytes(spec, line.length) + line.start * size, line.length * size)
        for line in (source, target)
    )
    for old, new in zip(source.buffers, target.buffers, strict=True):
        copy_runs(old, start, pitch, new, target_start, target_pitch, count * size, spec.num_heads)


def _vector_bytes(spec: GraphSpec) -> int:
    """Bytes of one position of one head."""
    return spec.head_size * ELEMENT_TYPES[spec.cache_type].size


def round_capacity(needed: int, wished: int, context_length: int | None) -> int:
    """Positions to allocate for `needed` or more: a multiple of 32, at most the model's context.

    Operators take the capacity for the length of a sequence, and refuse one longer than the context.
    """
    rounded = -(-max(1, needed, wished) // 32) * 32
    return max(needed, min(rounded, context_length)) if context_length else rounded


def pad_right(
    ids: Sequence[NDArray[np.int64]], width: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Stack token rows, filled with 0 on the right; returns (ids (n, S), real tokens of each (n,)).

    S is the longest row's length, or `width` if that is more.
    """
    counts = list(map(len, ids))
    out = np.zeros((len(counts), max([*counts, width])), np.int64)
    for i, (row, count) in enumerate(zip(ids, counts, strict=True)):
        out[i, :count] = row
    return out, np.array(counts, np.int64)


def similar_lengths(
    lengths: Sequence[int], most: Callable[[int], int], *, filler: float = math.inf
) -> list[list[int]]:
    """Split rows into runs of similar length; returns indices of `lengths`.

    A run has at most `most(longest)` rows, but at least one. A longer row joins a run if this adds at most
    `filler` tokens of padding: with 0 all rows of a run are equally long.
    """
    runs: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        run = runs[-1] if runs else []
        if run and len(run) < most(lengths[i]) and len(run) * (lengths[i] - lengths[run[-1]]) <= filler:
            run.append(i)
        else:
            runs.append([i])
    return runs


def split_logits(rows: Sequence[Logits], counts: NDArray[Any], last: bool) -> list[Logits]:
    """Cut the padding off: per row the logits of its own positions (count, V), or its last (1, V)."""
    if len(rows[0]) == 1:
        return list(rows)
    return [
        row[count - 1 : count] if last else row[:count]
        for row, count in zip(rows, counts.tolist(), strict=True)
    ]
