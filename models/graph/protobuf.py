"""Read the few facts about an ONNX file that its inputs and outputs do not show, without the onnx package.

An ONNX file is a protobuf message. This module walks its wire format through a memory map: it goes down into
graphs, nodes and sub-graphs, and skips tensor data by its length, so that a model of many gigabytes costs
as much to scan as its number of nodes. Every length is checked against the message that holds it.

Field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, wire format:
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from lite._files.onnx.wire import field, varint

Buffer: TypeAlias = bytes | mmap.mmap

MAX_DEPTH = 16  # nesting of sub-graphs; exporters make one level (the `If` of merged decoders)
MAX_VARINT_BYTES = 10
MAX_NAME_BYTES = 4096
MAX_NUMBERS = 1 << 50  # of one tensor: a file may claim any size


@dataclass(frozen=True)
class GraphSummary:
    """The result of `scan`.

    Attributes:
        producer: the exporter's name as it wrote it, `""` if it did not.
        op_types: operator types of all nodes, sub-graphs and local functions included.
        external_files: the file names that tensors of the graph refer to.
        rounds_activations: a MatMulNBits node rounds its input to 8 bits (accuracy level 4).
        half_weights: more of the weights' numbers are float16 than float32.
        biased_attention: a GroupQueryAttention node takes an attention bias.
        window: tokens that an attention node with a local window sees; the smallest of several, None without.
        windowed_cache: fewest positions of a cache that is as long as a local window (attribute
            `sliding_window_cache`); 0 where there is none.
    """

    producer: str
    op_types: frozenset[str]
    external_files: frozenset[str]
    rounds_activations: bool = False
    half_weights: bool = False
    biased_attention: bool = False
    window: int | None = None
    windowed_cache: int = 0


def read_varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """Read one base-128 integer; returns (value, position after it). ValueError if cut or too long."""
    value = 0
    for count in range(MAX_VARINT_BYTES):
        if at >= end:
            raise ValueError(f"not a protobuf message: integer cut at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, at
    raise ValueError(f"not a protobuf message: integer longer than {MAX_VARINT_BYTES} bytes at byte {at}")


def fields(data: Buffer, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Iterate over the fields of the message in `data[start:end]`.

    Yields:
        (field number, wire type, start, end) where start and end delimit the field's payload.

    Raises:
        ValueError: for an unknown wire type, field number 0, or a payload that leaves the message.
    """
    at = start
    while at < end:
        tag = data[at]
        at += 1
        if tag >= 0x80:  # of one byte in most fields: read here, opening a model takes a third less time
            tag, at = read_varint(data, at - 1, end)
        number, wire = tag >> 3, tag & 7
        first = at
        if wire == 0:
            _, at = read_varint(data, at, end)
        elif wire == 1:
            at += 8
        elif wire == 5:
            at += 4
        elif wire == 2:
            size = data[at] if at < end else 0x80
            first = at + 1
            if size >= 0x80:
                size, first = read_varint(data, at, end)
            at = first + size
        else:
            raise ValueError(f"not a protobuf message: wire type {wire} at byte {first}")
        if number == 0 or at > end:
            raise ValueError(
                f"not a protobuf message: field {number} at byte {first} needs {at - first} bytes"
            )
        yield number, wire, first, at


class _Scan:
    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.producer = ""
        self.op_types: set[str] = set()
        self.external_files: set[str] = set()
        self.rounds_activations = False
        self.numbers = {1: 0, 10: 0}  # in weights, by ONNX's number of the type: float32 and float16
        self.biased_attention = False
        self.window: int | None = None
        self.windowed_cache = 0

    def text(self, start: int, end: int) -> str:
        if end - start > MAX_NAME_BYTES:
            raise ValueError(f"not an ONNX file: a name of {end - start} bytes at byte {start}")
        return bytes(self.data[start:end]).decode("utf-8", errors="replace")

    def model(self, start: int, end: int) -> None:
        graphs = 0
        for number, wire, a, b in fields(self.data, start, end):
            if wire != 2:
                continue
            if number == 2:
                self.producer = self.text(a, b)
            elif number == 7:
                graphs += 1
                self.graph(a, b, 0)
            elif number == 25:  # local functions: their nodes are field 7
                for inner, inner_wire, c, d in fields(self.data, a, b):
                    if inner == 7 and inner_wire == 2:
                        self.node(c, d, 1)
        if not graphs:
            raise ValueError("not an ONNX file: it holds no graph")

    def graph(self, start: int, end: int, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ValueError(f"not an ONNX file: graphs nested deeper than {MAX_DEPTH}")
        for number, wire, a, b in fields(self.data, start, end):
            if wire != 2:
                continue
            if number == 1:
                self.node(a, b, depth)
            elif number == 5:
                self.tensor(a, b)

    def node(self, start: int, end: int, depth: int) -> None:
        operator, given = "", []  # which inputs have a name
        integers: dict[str, int] = {}
        for number, wire, a, b in fields(self.data, start, end):
            if wire != 2:
                continue
            if number == 1:
                given.append(b > a)
            elif number == 4:
                operator = self.text(a, b)
            elif number == 5:
                name, integer = self.attribute(a, b, depth)
                integers[name] = integer
        if integers.get("sliding_window_cache") == 1:
            window = integers.get("local_window_size", 0)
            self.windowed_cache = max(self.windowed_cache, window if window < 1 << 31 else 0)
        if operator:
            self.op_types.add(operator)
        if operator == "GroupQueryAttention" and any(given[10:11]):
            self.biased_attention = True

    def attribute(self, start: int, end: int, depth: int) -> tuple[str, int]:
        name, integer = "", 0
        for number, wire, a, b in fields(self.data, start, end):
            if number == 1 and wire == 2:
                name = self.text(a, b)
            elif number == 3 and wire == 0:
                integer, _ = read_varint(self.data, a, b)
            elif wire == 2 and number in (6, 11):  # a graph, graphs
                self.graph(a, b, depth + 1)
            elif wire == 2 and number in (5, 10):  # a tensor, tensors
                self.tensor(a, b)
        if name == "accuracy_level" and integer == 4:  # only the MatMulNBits family has this attribute
            self.rounds_activations = True
        if name == "local_window_size" and 0 < integer < 1 << 31:  # -1 says that there is none
            self.window = min(integer, self.window or integer)
        return name, integer

    def tensor(self, start: int, end: int) -> None:
        kind, count = 0, 1
        for number, wire, a, b in fields(self.data, start, end):
            if number == 1 and wire == 0:
                count = min(count * read_varint(self.data, a, b)[0], MAX_NUMBERS)
            elif number == 1 and wire == 2:  # sizes, packed
                while a < b:
                    size, a = read_varint(self.data, a, b)
                    count = min(count * size, MAX_NUMBERS)
            elif number == 2 and wire == 0:
                kind, _ = read_varint(self.data, a, b)
            elif number == 13 and wire == 2:  # one key-value pair of the external location
                pair = {n: (c, d) for n, w, c, d in fields(self.data, a, b) if w == 2}
                if 1 in pair and 2 in pair and self.text(*pair[1]) == "location":
                    self.external_files.add(self.text(*pair[2]))
        if kind in self.numbers:
            self.numbers[kind] += count


def scan_bytes(data: Buffer) -> GraphSummary:
    """Summarise a serialised ONNX model. Raises ValueError if `data` is not one."""
    scan = _Scan(data)
    scan.model(0, len(data))
    return GraphSummary(
        scan.producer,
        frozenset(scan.op_types),
        frozenset(scan.external_files),
        scan.rounds_activations,
        scan.numbers[10] > scan.numbers[1],
        scan.biased_attention,
        scan.window,
        scan.windowed_cache,
    )


def scan(path: str | Path) -> GraphSummary:
    """Summarise the ONNX file at `path`.

    Args:
        path: the file; it is memory-mapped, tensor data is never read.

    Returns:
        The producer's name, the operator types and the names of external data files.

    Raises:
        ValueError: if the file is empty, cut or not an ONNX model; the message names it.
        OSError: if it cannot be opened.
    """
    with open(path, "rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return scan_bytes(data)
        except ValueError as error:  # mmap raises it too, for an empty file
            raise ValueError(f"{path}: {error}") from None


# Where tensors are: kind of message -> number of a field -> kind of the message in it.
_TENSORS_IN = {
    "model": {7: "graph"},
    "graph": {1: "node", 5: "weight"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
    "tensor": {13: "place"},
    "weight": {13: "place"},
}
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

    return _rewritten(model, 0, len(model), "model", "weight", weight, 0)


def _rewritten(
    data: Buffer, start: int, end: int, kind: str, changed: str, change: _Change, depth: int
) -> bytes:
    """The message `data[start:end]` of a kind, with all messages of the kind `changed` in it changed."""
    if depth > 4 * MAX_DEPTH:
        raise ValueError(f"not an ONNX file: messages nested deeper than {4 * MAX_DEPTH}")
    if kind == changed and (message := change(data, start, end)) is not None:
        return message
    inside = _TENSORS_IN.get(kind, {})
    parts, done = [], start
    for number, wire, a, b in fields(data, start, end):
        if wire == 2 and number in inside:
            parts += [field(number, _rewritten(data, a, b, inside[number], changed, change, depth + 1))]
        else:
            parts += [data[done:b]]
        done = b
    return b"".join(parts)
