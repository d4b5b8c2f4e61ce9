"""Changes graphs that compute logits of all positions to compute only the requested ones.

Exported decoders apply the output projection to every position, though generation needs the last one only:
for a prompt of 128 tokens and a vocabulary of 50k that is a fifth of the work and most of the memory. This
module puts a gather in front of the projection, in the bytes of the model: the projection's input is renamed
in place (the length stays, so nothing moves), and a piece of a graph with the gather and a new graph input is
appended. Protobuf merges the two pieces of the graph when it reads them, and onnxruntime sorts the nodes.
"""

from __future__ import annotations

from lite._files.onnx.reader import Graph, read_graph
from lite._files.onnx.wire import field, varint

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
    node = makers.get(b"logits")
    for _ in range(MAX_CLIMB):
        if node is not None and node.kind in _THROUGH and node.inputs:
            node = makers.get(node.inputs[0])
    if node is None or node.kind not in _PROJECTIONS or node.first is None:
        return None
    hidden, (start, end) = node.inputs[0], node.first
    names = {name for other in graph.nodes for name in other.inputs} | set(makers)
    renamed = next((new for c in b"~#@!" if (new := hidden[:-1] + bytes([c])) not in names), None)
    if renamed is None or hidden not in makers:  # an input of the graph has another rank, perhaps
        return None
    return model[:start] + renamed + model[end:] + _fragment(hidden, renamed, hidden_output)


def _fragment(hidden: bytes, renamed: bytes, hidden_output: bool) -> bytes:
    """A model whose graph is `renamed = GatherND(hidden, lite_positions, batch_dims=1)` and that input.

    And, if wanted, `lite_hidden = Identity(hidden)` and that output.
    """
    name = POSITIONS_INPUT.encode()
    batch_dims = field(1, b"batch_dims") + _number(3, 1) + _number(20, 2)  # attribute type 2: an integer
    node = b"".join(
        (
            field(1, hidden),
            field(1, name),
            field(2, renamed),
            field(3, b"lite_gather"),
            field(4, b"GatherND"),
            field(5, batch_dims),
        )
    )
    dims = field(2, b"batch_size"), field(2, b"lite_k"), _number(1, 1)
    shape = b"".join(field(1, dim) for dim in dims)
    tensor = _number(1, 7) + field(2, shape)  # element type 7: int64
    value = field(1, name) + field(2, field(1, tensor))
    graph = field(1, node) + field(11, value)
    if hidden_output:
        name = HIDDEN_OUTPUT.encode()
        same = field(1, hidden) + field(2, name) + field(3, name) + field(4, b"Identity")
        shape = b"".join(field(1, field(2, dim)) for dim in (b"batch_size", b"lite_s", b"lite_width"))
        tensor = _number(1, 1) + field(2, shape)  # element type 1: float32
        graph += field(1, same) + field(12, field(1, name) + field(2, field(1, tensor)))
    return field(7, graph)


def _number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)
