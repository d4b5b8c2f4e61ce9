"""Layers that a graph has an operator for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from lite._arrays.types import HostArray, raw
from lite._transforms.graphs.array import GraphArray

F = TypeVar("F", bound=Callable[..., Any])

NATIVE: dict[type, Callable[..., Any]] = {}
"""Functions `fn(graph, layer, *args, **kwargs)` by the class of the layer.

They get what `forward` is called with, and may return NotImplemented: then `forward` is traced, which also
raises the layer's own errors.
"""


def native(*classes: type) -> Callable[[F], F]:
    """Register how layers of these very classes are written."""

    def register(fn: F) -> F:
        NATIVE.update(dict.fromkeys(classes, fn))
        return fn

    return register


def plain(layer: Any) -> bool:
    """Whether all parameters and buffers of a layer are arrays of the graph, or of NumPy, and not mapped."""
    arrays = [raw(array) for array in (*layer._parameters.values(), *layer._buffers.values())]
    return all(isinstance(array, GraphArray) or not isinstance(array, HostArray) for array in arrays)
