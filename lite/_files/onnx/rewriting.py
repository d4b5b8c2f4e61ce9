"""Changed copies of a serialised model: other names of external files, weights left where they are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from lite._files.onnx.reader import MAX_DEPTH, Span
from lite._files.onnx.wire import Buffer, field, fields, varint

# Where tensors are: kind of message -> number of a field -> kind of the message in it.
_TENSORS_IN = {
    "model": {7: "graph"},
    "graph": {1: "node", 5: "weight"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
    "tensor": {13: "place"},
    "weight": {13: "place"},
}
_VALUES = frozenset({4, 5, 6, 7, 9, 10, 11, 13, 14})  # fields of a tensor with its numbers, or where they are
# What a message of some kind becomes: (data, start, end) -> bytes, None to look inside it.
_Change: TypeAlias = Callable[[Buffer, int, int], bytes | None]


def with_external_files(model: bytes, names: Mapping[str, str]) -> bytes:
    """A serialised model whose tensors refer to external data files by other names.

    Args:
        model: the model; it is not changed.
        names: the new name of each file, by its old one.

    Raises:
        ValueError: if `model` is not an ONNX file.
    """
    renamed = {old.encode(): new.encode() for old, new in names.items()}

    def place(data: Buffer, start: int, end: int) -> bytes | None:
        pair = {number: bytes(data[a:b]) for number, wire, a, b in fields(data, start, end) if wire == 2}
        if pair.get(1) != b"location" or pair.get(2) not in renamed:
            return None
        return field(1, b"location") + field(2, renamed[pair[2]])

    return _rewritten(model, 0, len(model), "model", "place", place, 0)


def with_weights_outside(model: Buffer, file: str, least: int) -> bytes:
    """A serialised model without its large weights: it refers to where they are in its own file.

    onnxruntime takes external data from any place of a file, through a memory map. So a changed graph can be
    loaded without its weights in memory a second time.

    Args:
        model: the model, a map of its file, say; it is not changed.
        file: the name of that file.
        least: bytes of the smallest weight that is left out. Those of nodes' attributes stay.

    Raises:
        ValueError: if `model` is not an ONNX file.
    """

    def weight(data: Buffer, start: int, end: int) -> bytes | None:
        inside = [(number, wire, a, b) for number, wire, a, b in fields(data, start, end)]
        raw = [(a, b) for number, wire, a, b in inside if number == 9 and wire == 2]
        if len(raw) != 1 or raw[0][1] - raw[0][0] < least or any(number in (13, 14) for number, *_ in inside):
            return None
        first, last = raw[0]
        parts = []
        for number, wire, a, b in inside:
            if number != 9:
                parts.append(varint(number << 3 | wire) + (varint(b - a) if wire == 2 else b"") + data[a:b])
        place = {"location": file, "offset": str(first), "length": str(last - first)}
        for key, value in place.items():
            parts.append(field(13, field(1, key.encode()) + field(2, value.encode())))
        return b"".join([*parts, varint(14 << 3), varint(1)])  # its data is external

    return _rewritten(model, 0, len(model), "model", "weight", weight, 0, least)


def with_named_weights_outside(model: Buffer, names: Collection[str], file: str) -> bytes:
    """A serialised model without the values of some weights: each is said to begin a file.

    Whoever loads the model gives these values in the file's place.

    Args:
        model: the model; it is not changed.
        names: names of the weights.
        file: a name for the file; there need not be one.

    Raises:
        ValueError: if `model` is not an ONNX file.
    """
    chosen = {name.encode() for name in names}

    def weight(data: Buffer, start: int, end: int) -> bytes | None:
        inside = list(fields(data, start, end))
        if not any(number == 8 and bytes(data[a:b]) in chosen for number, _, a, b in inside):
            return None
        parts, done = [], start
        for number, _, _, b in inside:
            if number not in _VALUES:
                parts.append(bytes(data[done:b]))
            done = b
        place = field(13, field(1, b"location") + field(2, file.encode()))
        return b"".join([*parts, place, varint(14 << 3), varint(1)])  # its data is external

    return _rewritten(model, 0, len(model), "model", "weight", weight, 0)


# Where nodes are: kind of message -> number of a field -> kind of the message in it.
_NODES_IN = {"graph": {1: "node"}, "node": {5: "attribute"}, "attribute": {6: "graph", 11: "graph"}}


def with_nodes(model: Buffer, nodes: Mapping[Span, bytes], more: bytes) -> bytes:
    """A serialised model with other nodes in the place of some, in the main graph or in those of its nodes.

    Args:
        model: the model, a map of its file, say; it is not changed.
        nodes: fields of a graph for the node that is at a place in the file.
        more: fields at the end of the main graph.

    Raises:
        ValueError: if `model` is not an ONNX file.
    """
    view, done = memoryview(model), 0
    starts = sorted(first for first, _ in nodes)

    def changed(span: Span, kind: str, depth: int) -> list[bytes | memoryview]:
        """The fields of a message; those with some of the nodes in them are rewritten."""
        if depth > 3 * MAX_DEPTH:
            raise ValueError(f"not an ONNX file: messages nested deeper than {3 * MAX_DEPTH}")
        parts: list[bytes | memoryview] = []
        done = span[0]
        for number, wire, a, b in fields(model, *span):
            inner = _NODES_IN[kind].get(number) if wire == 2 else None
            if inner == "node" and (a, b) in nodes:
                parts.append(nodes[a, b])
            elif inner is not None and bisect_left(starts, a) < bisect_left(starts, b):
                parts.append(field(number, b"".join(changed((a, b), inner, depth + 1))))
            else:
                parts.append(view[done:b])
            done = b
        return parts

    whole: list[bytes | memoryview] = []
    for number, wire, a, b in fields(model, 0, len(model)):
        if (number, wire) == (7, 2):
            inside = [*changed((a, b), "graph", 0), more]
            whole += [varint(7 << 3 | 2), varint(sum(map(len, inside))), *inside]
        else:
            whole.append(view[done:b])
        done = b
    return b"".join(whole)


def _rewritten(
    data: Buffer, start: int, end: int, kind: str, changed: str, change: _Change, depth: int, least: int = 0
) -> bytes:
    """The message `data[start:end]` of a kind, with all messages of the kind `changed` in it changed.

    Those in messages of fewer than `least` bytes are not: nearly all nodes are, so few are looked into.
    """
    if depth > 4 * MAX_DEPTH:
        raise ValueError(f"not an ONNX file: messages nested deeper than {4 * MAX_DEPTH}")
    if kind == changed and (message := change(data, start, end)) is not None:
        return message
    inside = _TENSORS_IN.get(kind, {})
    parts, done, first = [], start, start  # where what is not copied yet begins, and where the field does
    for number, wire, a, b in fields(data, start, end):
        if wire == 2 and number in inside and b - a >= least:
            parts.append(data[done:first])
            parts.append(
                field(number, _rewritten(data, a, b, inside[number], changed, change, depth + 1, least))
            )
            done = b
        first = b
    parts.append(data[done:end])
    return b"".join(parts)
