"""Operators that many rules write: of one array in any float dtype, a choice, a truth value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.formulas import horner
from lite._arrays.types import DtypeLike
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import BOOL, Graph


def unary(graph: Graph, op: str, x: GraphArray, dtype: DtypeLike = None) -> GraphArray:
    """An operator of one array; of float64 by others, if onnxruntime has it for float32 alone."""
    if x.dtype == np.float64 and op in _OF_FLOAT64:
        return _OF_FLOAT64[op](x)
    return graph.emit(op, [x], x.shape, x.dtype if dtype is None else dtype)


_ARCTAN = tuple((-1.0) ** k / (2 * k + 1) for k in range(9, -1, -1))  # of the series at 0


def _arctan(x: Any) -> Any:
    """Angles halved three times, to below 0.1, where the series gives all digits."""
    size = np.abs(x)
    large = size > 1.0
    t = np.where(large, 1.0 / np.where(large, size, 1.0), size)
    for _ in range(3):
        t = t / (1.0 + np.sqrt(1.0 + t * t))
    angle = horner(_ARCTAN, t * t) * t * 8.0
    return np.sign(x) * np.where(large, math.pi / 2 - angle, angle)


# For which onnxruntime has kernels of float32 alone.
_OF_FLOAT64: dict[str, Callable[[Any], Any]] = {
    "Acos": lambda x: _arctan(np.sqrt((1.0 - x) / (1.0 + x))) * 2.0,
    "Asin": lambda x: _arctan(x / np.sqrt((1.0 - x) * (1.0 + x))),
    "Atan": _arctan,
    "Sinh": lambda x: (np.exp(x) - np.exp(-x)) * 0.5,
    "Cosh": lambda x: (np.exp(x) + np.exp(-x)) * 0.5,
    "Tan": lambda x: np.sin(x) / np.cos(x),
    "Asinh": lambda x: np.sign(x) * np.log(np.abs(x) + np.sqrt(x * x + 1.0)),
    "Acosh": lambda x: np.log(x + np.sqrt(x * x - 1.0)),
    "Atanh": lambda x: (np.log1p(x) - np.log1p(-x)) * 0.5,
    "Softplus": lambda x: np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))),
}


def select(graph: Graph, condition: GraphArray, a: ArrayLike, b: ArrayLike, dtype: DtypeLike) -> GraphArray:
    """`np.where` in a dtype."""
    arrays: list[Any] = [condition, graph.operand(a, dtype), graph.operand(b, dtype)]
    if arrays[1].dtype == BOOL:  # for which onnxruntime has no Where
        found: GraphArray = (condition & arrays[1]) | (~condition & arrays[2])
        return found
    return graph.emit("Where", arrays, graph.broadcast([x.shape for x in arrays]), dtype)


def truth(graph: Graph, x: GraphArray) -> GraphArray:
    """Whether numbers are not 0."""
    return graph.cast(x, BOOL)
