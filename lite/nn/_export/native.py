"""Layers that are one operator of ONNX, by their classes; all other modules are traced through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from lite._arrays.dtypes import compute_dtype, floats
from lite._arrays.types import HostArray, raw
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.operators import unary
from lite.nn.layers.activations import (
    CELU,
    ELU,
    GELU,
    SELU,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
)
from lite.nn.layers.attention import NonDynamicallyQuantizableLinear
from lite.nn.layers.embedding import Embedding
from lite.nn.layers.linear import LazyLinear, Linear
from lite.nn.layers.normalization import BatchNorm1d, BatchNorm2d, LayerNorm, LazyBatchNorm1d
from lite.nn.layers.pooling import AvgPool2d, MaxPool2d
from lite.nn.layers.recurrent import GRU, LSTM, RNN

_FLOAT32 = np.dtype(np.float32)
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


# -- activations --------------------------------------------------------------------------------------------


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
native(CELU)(_operator("Celu", lambda layer: {"alpha": float(layer.alpha)}, True))
native(SELU)(_operator("Selu", lambda layer: {"alpha": layer.alpha, "gamma": layer._rates[0]}, True))
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


# -- linear layers and embeddings ---------------------------------------------------------------------------


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


# -- normalisations -----------------------------------------------------------------------------------------


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


# -- pooling ------------------------------------------------------------------------------------------------


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


# -- recurrent layers, over sequences of any length ---------------------------------------------------------


# onnxruntime's operators give finite numbers for NaN, so a sensor that failed would become an action: NaN
# goes around them.

# For each gate of ONNX, which of torch's it is: z r h of r z n, i o f c of i f g o.
_GATES: dict[type, tuple[int, ...]] = {RNN: (0,), GRU: (1, 0, 2), LSTM: (0, 3, 1, 2)}


@native(RNN, GRU)
def _one_state(graph: Graph, layer: Any, input: GraphArray, hx: Any = None) -> Any:
    made = _layers(graph, layer, input, None if hx is None else (hx,))
    return NotImplemented if made is None else (made[0], made[1][0])


@native(LSTM)
def _two_states(graph: Graph, layer: Any, input: GraphArray, hx: Any = None) -> Any:
    made = _layers(graph, layer, input, None if hx is None else tuple(hx))
    return NotImplemented if made is None else (made[0], (made[1][0], made[1][1]))


def _layers(graph: Graph, layer: Any, input: GraphArray, given: Any) -> Any:
    """Output and last states; None if ONNX has no such operator."""
    dtypes = [input.dtype, layer._tensor("weight_ih_l0").dtype, *(h.dtype for h in given or ())]
    compute, result = compute_dtype(*dtypes)
    if compute != np.float32 or layer.proj_size:
        return None  # onnxruntime has them for float32, and ONNX has no projections
    layer._check(input)
    batched = input.ndim == 3
    if input.shape[int(batched and layer.batch_first)] == 1:
        return None  # a single step: its formulas are as fast, and NaN stays NaN
    x = graph.cast(input if batched else graph.unsqueeze(input, 1), compute)
    time_first = not (batched and layer.batch_first)
    x = x if time_first else graph.transpose(x, (1, 0, 2))
    states = None if given is None else [graph.operand(h) for h in layer._initial(x, given, batched)[0]]
    directions = 1 + layer.bidirectional
    ends: list[list[GraphArray]] = []
    for index in range(layer.num_layers):
        at = index * directions
        start = None if states is None else [_part(graph, h, at, directions) for h in states]
        x, end = _walk(graph, layer, x, start, at, directions)
        ends.append(end)
    x = x if time_first else graph.transpose(x, (1, 0, 2))
    last = [graph.concatenate(column, 0) for column in zip(*ends, strict=True)]
    if not batched:
        x, last = graph.squeeze(x, 1), [graph.squeeze(h, 1) for h in last]
    return graph.cast(x, result), [graph.cast(h, result) for h in last]


def _part(graph: Graph, h: GraphArray, start: int, count: int) -> GraphArray:
    return h if h.shape[0] == count else graph.slice(h, 0, start, start + count, 1, count)


def _walk(
    graph: Graph, layer: Any, x: GraphArray, start: Any, at: int, directions: int
) -> tuple[GraphArray, list[GraphArray]]:
    """One layer in its directions: outputs (T, N, size), and the last states (directions, N, size)."""
    steps, rows = x.shape[:2]
    size = layer.hidden_size
    names = [layer._names[at + i] for i in range(directions)]
    gates = _GATES[type(layer)]

    def ordered(name: str) -> GraphArray:
        array = graph.operand(layer._tensor(name), np.float32)
        if len(gates) == 1:
            return array
        part = ((size, *array.shape[1:]), array.dtype)
        parts = graph.emit_all("Split", [array], [part] * len(gates), axis=0, num_outputs=len(gates))
        return graph.concatenate([parts[gate] for gate in gates], 0)

    weights = [graph.stack([ordered(one[i]) for one in names]) for i in (0, 1)]
    bias = None
    if layer.bias:
        bias = graph.stack([graph.concatenate([ordered(one[2]), ordered(one[3])], 0) for one in names])
    inputs: list[GraphArray | None] = [x, *weights, bias, None, *(start or ())]
    attributes: dict[str, Any] = {
        "hidden_size": size,
        "direction": "bidirectional" if directions == 2 else "forward",
    }
    if type(layer) is GRU:
        attributes["linear_before_reset"] = 1
    elif type(layer) is RNN:
        attributes["activations"] = [layer.nonlinearity.capitalize()] * directions
    while inputs[-1] is None:
        inputs.pop()
    state = ((directions, rows, size), np.float32)
    outputs = [((steps, directions, rows, size), np.float32), *[state] * len(layer._states)]
    out, *last = graph.emit_all(type(layer).__name__, inputs, outputs, **attributes)
    gone, before = _nan_where_nan(x), sum(map(_nan_where_nan, start or ()))
    ways = [gone.cumsum(0), gone[::-1].cumsum(0)[::-1]][:directions]  # from the step on that has NaN
    out, last = out + (np.stack(ways, 1) + before), [h + (gone.sum(0) + before) for h in last]
    if directions == 1:
        return graph.squeeze(out, 1), last
    return graph.reshape(graph.transpose(out, (0, 2, 1, 3)), (steps, rows, 2 * size)), last


def _nan_where_nan(x: GraphArray) -> Any:
    """For each row (..., 1): NaN if it has NaN, else 0."""
    return np.where(np.isnan(x), np.float32(np.nan), np.float32(0)).sum(-1, keepdims=True)
