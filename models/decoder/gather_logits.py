"""Changes graphs that compute logits of all positions to compute only the requested ones.

Exported decoders apply the output projection to every position, though generation needs the last one only:
for a prompt of 128 tokens and a vocabulary of 50k that is a fifth of the work and most of the memory. This
module puts a gather in front of the projection, in the bytes of the model: the projection's input is renamed
in place (the length stays, so nothing moves), and a piece of a graph with the gather and a new graph input is
appended. Protobuf merges the two pieces of the graph when it reads them, and onnxruntime sorts the nodes.
"""

from __future__ import annotations

import numpy as np

from lite._files.onnx.reader import Graph, read_graph
from lite._files.onnx.wire import field
from lite._files.onnx.writer import node, value

POSITIONS_INPUT = "lite_positions"
HIDDEN_OUTPUT = "lite_hidden"
# A larger one (without its large weights) stays as it is: it would be held in memory twice.
MAX_MODEL_BYTES = 256 << 20
MAX_CLIMB = 8  # nodes between the projection and the logits; a file may also hold a circle

_THROUGH = frozenset({b"Cast", b"Tanh", b"Mul", b"Div"})  # casts and soft-capping after the projection
_PROJECTIONS = frozenset({b"MatMul", b"MatMulNBits", b"FusedMatMul"})


def gather_before_projection(
    model: bytes, graph: Graph | None = None, *, hidden_output: bool = False
) -> bytes | None:
    """Insert the gather into a serialised ONNX decoder.

    The changed graph has one more input, `lite_positions`, int64 (batch, K, 1): the positions, counted
    within the run, whose logits are wanted; its logits are (batch, K, V).

    Args:
        model: the file's bytes; they are not changed.
        graph: the model as `read_graph` reads it, if that was done before.
        hidden_output: also give the projection's input, float32 (batch, S, width), as the output
            `lite_hidden`, for runs that ask for no logits (K = 0) and for that.

    Returns:
        The changed model, or None if the graph's end is not of a known form.

    Raises:
        ValueError: if `model` is not an ONNX file.
    """
    graph = graph or read_graph(model)
    makers = graph.makers
    last = makers.get(b"logits")
    for _ in range(MAX_CLIMB):
        if last is not None and last.kind in _THROUGH and last.inputs:
            last = makers.get(last.inputs[0])
    if last is None or last.kind not in _PROJECTIONS or last.first is None:
        return None
    hidden, (start, end) = last.inputs[0], last.first
    names = {name for other in graph.nodes for name in other.inputs} | set(makers)
    renamed = next((new for c in b"~#@!" if (new := hidden[:-1] + bytes([c])) not in names), None)
    if renamed is None or hidden not in makers:  # an input of the graph has another rank, perhaps
        return None
    return model[:start] + renamed + model[end:] + _fragment(hidden, renamed, hidden_output)


def _fragment(hidden: bytes, renamed: bytes, hidden_output: bool) -> bytes:
    """A model whose graph is `renamed = GatherND(hidden, lite_positions, batch_dims=1)` and that input.

    And, if wanted, `lite_hidden = Identity(hidden)` and that output.
    """
    gathered = node("GatherND", "lite_gather", [hidden, POSITIONS_INPUT], [renamed], {"batch_dims": 1})
    positions = value(POSITIONS_INPUT, np.dtype(np.int64), ["batch_size", "lite_k", 1])
    graph = field(1, gathered) + field(11, positions)
    if hidden_output:
        same = node("Identity", HIDDEN_OUTPUT, [hidden], [HIDDEN_OUTPUT], {})
        shape = ["batch_size", "lite_s", "lite_width"]
        graph += field(1, same) + field(12, value(HIDDEN_OUTPUT, np.dtype(np.float32), shape))
    return field(7, graph)
