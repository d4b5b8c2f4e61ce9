"""The main graph of an ONNX file as its nodes, read from the bytes without the onnx package.

Messages are protobuf; `fields` gives (field number, wire type, start, end). Wire type 0 is a varint, 2 is
bytes or a message. Field numbers are those of onnx.proto, whose names are in comments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite._files.onnx.wire import Buffer, fields, read_varint

Span = tuple[int, int]  # start and end in the file

MAX_DEPTH = 16  # nesting of sub-graphs; exporters make one level (the `If` of merged decoders)
MAX_CONSTANT = 64  # elements of the largest constant that is read
_LARGEST = (1 << 64) - 1
# ONNX's number of a type -> NumPy's type, and the field of TensorProto for its numbers without raw_data.
_READ = {1: ("<f4", 4), 6: ("<i4", 5), 7: ("<i8", 7), 9: ("?", 5)}


class Node(NamedTuple):
    """One node.

    Attributes:
        kind: its operator.
        domain: domain of the operator, `b""` for ONNX's own.
        inputs, outputs: names; an optional one that is left out is `b""`.
        first: position of the first input's name; None without inputs.
        attributes: positions of the attributes.
        span: position of the node.
    """

    kind: bytes
    domain: bytes
    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]
    first: Span | None
    attributes: tuple[Span, ...]
    span: Span


class Graph(NamedTuple):
    """The main graph of a model.

    Attributes:
        nodes: in the order of the file.
        makers: the node that computes each value, by the value's name.
        weights: positions of initializers by name.
        inputs, outputs: positions of their descriptions by name.
        span: position of the graph.
    """

    nodes: list[Node]
    makers: dict[bytes, Node]
    weights: dict[bytes, Span]
    inputs: dict[bytes, Span]
    outputs: dict[bytes, Span]
    span: Span


class Tensor(NamedTuple):
    """The description of a tensor in a file.

    Attributes:
        dims: its sizes.
        kind: ONNX's number of its type.
        raw: position of its bytes in the file; None if they are elsewhere.
        outside: the keys and values of ONNX's `external_data`: location, offset, length.
    """

    dims: tuple[int, ...]
    kind: int
    raw: Span | None
    outside: dict[bytes, bytes]


def read_graph(model: Buffer) -> Graph:
    """Read the nodes of a serialised model. Raises ValueError if it has not exactly one graph."""
    spans = [(a, b) for number, wire, a, b in fields(model, 0, len(model)) if number == 7 and wire == 2]
    if len(spans) != 1:
        raise ValueError(f"not an ONNX file: it holds {len(spans)} graphs")
    return graph_at(model, spans[0])


def graph_at(model: Buffer, span: Span) -> Graph:
    """Read the nodes of the graph at a position, the main graph or that of an attribute."""
    nodes: list[Node] = []
    named: dict[int, dict[bytes, Span]] = {5: {}, 11: {}, 12: {}}  # initializer, input, output
    for number, wire, a, b in fields(model, *span):
        if wire != 2:
            continue
        if number == 1:  # node
            nodes.append(node_at(model, (a, b)))
        elif number in named:
            named[number][_name(model, a, b, 8 if number == 5 else 1)] = a, b
    makers = {name: node for node in nodes for name in node.outputs if name}
    return Graph(nodes, makers, named[5], named[11], named[12], span)


def node_at(model: Buffer, span: Span) -> Node:
    """Read the node at a position."""
    inputs, outputs, attributes = [], [], []
    first, kind, domain = None, b"", b""
    for number, wire, a, b in fields(model, *span):
        if wire != 2:
            continue
        if number == 1:  # input
            first = first or (a, b)
            inputs.append(model[a:b])
        elif number == 2:  # output
            outputs.append(model[a:b])
        elif number == 4:  # op_type
            kind = model[a:b]
        elif number == 5:  # attribute
            attributes.append((a, b))
        elif number == 7:  # domain
            domain = model[a:b]
    return Node(kind, domain, tuple(inputs), tuple(outputs), first, tuple(attributes), span)


def _name(model: Buffer, start: int, end: int, number: int) -> bytes:
    """The bytes of a message's field; the rest of the message is not read."""
    return next((model[a:b] for n, wire, a, b in fields(model, start, end) if n == number and wire == 2), b"")


def read_tensor(model: Buffer, span: Span) -> Tensor:
    """Read the description of the tensor at a position."""
    dims: list[int] = []
    kind, raw = 0, None
    outside: dict[bytes, bytes] = {}
    for number, wire, a, b in fields(model, *span):
        if number == 1:  # dims
            dims += integers_of(model, wire, a, b)
        elif number == 2 and wire == 0:  # data_type
            kind, _ = read_varint(model, a, b)
        elif number == 9 and wire == 2:  # raw_data
            raw = a, b
        elif number == 13 and wire == 2:  # external_data
            pair = {n: model[c:d] for n, w, c, d in fields(model, a, b) if w == 2}
            outside[pair.get(1, b"")] = pair.get(2, b"")
    return Tensor(tuple(dims), kind, raw, outside)


def integers_of(model: Buffer, wire: int, start: int, end: int) -> Iterator[int]:
    """Integers of a field, one or several packed ones."""
    while wire in (0, 2) and start < end:
        value, start = read_varint(model, start, end)
        yield value & _LARGEST


def constant(model: Buffer, graph: Graph, name: bytes) -> NDArray[Any] | None:
    """A small constant, flat: a weight, or the output of a Constant node; None for anything else."""
    node = graph.makers.get(name)
    if node is not None and node.kind == b"Constant":
        spans = [(c, d) for at in node.attributes for n, w, c, d in fields(model, *at) if (n, w) == (5, 2)]
        return numbers(model, spans[0]) if len(spans) == 1 else None
    span = graph.weights.get(name)
    if span is None or name in graph.inputs:  # an input's value may be replaced
        return None
    return numbers(model, span)


def numbers(model: Buffer, span: Span) -> NDArray[Any] | None:
    """The numbers of the tensor at a position, flat; None if it is large, external or of a rare type."""
    tensor = read_tensor(model, span)
    count = math.prod(tensor.dims)
    if tensor.kind not in _READ or count > MAX_CONSTANT or tensor.outside:
        return None
    dtype, number = _READ[tensor.kind]
    if tensor.raw is not None:
        data = bytes(model[slice(*tensor.raw)])
        return np.frombuffer(data, dtype) if len(data) == count * np.dtype(dtype).itemsize else None
    given = [at for at in fields(model, *span) if at[0] == number]
    if dtype == "<f4":
        data = b"".join(bytes(model[a:b]) for _, _, a, b in given)
        return np.frombuffer(data, dtype) if len(data) == 4 * count else None
    values = [value for _, wire, a, b in given for value in integers_of(model, wire, a, b)]
    return np.array(values, np.uint64).astype(np.int64) if len(values) == count else None


def attribute_numbers(model: Buffer, node: Node) -> Iterator[NDArray[Any] | None]:
    """The numbers of a node's attributes; None for a tensor whose numbers are not read."""
    for at in node.attributes:
        for number, wire, a, b in fields(model, *at):
            if number in (3, 8):  # i, ints
                yield np.array(list(integers_of(model, wire, a, b)), np.uint64).astype(np.int64)
            elif number in (2, 7) and (b - a) % 4 == 0:  # f, floats
                yield np.frombuffer(bytes(model[a:b]), "<f4")
            elif (number, wire) == (5, 2):  # t
                yield numbers(model, (a, b))


def named_integers(model: Buffer, node: Node) -> dict[bytes, int]:
    """The attributes of a node that are one integer, by name."""
    found = {}
    for at in node.attributes:
        values = [(a, b) for number, wire, a, b in fields(model, *at) if (number, wire) == (3, 0)]
        if values:
            value, _ = read_varint(model, *values[-1])
            found[_name(model, *at, 1)] = value - (1 << 64) if value >> 63 else value
    return found


def dimensions(model: Buffer, span: Span) -> tuple[int, list[int]]:
    """Element type and sizes of an input or output that is a tensor; a dynamic size is 0."""
    kind, dims = 0, []
    for tensor in _inside(model, _inside(model, [span], 2), 1):
        for number, wire, a, b in fields(model, *tensor):
            if number == 1 and wire == 0:
                kind, _ = read_varint(model, a, b)
            elif number == 2 and wire == 2:
                for dim in _inside(model, [(a, b)], 1):
                    sizes = [
                        read_varint(model, c, d)[0] for n, w, c, d in fields(model, *dim) if (n, w) == (1, 0)
                    ]
                    dims.append(sizes[0] if sizes else 0)
    return kind, dims


def size_names(model: Buffer, span: Span) -> list[bytes]:
    """The names of dynamic sizes of an input or output that is a tensor."""
    sizes = _inside(model, _inside(model, _inside(model, _inside(model, [span], 2), 1), 2), 1)
    return [model[a:b] for a, b in _inside(model, sizes, 2)]


def _inside(model: Buffer, spans: list[Span], wanted: int) -> list[Span]:
    """The positions of messages in the field `wanted` of other messages."""
    return [(a, b) for span in spans for n, wire, a, b in fields(model, *span) if (n, wire) == (wanted, 2)]
