"""Normalisations as operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.dtypes import floats
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite.nn._export.native import native
from lite.nn.layers.normalization import BatchNorm1d, BatchNorm2d, LayerNorm, LazyBatchNorm1d


@native(LayerNorm)
def _layer_norm(graph: Graph, layer: Any, input: GraphArray) -> Any:
    shape = layer.normalized_shape
    weight, bias = layer._tensor("weight"), layer._tensor("bias")
    if input.shape[input.ndim - len(shape) :] != shape or input.ndim < len(shape):
        return NotImplemented
    if any(a is not None and tuple(a.shape) != shape for a in (weight, bias)):
        return NotImplemented
    x, dtype = floats(input)
    inputs = [x, graph.operand(np.ones(shape, x.dtype) if weight is None else weight, x.dtype)]
    if bias is not None:
        inputs.append(graph.operand(bias, x.dtype))
    out = graph.emit(
        "LayerNormalization", inputs, x.shape, x.dtype, axis=-len(shape), epsilon=float(layer.eps)
    )
    return graph.cast(out, dtype)


@native(BatchNorm1d, BatchNorm2d, LazyBatchNorm1d)
def _batch_norm(graph: Graph, layer: Any, input: GraphArray) -> Any:
    size = layer.num_features
    if (
        layer.training
        or layer.running_mean is None
        or input.ndim not in layer._dims
        or input.shape[1] != size
    ):
        return NotImplemented
    x, dtype = floats(input)
    weight, bias = layer._tensor("weight"), layer._tensor("bias")
    arrays = (
        np.ones(size, x.dtype) if weight is None else weight,
        np.zeros(size, x.dtype) if bias is None else bias,
        layer.running_mean,
        layer.running_var,
    )
    inputs = [x, *(graph.operand(a, x.dtype) for a in arrays)]
    return graph.cast(
        graph.emit("BatchNormalization", inputs, x.shape, x.dtype, epsilon=float(layer.eps)), dtype
    )
