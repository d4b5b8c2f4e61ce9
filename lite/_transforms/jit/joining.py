"""Small arrays that stay are one array for the session: a step of an optimiser is one chain of operators.

An optimiser does the same with each parameter. As each operator costs half a microsecond whatever its size,
a network of 6 small parameters pays 40 of them for Adam. So where outputs that are the next values of
inputs are computed alike, element by element, they are computed side by side: the inputs are parts of one
flat array, and so are the outputs. What else reads such an input gets its part of it: by an operator, or
as an input of its own in the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from lite._arrays.types import Shape
from lite._transforms.graphs.graph import Node
from lite._transforms.graphs.trace import Input, Traced
from lite._transforms.jit.aligning import ELEMENTWISE

_MOST = 1 << 14  # elements of an array that is joined: the copies of larger ones cost more than operators do
# Operators from an output back that are joined: those of optimisers, not of derivatives.
_DEPTHS = 16, 10, 6


@dataclass(frozen=True)
class Joined:
    """Inputs and their next values as parts of one flat input and output.

    Attributes:
        input: the name of the flat input.
        output: the name of the flat output.
        inputs: names of the inputs that are its parts, in order.
        shapes: shapes of the parts.
        dtype: the common dtype.
        read: the inputs among its parts that are inputs of their own, too.
    """

    input: str
    output: str
    inputs: tuple[str, ...]
    shapes: tuple[Shape, ...]
    dtype: np.dtype[Any]
    read: tuple[str, ...] = ()


def join(
    traced: Traced, pairs: Mapping[str, str], shapes: Mapping[str, Shape], views: bool = True
) -> tuple[Traced, tuple[Joined, ...]]:
    """The graph with small inputs that stay joined, and how.

    Args:
        traced: the graph.
        pairs: the output that is the next value of an input, by name.
        shapes: shapes of the values of the graph.
        views: whether a part may be an input of its own, wherever it begins in memory.
    """
    for depth in _DEPTHS:
        try:
            return _Joining(traced, pairs, shapes, depth, views).done()
        except _Circle:
            continue
    return traced, ()


class _Circle(Exception):
    """Values that are computed side by side are computed from each other."""


class _Joining:
    def __init__(
        self, traced: Traced, pairs: Mapping[str, str], shapes: Mapping[str, Shape], depth: int, views: bool
    ) -> None:
        self.depth = depth
        self.views = views
        self.traced = traced
        self.shapes = shapes
        self.made = {name: node for node in traced.nodes for name in node.outputs}
        # What the function flattens and joins itself, as for the norm of all gradients.
        lists = [(node, shapes.get(node.outputs[0], ())) for node in traced.nodes]
        flat = [node for node, shape in lists if len(shape) == 1]
        self.flat = {node.inputs[0]: node.outputs[0] for node in flat if node.op == "Reshape"}
        self.side_by_side = {node.inputs: node.outputs[0] for node in flat if node.op == "Concat"}
        self.inputs = {x.name: x for x in traced.inputs}
        self.pairs = pairs
        self.groups: dict[tuple[str, ...], str] = {}  # names of values that are joined, and of their array
        self.nodes: list[Node] = []
        self.whole: set[str] = set()  # arrays that nothing takes apart: they are put together, or inputs
        self.count = 0
        self.known: dict[tuple[str, Shape, int], int | None] = {}
        self.numbers: dict[Any, int] = {}
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}

    def done(self) -> tuple[Traced, tuple[Joined, ...]]:
        found = []
        of_inputs: dict[tuple[str, ...], str] = {}
        for members in self._alike():
            flat = self._name("state")
            self.groups[members] = of_inputs[members] = flat
            if self.views:
                self.whole.add(flat)
        for members, flat in of_inputs.items():
            following = tuple([self.pairs[name] for name in members])
            joined = self._joined(following, members, self.depth)
            shapes = tuple([tuple(map(int, self.shapes[name])) for name in members])
            found.append(Joined(flat, joined, members, shapes, self.inputs[members[0]].dtype))
        if not found:
            return self.traced, ()
        parts = {name for group in found for name in group.inputs}
        gone = {self.pairs[name] for name in parts}
        sizes = {group.input: sum(map(math.prod, group.shapes)) for group in found}
        outputs = [o for o in self.traced.outputs if o[0] not in gone]
        outputs += [(group.output, (sizes[group.input],), group.dtype) for group in found]
        nodes = self._ordered(outputs)
        used = {name for node in nodes for name in node.reads}
        if self.views:
            found = [replace(one, read=tuple([x for x in one.inputs if x in used])) for one in found]
        gone = parts.difference(*[group.read for group in found])
        inputs = [x for x in self.traced.inputs if x.name not in gone]
        inputs += [Input(group.input, (sizes[group.input],), group.dtype) for group in found]
        arrays = {k: v for k, v in {**self.traced.arrays, **self.arrays}.items() if k in used}
        traced = replace(
            self.traced, inputs=tuple(inputs), outputs=tuple(outputs), nodes=nodes, arrays=arrays
        )
        return traced, tuple(found)

    def _alike(self) -> Iterable[tuple[str, ...]]:
        """Inputs that stay, by how their next values are computed; two of a kind at least."""
        kinds: dict[Any, list[str]] = {}
        for name, output in self.pairs.items():
            shape = self.shapes[name]
            if 0 < math.prod(shape) <= _MOST and self.shapes.get(output) == shape:
                kind = self._kind(output, shape, self.depth)
                if kind is not None:
                    kinds.setdefault((self.inputs[name].dtype, kind), []).append(name)
        return [tuple(names) for names in kinds.values() if len(names) > 1]

    def _kind(self, name: str, shape: Shape, depth: int) -> int | None:
        """The number of how a value is computed, whatever from; None if not element by element."""
        if (name, shape, depth) in self.known:
            return self.known[name, shape, depth]
        self.known[name, shape, depth] = None
        node = self.made.get(name)
        if not depth or node is None or not self._by_elements(node, shape):
            return None
        inner = [
            operand if self._is_shared(operand, shape) else self._kind(operand, shape, depth - 1)
            for operand in node.inputs
        ]
        form = (node.op, repr(sorted(node.attributes.items())), *inner)
        found = self.known[name, shape, depth] = self.numbers.setdefault(form, len(self.numbers))
        return found

    def _by_elements(self, node: Node, shape: Shape) -> bool:
        return node.op in ELEMENTWISE and len(node.outputs) == 1 and self.shapes.get(node.outputs[0]) == shape

    def _is_shared(self, name: str, shape: Shape) -> bool:
        """Whether an operand is one number for all elements."""
        return self._is_number(name) and shape != self.shapes[name]

    def _is_number(self, name: str) -> bool:
        """Whether a value is one number, which any flat array meets as it is."""
        return self.shapes.get(name) in ((), (1,))

    def _joined(self, members: tuple[str, ...], owners: tuple[str, ...], depth: int) -> str:
        """The array of values that are computed alike, or put side by side."""
        found = self.groups.get(members)
        if found is not None:
            return found
        nodes = [self.made.get(name) for name in members]
        shapes = [self.shapes[name] for name in owners]
        first = nodes[0]
        if (
            depth
            and first is not None
            and all(
                node is not None
                and node.op == first.op
                and node.attributes == first.attributes
                and self._by_elements(node, shape)
                for node, shape in zip(nodes, shapes, strict=True)
            )
        ):
            operands, apart = [], False
            for column in zip(*[node.inputs for node in nodes if node is not None], strict=True):
                if len(set(column)) == 1 and self._is_number(column[0]):
                    operands.append(column[0])
                elif all(self.shapes.get(name) == shape for name, shape in zip(column, shapes, strict=True)):
                    operands.append(self._joined(column, owners, depth - 1))
                    apart = True
                else:
                    apart = False
                    break
            if apart:
                out = self.groups[members] = self._name(first.op)
                self.nodes.append(replace(first, inputs=tuple(operands), outputs=(out,)))
                return out
        parts = []
        for name, shape in zip(members, shapes, strict=True):
            flat = name if len(shape) == 1 else self.flat.get(name)
            if flat is None:
                flat = self._name("Reshape")
                self.nodes.append(Node("Reshape", (name, self._ints(-1)), (flat,)))
            parts.append(flat)
        out = self.side_by_side.get(tuple(parts), "")
        if not out:
            out = self._name("Concat")
            self.nodes.append(Node("Concat", tuple(parts), (out,), {"axis": 0}))
        self.groups[members] = out
        self.whole.add(out)
        return out

    def _ordered(self, outputs: Sequence[Any]) -> tuple[Node, ...]:
        """The nodes that lead to the outputs, each after what it reads."""
        made = dict(self.made)
        split: dict[str, Node] = {}
        told: set[str] = set()
        for members, flat in self.groups.items():
            if flat in self.whole:
                continue
            sizes = [math.prod(self.shapes[name]) for name in members]
            pieces: list[str] = []
            for k, name in enumerate(members):
                if name in told:  # a value may be a part of two arrays, and is read from one
                    pieces.append(f"{flat}/{k}")
                    continue
                told.add(name)
                if len(self.shapes[name]) == 1:
                    pieces.append(name)
                else:
                    pieces.append(f"{flat}/{k}")
                    made[name] = Node("Reshape", (pieces[-1], self._ints(*self.shapes[name])), (name,))
            node = Node("Split", (flat, self._ints(*sizes)), tuple(pieces), {"axis": 0})
            split.update(dict.fromkeys(pieces, node))
        made.update(split)
        made.update({name: node for node in self.nodes for name in node.outputs})
        needs: dict[int, list[int]] = {}
        nodes: dict[int, Node] = {}
        wanted = [made[o[0]] for o in outputs if o[0] in made]
        while wanted:
            node = wanted.pop()
            if id(node) not in nodes:
                nodes[id(node)] = node
                before = [made[name] for name in node.reads if name in made]
                needs[id(node)] = [id(other) for other in before]
                wanted += before
        try:
            return tuple([nodes[number] for number in TopologicalSorter(needs).static_order()])
        except CycleError:
            raise _Circle from None

    def _ints(self, *values: int) -> str:
        name = f"ints_{'_'.join(map(str, map(int, values)))}"
        self.arrays[name] = np.array([int(n) for n in values], np.int64)
        return name

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"joined/{kind}_{self.count}"
