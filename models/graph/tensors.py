"""Inputs and outputs of any ONNX graph: names, types, shapes, and which axis of each is the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.dtypes import as_dtype
from lite._files.onnx.batch_axes import batch_axes as axes_of
from lite._files.onnx.writer import ELEMENT_TYPES as NUMBERS
from lite.models.graph.session import NodeArg, SessionLike

Dim = int | str | None


class ElementType(NamedTuple):
    """A type of numbers, by its name in NumPy, which itself has no bfloat16."""

    name: str

    @property
    def size(self) -> int:
        """The bytes of one element."""
        return 2 if self.name == "bfloat16" else np.dtype(self.name).itemsize

    @property
    def bound(self) -> Any:
        """The type argument of onnxruntime for bound memory: a NumPy type, or ONNX's number."""
        return NUMBERS[self.name] if self.name == "bfloat16" else np.dtype(self.name).type


_CALLED = {"float32": "float", "float64": "double"}
ELEMENT_TYPES = {f"tensor({_CALLED.get(name, name)})": ElementType(name) for name in NUMBERS}  # onnxruntime's


@dataclass(frozen=True)
class GraphTensor:
    """One input or output.

    Attributes:
        name: its name in the graph.
        type_name: onnxruntime's name of its type, such as `"tensor(float)"`.
        shape: sizes; a name or None for a dynamic size; empty for a scalar, and if the graph has no shape.
        batch: the axis of the batch, or None.
    """

    name: str
    type_name: str
    shape: tuple[Dim, ...]
    batch: int | None

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype; bfloat16 comes from ml_dtypes."""
        return as_dtype(ELEMENT_TYPES[self.type_name].name)

    @cached_property
    def element_type(self) -> Any:
        """See `ElementType.bound`."""
        return ELEMENT_TYPES[self.type_name].bound

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {ELEMENT_TYPES[self.type_name].name}[{sizes}]"


def read_tensors(
    session: SessionLike, batch_axes: Mapping[str, int | None] | None = None
) -> tuple[tuple[GraphTensor, ...], tuple[GraphTensor, ...]]:
    """The inputs and outputs of a graph, with the batch axes that `lite._files.onnx.batch_axes` finds.

    Args:
        session: session of the graph.
        batch_axes: the batch axis of some inputs and outputs, by name; None for those without.

    Raises:
        ValueError: a type that is not a numeric tensor; `batch_axes` has an unknown name.
    """
    inputs, outputs = list(session.get_inputs()), list(session.get_outputs())
    for arg in inputs + outputs:
        if arg.type not in ELEMENT_TYPES:
            raise ValueError(
                f"{arg.name!r} has the type {arg.type}; numeric tensors only: {', '.join(ELEMENT_TYPES)}."
            )
    given = dict(batch_axes or {})
    _check_axes(given, inputs + outputs)
    named = [[(arg.name, tuple(arg.shape)) for arg in args] for args in (inputs, outputs)]
    axes = axes_of(named[0], named[1], given)
    found = [GraphTensor(arg.name, arg.type, tuple(arg.shape), axes[arg.name]) for arg in inputs + outputs]
    return tuple(found[: len(inputs)]), tuple(found[len(inputs) :])


def _check_axes(given: Mapping[str, int | None], tensors: Sequence[NodeArg]) -> None:
    ranks = {arg.name: len(arg.shape) for arg in tensors}
    for name, axis in given.items():
        if name not in ranks:
            raise ValueError(f"batch_axes names {name!r}; the graph has {', '.join(ranks)}.")
        if axis is not None and not 0 <= axis < ranks[name]:
            raise ValueError(
                f"batch_axes[{name!r}] must be None or an axis from 0 to {ranks[name] - 1}, got {axis!r}."
            )
