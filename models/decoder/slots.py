"""Cache for GroupQueryAttention graphs: a slot per row in buffers that are past and present at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsInt

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.binding import BoundGraph, PlacedGraph
from lite.models.decoder.cache import Line, copy_positions, line_bytes, new_buffers, round_capacity
from lite.models.decoder.conventions import GraphSpec
from lite.models.decoder.device_logits import DeviceLogits, Logits, merged
from lite.models.decoder.gpu_binding import bound_graph
from lite.models.decoder.memory import DeviceBuffer

MAX_BINDINGS = 64


class SlotCache:
    """Rows in slots of shared buffers [slots, heads, capacity, head size].

    The operator reads of the mask only each row's sum (its length) and the width, so rows are independent:
    each has its own length, and what lies behind it is ignored. Prompts run one row at a time straight into
    their slot (the operator allows no more on the CPU, and it is faster than padding); then all live rows
    decode in one run over a contiguous range of slots, with a mask of constant shape, so that nothing at
    all is rebound between steps.
    """

    def __init__(self, graph: PlacedGraph, rows: int) -> None:
        self._placed = graph
        self._spec = graph.spec
        self._capacity = 0
        self._count = 0
        self._wanted = 0
        self._wanted_rows = 0
        self._buffers: list[DeviceBuffer] = []
        self._slots = np.full(rows, -1)  # row -> slot; an empty row has none
        self._bound: dict[tuple[int, int, int, bool], _Range] = {}
        self._last_step: _Step | None = None  # until anything but steps of its rows happens
        self.lengths: NDArray[np.int64] = np.zeros(rows, np.int64)

    @property
    def nbytes(self) -> int:
        return sum(buffer.size for buffer in self._buffers)

    def extend(
        self, rows: Sequence[int], ids: Sequence[NDArray[np.int64]], *, last: bool, hidden: bool = False
    ) -> list[Logits]:
        needed = max(int(self.lengths[row]) + len(new) for row, new in zip(rows, ids, strict=True))
        self._ensure(np.array(rows), needed)
        self._last_step = None
        return [self._prompt(row, new, last, hidden) for row, new in zip(rows, ids, strict=True)]

    def step(self, rows: Sequence[int], tokens: NDArray[np.int64]) -> Logits:
        if self._spec.one_row and len(rows) > 1:
            parts = (([i], self.step([row], tokens[i : i + 1])) for i, row in enumerate(rows))
            return merged(len(rows), parts)
        step = self._last_step
        if step is None or not step.room or step.rows != list(rows):
            step = self._prepared(rows)
        self._last_step = None  # if it fails
        if self._placed.states:
            self._placed.states.rows = step.by_slot
        logits = step.run(tokens)
        self.lengths[step.at] += 1
        self._last_step = step
        return logits

    def _prepared(self, rows: Sequence[int]) -> _Step:
        index = np.array(rows)
        lengths = self.lengths[index]
        self._ensure(index, int(lengths.max()) + 1)
        first = self._bring_together(index)
        bound = self._range(first, len(index))
        return _Step(bound, index, self._slots[index] - first, lengths)

    def fork(self, source: int, target: int) -> None:
        self._last_step = None
        if self.lengths[source]:
            self._ensure(np.array([target]), int(self.lengths[source]))
            self._copy(source, self._line(self._slots[source]), self._line(self._slots[target]))
        self.lengths[target] = self.lengths[source]

    def truncate(self, row: int, length: int) -> None:
        self._last_step = None
        self.lengths[row] = length
        if length == 0:
            self._slots[row] = -1

    def settle(self, row: int) -> None: ...  # a slot is its own

    def resize(self, rows: int) -> None:
        new = max(0, rows - len(self._slots))
        self._slots = np.concatenate([self._slots, np.full(new, -1)])
        self.lengths = np.concatenate([self.lengths, np.zeros(new, np.int64)])

    def reserve(self, length: int, rows: int) -> None:
        self._wanted, self._wanted_rows = length, rows

    def _prompt(self, row: int, ids: NDArray[np.int64], last: bool, hidden: bool) -> Logits:
        past = int(self.lengths[row])
        total = past + len(ids)
        bound = self._range(int(self._slots[row]), 1, hidden)
        if self._placed.states:
            self._placed.states.rows = [row]
        mask = np.ones((1, total), np.int64)  # of a first prompt the mask must be as wide as the ids
        (logits,) = bound.graph.run_rows(
            ids[None], mask, np.arange(past, total)[None], last=last, with_past=past > 0
        )
        self.lengths[row] = total
        return logits[-1:] if last else logits

    def _ensure(self, rows: NDArray[np.int64], length: int) -> None:
        """Give each row a slot, in buffers for at least `length` positions."""
        missing = rows[self._slots[rows] < 0]
        if length <= self._capacity and not len(missing):
            return
        idle = self.lengths == 0
        idle[rows] = False
        self._slots[idle] = -1  # of a row that got one for a run that then failed
        live = int(np.count_nonzero(self.lengths)) + int(np.count_nonzero(self.lengths[rows] == 0))
        if length > self._capacity:
            # sized for what lives now, not for the widest batch there ever was
            wished = max(self._wanted, self._capacity * 3 // 2)
            capacity = round_capacity(length, wished, self._placed.context_length)
            capacity = max(capacity, self._spec.least_capacity)
            self._allocate(max(live, self._wanted_rows), capacity)
        elif live > self._count:
            self._allocate(max(live, self._wanted_rows, self._count * 3 // 2), self._capacity)
        free = np.setdiff1d(np.arange(self._count), self._slots)
        missing = rows[self._slots[rows] < 0]
        self._slots[missing] = free[: len(missing)]

    def _bring_together(self, rows: NDArray[np.int64]) -> int:
        """Have `rows` occupy neighbouring slots, in any order; returns the first slot."""
        slots, count = self._slots[rows], len(rows)
        first = int(slots.min())
        if int(slots.max()) - first + 1 == count:
            return first
        taken = set(slots.tolist())
        free = iter([slot for slot in range(count) if slot not in taken])
        for row, slot in zip(rows, slots, strict=True):
            if slot >= count:
                self._move(int(row), next(free))
        return 0

    def _move(self, row: int, slot: int) -> None:
        """Swap `row` with the row in `slot`."""
        here = int(self._slots[row])
        old, new = self._line(here), self._line(slot)
        others = np.flatnonzero(self._slots == slot)  # at most one
        if len(others):
            spare = Line(new_buffers(self._placed, 1, self._capacity), 0, self._capacity)
            self._copy(others[0], new, spare)
        self._copy(row, old, new)
        if len(others):
            self._copy(others[0], spare, old)
            self._slots[others] = here
        self._slots[row] = slot
        self._last_step = None

    def _line(self, slot: SupportsInt) -> Line:
        return Line(self._buffers, int(slot), self._capacity)

    def _copy(self, row: SupportsInt, source: Line, target: Line) -> None:
        """Copy the content of a row to another one."""
        copy_positions(self._spec, source, target, int(self.lengths[int(row)]))

    def _allocate(self, slots: int, capacity: int) -> None:
        """New buffers, with the rows that hold something in their first slots."""
        buffers = new_buffers(self._placed, slots, capacity)
        placed = np.full(len(self._slots), -1)
        for slot, row in enumerate(np.flatnonzero(self.lengths)):
            self._copy(row, self._line(self._slots[row]), Line(buffers, slot, capacity))
            placed[row] = slot
        self._buffers, self._slots, self._count, self._capacity = buffers, placed, slots, capacity
        self._bound.clear()
        self._last_step = None

    def _range(self, first: int, count: int, hidden: bool = False) -> _Range:
        """The binding for `count` slots from `first`; made once."""
        side = self._placed.side  # operators refuse a width of the mask that has no rotary factors
        width = min(self._capacity, side.most) if side else self._capacity
        found = self._bound.get((first, count, width, hidden))
        if found is None:
            if len(self._bound) >= MAX_BINDINGS:
                self._bound.clear()
            graph = BoundGraph(self._placed, hidden=True) if hidden else bound_graph(self._placed)
            shape = [count, self._spec.num_heads, self._capacity, self._spec.head_size]
            offset = first * line_bytes(self._spec, self._capacity)
            for tensor, buffer in zip(self._spec.cache, self._buffers, strict=True):
                at = buffer.pointer + offset
                graph.bind_cache(tensor, at, shape, at, shape)
            found = self._bound[first, count, width, hidden] = _Range(graph, self._spec, count, width)
        return found


class _Range:
    """A binding for neighbouring slots, with the arrays of a decoding step."""

    def __init__(self, graph: BoundGraph, spec: GraphSpec, count: int, width: int) -> None:
        self.graph = graph
        self.ids = graph.blank("input_ids", (count, 1))
        # the positions, and where the mask shows a row's next one: both are counted up in one addition
        self.counters = graph.blank(spec.positions, (2, count))
        self.positions = self.counters[0, :, None]
        self.mask = graph.blank(spec.mask, (count, width))


class _Step:
    """Steps of the same rows, one after the other: all is bound, and only what arrays hold changes.

    Args:
        bound: the binding of the rows' slots.
        rows: which rows.
        places: where each is in the run.
        lengths: how many tokens each holds.

    Attributes:
        rows: the rows, as a list.
        at: what stands for them in an index.
        by_slot: the rows, in the order of the run.
        room: how many steps fit into the buffers.
    """

    def __init__(
        self, bound: _Range, rows: NDArray[np.int64], places: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> None:
        count, width = bound.mask.shape
        self.rows = rows.tolist()
        neighbours = (np.diff(rows) == 1).all()
        self.at = slice(self.rows[0], self.rows[0] + count) if neighbours else rows
        self.room = width - int(lengths.max())
        self.by_slot = rows[np.argsort(places)]
        self._places = None if (np.diff(places) == 1).all() else places
        present = np.zeros(count, np.int64)  # positions of each row of the run
        present[places] = lengths
        self._counters, self._next = bound.counters, bound.counters[1]
        self._counters[:] = present - 1, np.arange(count) * width + present - 1
        self._mask, self._ids = bound.mask.reshape(-1), bound.ids.reshape(-1)
        bound.mask[:] = np.arange(width) < present[:, None]
        self._run, self._logits = bound.graph.bind_step(bound.ids, bound.mask, bound.positions)
        self._given: NDArray[np.float32] | None = None  # them in the order of the rows
        if self._places is not None and isinstance(self._logits, np.ndarray):
            self._given = np.empty_like(self._logits)

    def run(self, tokens: NDArray[np.int64]) -> Logits:
        """Append a token to each row; on the host the logits are in the same array each time."""
        places = self._places
        if places is None:
            self._ids[:] = tokens
        else:
            self._ids[places] = tokens
        self._counters += 1
        self._mask[self._next] = 1
        self.room -= 1
        self._run()
        if places is None:
            return self._logits
        if isinstance(self._logits, DeviceLogits):
            return self._logits.taken(places)
        return np.take(self._logits, places, 0, out=self._given, mode="clip")
