"""A dynamic size is read off an input whose numbers are needed, too: others then need not be given."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from lite._transforms.graphs.trace import Traced


def size_inputs(traced: Traced) -> Traced:
    """The graph without inputs of which it reads a size alone that another input has."""
    read = {name for node in traced.nodes if node.op not in ("Shape", "Size") for name in node.reads}
    axes: dict[Any, tuple[str, int]] = {}
    counts: dict[Any, str] = {}
    for x in traced.inputs:
        if x.name in read:
            counts.setdefault(_count(x.shape), x.name)
            for axis, size in enumerate(x.shape):
                axes.setdefault(size, (x.name, axis))
    shapes = {x.name: x.shape for x in traced.inputs if x.name not in read}
    nodes = []
    for node in traced.nodes:
        shape = shapes.get(node.inputs[0]) if node.op in ("Shape", "Size") else None
        if shape is not None and node.op == "Size":
            node = replace(node, inputs=(counts.get(_count(shape), node.inputs[0]),))
        elif shape is not None:
            start = node.attributes["start"]
            name, axis = axes.get(shape[start], (node.inputs[0], start))
            node = replace(node, inputs=(name,), attributes={"start": axis, "end": axis + 1})
        nodes.append(node)
    used = {name for node in nodes for name in node.reads}
    return replace(traced, nodes=tuple(nodes), inputs=tuple(x for x in traced.inputs if x.name in used))


def _count(shape: tuple[int | str, ...]) -> Any:
    """How many elements there are: the dynamic sizes, and the product of the others."""
    names = sorted(n for n in shape if isinstance(n, str))
    return tuple(names), math.prod(n for n in shape if not isinstance(n, str))
