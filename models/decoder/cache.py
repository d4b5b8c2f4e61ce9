"""Key/value caches: the protocol, functions that caches share, and the cache of graphs that concatenate.

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

from lite.models.decoder.binding import BoundGraph, PlacedGraph, RunInputs
from lite.models.decoder.conventions import GraphSpec, Padding
from lite.models.decoder.device_logits import DeviceLogits, Logits, merged
from lite.models.decoder.gpu_binding import bound_graph
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


class BlockCache:
    """Rows in blocks; a block is the input and output of one run of the graph.

    A row is a span of positions in one line of a block. A run appends to all lines of its block, so spans
    stay valid while the block grows. Rows that are to run together and are not yet a block are copied into a
    new one, aligned as the graph demands: flush right behind masked filler, or by equal length. That happens
    when rows join, leave or are truncated, not from step to step. A fork is a second span over the same
    line, free until the two differ.
    """

    def __init__(self, graph: PlacedGraph, rows: int) -> None:
        self._placed = graph
        self._graph = bound_graph(graph)
        self._prompts = bound_graph(graph.prompts) if graph.prompts else self._graph
        self._hidden: BoundGraph | None = None  # gives hidden states; made when it is asked for
        self._spec = graph.spec
        self._wanted = 0
        self._spans: list[_Span | None] = [None] * rows
        self._last_step: tuple[list[int], list[_Run]] | None = None
        self._bound: _Run | None = None  # whose arrays are bound
        self.lengths: NDArray[np.int64] = np.zeros(rows, np.int64)

    @property
    def nbytes(self) -> int:
        blocks = {id(span.block): span.block for span in self._spans if span is not None}
        return sum(block.nbytes for block in blocks.values())

    def extend(
        self, rows: Sequence[int], ids: Sequence[NDArray[np.int64]], *, last: bool, hidden: bool = False
    ) -> list[Logits]:
        out: list[Logits] = [np.empty(0, np.float32)] * len(rows)
        prompts = (self._placed.prompts or self._placed).spec
        # filler has states, too
        equal = self._spec.states or prompts.gives_last_only(last) or self._spec.gives_last_only(last)
        counts = [len(new) for new in ids] if equal else None
        for places in self._runs(rows, counts):
            logits = self._run([rows[i] for i in places], [ids[i] for i in places], last, hidden)
            for i, row_logits in zip(places, logits, strict=True):
                out[i] = row_logits
        return out

    def step(self, rows: Sequence[int], tokens: NDArray[np.int64]) -> Logits:
        if self._last_step is None or self._last_step[0] != list(rows):
            self._changed()
            self._last_step = list(rows), self._form_runs(rows)
        runs = self._last_step[1]
        if len(runs) == 1:
            return self._step(runs[0], tokens)
        parts = ((run.places.tolist(), self._step(run, tokens[run.places])) for run in runs)
        return merged(len(rows), parts)

    def fork(self, source: int, target: int) -> None:
        self._changed()
        self._spans[target] = self._spans[source]
        self.lengths[target] = self.lengths[source]

    def truncate(self, row: int, length: int) -> None:
        self._changed()
        if length == 0:
            self._spans[row] = None  # lets go of the block
        self.lengths[row] = length

    def settle(self, row: int) -> None:
        """Take the row out of a block that other rows, or none, have left in it."""
        if self._spans[row] is not None:
            self._changed()
            self._spans[row] = _Span(self._gather([row]), 0, 0)

    def resize(self, rows: int) -> None:
        new = rows - len(self._spans)
        if new > 0:
            self._spans += [None] * new
            self.lengths = np.concatenate([self.lengths, np.zeros(new, np.int64)])

    def reserve(self, length: int, rows: int) -> None:
        self._wanted = length  # blocks have as many lines as rows that run together

    def _changed(self) -> None:
        """Rows did something else than the last step's did."""
        self._last_step = self._bound = None

    def _runs(self, rows: Sequence[int], counts: Sequence[int] | None = None) -> list[list[int]]:
        """Split the request into runs of the graph; returns places in `rows`.

        `counts` are the rows' new tokens, where only rows with equally many may share a run.
        """
        if self._spec.one_row:
            return [[i] for i in range(len(rows))]
        equal_past = self._spec.padding is Padding.EQUAL
        by_length: dict[tuple[int, int], list[int]] = {}
        for i, row in enumerate(rows):
            past = int(self.lengths[row])
            if not equal_past:  # those without any past may run on a graph of their own
                past = min(past, 1) if self._placed.prompts else 0
            new = counts[i] if counts else 1
            by_length.setdefault((past, new), []).append(i)
        return list(by_length.values())

    def _form_runs(self, rows: Sequence[int]) -> list[_Run]:
        """Arrange `rows` in blocks, and return the place of each row, valid until a row changes otherwise."""
        runs: list[_Run] = []
        for places in self._runs(rows):
            chosen = [rows[i] for i in places]
            block, order = self._block_of(chosen)
            if any(run.block is block for run in runs):  # of forks that may not share a run
                block, order = self._gather(chosen), list(range(len(chosen)))
            for line, place in enumerate(order):
                row = chosen[place]
                self._spans[row] = _Span(block, line, block.width - int(self.lengths[row]))
            runs.append(_Run(block, np.array(places), np.array(chosen)[order], np.argsort(order)))
        return runs

    def _step(self, run: _Run, tokens: NDArray[np.int64]) -> Logits:
        block = run.block
        graph = self._graph if block.width else self._prompts
        width = block.width + 1
        if width > run.capacity:
            run.begin(self._graph, self._spec, self._capacity(width), self.lengths[run.rows])
            self._bound = None
        capacity, run.capacity = run.capacity, 0  # restarts if this fails
        mask = run.next(tokens, width)
        block.bind(graph, 1, capacity, bool(self._spec.branch))
        if self._bound is not run:
            run.start, run.logits = graph.bind_step(run.ids, mask, run.positions, with_past=width > 1)
        else:
            graph.bind_mask(mask, 1, run.mask_at)
        if self._placed.states:
            self._placed.states.rows = run.rows
        run.start()
        block.grown(1)
        self.lengths[run.rows] += 1
        run.capacity = capacity
        self._bound = run if width > 1 else None  # without a past it may be another branch of the graph
        if run.lines is None:
            return run.logits
        return run.logits.taken(run.lines) if isinstance(run.logits, DeviceLogits) else run.logits[run.lines]

    def _capacity(self, width: int) -> int:
        return round_capacity(width, self._wanted, self._placed.context_length)

    def _run(
        self, rows: Sequence[int], ids: Sequence[NDArray[np.int64]], last: bool, hidden: bool
    ) -> list[Logits]:
        self._changed()
        block, order = self._block_of(rows)  # order: line of the block -> place in `rows`
        new, counts = pad_right([ids[i] for i in order])
        steps = new.shape[1]
        lengths = self.lengths[[rows[i] for i in order]]
        width = block.width + steps
        columns = np.arange(width)
        start = block.width - lengths
        end = block.width + counts
        mask = ((columns >= start[:, None]) & (columns < end[:, None])).astype(np.int64)
        # filler must not ask for positions that the model does not have
        positions = np.minimum(lengths[:, None] + np.arange(steps), (lengths + counts - 1)[:, None])
        graph = self._graph if block.width else self._prompts
        if hidden:  # of graphs that read prompts themselves
            graph = self._hidden = self._hidden or BoundGraph(self._placed, hidden=True)
        block.bind(graph, steps, self._capacity(width), bool(self._spec.branch))
        wanted = counts[:, None] - 1 if last else None
        if self._placed.states:
            self._placed.states.rows = [rows[i] for i in order]
        logits = graph.run_rows(RunInputs(new, mask, positions, wanted, last, with_past=block.width > 0))
        block.grown(steps)
        out: list[Logits] = [np.empty(0, np.float32)] * len(rows)
        for line, (place, row_logits) in enumerate(
            zip(order, split_logits(logits, counts, last), strict=True)
        ):
            row = rows[place]
            self._spans[row] = _Span(block, line, int(start[line]))
            self.lengths[row] += counts[line]
            out[place] = row_logits
        return out

    def _block_of(self, rows: Sequence[int]) -> tuple[_Block, list[int]]:
        """The block whose lines are exactly `rows`, all ending where it ends; else a new one."""
        first = self._spans[rows[0]]
        if first is not None and first.block.count == len(rows):
            block = first.block
            lines: list[int] = []
            for row in rows:
                span = self._spans[row]
                if span is None or span.block is not block or span.start + self.lengths[row] != block.width:
                    break
                lines.append(span.line)
            if len(set(lines)) == len(rows):
                return block, [int(i) for i in np.argsort(lines)]
        return self._gather(rows), list(range(len(rows)))

    def _gather(self, rows: Sequence[int]) -> _Block:
        """Copy rows into a new block, flush right."""
        width = max(self.lengths[list(rows)].tolist())
        block = _Block(self._placed, len(rows))
        if width:
            block.allocate(width, self._capacity(width + 1))
            if self._spec.static_length or any(self.lengths[row] < width for row in rows):
                block.clear()
            for line, row in enumerate(rows):
                span, length = self._spans[row], int(self.lengths[row])
                if span is not None and length:
                    block.copy_from(line, span.block, span.line, span.start, length)
        return block


class _Block:
    """Cache tensors of `count` lines and `width` positions: buffers to read, buffers to write."""

    def __init__(self, graph: PlacedGraph, count: int) -> None:
        self.count = count
        self.width = 0
        self._placed = graph
        self._read: list[DeviceBuffer] = []
        self._write: list[DeviceBuffer] = []

    @property
    def nbytes(self) -> int:
        return sum(buffer.size for buffer in (*self._read, *self._write))

    def _length(self, width: int) -> int:
        """Positions of a line that holds `width`: as many, or those of a fixed cache."""
        return self._placed.spec.static_length or width

    def allocate(self, width: int, capacity: int) -> None:
        """Make room to read; for blocks that are filled by copies."""
        self.width = width
        self._read = new_buffers(self._placed, self.count, self._length(max(capacity, width)))

    def clear(self) -> None:
        for buffer in self._read:
            buffer.zero()

    def copy_from(self, line: int, other: _Block, other_line: int, start: int, length: int) -> None:
        """Copy `length` positions from `start` of another block's line to the end of a line of this one."""
        source = Line(other._read, other_line, self._length(other.width), start)
        target = Line(self._read, line, self._length(self.width), self.width - length)
        copy_positions(self._placed.spec, source, target, length)

    def bind(self, graph: BoundGraph, steps: int, capacity: int, dummy_past: bool) -> None:
        """Bind the past as input and room for `steps` more positions as output."""
        spec, length = self._placed.spec, self._length(self.width + steps)
        if not self._write or self._write[0].size < self.count * line_bytes(spec, length):
            self._write = new_buffers(self._placed, self.count, self._length(max(capacity, length)))
        heads, size = spec.num_heads, spec.head_size
        past = [self.count, heads, self._length(self.width), size]
        read = self._read
        if not self.width:
            read = self._write  # nothing is read, but an address is needed
            if dummy_past or spec.static_length:  # merged graphs want a past even where they ignore it
                past[2] = self._length(1)
                read = self._read = new_buffers(self._placed, self.count, past[2])
                self.clear()
        present = [self.count, heads, length, size]
        pointers = [buffer.pointer for buffer in read], [buffer.pointer for buffer in self._write]
        graph.bind_caches(pointers[0], past, pointers[1], present)

    def grown(self, steps: int) -> None:
        """Make the output of the last run the content of the block."""
        self.width += steps
        self._read, self._write = self._write, self._read


class _Span(NamedTuple):
    """The location of a row: from position `start` of a line. Its length is in `BlockCache.lengths`."""

    block: _Block
    line: int
    start: int


class _Run:
    """A block that is run step by step, and the arrays of a step.

    Attributes:
        block: the block.
        places: where its rows stand in the request.
        rows: its rows, in the order of its lines.
        lines: the line of each row of the request, None if they are in order.
        capacity: positions for which there are arrays.
        ids, positions: inputs of a step.
        mask_at: the address of the mask.
        start: runs the graph on them.
        logits: what a step gives, line by line.
    """

    start: Callable[[], None]
    logits: Logits

    def __init__(
        self, block: _Block, places: NDArray[np.int64], rows: NDArray[np.int64], lines: NDArray[np.int64]
    ) -> None:
        self.block = block
        self.places = places
        self.rows = rows
        self.lines = None if (np.diff(lines) == 1).all() else lines
        self.capacity = 0

    def begin(self, graph: BoundGraph, spec: GraphSpec, capacity: int, lengths: NDArray[np.int64]) -> None:
        """Make arrays for steps up to `capacity` positions; the rows have `lengths` now."""
        count = len(self.rows)
        self.capacity = capacity
        self.ids = graph.blank("input_ids", (count, 1))
        self.positions = graph.blank(spec.positions, (count, 1))
        self.positions[:, 0] = lengths - 1
        self._line = self.ids[:, 0]
        self._columns = np.arange(capacity)
        self._first = (self.block.width - lengths)[:, None]
        self._filled = bool(self._first.any())
        self._mask = graph.blank(spec.mask, (count * capacity,))
        self._mask[:] = 1
        self.mask_at: int = self._mask.ctypes.data

    def next(self, tokens: NDArray[np.int64], width: int) -> NDArray[Any]:
        """Fill the arrays for the next step; returns its mask."""
        if self.lines is None:
            self._line[:] = tokens
        else:
            self._line[self.lines] = tokens
        self.positions += 1
        count = len(self._line)
        mask = self._mask[: count * width].reshape(count, width)
        if self._filled:
            np.greater_equal(self._columns[:width], self._first, out=mask)
        return mask
