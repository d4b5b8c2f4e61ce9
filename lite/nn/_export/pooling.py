"""Pooling as operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.dtypes import floats
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite.nn._export.native import native
from lite.nn.layers.pooling import AvgPool2d, MaxPool2d


def _pooled(graph: Graph, layer: Any, input: GraphArray, op: str, dilation: Any, **attributes: Any) -> Any:
    x, dtype = floats(input)
    out, kernel, stride, padding, dilation = layer._geometry(input, dilation)
    wide = x if x.ndim == 4 else graph.unsqueeze(x, 0)
    made = graph.emit(
        op,
        [wide],
        (*wide.shape[:2], *out),
        x.dtype,
        kernel_shape=list(kernel),
        strides=list(stride),
        pads=[*padding, *padding],
        dilations=list(dilation),
        **attributes,
    )
    return graph.cast(made if x.ndim == 4 else graph.squeeze(made, 0), dtype)


@native(MaxPool2d)
def _max_pool(graph: Graph, layer: Any, input: GraphArray) -> Any:
    if layer.return_indices or layer.ceil_mode or input.dtype != np.float32:
        return NotImplemented
    return _pooled(graph, layer, input, "MaxPool", layer.dilation)


@native(AvgPool2d)
def _avg_pool(graph: Graph, layer: Any, input: GraphArray) -> Any:
    if layer.ceil_mode or layer.divisor_override is not None or input.dtype != np.float32:
        return NotImplemented
    return _pooled(graph, layer, input, "AveragePool", 1, count_include_pad=int(layer.count_include_pad))
