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
        reads: numbers of values that they take from before.
        writes: numbers of values that are read after them.
        again: whether they are computed again: all but the last ones.
    """

    steps: tuple[Step, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    again: bool


def is_differentiated(values: Values) -> bool:
    """Whether there are traced arrays that wrap plain ones, and no arrays of a graph."""
    inside = [x.value for x in values if type(x) is TracedArray]
    return bool(inside) and not any(map(is_symbolic, inside))


def measured(steps: Sequence[Step], values: Values, run: Runs) -> dict[int, int]:
    """The bytes of all that the steps compute, by number: they are run without derivatives.

    What is a view of a weight, a constant or an input counts nothing.
    """
    held = [value_of(x) for x in values]
    sizes: dict[int, int] = {}
    for step in steps:
        lasting = [held[i] for i in step.inputs if i not in sizes and isinstance(held[i], np.ndarray)]
        run([Step(step.run, step.inputs, step.outputs, step.label)], held)
        for i in _written(step):
            found = held[i] if i and isinstance(held[i], np.ndarray) else None
            sizes[i] = (
                0 if found is None or any(np.may_share_memory(found, x) for x in lasting) else found.nbytes
            )
        for i in step.done:
            held[i] = None
    return sizes


def segments_of(
    steps: Sequence[Step], sizes: dict[int, int], outputs: Sequence[int], count: int | None
) -> list[Segment]:
    """Segments that compute about as much each, cut where little is alive.

    Args:
        steps: steps of a program.
        sizes: bytes of what they compute.
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
            total += sizes[i]
            if last.get(i, at) > at:
                born += sizes[i]
                ending[min(last[i], len(steps))] += sizes[i]
        alive.append(alive[-1] + born - ending[at])
        before.append(total)
    inner = [p for p in range(1, len(steps)) if _EDGE * total < before[p] < (1 - _EDGE) * total]
    if not inner:
        return [Segment(tuple(steps), (), tuple(outputs), False)]
    least = min(alive[p] for p in inner)
    cheap = [p for p in inner if alive[p] <= least * _CLOSE]
    if count is None:
        count = max(2, round(math.sqrt(total / max(least, 1))))
    wanted = [total * k / count for k in range(1, count)]
    cuts = sorted({min(cheap, key=lambda p: abs(before[p] - x)) for x in wanted})
    return _between(steps, [0, *cuts, len(steps)], last)


def _between(steps: Sequence[Step], ends: Sequence[int], last: dict[int, int]) -> list[Segment]:
    found = []
    for start, stop in itertools.pairwise(ends):
        part = tuple(steps[start:stop])
        own = {i for step in part for i in _written(step)}
        reads = sorted({i for step in part for i in step.inputs if i} - own)
        writes = sorted(i for i in own if i and last.get(i, -1) >= stop)
        found.append(Segment(part, tuple(reads), tuple(writes), stop < len(steps)))
    return found


def run_segments(segments: Sequence[Segment], values: Values, run: Runs) -> None:
    """Run the steps of all segments, and put into `values` what later ones and the result need."""
    for segment in segments:
        if not segment.again:
            run(segment.steps, values)
            continue
        found = checkpoint(_function(segment, len(values), run))(*[values[i] for i in segment.reads])
        for number, value in zip(segment.writes, found, strict=True):
            values[number] = value
        for step in segment.steps:
            for number in step.done:
                values[number] = None


def _function(segment: Segment, count: int, run: Runs) -> Callable[..., tuple[Any, ...]]:
    def compute(*given: Any) -> tuple[Any, ...]:
        values: Values = [None] * count
        for number, value in zip(segment.reads, given, strict=True):
            values[number] = value
        run(segment.steps, values)
        return tuple(
            np.asarray(x) if isinstance(x, np.generic) else x for x in map(values.__getitem__, segment.writes)
        )

    return compute


def _written(step: Step) -> tuple[int, ...]:
    return (step.outputs,) if isinstance(step.outputs, int) else step.outputs
