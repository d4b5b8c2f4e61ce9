"""The output matrix of a graph, of which only the rows of some tokens are read, from the model's file.

Which of a few tokens comes next needs their scores alone: the product of the last hidden state with their
rows of the matrix, not with the hundred thousand others. onnxruntime keeps the matrix rearranged, and another
use of it in the graph would keep it twice; so its rows are read where they lie, and multiplied in NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lite.models.graph.protobuf import fields, read_varint

_FLOAT = 1  # ONNX's number of the type float32
_ITEM = 4  # bytes


@dataclass(frozen=True)
class OutputRows:
    """A float32 matrix in a file, with a vector for each token.

    Attributes:
        path: the file.
        offset: where the matrix begins in it, in bytes.
        width: length of the vectors.
        count: how many tokens.
        by_token: a token's vector is a row of the file's matrix; otherwise it is a column.
    """

    path: Path
    offset: int
    width: int
    count: int
    by_token: bool

    def times(self, hidden: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Scores (n,) of tokens (n,) after a hidden state (width,).

        Raises:
            OSError: the file is gone.
            ValueError: it is shorter than when it was opened.
        """
        shape = (self.count, self.width) if self.by_token else (self.width, self.count)
        matrix = np.memmap(self.path, "<f4", "r", self.offset, shape)
        rows = np.array(matrix[ids] if self.by_token else matrix[:, ids].T, np.float32)
        scores: NDArray[np.float32] = rows @ hidden
        return scores


def output_rows(model: bytes, graph: Path) -> OutputRows | None:
    """The matrix that the logits of a serialised model are a product with.

    Args:
        model: what is in the file `graph`.
        graph: its path; external data is in the same folder.

    Returns:
        It, or None where the logits are anything but `MatMul(hidden, matrix)` with a float32 matrix of the
        file, or with its transpose: quantised matrices, half precision, biases, soft caps.

    Raises:
        ValueError: if `model` is not an ONNX file.
    """
    spans = [(a, b) for number, wire, a, b in fields(model, 0, len(model)) if number == 7 and wire == 2]
    if len(spans) != 1:
        return None
    makers: dict[bytes, _Node] = {}
    tensors: dict[bytes, tuple[int, int]] = {}
    given: set[bytes] = set()  # inputs of the graph: an adapter may replace their values
    for number, wire, a, b in fields(model, *spans[0]):
        if wire == 2 and number == 1:
            node = _node(model, a, b)
            makers.update(dict.fromkeys(node.outputs, node))
        elif wire == 2 and number == 5:
            tensors[_name(model, a, b, 8)] = a, b
        elif wire == 2 and number == 11:
            given.add(_name(model, a, b, 1))
    product = makers.get(b"logits")
    if product is None or product.kind != b"MatMul" or len(product.inputs) != 2:
        return None
    name, by_token = product.inputs[1], False
    turned = makers.get(name)
    if turned is not None and turned.kind == b"Transpose" and len(turned.inputs) == 1:
        name, by_token = turned.inputs[0], True
    if name not in tensors or name in given:
        return None
    return _matrix(model, tensors[name], graph, by_token)


@dataclass(frozen=True)
class _Node:
    kind: bytes
    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]


def _node(model: bytes, start: int, end: int) -> _Node:
    parts: dict[int, list[bytes]] = {1: [], 2: [], 4: [b""]}
    for number, wire, a, b in fields(model, start, end):
        if wire == 2 and number in parts:
            parts[number].append(model[a:b])
    return _Node(parts[4][-1], tuple(parts[1]), tuple(parts[2]))


def _name(model: bytes, start: int, end: int, number: int) -> bytes:
    """The text of a field of a message, which is found without a look at what follows it."""
    return next((model[a:b] for n, wire, a, b in fields(model, start, end) if n == number and wire == 2), b"")


def _matrix(model: bytes, tensor: tuple[int, int], graph: Path, by_token: bool) -> OutputRows | None:
    """A tensor of the model as a matrix in a file, None if it is another one."""
    dims: list[int] = []
    kind, raw = 0, None
    place: dict[bytes, bytes] = {}
    for number, wire, a, b in fields(model, *tensor):
        if number == 1 and wire == 0:
            dims.append(read_varint(model, a, b)[0])
        elif number == 1 and wire == 2:
            while a < b:
                size, a = read_varint(model, a, b)
                dims.append(size)
        elif number == 2 and wire == 0:
            kind, _ = read_varint(model, a, b)
        elif number == 9 and wire == 2:
            raw = a, b
        elif number == 13 and wire == 2:
            pair = {n: model[c:d] for n, w, c, d in fields(model, a, b) if w == 2}
            place[pair.get(1, b"")] = pair.get(2, b"")
    if kind != _FLOAT or len(dims) != 2 or not all(dims):
        return None
    size = dims[0] * dims[1] * _ITEM
    path, offset = graph, 0
    if raw is not None and raw[1] - raw[0] == size:
        offset = raw[0]
    elif b"location" in place:  # in the graph's folder, as was checked
        path = graph.parent / place[b"location"].decode(errors="replace")
        offset = _number(place)
    else:
        return None
    if not path.is_file() or offset < 0 or offset + size > path.stat().st_size:
        return None
    count, width = dims if by_token else reversed(dims)
    return OutputRows(path, offset, width, count, by_token)


def _number(place: Mapping[bytes, bytes]) -> int:
    """Where external data begins, -1 if that is no number."""
    text = place.get(b"offset", b"0")
    return int(text) if text.isdigit() and len(text) < 20 else -1
