"""Tiling: the next values of large state arrays are computed in tiles that fit a core's cache.

A step of Adam reads and writes an array a dozen times. If the array has a million elements, each of these
operators waits for memory. So the operators before the next value of such an array run for some of its rows
at a time, as long as a row needs only the same row of large operands: the optimiser, the product that gives
the gradient, and all layers of networks that are stacked. The session reads and writes the tiles in place, as
parts of the whole array.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lite._transforms.graphs.graph import INT64, Node
from lite._transforms.graphs.trace import Input, Traced
from lite._transforms.jit.aligning import ELEMENTWISE, Shapes

_LARGE = 1 << 17  # elements of a value that is computed in tiles
_TILE = 1 << 16  # elements of a tile of the largest value
_BATCH = 64  # assumed for dynamic sizes
_REDUCTIONS = frozenset(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"))


@dataclass(frozen=True)
class Tiles:
    """A state array that is several inputs or outputs of the session, each some of its rows.

    Attributes:
        name: the input of the array, or the output of its next value.
        parts: names of the inputs or outputs.
        rows: the number of rows of each.
        whole: whether the graph reads the whole array, too.
    """

    name: str
    parts: tuple[str, ...]
    rows: tuple[int, ...]
    whole: bool


def tile(traced: Traced, pairs: Mapping[str, str], shapes: Shapes) -> tuple[Traced, tuple[Tiles, ...]]:
    """The graph with large state arrays in tiles, and these tiles.

    Args:
        traced: the graph.
        pairs: names of state inputs, each with the output that is its next value.
        shapes: the shapes of the graph's values; None for a dynamic size.
    """
    return _Tiling(traced, pairs, shapes).done()


class _Tiling:
    def __init__(self, traced: Traced, pairs: Mapping[str, str], shapes: Shapes) -> None:
        self.traced = traced
        self.shapes = shapes
        self.made = {name: node for node in traced.nodes for name in node.outputs}
        self.inputs = {x.name: x for x in traced.inputs if x.name in pairs}
        self.outputs = {o[0] for o in traced.outputs}
        self.stay = {pairs[name] for name in self.inputs} & self.outputs
        self.axes: dict[str, int] = {}  # along which values are in tiles
        self.rows: dict[int, list[int]] = {}  # of each tile, by the size of the axis
        self.nodes: list[Node] = []
        self.arrays = dict(traced.arrays)
        self.split: dict[tuple[str, int], list[str]] = {}
        self.whole: set[str] = set()

    def done(self) -> tuple[Traced, tuple[Tiles, ...]]:
        for name in self.stay:
            if self._size(name) >= _LARGE:
                self._take(name, 0)
        found = True
        while found:
            found = bool(sum([self._follow(node) for node in self.traced.nodes]))
        largest: Counter[int] = Counter()
        for name, axis in self.axes.items():
            size = self._length(name, axis)
            largest[size] = max(largest[size], self._size(name))
        for size, elements in largest.items():
            count = min(size, -(-elements // _TILE))
            self.rows[size] = [len(part) for part in np.array_split(np.arange(size), count)]
        self.axes = {k: axis for k, axis in self.axes.items() if len(self._rows(k, axis)) > 1}
        if not self.axes:
            return self.traced, ()
        return self._written()

    # -- which values --------------------------------------------------------------------------------------

    def _take(self, name: str, axis: int) -> None:
        """Put a value into tiles, and the large values that its tiles read by rows."""
        wanted = [(name, axis)]
        while wanted:
            name, axis = wanted.pop()
            if name in self.axes or self._size(name) < _LARGE:
                continue
            if name in self.inputs:
                if axis == 0:
                    self.axes[name] = 0
                continue
            node = self.made.get(name)
            along = None if node is None else self._along(node, axis)
            if node is not None and along is not None:
                self.axes[name] = axis
                wanted += [
                    (operand, at) for operand, at in zip(node.inputs, along, strict=True) if at is not None
                ]

    def _follow(self, node: Node) -> bool:
        """Put the result of a node that reads large tiles into tiles, if possible; returns whether it did."""
        if len(node.outputs) != 1 or node.outputs[0] in self.axes or node.outputs[0] not in self.shapes:
            return False
        tiled = [(k, name) for k, name in enumerate(node.inputs) if name in self.axes and name in self.made]
        if all(self._size(name) < _LARGE for _, name in tiled):
            return False
        for axis in range(len(self.shapes[node.outputs[0]])):
            along = self._along(node, axis)
            if along is not None and all(along[k] == self.axes[name] for k, name in tiled):
                self.axes[node.outputs[0]] = axis
                for operand, at in zip(node.inputs, along, strict=True):
                    if at is not None:
                        self._take(operand, at)
                return True
        return False

    def _along(self, node: Node, axis: int) -> list[int | None] | None:
        """For each operand, the axis along which a tile of the result needs a tile; None for the whole
        operand.

        The result is None if the operator cannot compute tiles.
        """
        shapes = [self.shapes.get(name) for name in node.inputs]
        out = self.shapes.get(node.outputs[0])
        if len(node.outputs) != 1 or out is None or None in shapes or type(out[axis]) is not int:
            return None
        if node.op in ELEMENTWISE:
            return [self._broadcast(shape, len(out), axis) for shape in shapes]
        if node.op == "MatMul":
            a, b = shapes
            if a is None or b is None or min(len(a), len(b)) < 2:
                return None
            if axis == len(out) - 1:
                return [None, len(b) - 1]
            if axis == len(out) - 2:
                return [len(a) - 2, None]
            return [self._broadcast(a, len(out), axis), self._broadcast(b, len(out), axis)]
        if node.op == "Transpose":
            return [node.attributes["perm"][axis]]
        if node.op == "Unsqueeze":
            new = self._axes_of(node, len(out))
            return None if new is None or axis in new else [axis - sum(k < axis for k in new), None]
        if node.op in ("Squeeze", *_REDUCTIONS):
            ndim = len(shapes[0] or ())
            gone = self._axes_of(node, ndim)
            if gone is None:
                return None
            kept = (
                list(range(ndim))
                if node.attributes.get("keepdims")
                else [k for k in range(ndim) if k not in gone]
            )
            return None if kept[axis] in gone else [kept[axis], None]
        return None

    @staticmethod
    def _broadcast(shape: Sequence[int | None] | None, ndim: int, axis: int) -> int | None:
        """The axis of an operand that broadcasts to an axis of the result; None if its size there is 1."""
        at = axis - ndim + len(shape or ())
        return None if shape is None or at < 0 or shape[at] == 1 else at

    def _axes_of(self, node: Node, ndim: int) -> frozenset[int] | None:
        """The axes that an operator names in its second operand."""
        array = self.traced.arrays.get(node.inputs[1]) if len(node.inputs) == 2 else None
        return None if array is None else frozenset(int(k) % ndim for k in array.reshape(-1))

    def _size(self, name: str) -> int:
        return math.prod(_BATCH if n is None else n for n in self.shapes.get(name, (0,)))

    def _length(self, name: str, axis: int) -> int:
        size = self.shapes[name][axis]
        assert size is not None
        return size

    def _rows(self, name: str, axis: int) -> list[int]:
        return self.rows[self._length(name, axis)]

    # -- the graph -----------------------------------------------------------------------------------------

    def _written(self) -> tuple[Traced, tuple[Tiles, ...]]:
        for node in self.traced.nodes:
            if node.outputs[0] in self.axes:
                self._write_tiles(node)
            else:
                for name in node.reads:
                    self._put_together(name)
                self.nodes.append(node)
        for name in self.outputs - self.stay:
            self._put_together(name)
        tiles = tuple(
            Tiles(name, tuple(self._parts(name)), tuple(self._rows(name, 0)), name in self.whole)
            for name in self.axes
            if name in self.inputs or (name in self.stay and self.axes[name] == 0)
        )
        return self._traced({x.name: x for x in tiles}), tiles

    def _traced(self, tiles: Mapping[str, Tiles]) -> Traced:
        inputs, outputs = [], []
        for x in self.traced.inputs:
            if x.name not in tiles or tiles[x.name].whole:
                inputs.append(x)
            if x.name in tiles:
                inputs += [Input(part, (n, *x.shape[1:]), x.dtype) for part, n in _each(tiles[x.name])]
        for name, shape, dtype in self.traced.outputs:
            if name in tiles:
                outputs += [(part, (n, *shape[1:]), dtype) for part, n in _each(tiles[name])]
            else:
                outputs.append((name, shape, dtype))
        used = {name for node in self.nodes for name in node.reads}
        arrays = {name: array for name, array in self.arrays.items() if name in used}
        # onnxruntime starts at the last node without readers, and runs the nodes that it depends on first. So
        # all operators run for one tile, which the cache holds, before they run for the next one.
        places = {part: -k for one in tiles.values() for k, part in enumerate(one.parts)}
        ends = [node for node in self.nodes if used.isdisjoint(node.outputs)]
        ends.sort(key=lambda node: places.get(node.outputs[0], -len(self.nodes)))
        nodes = [node for node in self.nodes if not used.isdisjoint(node.outputs)] + ends
        return replace(
            self.traced, inputs=tuple(inputs), outputs=tuple(outputs), nodes=tuple(nodes), arrays=arrays
        )

    def _parts(self, name: str) -> list[str]:
        return [f"{name}/tile_{k}" for k in range(len(self._rows(name, self.axes[name])))]

    def _write_tiles(self, node: Node) -> None:
        axis = self.axes[node.outputs[0]]
        along = self._along(node, axis)
        assert along is not None
        columns = []
        count = len(self._rows(node.outputs[0], axis))
        for operand, at in zip(node.inputs, along, strict=True):
            if at is None:
                self._put_together(operand)
                columns.append([operand] * count)
            else:
                columns.append(self._tiles(operand, at))
        for part, *operands in zip(self._parts(node.outputs[0]), *columns, strict=True):
            self.nodes.append(replace(node, inputs=tuple(operands), outputs=(part,)))

    def _tiles(self, name: str, axis: int) -> list[str]:
        """The names of a value's tiles, which are split off if the value is not in tiles."""
        if self.axes.get(name) == axis:
            return self._parts(name)
        found = self.split.get((name, axis))
        if found is None:
            self._put_together(name)
            rows = self._rows(name, axis)
            found = self.split[name, axis] = [f"{name}/part_{axis}_{k}" for k in range(len(rows))]
            sizes = f"{name}/rows_{axis}"
            self.arrays[sizes] = np.array(rows, INT64)
            self.nodes.append(Node("Split", (name, sizes), tuple(found), {"axis": axis}))
        return found

    def _put_together(self, name: str) -> None:
        """Concatenate the tiles of a value that is read as a whole."""
        if name in self.axes and name not in self.whole:
            self.whole.add(name)
            if name not in self.inputs:
                self.nodes.append(
                    Node("Concat", tuple(self._parts(name)), (name,), {"axis": self.axes[name]})
                )


def _each(tiles: Tiles) -> Iterator[tuple[str, int]]:
    return zip(tiles.parts, tiles.rows, strict=True)
