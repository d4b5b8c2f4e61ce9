"""Values that take the place of weights in a model's files, as its graphs want them."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite._files.onnx.arrays import dtype_of, read_array
from lite._files.onnx.reader import Tensor, read_graph, read_tensor


class GraphWeights(NamedTuple):
    """The weights of a graph.

    Attributes:
        tensors: their shapes and types, by name.
        digests: digests of the values that were asked for.
    """

    tensors: dict[str, Tensor]
    digests: dict[str, bytes]

    @classmethod
    def of(cls, path: Path, *, shapes: frozenset[tuple[int, ...]] = frozenset()) -> GraphWeights:
        """The weights of a file, with digests of those that have one of the `shapes`."""
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as model:
            spans = {name.decode("utf-8", "replace"): at for name, at in read_graph(model).weights.items()}
            tensors = {name: read_tensor(model, at) for name, at in spans.items()}
            digests = {
                name: hashlib.sha256(read_array(model, spans[name], path.parent).tobytes()).digest()
                for name, tensor in tensors.items()
                if tensor.dims in shapes
            }
        return cls(tensors, digests)


def checked_weights(graph: Path, weights: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    """Copies of new values of a graph's weights, in the types of its file.

    Raises:
        ValueError: the graph has no weight of a name, or of another shape.
    """
    tensors = GraphWeights.of(graph).tensors
    found = {}
    for name, value in weights.items():
        if name not in tensors:
            raise ValueError(f"weights: {graph.name} has no weight {name!r}")
        array, tensor = np.asarray(value), tensors[name]
        if array.shape != tensor.dims:
            raise ValueError(f"weights: {name!r} must have the shape {tensor.dims}, got {array.shape}")
        found[name] = np.array(array, dtype_of(tensor.kind), order="C")
    return found


def same_in_other(graph: Path, other: Path, names: Mapping[str, Any]) -> dict[str, str]:
    """The weights of another graph of one model that are those of these names, by their name there.

    They have the same name, or the same values, in the order of the files.

    Raises:
        ValueError: a weight is not in the other graph.
    """
    own = GraphWeights.of(graph)
    shapes = frozenset(own.tensors[name].dims for name in names)
    own, theirs = GraphWeights.of(graph, shapes=shapes), GraphWeights.of(other, shapes=shapes)
    by_digest: dict[bytes, list[str]] = {}
    for name, digest in theirs.digests.items():
        by_digest.setdefault(digest, []).append(name)
    found = {}
    for name, digest in own.digests.items():
        same = by_digest.get(digest, [])
        there = name if name in same else same[0] if same else None
        if there is not None and len(same) > 1:
            same.remove(there)
        if name in names:
            if there is None:
                raise ValueError(
                    f"weights: {name!r} of {graph.name} is not in {other.name}, which is run with it"
                )
            found[there] = name
    return found
