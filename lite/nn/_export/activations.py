"""Activations as operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.dtypes import floats
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.operators import unary
from lite.nn._export.native import native
from lite.nn.layers.activations import (
    ELU,
    GELU,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
)

_FLOAT32 = np.dtype(np.float32)


def _operator(op: str, attributes: Callable[[Any], dict[str, Any]], only_float32: bool = False) -> Any:
    def write(graph: Graph, layer: Any, input: GraphArray) -> Any:
        if getattr(layer, "inplace", False):
            return NotImplemented
        x, dtype = floats(input)
        if only_float32 and x.dtype != _FLOAT32:
            return NotImplemented
        return graph.cast(graph.emit(op, [x], x.shape, x.dtype, **attributes(layer)), dtype)

    return write


native(Sigmoid)(_operator("Sigmoid", lambda layer: {}))
native(LeakyReLU)(_operator("LeakyRelu", lambda layer: {"alpha": float(layer.negative_slope)}, True))
native(ELU)(_operator("Elu", lambda layer: {"alpha": float(layer.alpha)}, True))
native(GELU)(_operator("Gelu", lambda layer: {"approximate": layer.approximate}, True))


@native(ReLU)
def _relu(graph: Graph, layer: Any, input: GraphArray) -> Any:
    if layer.inplace or input.dtype not in (_FLOAT32, np.float64):
        return NotImplemented
    return unary(graph, "Relu", input)


@native(SiLU)
def _silu(graph: Graph, layer: Any, input: GraphArray) -> Any:
    if layer.inplace:
        return NotImplemented
    x, dtype = floats(input)
    return graph.cast(graph.emit("Mul", [x, unary(graph, "Sigmoid", x)], x.shape, x.dtype), dtype)


@native(Softplus)
def _softplus(graph: Graph, layer: Any, input: GraphArray) -> Any:
    x, dtype = floats(input)
    if layer.beta == 1:
        return graph.cast(unary(graph, "Softplus", x), dtype)
    beta = x.dtype.type(layer.beta)
    return graph.cast(unary(graph, "Softplus", x * beta) / beta, dtype)


def _along(op: str) -> Any:
    def write(graph: Graph, layer: Any, input: GraphArray) -> Any:
        x, dtype = floats(input)
        if layer.dim is None or not -x.ndim <= layer.dim < x.ndim:
            return NotImplemented
        return graph.cast(graph.emit(op, [x], x.shape, x.dtype, axis=layer.dim), dtype)

    return write


native(Softmax)(_along("Softmax"))
native(LogSoftmax)(_along("LogSoftmax"))
