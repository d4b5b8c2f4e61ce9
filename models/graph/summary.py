"""Read the few facts about an ONNX file that its inputs and outputs do not show, without the onnx package.

An ONNX file is a protobuf message. This module walks its wire format through a memory map: it goes down into
graphs, nodes and sub-graphs, and skips tensor data by its length, so that a model of many gigabytes costs
as much to scan as its number of nodes. Every length is checked against the message that holds it.

Field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, wire format:
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

from lite._files.onnx.reader import MAX_DEPTH
from lite._files.onnx.wire import Buffer, fields, read_varint

MAX_NAME_BYTES = 4096
MAX_NUMBERS = 1 << 50  # of one tensor: a file may claim any size
_SMALL = 64  # bytes: shorter attributes are kept, as the nodes of all layers have the same
_MOST = 4096  # of them: each takes many times its bytes, and a file may have any number


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
        self.attributes: dict[bytes, tuple[str, int]] = {}

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
                kept = self.attributes.get(self.data[a : min(b, a + _SMALL)])
                name, integer = kept or self.attribute(a, b, depth)
                integers[name] = integer
        if integers.get("sliding_window_cache") == 1:
            window = integers.get("local_window_size", 0)
            self.windowed_cache = max(self.windowed_cache, window if window < 1 << 31 else 0)
        if operator:
            self.op_types.add(operator)
        if operator == "GroupQueryAttention" and any(given[10:11]):
            self.biased_attention = True

    def attribute(self, start: int, end: int, depth: int) -> tuple[str, int]:
        name, integer, alone = "", 0, True
        for number, wire, a, b in fields(self.data, start, end):
            if number == 1 and wire == 2:
                name = self.text(a, b)
            elif number == 3 and wire == 0:
                integer, _ = read_varint(self.data, a, b)
            elif wire == 2 and number in (6, 11):  # a graph, graphs
                self.graph(a, b, depth + 1)
                alone = False
            elif wire == 2 and number in (5, 10):  # a tensor, tensors
                self.tensor(a, b)
                alone = False
        if name == "accuracy_level" and integer == 4:  # only the MatMulNBits family has this attribute
            self.rounds_activations = True
        if name == "local_window_size" and 0 < integer < 1 << 31:  # -1 says that there is none
            self.window = min(integer, self.window or integer)
        if alone and end - start < _SMALL and len(self.attributes) < _MOST:
            self.attributes[self.data[start:end]] = name, integer
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
            elif number == 13 and wire == 2 and self.data.find(b"location", a, b) > 0:  # a key and value
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
