"""Cache for graphs that return the past and the new keys and values concatenated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.binding import BoundGraph, PlacedGraph, RunInputs
from lite.models.decoder.cache import (
    Line,
    copy_positions,
    line_bytes,
    new_buffers,
    pad_right,
    round_capacity,
    split_logits,
)
from lite.models.decoder.conventions import GraphSpec, Padding
from lite.models.decoder.device_logits import DeviceLogits, Logits, merged
from lite.models.decoder.gpu_binding import bound_graph
from lite.models.decoder.memory import DeviceBuffer


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


@dataclass(frozen=True)
class _Span:
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
