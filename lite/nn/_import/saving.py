"""The file of a graph again, with other numbers in its weights."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lite._files.commit import new_file
from lite._files.onnx.arrays import check_external_files, dtype_of
from lite._files.onnx.model import Operation, OperationGraph, Weight
from lite._files.onnx.reader import read_tensor
from lite._files.onnx.wire import Buffer, fields
from lite.nn._export.contract import contract_path


class Written(Protocol):
    """What a module was made of."""

    path: Path | None
    bytes: Buffer
    graph: OperationGraph


def save(source: Written, arrays: Mapping[str, Any], path: Path) -> Path:
    """Write the model of a source with other weights; see `GraphModule.save_onnx`."""
    content = bytearray(source.bytes)
    outside: dict[str, list[tuple[int, bytes]]] = {}
    for name, array in arrays.items():
        if name not in source.graph.weights:
            raise ValueError(f"{name!r} is beside the graph's weights: merge() first, or save_adapter().")
        weight = source.graph.weights[name]
        tensor = read_tensor(weight.model, weight.span)
        if tuple(array.shape) != tensor.dims:
            raise ValueError(
                f"the weight {name!r} has shape {tuple(array.shape)}, in the graph {tensor.dims}."
            )
        data = np.ascontiguousarray(array).astype(dtype_of(tensor.kind), copy=False)
        if tensor.outside:
            file = tensor.outside[b"location"].decode()
            start = int(tensor.outside.get(b"offset", b"0"))
            outside.setdefault(file, []).append((start, data.tobytes()))
        else:
            _write_inside(content, weight, name, data)
    folder = None if source.path is None else source.path.parent
    if outside and folder is not None and path.resolve().parent == folder.resolve():
        raise ValueError(f"path must be in another folder: {sorted(outside)} are beside {source.path}.")
    if source.path is not None and path.resolve().parent != source.path.parent.resolve():
        others = set(external_files(source.graph)) - set(outside)  # of quantised weights, say
        check_external_files(source.path, others)
        for file in others:
            (path.parent / file).parent.mkdir(parents=True, exist_ok=True)
            with (
                open(source.path.parent / file, "rb") as whole_file,
                new_file(str(path.parent / file)) as target_file,
            ):
                shutil.copyfileobj(whole_file, target_file)
    for file, parts in outside.items():
        assert folder is not None
        whole = bytearray((folder / file).read_bytes())
        for start, piece in parts:
            whole[start : start + len(piece)] = piece
        target = path.parent / file
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, whole)
    _replace(path, content)
    if source.path is not None and contract_path(source.path).is_file():
        _replace(contract_path(path), contract_path(source.path).read_bytes())
    return path


def nodes_of(graph: OperationGraph) -> Iterator[Operation]:
    """The nodes of a graph and of those in its nodes."""
    for node in graph.nodes:
        yield node
        for body in node.attributes.values():
            if isinstance(body, OperationGraph):
                yield from nodes_of(body)


def external_files(graph: OperationGraph) -> Iterator[str]:
    """The files beside the model that its weights are in."""
    bodies = [body for node in nodes_of(graph) for body in node.attributes.values()]
    for one in (graph, *(body for body in bodies if isinstance(body, OperationGraph))):
        for weight in one.weights.values():
            outside = read_tensor(weight.model, weight.span).outside
            if outside:
                yield outside.get(b"location", b"").decode("utf-8", "replace")


def _write_inside(content: bytearray, weight: Weight, name: str, data: NDArray[Any]) -> None:
    """Put numbers where the old ones are in the file."""
    for number, wire, a, b in fields(weight.model, *weight.span):
        if (
            (number == 9 and wire == 2) or number in (4, 10)
        ) and b - a == data.nbytes:  # raw, floats, doubles
            content[a:b] = data.tobytes()
            return
    raise ValueError(f"the weight {name!r} is written number by number: save it in raw form first.")


def _replace(path: Path, content: bytes | bytearray) -> None:
    with new_file(str(path)) as file:
        file.write(content)
