"""Operators that many rules write: of one array in any float dtype, a choice, a truth value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.types import DtypeLike
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import BOOL, Graph


def unary(graph: Graph, op: str, x: GraphArray, dtype: DtypeLike = None) -> GraphArray:
    """An operator of one array; of float64 by others, if onnxruntime has it for float32 alone."""
    if x.dtype == np.float64 and op in _FLOAT32_ONLY:
        formula = _OF_FLOAT64.get(op)
        if formula is not None:
            return formula(x)
        return graph.cast(unary(graph, op, graph.cast(x, np.float32)), x.dtype)
    return graph.emit(op, [x], x.shape, x.dtype if dtype is None else dtype)


# Those without a formula lose the digits that float32 lacks.
_OF_FLOAT64: dict[str, Callable[[Any], Any]] = {
    "Sinh": lambda x: (np.exp(x) - np.exp(-x)) * 0.5,
    "Cosh": lambda x: (np.exp(x) + np.exp(-x)) * 0.5,
    "Tan": lambda x: np.sin(x) / np.cos(x),
    "Asinh": lambda x: np.sign(x) * np.log(np.abs(x) + np.sqrt(x * x + 1.0)),
    "Acosh": lambda x: np.log(x + np.sqrt(x * x - 1.0)),
    "Atanh": lambda x: (np.log1p(x) - np.log1p(-x)) * 0.5,
    "Softplus": lambda x: np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))),
}
_FLOAT32_ONLY = frozenset({*_OF_FLOAT64, "Acos", "Asin", "Atan", "Erf"})


def select(graph: Graph, condition: GraphArray, a: ArrayLike, b: ArrayLike, dtype: DtypeLike) -> GraphArray:
    """`np.where` in a dtype."""
    arrays = [condition, graph.operand(a, dtype), graph.operand(b, dtype)]
    return graph.emit("Where", arrays, graph.broadcast([x.shape for x in arrays]), dtype)


def truth(graph: Graph, x: GraphArray) -> GraphArray:
    """Whether numbers are not 0."""
    return graph.cast(x, BOOL)
