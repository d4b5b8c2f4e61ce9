"""The output matrix of a graph, of which only the rows of some tokens are read, from the model's file.

Which of a few tokens comes next needs their scores alone: the product of the last hidden state with their
rows of the matrix, not with the hundred thousand others. onnxruntime keeps the matrix rearranged, and another
use of it in the graph would keep it twice; so its rows are read where they lie, and multiplied in NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lite._files.mapping import part_of
from lite._files.onnx.reader import Graph, Tensor, read_graph, read_tensor
from lite._files.onnx.wire import Buffer

_FLOAT = 1  # ONNX's number of the type float32
_ITEM = 4  # bytes
MOST_KEPT = 1024  # vectors that are kept in memory once they were read


class OutputRows:
    """A float32 matrix in a file, with a vector for each token.

    The file stays mapped, so that another one in its place is not taken for it.

    Args:
        path: the file.
        offset: where the matrix begins in it, in bytes.
        shape: shape of the file's matrix.
        by_token: a token's vector is a row of the file's matrix; otherwise it is a column.

    Attributes:
        count: number of tokens.
        width: length of the vectors.
    """

    def __init__(self, path: Path, offset: int, shape: tuple[int, int], *, by_token: bool) -> None:
        matrix = part_of(path, offset, shape[0] * shape[1] * _ITEM).view("<f4").reshape(shape)
        self._vectors = matrix if by_token else matrix.T
        self.count, self.width = self._vectors.shape
        self._read: dict[int, NDArray[np.float32]] = {}  # a column lies in as many pages as it has numbers

    def times(self, hidden: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Scores (n,) of tokens (n,) after a hidden state (width,)."""
        known, wanted = self._read, ids.tolist()
        missing = [i for i in dict.fromkeys(wanted) if i not in known]
        if missing:
            if len(known) + len(missing) > MOST_KEPT:
                known = {i: known[i] for i in wanted if i in known}
            new = np.array(self._vectors[missing], np.float32)
            known = self._read = {**known, **dict(zip(missing, new, strict=True))}  # threads have their own
        return np.array([known[i] @ hidden for i in wanted], np.float32)


def output_rows(
    model: Buffer, graph: Path, light: Buffer | None = None, nodes: Graph | None = None
) -> OutputRows | None:
    """The matrix that the logits of a serialised model are a product with.

    Args:
        model: what is in the file `graph`; a map of it, say.
        graph: its path; external data is in the same folder.
        light: the model `with_weights_outside`, and
        nodes: that as `read_graph` reads it, if that was done before.

    Returns:
        It, or None where the logits are anything but `MatMul(hidden, matrix)` with a float32 matrix of the
        file, or with its transpose: quantised matrices, half precision, biases, soft caps.

    Raises:
        ValueError: if `model` is not an ONNX file.
    """
    if light is None or nodes is None:
        light, nodes = model, read_graph(model)
    product = nodes.makers.get(b"logits")
    if product is None or product.kind != b"MatMul" or len(product.inputs) != 2:
        return None
    name, by_token = product.inputs[1], False
    turned = nodes.makers.get(name)
    if turned is not None and turned.kind == b"Transpose" and len(turned.inputs) == 1:
        name, by_token = turned.inputs[0], True
    if name not in nodes.weights or name in nodes.inputs:  # an adapter may replace an input's value
        return None
    tensor = read_tensor(light, nodes.weights[name])
    if tensor.raw is not None and len(light) != len(model):  # in the file it is elsewhere
        tensor = read_tensor(model, read_graph(model).weights[name])
    return _matrix(tensor, graph, by_token)


def _matrix(tensor: Tensor, graph: Path, by_token: bool) -> OutputRows | None:
    """A tensor of the model as a matrix in a file, None if it is another one."""
    dims, raw, place = tensor.dims, tensor.raw, tensor.outside
    if tensor.kind != _FLOAT or len(dims) != 2 or not all(dims):
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
    return OutputRows(path, offset, (dims[0], dims[1]), by_token=by_token)


def _number(place: Mapping[bytes, bytes]) -> int:
    """The offset of external data, -1 if it is not a number."""
    text = place.get(b"offset", b"0")
    return int(text) if text.isdigit() and len(text) < 20 else -1
