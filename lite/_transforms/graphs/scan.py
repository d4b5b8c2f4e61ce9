"""A loop over the first dimension of arrays as one operator of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Body, Graph, Node

Arrays = Sequence[GraphArray]


def scan(
    graph: Graph,
    step: Callable[[Arrays, Arrays], tuple[Arrays, Arrays]],
    state: Arrays,
    columns: Arrays,
    reverse: bool = False,
) -> tuple[list[GraphArray], list[GraphArray]]:
    """Run a function for each row of some arrays.

    Args:
        graph: the graph that gets the operator.
        step: maps a state and the rows of one time to the next state and the outputs of this time. It may
            also use all arrays of the graph.
        state: the first state; all states have its dtypes and shapes.
        columns: arrays with the same first dimension.
        reverse: whether the last row comes first; outputs are in the order of the rows.

    Returns:
        The last state, and the outputs, stacked along a first dimension of times.

    Source:
        The operator Scan of ONNX; jax.lax.scan.
    """
    times = columns[0].shape[0]
    with graph.body() as nodes:
        given = [graph.local("state", x.shape, x.dtype) for x in state]
        rows = [graph.local("row", x.shape[1:], x.dtype) for x in columns]
        after, kept = step(given, rows)
        outputs = [graph.operand(x, old.dtype) for x, old in zip(after, state, strict=True)]
        outputs += [graph.operand(x) for x in kept]
        # An output of a body is a value of its own: of a node inside, and of one output alone.
        free = {name for node in nodes for name in node.outputs}
        named = []
        for x in outputs:
            if x.name not in free:
                own = graph.local("out", x.shape, x.dtype)
                nodes.append(Node("Identity", (x.name,), (own.name,)))
                x = own
            free.discard(x.name)
            named.append(x)
    body = Body(tuple(map(_form, [*given, *rows])), tuple(map(_form, named)), tuple(nodes))
    last = [graph.local("last", x.shape, x.dtype) for x in state]
    columns_out = [graph.local("kept", (times, *x.shape), x.dtype) for x in named[len(state) :]]
    attributes = {
        "num_scan_inputs": len(columns),
        "scan_input_directions": [int(reverse)] * len(columns),
        "scan_output_directions": [int(reverse)] * len(columns_out),
    }
    node = Node(
        "Scan",
        tuple(x.name for x in (*state, *columns)),
        tuple(x.name for x in (*last, *columns_out)),
        attributes,
        graph.path,
        body,
    )
    graph.nodes.append(node)
    return last, columns_out


def _form(x: GraphArray) -> tuple[str, tuple[int, ...], object]:
    return x.name, x.shape, x.dtype
