"""The files of an export: weights beside the graph where they are large, the graph, and its contract."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from lite._files.commit import new_file
from lite._files.onnx.writer import tensor, tensor_elsewhere
from lite._transforms.graphs.trace import Traced
from lite._transforms.graphs.writer import model_bytes
from lite.nn._export.contract import contract_path

# Protobuf takes messages of less than 2 GiB; the nodes need some of it, too.
_LARGEST = (1 << 31) - (64 << 20)
_SMALL = 1024  # bytes of an array that stays in the graph
_PAGE = 4096  # onnxruntime maps large arrays into memory if they begin at a page


def save(
    path: Path, traced: Traced, about: Mapping[str, Any], contract: bytes | None, external_data: bool | None
) -> None:
    """Write all files; each takes its place at once, complete, and replaces the one that was there.

    The weights have a name of their own for each content, so that the graph before keeps its own until the
    new one is in its place; a contract that belongs to the other graph is refused when it is read.

    Args:
        path: path of the graph.
        traced: the graph.
        about: what else `model_bytes` takes.
        contract: the content of its file; None for no such file.
        external_data: whether arrays go into a file beside the graph; None for those that are too large.

    Raises:
        ValueError: arrays of more than 2 GB are to be in the graph.
    """
    arrays = traced.arrays
    total = sum(array.nbytes for array in arrays.values())
    if external_data is False and total > _LARGEST:
        raise ValueError(f"external_data=False is for weights up to 2 GB, got {total} bytes.")
    apart = total > _LARGEST if external_data is None else external_data
    outside = {name: a for name, a in arrays.items() if apart and a.nbytes >= _SMALL}
    data = f"{path.name}.{_digest(outside)}.data" if outside else ""
    offset, tensors = 0, []
    for name, array in arrays.items():
        if name not in outside:
            tensors.append(tensor(name, _plain(array)))
            continue
        start = offset + -offset % _PAGE
        tensors.append(tensor_elsewhere(name, array.dtype, array.shape, data, start, array.nbytes))
        offset = start + array.nbytes
    if outside:
        with new_file(str(path.with_name(data))) as file:
            for array in outside.values():
                file.write(b"\0" * (-file.tell() % _PAGE))
                for part in _parts(array):
                    file.write(part)
    content = model_bytes(traced, **about, tensors=tensors)
    with new_file(str(path)) as file:
        file.write(content)
    beside = contract_path(path)
    if contract is None:
        with suppress(FileNotFoundError):
            beside.unlink()
    else:
        with new_file(str(beside)) as file:
            file.write(contract)
    _remove_others(path, data)


def _remove_others(path: Path, kept: str) -> None:
    """Drop weights of graphs that were in this place before."""
    ours = re.compile(re.escape(path.name) + r"\.[0-9a-f]{16}\.data")
    for name in os.listdir(path.parent):
        if name != kept and ours.fullmatch(name):
            with suppress(OSError):
                (path.parent / name).unlink()


def _digest(arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    found = hashlib.sha256()
    for array in arrays.values():
        for part in _parts(array):
            found.update(part)
    return found.hexdigest()[:16]


def _parts(array: np.ndarray[Any, Any]) -> Iterator[memoryview]:
    """The bytes of an array, little-endian and in order, without a copy of all where it has them so."""
    flat = _plain(array).reshape(-1).view(np.uint8)
    for start in range(0, flat.size, 1 << 26):
        yield flat[start : start + (1 << 26)].data


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Contiguous and little-endian."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
