"""Cache for GroupQueryAttention graphs: a slot per row in buffers that are past and present at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import SupportsInt

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.binding import BoundGraph, PlacedGraph, RunInputs
from lite.models.decoder.cache import (
    ENOUGH_TOKENS,
    Line,
    copy_positions,
    line_bytes,
    new_buffers,
    pad_right,
    round_capacity,
    similar_lengths,
    split_logits,
)
from lite.models.decoder.conventions import GraphSpec
from lite.models.decoder.device_logits import DeviceLogits, Logits, merged, stacked
from lite.models.decoder.gpu_binding import bound_graph
from lite.models.decoder.memory import DeviceBuffer

MAX_BINDINGS = 64
# What a run takes whatever its length, in tokens: reading float32 weights as long as 12 take, int4 as 2.
RUN_TOKENS, QUANTISED_RUN_TOKENS = 12, 2


def shares_prompts(graph: PlacedGraph) -> bool:
    """Whether rows of a graph with slots may begin in one run.

    Only where no row of a run can change another one's results. What a GPU does with filler is not tried.
    """
    spec = graph.spec
    return (
        graph.device == "cpu"
        and not spec.one_row
        and not spec.one_token
        and spec.quantisation != "MatMulInteger"
    )


class SlotCache:
    """Rows in slots of shared buffers [slots, heads, capacity, head size].

    The operator reads of the mask only each row's sum (its length) and the width, so rows are independent:
    each has its own length, and what lies behind it is ignored. Prompts of similar length share runs, padded
    on the right, straight into neighbouring slots (`_runs`). More tokens behind a past run row by row, as the
    operator allows no more on the CPU, or, where that takes fewer runs, as steps of all rows. All live rows
    decode in one run over a contiguous range of slots, with a mask of constant shape, so that nothing at all
    is rebound between steps.
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
        together, alone = self._runs(rows, [len(new) for new in ids], last)
        held = [i for i in alone if self.lengths[rows[i]]]
        self._ensure(np.array([rows[i] for places in (*together, alone) for i in places]), needed)
        self._last_step = None
        out: list[Logits] = [np.empty(0, np.float32)] * len(rows)
        if not hidden and self._steps_pay([len(ids[i]) for i in held]):
            alone = [i for i in alone if not self.lengths[rows[i]]]
            logits = self._in_steps([rows[i] for i in held], [ids[i] for i in held], last)
            for i, row_logits in zip(held, logits, strict=True):
                out[i] = row_logits
        for places in self._in_neighbouring_slots(rows, [*together, *([i] for i in alone)]):
            logits = self._run([rows[i] for i in places], [ids[i] for i in places], last, hidden)
            for i, row_logits in zip(places, logits, strict=True):
                out[i] = row_logits
        return out

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

    def _runs(
        self, rows: Sequence[int], counts: Sequence[int], last: bool
    ) -> tuple[list[list[int]], list[int]]:
        """Empty rows that share runs, and other rows; places in the request.

        Quantised products of one token add up in another order than those of several, so that one token is
        alone there: what is cached of a prompt does not depend on other prompts, to the bit.
        """
        spec = self._spec
        quantised = spec.quantisation is not None
        filler = QUANTISED_RUN_TOKENS if quantised else RUN_TOKENS
        if spec.states or spec.least_capacity or spec.gives_last_only(last):  # these know no filler
            filler = 0
        shares = shares_prompts(self._placed)
        new = [i for i, row in enumerate(rows) if shares and not self.lengths[row] and counts[i] > quantised]
        together = similar_lengths(
            [counts[i] for i in new], lambda longest: ENOUGH_TOKENS // longest, filler=filler
        )
        runs = sorted([new[i] for i in run] for run in together)  # rows in the order of slots step faster
        return runs, sorted(set(range(len(rows))) - set(new))

    def _steps_pay(self, counts: Sequence[int]) -> bool:
        """Whether as many tokens behind rows' pasts are sooner read in steps of all rows than row by row.

        Steps compute logits of all slots, so there must be half as many of them as rows.
        """
        if not counts or self._spec.quantisation is not None or not shares_prompts(self._placed):
            return False
        return 2 * max(counts) <= len(counts)

    def _in_steps(self, rows: Sequence[int], ids: Sequence[NDArray[np.int64]], last: bool) -> list[Logits]:
        """Append tokens to rows, one to each in a run."""
        parts: list[list[Logits]] = [[] for _ in rows]
        for at in range(max(map(len, ids))):
            live = [i for i, new in enumerate(ids) if len(new) > at]
            logits = self.step([rows[i] for i in live], np.array([ids[i][at] for i in live]))
            for place, i in enumerate(live):
                if not last or at == len(ids[i]) - 1:
                    parts[i].append(stacked([logits[place : place + 1]]))  # the next step writes over them
        return [stacked(part) for part in parts]

    def _in_neighbouring_slots(self, rows: Sequence[int], runs: Sequence[list[int]]) -> Iterator[list[int]]:
        """The runs, cut where a row's slot does not follow that of the row before it."""
        for places in runs:
            slots = self._slots[[rows[i] for i in places]]
            cuts = [0, *(np.flatnonzero(np.diff(slots) != 1) + 1).tolist(), len(places)]
            yield from (places[start:stop] for start, stop in pairwise(cuts))

    def _run(
        self, rows: Sequence[int], ids: Sequence[NDArray[np.int64]], last: bool, hidden: bool
    ) -> list[Logits]:
        """Append tokens to rows in neighbouring slots: to one, or to several that are empty."""
        new, counts = pad_right(ids)
        past = int(self.lengths[rows[0]])
        ends = past + counts
        bound = self._range(int(self._slots[rows[0]]), len(rows), hidden)
        if self._placed.states:
            self._placed.states.rows = list(rows)
        columns = np.arange(past + new.shape[1])
        mask = (columns < ends[:, None]).astype(np.int64)  # of first prompts it must be as wide as the ids
        # filler must not ask for positions that the model does not have
        positions = np.minimum(columns[past:], ends[:, None] - 1)
        wanted = counts[:, None] - 1 if last else None
        logits = bound.graph.run_rows(RunInputs(new, mask, positions, wanted, last, with_past=past > 0))
        self.lengths[list(rows)] = ends
        return split_logits(logits, counts, last)

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
        """Move `rows` to neighbouring slots, in any order; returns the first slot."""
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
