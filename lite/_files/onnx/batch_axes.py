"""Which axis of a graph's inputs and outputs is the batch, and batches of any dimensions as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

Size = int | str | None
Named = Sequence[tuple[str, Sequence[Size]]]


def batch_axes(
    inputs: Named, outputs: Named, given: Mapping[str, int | None] | None = None
) -> dict[str, int | None]:
    """The batch axis of each input and output, None for those without a batch.

    The batch is the named size that most inputs share (the first of those that tie). A tensor that lacks the
    name, as exporters lose some, has its batch at its first size of a name that has no other meaning.

    Args:
        inputs: names and sizes; a name or None where any size is taken.
        outputs: likewise.
        given: the axis of some, by name.

    Example:
        >>> batch_axes([("x", ("n", 4)), ("state", (2, "n", 8))], [("y", ("n", 2))])
        {'x': 0, 'state': 1, 'y': 0}
    """
    known = dict(given or {})
    symbol = _symbol(shape for name, shape in inputs if name not in known)
    others = {size for _, shape in inputs if symbol in shape for size in shape if isinstance(size, str)}
    return {
        name: known[name] if name in known else _axis(shape, symbol, others - {symbol})
        for name, shape in (*inputs, *outputs)
    }


def _symbol(shapes: Iterable[Sequence[Size]]) -> str | None:
    counts: Counter[str] = Counter()
    for shape in shapes:
        names = dict.fromkeys(size for size in shape if isinstance(size, str))
        counts.update(dict.fromkeys(names, int(len(shape) > 1)))  # a vector may well be one of lengths
    return max(counts, key=lambda name: counts[name]) if counts else None  # the first of equals


def _axis(shape: Sequence[Size], symbol: str | None, others: set[str]) -> int | None:
    if symbol in shape and symbol is not None:
        return list(shape).index(symbol)
    free = [axis for axis, size in enumerate(shape) if not isinstance(size, int) and size not in others]
    return free[0] if free else None


def row_axes(inputs: Named, outputs: Named) -> dict[str, int | None]:
    """The axis of each tensor's row in a graph of one row: its first size of one; {} for other graphs.

    So are graphs that were exported with one frame and no dynamic batch: sizes are fixed, and an input begins
    with one.

    Example:
        >>> row_axes([("x", (1, 4)), ("state", (2, 1, 8))], [("y", (1, 2))])
        {'x': 0, 'state': 1, 'y': 0}
    """
    shapes = [tuple(shape) for _, shape in inputs]
    fixed = all(isinstance(size, int) for shape in shapes for size in shape)
    if not fixed or all(shape[:1] != (1,) for shape in shapes):
        return {}
    return {name: _row(shape) for name, shape in (*inputs, *outputs)}


def _row(shape: Sequence[Size]) -> int | None:
    return next((axis for axis, size in enumerate(shape) if size == 1 or not isinstance(size, int)), None)


def to_rows(value: Any, lead: int, axis: int) -> Any:
    """An array with `lead` batch dimensions in front as a graph takes it: with one, at `axis`."""
    if lead != 1:
        value = value.reshape((prod(value.shape[:lead]), *value.shape[lead:]))
    if axis:
        value = value.transpose((*range(1, axis + 1), 0, *range(axis + 1, value.ndim)))
    return value


def from_rows(value: Any, lead: Sequence[int], axis: int) -> Any:
    """An output of a graph, whose batch is at `axis`, with the batch dimensions `lead` in front."""
    if axis:
        value = value.transpose((axis, *(i for i in range(value.ndim) if i != axis)))
    if len(lead) != 1:
        value = value.reshape((*lead, *value.shape[1:]))
    return value
