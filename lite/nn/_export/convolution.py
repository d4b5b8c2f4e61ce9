"""Convolutions and pooling as operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.dtypes import compute_dtype, floats
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.convolution import FLOAT32, Geometry, convolve
from lite._transforms.graphs.graph import Graph
from lite.nn._export.native import native
from lite.nn.layers.convolution import _MODES, Conv1d, Conv2d, LazyConv1d, LazyConv2d
from lite.nn.layers.pooling import AvgPool2d, MaxPool2d
from lite.nn.layers.windows import span


@native(Conv1d, Conv2d, LazyConv1d, LazyConv2d)
def _convolution(graph: Graph, layer: Any, input: GraphArray) -> Any:
    weight, bias, dims = layer._tensor("weight"), layer._tensor("bias"), layer._dims
    if input.ndim not in (dims + 1, dims + 2) or input.shape[-dims - 1] != layer.in_channels:
        return NotImplemented
    compute, result = compute_dtype(input.dtype, weight.dtype)
    if compute != FLOAT32:
        return NotImplemented
    x = graph.cast(input, compute)
    x = x if input.ndim == dims + 2 else graph.unsqueeze(x, 0)
    extents = span(layer.kernel_size, layer.dilation)
    before, after = layer._around(x.shape[2:], extents)
    mode = _MODES[layer.padding_mode]
    sizes = tuple(b + n + a for b, n, a in zip(before, x.shape[2:], after, strict=True))
    if any(n < e for n, e in zip(sizes, extents, strict=True)):
        return NotImplemented
    if mode is not None:
        width = [[0, 0], [0, 0], *([b, a] for b, a in zip(before, after, strict=True))]
        x, before = graph.pad(x, width, mode), (0,) * dims
        after = before
    out = convolve(
        x,
        graph.operand(weight, compute),
        None if bias is None else graph.operand(bias, compute),
        Geometry(layer.stride, layer.dilation, before, after, layer.groups),
    )
    out = out if input.ndim == dims + 2 else graph.squeeze(out, 0)
    return graph.cast(out, result)


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
