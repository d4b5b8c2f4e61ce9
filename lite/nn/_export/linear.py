"""Linear layers and embeddings as operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.dtypes import compute_dtype
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite.nn._export.native import native
from lite.nn.layers.attention import NonDynamicallyQuantizableLinear
from lite.nn.layers.embedding import Embedding
from lite.nn.layers.linear import LazyLinear, Linear


@native(Linear, LazyLinear, NonDynamicallyQuantizableLinear)
def _linear(graph: Graph, layer: Any, input: GraphArray) -> Any:
    weight, bias = layer._tensor("weight"), layer._tensor("bias")
    if input.ndim < 1 or weight.ndim != 2 or input.shape[-1] != weight.shape[-1]:
        return NotImplemented
    compute, result = compute_dtype(input.dtype, weight.dtype)
    x, w = graph.cast(input, compute), graph.operand(weight, compute)
    shape = (*input.shape[:-1], weight.shape[0])
    b = None if bias is None else graph.operand(bias, compute)
    if x.ndim == 2:
        inputs = [x, w] if b is None else [x, w, b]
        out = graph.emit("Gemm", inputs, shape, compute, transB=1)
    else:
        out = graph.emit("MatMul", [x, graph.transpose(w, (1, 0))], shape, compute)
        out = out if b is None else graph.emit("Add", [out, b], shape, compute)
    return graph.cast(out, result)


@native(Embedding)
def _embedding(graph: Graph, layer: Any, input: GraphArray) -> Any:
    table = graph.operand(layer._tensor("weight"))
    if input.dtype.kind not in "iu" or table.ndim != 2:
        return NotImplemented
    found: Any = graph.gather(table, graph.cast(input, np.int64))
    if layer.max_norm is None:
        return found
    norms = np.linalg.norm(found, layer.norm_type, -1, keepdims=True)
    limit = table.dtype.type(layer.max_norm)
    return np.where(norms > limit, found * (limit / (norms + table.dtype.type(1e-7))), found)
