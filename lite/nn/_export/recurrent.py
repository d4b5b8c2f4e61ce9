"""Recurrent layers over sequences as operators, which take sequences of any length.

onnxruntime's operators give finite numbers for NaN, so a sensor that failed would become an action: NaN goes
around them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.dtypes import compute_dtype
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite.nn._export.native import native
from lite.nn.layers.recurrent import GRU, LSTM, RNN

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
