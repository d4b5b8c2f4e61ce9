"""ONNX models as bytes, of nodes and arrays; see onnx.proto of the ONNX project for the numbers of fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lite._files.onnx.wire import field, integer, single, text

# The element types of ONNX by NumPy's names.
ELEMENT_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip
# The format that came with each version of the operators, so that no older runtime refuses the file for it.
_IR_VERSIONS = {20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13}


def element_type(dtype: np.dtype[Any]) -> int:
    """ONNX's number of a dtype.

    Raises:
        NotImplementedError: there is none.
    """
    number = ELEMENT_TYPES.get(dtype.name)
    if number is None:
        raise NotImplementedError(f"cannot be exported: ONNX has no operators for the dtype {dtype}.")
    return number


def model(
    graph: bytes,
    opset: int,
    producer: tuple[str, str],
    metadata: Mapping[str, str] | None = None,
    domains: Mapping[str, int] | None = None,
) -> bytes:
    """A model of a graph.

    Args:
        graph: from `graph`.
        opset: the version of the operators.
        producer: name and version of the program that writes it.
        metadata: what the model says about itself.
        domains: versions of other operators than ONNX's own.
    """
    opsets = {"": opset, **(domains or {})}
    about = [field(14, text(1, key) + text(2, value)) for key, value in (metadata or {}).items()]
    return b"".join(
        [
            integer(1, _IR_VERSIONS.get(opset, 8 if opset < 20 else 13)),
            text(2, producer[0]),
            text(3, producer[1]),
            field(7, graph),
            *(field(8, text(1, domain) + integer(2, version)) for domain, version in opsets.items()),
            *about,
        ]
    )


def graph(
    name: str,
    nodes: Iterable[bytes],
    tensors: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
) -> bytes:
    """A graph of parts that the functions below write."""
    parts = [field(1, node) for node in nodes]
    parts.append(text(2, name))
    parts += [field(5, tensor) for tensor in tensors]
    parts += [field(11, value) for value in inputs]
    parts += [field(12, value) for value in outputs]
    return b"".join(parts)


def node(
    op: str, name: str | bytes, inputs: Sequence[str | bytes], outputs: Sequence[str | bytes],
    attributes: Mapping[str, Any], domain: str = "",
) -> bytes:  # fmt: skip
    """An operator with its attributes: numbers, texts, dtypes, arrays, lists of them, and graphs as bytes."""
    parts = [text(1, value) for value in inputs]
    parts += [text(2, value) for value in outputs]
    parts += [text(3, name), text(4, op)]
    parts += [field(5, _attribute(key, value)) for key, value in attributes.items()]
    return b"".join([*parts, text(7, domain)] if domain else parts)


def _attribute(name: str, value: Any) -> bytes:
    if isinstance(value, np.dtype):
        value = element_type(value)
    if isinstance(value, bool | int | np.integer):
        return text(1, name) + integer(3, int(value)) + integer(20, 2)
    if isinstance(value, float | np.floating):
        return text(1, name) + single(2, float(value)) + integer(20, 1)
    if isinstance(value, str):
        return text(1, name) + text(4, value) + integer(20, 3)
    if isinstance(value, bytes):
        return text(1, name) + field(6, value) + integer(20, 5)
    if isinstance(value, np.ndarray):
        return text(1, name) + field(5, tensor("", value)) + integer(20, 4)
    items = list(value)
    if all(isinstance(item, bool | int | np.integer) for item in items):
        return text(1, name) + b"".join(integer(8, int(item)) for item in items) + integer(20, 7)
    if all(isinstance(item, int | float) for item in items):
        return text(1, name) + b"".join(single(7, float(item)) for item in items) + integer(20, 6)
    return text(1, name) + b"".join(text(9, item) for item in items) + integer(20, 8)


def tensor(name: str | bytes, array: np.ndarray[Any, Any]) -> bytes:
    """An array under a name."""
    dims = b"".join(integer(1, n) for n in array.shape)
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return dims + integer(2, element_type(array.dtype)) + text(8, name) + field(9, data)


def tensor_elsewhere(
    name: str, dtype: np.dtype[Any], shape: Sequence[int], file: str, start: int, length: int
) -> bytes:
    """An array whose bytes are in a file beside the model: `length` from `start` on."""
    dims = b"".join(integer(1, n) for n in shape)
    place = {"location": file, "offset": str(start), "length": str(length)}
    parts = [field(13, text(1, key) + text(2, item)) for key, item in place.items()]
    return b"".join([dims, integer(2, element_type(dtype)), text(8, name), *parts, integer(14, 1)])


def value(name: str | bytes, dtype: np.dtype[Any], shape: Sequence[int | str | None] | None = None) -> bytes:
    """An input or output; None stands for a size, or a shape, that is not known."""
    kind = integer(1, element_type(dtype))
    if shape is not None:
        kind += field(2, b"".join(field(1, _size(n)) for n in shape))
    return text(1, name) + field(2, field(1, kind))


def _size(n: int | str | None) -> bytes:
    if n is None:
        return b""
    return text(2, n) if isinstance(n, str) else integer(1, int(n))
