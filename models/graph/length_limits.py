"""Find where a graph compares the length of a text with a number, and ask who runs it instead.

Models with two sets of rotary factors ("longrope": Phi-3, Phi-4) choose between them by length, and exporters
write the choice into the graph: `Greater(width of attention_mask, 4096)` into an `If`, or
`Greater(ReduceMax(position_ids) + 1, 4096)` into a `Where`. Width and maximum are of a run: of all rows in
it, of the room that they have, of one piece of a long prompt. So each comparison becomes an input of the
graph, `lite_beyond_4096`, that says whether the texts of a run are longer.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import numpy as np

from lite._files.onnx import writer
from lite._files.onnx.reader import Graph, Node, constant, named_integers, read_graph
from lite._files.onnx.rewriting import with_nodes
from lite._files.onnx.wire import Buffer, field, fields

LIMIT_INPUT = re.compile(r"lite_beyond_(\d+)")
MAX_CLIMB = 24  # nodes between an input and a comparison; a file may also hold a circle

# Comparisons with a number: by how much the limit is below it, and whether they hold beyond it.
_COMPARISONS = {
    b"Greater": (0, True),
    b"GreaterOrEqual": (1, True),
    b"Less": (1, False),
    b"LessOrEqual": (0, False),
}
_MIRRORED = {
    b"Greater": b"Less",
    b"Less": b"Greater",
    b"GreaterOrEqual": b"LessOrEqual",
    b"LessOrEqual": b"GreaterOrEqual",
}
_PASSED_ON = frozenset({b"Cast", b"Identity", b"Reshape", b"Squeeze", b"Unsqueeze"})


class _Number(NamedTuple):
    """`total * (tokens of the text so far) + new * (tokens of the run) + constant`."""

    total: int = 0
    new: int = 0
    constant: int = 0


_TOTAL, _NEW, _PAST = _Number(1), _Number(0, 1), _Number(1, -1)
_Values = list[_Number | None]


def with_limits_as_inputs(model: bytes, graph: Graph | None = None) -> bytes | None:
    """Replace comparisons of the length with a number by inputs.

    Args:
        model: a serialised ONNX decoder; it is not changed.
        graph: it as `read_graph` reads it, if that was done before.

    Returns:
        The model with a bool input without dimensions for each number, named as `LIMIT_INPUT`; None if the
        graph compares the length with none.

    Raises:
        ValueError: if `model` is not an ONNX file.
    """
    graph = graph or read_graph(model)
    numbers = _Lengths(model, graph)
    names = {name for node in graph.nodes for name in (*node.inputs, *node.outputs)}
    limits: set[int] = set()
    changed, added = {}, b""
    for node in graph.nodes:
        found = _limit(numbers, node)
        if found is None:
            continue
        limit, beyond = found
        unused = next((new for c in b"~#@!" if (new := node.outputs[0][:-1] + bytes([c])) not in names), None)
        if unused is None:
            continue
        names.add(unused)
        first, last = node.span
        start, end = next((a, b) for number, _, a, b in fields(model, first, last) if number == 2)
        changed[node.span] = field(1, model[first:start] + unused + model[end:last])
        limits.add(limit)
        kind = "Identity" if beyond else "Not"
        added += field(1, writer.node(kind, unused, [f"lite_beyond_{limit}"], [node.outputs[0]], {}))
    if not limits:
        return None
    for limit in sorted(limits):
        added += field(11, writer.value(f"lite_beyond_{limit}", np.dtype(np.bool_), ()))
    return with_nodes(model, changed, added)


def _limit(numbers: _Lengths, node: Node) -> tuple[int, bool] | None:
    """The most tokens on one side of a comparison, and whether it holds beyond them."""
    if node.kind not in _COMPARISONS or len(node.inputs) != 2 or len(node.outputs) != 1:
        return None
    kind, pair = node.kind, [numbers.of(name) for name in node.inputs]
    if any(values is None or len(values) != 1 for values in pair):
        return None
    length, number = (values[0] for values in pair if values)
    if length is None or number is None:
        return None
    if not (length.total or length.new):
        length, number, kind = number, length, _MIRRORED[kind]
    if length[:2] != (1, 0) or number[:2] != (0, 0):
        return None
    below, beyond = _COMPARISONS[kind]
    limit = number.constant - length.constant - below
    return (limit, beyond) if limit > 0 else None


class _Lengths:
    """Integers that a graph computes from the lengths of its inputs."""

    def __init__(self, model: Buffer, graph: Graph) -> None:
        self._model, self._graph = model, graph
        self._known: dict[bytes, _Values | None] = {}
        pasts = [name for name in graph.inputs if re.search(rb"past.*(key|value)", name.lower())]
        new = {1: _NEW if pasts else _TOTAL}  # without a past a run has the whole of its texts
        self._sizes = {b"attention_mask": {1: _TOTAL}, b"input_ids": new, b"position_ids": new}
        self._sizes |= {name: {2: _PAST} for name in pasts}

    def of(self, name: bytes, depth: int = 0) -> _Values | None:
        """The numbers of a scalar or vector, None for one that is not known; None for anything else."""
        if name not in self._known and depth < MAX_CLIMB:
            self._known[name] = None  # a circle is nothing that is known
            self._known[name] = self._computed(name, depth + 1)
        return self._known.get(name)

    def _computed(self, name: bytes, depth: int) -> _Values | None:
        """The elements of a tensor of sizes, from the nodes that compute it; None if they are not known."""
        given = constant(self._model, self._graph, name)
        if given is not None:
            whole = [int(value) if value == value // 1 else None for value in given.tolist()]
            return [None if value is None else _Number(constant=value) for value in whole]
        node = self._graph.makers.get(name)
        if node is None or not node.inputs:
            return None
        of = functools.partial(self.of, depth=depth)
        first = of(node.inputs[0])
        if node.kind == b"Shape":
            return self._shape(node)
        if node.kind == b"ReduceMax":
            return self._largest(node)
        if node.kind in _PASSED_ON:
            return first
        if first is None or len(node.inputs) < 2:
            return None
        if node.kind in (b"Add", b"Sub"):
            return _sum(first, of(node.inputs[1]), -1 if node.kind == b"Sub" else 1)
        chosen = [of(other) for other in node.inputs[1:]]
        if node.kind == b"Gather" and chosen[0] is not None:
            return _taken(first, [at.constant if at else None for at in chosen[0]])
        if node.kind == b"Slice" and len(chosen) > 1 and all(one and len(one) == 1 for one in chosen):
            start, end, *more = (one[0].constant if one and one[0] else None for one in chosen)
            if start is not None and end is not None and more in ([], [0], [0, 1]):
                return first[start:end]
        return None

    def _largest(self, node: Node) -> _Values | None:
        """The values of positions, or of the sums of the mask: those of the longest row."""
        if node.inputs[0] == b"position_ids":
            return [_Number(1, 0, -1)]
        source = self._graph.makers.get(node.inputs[0])
        counts = source is not None and source.kind == b"ReduceSum" and source.inputs[0] == b"attention_mask"
        return [_TOTAL] if counts else None

    def _shape(self, node: Node) -> _Values:
        sizes: dict[int, _Number] = self._sizes.get(node.inputs[0], {})
        given = named_integers(self._model, node)
        return [sizes.get(axis) for axis in range(4)][given.get(b"start", 0) : given.get(b"end", 4)]


def _sum(first: _Values, second: _Values | None, sign: int) -> _Values | None:
    if second is None or len(first) != 1 or len(second) != 1 or first[0] is None or second[0] is None:
        return None
    return [_Number(*(one + sign * other for one, other in zip(first[0], second[0], strict=True)))]


def _taken(values: _Values, places: list[int | None]) -> _Values:
    """Of a shape whose rank may be smaller than its list: places from the end are not known."""
    return [values[at] if at is not None and 0 <= at < len(values) else None for at in places]
