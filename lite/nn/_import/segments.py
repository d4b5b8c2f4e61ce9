"""A program in segments that the backward pass computes again: only what crosses their ends is kept."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.types import is_symbolic
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.custom import checkpoint
from lite._transforms.grad.tape import value_of
from lite.nn._import.operators import Step

_CLOSE = 1.01  # how much more than the least a cut may keep
_EDGE = 0.02  # a share of all that is computed, which the first and the last segment have at least

Values = list[Any]
Runs = Callable[[Sequence[Step], Values], None]


class Segment(NamedTuple):
    """Steps in order.

    Attributes:
        steps: what it runs.
        still: those of them that no derivative goes through, such as a mask's: they run once, first.
        moving: the others.
        reads: numbers of values that these take from before.
        writes: numbers of values that are read after them.
        again: whether they are computed again: all but the last ones.
    """

    steps: tuple[Step, ...]
    still: tuple[Step, ...]
    moving: tuple[Step, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    again: bool


def is_differentiated(values: Values) -> bool:
    """Whether there are traced arrays that wrap plain ones, and no arrays of a graph."""
    inside = [x.value for x in values if type(x) is TracedArray]
    return bool(inside) and not any(map(is_symbolic, inside))


def measured(steps: Sequence[Step], values: Values, run: Runs) -> dict[int, int]:
    """The bytes of what the steps compute from traced values, by number: they are run without derivatives.

    What is a view of a weight, a constant or an input counts nothing. The rest is in no way a part of it: the
    backward pass keeps none of it, and all segments share what is alive.
    """
    held = [value_of(x) for x in values]
    sizes: dict[int, int] = {}
    traced = {i for i, x in enumerate(values) if type(x) is TracedArray}
    for step in steps:
        lasting = [held[i] for i in step.inputs if i not in sizes and isinstance(held[i], np.ndarray)]
        run([_without_end(step)], held)
        if not traced.isdisjoint(step.inputs):
            for i in filter(None, _written(step)):
                found = held[i]
                counts = isinstance(found, np.ndarray) and found.dtype.kind in "fc"
                shared = not counts or any(np.may_share_memory(found, x) for x in lasting)
                sizes[i] = 0 if shared else found.nbytes
                traced.add(i)
        for i in step.done:
            held[i] = None
    return sizes


def _without_end(step: Step) -> Step:
    """The step, which lets go of nothing."""
    return Step(step.run, step.inputs, step.outputs, step.label, step.op)


def segments_of(
    steps: Sequence[Step], sizes: dict[int, int], outputs: Sequence[int], count: int | None
) -> list[Segment]:
    """Segments that compute about as much each, cut where little is alive.

    Args:
        steps: steps of a program.
        sizes: bytes of what they compute that is differentiated.
        outputs: numbers of what the program gives.
        count: number of segments; None for as many as keep least in all.
    """
    last = {i: at for at, step in enumerate(steps) for i in step.inputs}
    last.update(dict.fromkeys(outputs, len(steps)))
    before, alive, total = [0], [0], 0  # up to each place: the values computed, and those that are read later
    ending = [0] * (len(steps) + 1)
    for at, step in enumerate(steps):
        born = 0
        for i in _written(step):
            size = sizes.get(i, 0)
            total += size
            if last.get(i, at) > at:
                born += size
                ending[min(last[i], len(steps))] += size
        alive.append(alive[-1] + born - ending[at])
        before.append(total)
    inner = [p for p in range(1, len(steps)) if _EDGE * total < before[p] < (1 - _EDGE) * total]
    if not inner:
        return [Segment(tuple(steps), (), (), (), tuple(outputs), False)]
    least = min(alive[p] for p in inner)
    cheap = [p for p in inner if alive[p] <= least * _CLOSE]
    if count is None:
        count = max(2, round(math.sqrt(total / max(least, 1))))
    wanted = [total * k / count for k in range(1, count)]
    cuts = sorted({min(cheap, key=lambda p: abs(before[p] - x)) for x in wanted})
    return _between(steps, [0, *cuts, len(steps)], last, sizes)


def _between(
    steps: Sequence[Step], ends: Sequence[int], last: dict[int, int], sizes: dict[int, int]
) -> list[Segment]:
    found = []
    for start, stop in itertools.pairwise(ends):
        part = tuple(steps[start:stop])
        moving = tuple(step for step in part if not sizes.keys().isdisjoint(_written(step)))
        still = tuple(_without_end(step) for step in part if sizes.keys().isdisjoint(_written(step)))
        own = {i for step in moving for i in _written(step)}
        reads = sorted({i for step in moving for i in step.inputs if i} - own)
        writes = sorted(i for i in own if i and last.get(i, -1) >= stop)
        found.append(Segment(part, still, moving, tuple(reads), tuple(writes), stop < len(steps)))
    return found


def run_segments(segments: Sequence[Segment], values: Values, run: Runs) -> None:
    """Run the steps of all segments, and put into `values` what later ones and the result need."""
    for segment in segments:
        if not segment.again:
            run(segment.steps, values)
            continue
        run(segment.still, values)
        traced = [i for i in segment.reads if type(values[i]) is TracedArray]
        others = {i: values[i] for i in segment.reads if i not in traced}
        compute = _function(segment, traced, others, len(values), run)
        found = checkpoint(compute)(*[values[i] for i in traced])
        for number, value in zip(segment.writes, found, strict=True):
            values[number] = value
        for step in segment.steps:
            for number in step.done:
                values[number] = None


def _function(
    segment: Segment, traced: Sequence[int], others: dict[int, Any], count: int, run: Runs
) -> Callable[..., tuple[Any, ...]]:
    """The function of a segment's traced values; the others, which would come back traced, it holds."""

    def compute(*given: Any) -> tuple[Any, ...]:
        values: Values = [None] * count
        for number, value in (*others.items(), *zip(traced, given, strict=True)):
            values[number] = value
        run(segment.moving, values)
        return tuple(
            np.asarray(x) if isinstance(x, np.generic) else x for x in map(values.__getitem__, segment.writes)
        )

    return compute


def _written(step: Step) -> tuple[int, ...]:
    return (step.outputs,) if isinstance(step.outputs, int) else step.outputs
