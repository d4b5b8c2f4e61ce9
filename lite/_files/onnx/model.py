"""A whole model as values of Python: nodes with their attributes, weights, subgraphs and functions.

The numbers of fields and of wire types are those of onnx.proto: `number` says which field of a message it is,
`wire` how it is encoded (0 an integer, 2 bytes, a text or a message).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._files.onnx.arrays import read_array
from lite._files.onnx.reader import MAX_DEPTH, Span, graph_at, integers_of, node_at
from lite._files.onnx.wire import Buffer, fields, read_varint

Size = int | str | None
MAX_NODES = 1 << 20  # of a model with its subgraphs; those of functions count at every call


@dataclass(frozen=True)
class Reference:
    """An attribute whose value is an argument of the function that the node is in."""

    name: str


@dataclass(frozen=True)
class Value:
    """An input or output of a graph.

    Attributes:
        name: as in the graph.
        element_type: ONNX's number of its type; 0 for a sequence or an optional.
        shape: sizes; a name or None where any is taken. None if the model does not say.
    """

    name: str
    element_type: int
    shape: tuple[Size, ...] | None


@dataclass(frozen=True)
class Weight:
    """An initializer: an array that is read when it is asked for.

    Attributes:
        model: the model's bytes.
        span: position of the tensor.
        folder: the folder of the model's file, where external data is.
    """

    model: Buffer = field(repr=False)
    span: Span
    folder: Path | None

    def array(self) -> NDArray[Any]:
        """The array, which must not be written to; see `read_array`."""
        return read_array(self.model, self.span, self.folder)


@dataclass(frozen=True)
class Operation:
    """A node.

    Attributes:
        op: its operator.
        domain: the operator's domain; empty for ONNX's own.
        name: the node's name, for messages.
        inputs, outputs: names of values; empty for one that is left out.
        attributes: numbers, texts, arrays, `OperationGraph`s, lists of them, and `Reference`s.
        span: position of the node in the file.
    """

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    span: Span


@dataclass(frozen=True)
class OperationGraph:
    """A graph, the main one or that of an attribute.

    Attributes:
        nodes: in the order in which they run.
        weights: the initializers by name.
        inputs, outputs: in the order of the graph.
    """

    nodes: tuple[Operation, ...]
    weights: dict[str, Weight]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True)
class LocalFunction:
    """A function that a model brings along.

    Attributes:
        inputs, outputs: names of values in it.
        attributes: names of its arguments, and the values of those that have one by default.
        nodes: in the order in which they run.
        opsets: versions of the operators by domain.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    nodes: tuple[Operation, ...]
    opsets: dict[str, int]


@dataclass(frozen=True)
class Model:
    """A model.

    Attributes:
        graph: the main graph.
        opsets: versions of the operators by domain; "" is ONNX's own.
        functions: those that the model brings along, by domain and name.
        producer: name of the program that wrote it.
    """

    graph: OperationGraph
    opsets: dict[str, int]
    functions: dict[tuple[str, str], LocalFunction]
    producer: str


def read_model(model: Buffer, folder: Path | None = None) -> Model:
    """Read a model whole, but for the arrays of its weights.

    Args:
        model: a serialised model.
        folder: the folder of its file; external data is looked for there and nowhere else.

    Raises:
        ValueError: it is not an ONNX model, or has too many nodes, or graphs nested too deeply.
    """
    reader = _Reader(model, folder)
    opsets: dict[str, int] = {}
    functions: dict[tuple[str, str], LocalFunction] = {}
    graphs: list[OperationGraph] = []
    producer = ""
    for number, wire, a, b in fields(model, 0, len(model)):
        if wire != 2:
            continue
        if number == 2:  # producer_name
            producer = _text(model, a, b)
        elif number == 7:  # graph
            graphs.append(reader.graph((a, b), 0))
        elif number == 8:  # opset_import
            reader.opset((a, b), opsets)
        elif number == 25:  # functions
            key, function = reader.function((a, b))
            functions[key] = function
    if not graphs:
        raise ValueError("not an ONNX file: it holds 0 graphs")
    return Model(_merged(graphs), opsets, functions, producer)


def _merged(graphs: list[OperationGraph]) -> OperationGraph:
    """One graph of several, as protobuf takes a field that is written in parts."""
    if len(graphs) == 1:
        return graphs[0]
    weights = {name: weight for graph in graphs for name, weight in graph.weights.items()}
    nodes, inputs, outputs = (
        tuple(x for graph in graphs for x in getattr(graph, part)) for part in ("nodes", "inputs", "outputs")
    )
    return OperationGraph(nodes, weights, inputs, outputs)


class _Reader:
    def __init__(self, model: Buffer, folder: Path | None) -> None:
        self.model, self.folder = model, folder
        self.count = 0

    def graph(self, span: Span, depth: int) -> OperationGraph:
        if depth > MAX_DEPTH:
            raise ValueError(f"not an ONNX file: graphs nested deeper than {MAX_DEPTH}")
        found = graph_at(self.model, span)
        nodes = tuple(self.node(node.span, depth) for node in found.nodes)
        weights = {_name(key): Weight(self.model, at, self.folder) for key, at in found.weights.items()}
        sides = [
            tuple(self.value(_name(key), at) for key, at in side.items())
            for side in (found.inputs, found.outputs)
        ]
        return OperationGraph(nodes, weights, *sides)

    def node(self, span: Span, depth: int) -> Operation:
        self.count += 1
        if self.count > MAX_NODES:
            raise ValueError(f"a model has at most {MAX_NODES} nodes")
        node = node_at(self.model, span)
        attributes = dict(self.attribute(at, depth) for at in node.attributes)
        name = next(
            (_text(self.model, a, b) for n, w, a, b in fields(self.model, *span) if (n, w) == (3, 2)), ""
        )
        inputs, outputs = (tuple(map(_name, side)) for side in (node.inputs, node.outputs))
        domain = _name(node.domain)
        domain = "" if domain == "ai.onnx" else domain
        return Operation(_name(node.kind), domain, name, inputs, outputs, attributes, span)

    def attribute(self, span: Span, depth: int) -> tuple[str, Any]:
        """Name and value; a list if the kind is one of lists."""
        model, name, kind, reference = self.model, "", 0, ""
        found: dict[int, list[Any]] = {}
        for number, wire, a, b in fields(model, *span):
            if number == 1:
                name = _text(model, a, b)
            elif number == 20:  # type
                kind, _ = read_varint(model, a, b)
            elif number == 21:  # ref_attr_name
                reference = _text(model, a, b)
            elif number in (2, 7):  # f, floats; then i, ints; s, strings; t, tensors; g, graphs
                found.setdefault(number, []).extend(_floats(model, a, b))
            elif number in (3, 8):
                found.setdefault(number, []).extend(_signed(model, wire, a, b))
            elif number in (4, 9):
                found.setdefault(number, []).append(bytes(model[a:b]).decode("utf-8", "replace"))
            elif number in (5, 10):
                found.setdefault(number, []).append(read_array(model, (a, b), self.folder))
            elif number in (6, 11):
                found.setdefault(number, []).append(self.graph((a, b), depth + 1))
        if reference:
            return name, Reference(reference)
        number = _FIELDS.get(kind) or next(iter(found), 0)
        values = found.get(number, [])
        if number in (7, 8, 9, 10, 11):
            return name, values
        return name, values[-1] if values else _ZEROS.get(number)

    def value(self, name: str, span: Span) -> Value:
        """See `Value`; a type other than a tensor has the number 0."""
        model = self.model
        for kind in self.inside([span], 2):
            for tensor in self.inside([kind], 1):
                element, shape = 0, None
                for number, wire, a, b in fields(model, *tensor):
                    if (number, wire) == (1, 0):
                        element, _ = read_varint(model, a, b)
                    elif (number, wire) == (2, 2):
                        shape = tuple(self.size(dim) for dim in self.inside([(a, b)], 1))
                return Value(name, element, shape)
        return Value(name, 0, None)

    def size(self, span: Span) -> Size:
        for number, wire, a, b in fields(self.model, *span):
            if (number, wire) == (1, 0):
                return next(_signed(self.model, wire, a, b))
            if (number, wire) == (2, 2):
                return _text(self.model, a, b) or None
        return None

    def inside(self, spans: list[Span], wanted: int) -> list[Span]:
        return [
            (a, b)
            for span in spans
            for n, wire, a, b in fields(self.model, *span)
            if (n, wire) == (wanted, 2)
        ]

    def opset(self, span: Span, opsets: dict[str, int]) -> None:
        domain, version = "", 0
        for number, wire, a, b in fields(self.model, *span):
            if (number, wire) == (1, 2):
                domain = _text(self.model, a, b)
            elif (number, wire) == (2, 0):
                version, _ = read_varint(self.model, a, b)
        opsets["" if domain == "ai.onnx" else domain] = version

    def function(self, span: Span) -> tuple[tuple[str, str], LocalFunction]:
        name, domain = "", ""
        sides: dict[int, list[str]] = {4: [], 5: []}  # inputs, outputs
        attributes: dict[str, Any] = {}
        nodes: list[Operation] = []
        opsets: dict[str, int] = {}
        for number, wire, a, b in fields(self.model, *span):
            if wire != 2:
                continue
            if number == 1:
                name = _text(self.model, a, b)
            elif number in sides:
                sides[number].append(_text(self.model, a, b))
            elif number == 6:  # names of arguments without a default
                attributes.setdefault(_text(self.model, a, b))
            elif number == 7:  # nodes
                nodes.append(self.node((a, b), 1))
            elif number == 9:  # opset_import
                self.opset((a, b), opsets)
            elif number == 10:
                domain = _text(self.model, a, b)
            elif number == 11:  # arguments with a default
                key, value = self.attribute((a, b), 1)
                attributes[key] = value
        function = LocalFunction(tuple(sides[4]), tuple(sides[5]), attributes, tuple(nodes), opsets)
        return ("" if domain == "ai.onnx" else domain, name), function


# The field of an attribute's value by ONNX's number of its kind, and the value where that is left out.
_FIELDS = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: 10, 10: 11}
_ZEROS = {2: 0.0, 3: 0, 4: ""}


def _name(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _text(model: Buffer, start: int, end: int) -> str:
    return bytes(model[start:end]).decode("utf-8", "replace")


def _floats(model: Buffer, start: int, end: int) -> list[float]:
    if (end - start) % 4:
        raise ValueError(f"not an ONNX file: floats in {end - start} bytes at byte {start}")
    return list(map(float, np.frombuffer(bytes(model[start:end]), "<f4")))


def _signed(model: Buffer, wire: int, start: int, end: int) -> Iterator[int]:
    for value in integers_of(model, wire, start, end):
        yield value - (1 << 64) if value >> 63 else value


def constants_as_weights(graph: OperationGraph, model: Buffer, folder: Path | None) -> OperationGraph:
    """The graph with the arrays of floats of its nodes Constant as weights, under the nodes' outputs."""
    found = {
        node.outputs[0]: Weight(model, (ends[0], ends[1]), folder)
        for node in graph.nodes
        if node.op == "Constant" and _has_floats(node.attributes.get("value"))
        for n, w, a, b in fields(model, *node.span)
        if (n, w) == (5, 2)
        for number, wire, *ends in fields(model, a, b)
        if (number, wire) == (5, 2)
    }
    nodes = tuple(node for node in graph.nodes if found.keys().isdisjoint(node.outputs))
    return OperationGraph(nodes, {**graph.weights, **found}, graph.inputs, graph.outputs)


def _has_floats(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim > 0


def in_order(nodes: Sequence[Operation]) -> list[Operation]:
    """The nodes in topological order; a node moves only if it stands before one whose output it reads.

    Nodes of a cycle, and those that read from it, come last.
    """
    makers = {name: i for i, node in enumerate(nodes) for name in node.outputs if name}
    needed = [{makers[name] for name in reads_of(node) if name in makers} for node in nodes]
    if all(max(before, default=-1) < i for i, before in enumerate(needed)):
        return list(nodes)
    readers: dict[int, list[int]] = defaultdict(list)
    for i, before in enumerate(needed):
        for maker in before:
            readers[maker].append(i)
    ready, found = [i for i, before in enumerate(needed) if not before], []
    while ready:
        i = heapq.heappop(ready)
        found.append(i)
        for reader in readers[i]:
            needed[reader].discard(i)
            if not needed[reader]:
                heapq.heappush(ready, reader)
    rest = set(range(len(nodes))).difference(found)
    return [nodes[i] for i in (*found, *sorted(rest))]


def reads_of(node: Operation) -> set[str]:
    """The names of the values that a node reads, including those that its subgraphs read from outside."""
    names = set(node.inputs)
    for inner in graphs_of(node.attributes):
        names.update(x.name for x in inner.outputs)
        for each in inner.nodes:
            names |= reads_of(each)
    return names


def graphs_of(attributes: Mapping[str, Any]) -> list[OperationGraph]:
    """The subgraphs among a node's attributes."""
    return [value for value in attributes.values() if isinstance(value, OperationGraph)]
