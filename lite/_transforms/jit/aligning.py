"""Numbers have as many dimensions as the columns that they meet.

onnxruntime merges dimensions of one element that both operands have, but not those that only one has. Where
an array ends in such a dimension, as the values of a critic do, a number without dimensions meets each
element in a step of its own, which takes fifty times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lite._transforms.graphs.graph import INT64, Node
from lite._transforms.graphs.trace import Traced

_NAMES = """
Abs Add And Cast Clip Cos Div Elu Equal Erf Exp Gelu Greater GreaterOrEqual HardSigmoid Identity
LeakyRelu Less LessOrEqual Log Max Min Mul Neg Not Or Pow Reciprocal Relu Sigmoid Sign Sin Softplus Sqrt
Sub Sum Tanh Where
"""
ELEMENTWISE = frozenset(_NAMES.split())
Shapes = Mapping[str, Sequence[int | None]]


def align(traced: Traced, shapes: Shapes) -> tuple[Traced, Shapes]:
    """The graph with numbers of more dimensions where that is faster, and the shapes with theirs.

    Args:
        traced: the graph.
        shapes: shapes of its values; None for a dynamic size.
    """
    nodes: list[Node] = []
    arrays, found = dict(traced.arrays), dict(shapes)
    for node in traced.nodes:
        out = shapes.get(node.outputs[0])
        if node.op in ELEMENTWISE and out is not None and len(out) > 1 and out[-1] == 1:
            inputs = []
            for name in node.inputs:
                shape = shapes.get(name)
                if shape is None or len(shape) >= len(out) or not {1}.issuperset(shape):
                    inputs.append(name)
                    continue
                wide = f"{name}/{len(out)}"
                inputs.append(wide)
                if wide in found:
                    continue
                found[wide] = (1,) * len(out)
                if name in arrays:
                    arrays[wide] = arrays[name].reshape(found[wide])
                else:
                    sizes = f"ones/{len(out)}"
                    arrays[sizes] = np.ones(len(out), INT64)
                    nodes.append(Node("Reshape", (name, sizes), (wide,)))
            node = replace(node, inputs=tuple(inputs))
        nodes.append(node)
    used = {name for node in nodes for name in node.reads}
    arrays = {name: array for name, array in arrays.items() if name in used}
    return replace(traced, nodes=tuple(nodes), arrays=arrays), found
