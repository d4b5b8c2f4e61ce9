"""A graph while it is traced: nodes, constants, weights, and what a rule gets to work with."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any, NoReturn

import numpy as np

from lite._arrays.types import ArrayHolder, DtypeLike, HostArray, Shape
from lite._transforms.graphs.array import ORDERING, WIDENED, GraphArray
from lite._transforms.graphs.sizes import MOVED, Comparison, Quotient, Size, comparisons, primes
from lite._transforms.levels import innermost, numbers

INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)


class OneSizeError(NotImplementedError):
    """Numbers of a graph are those of one size of a dynamic dimension."""


@dataclass(slots=True)  # frozen, one takes four times as long to make
class Node:
    """An operator of ONNX with its inputs and outputs by name.

    Attributes:
        op: its name.
        inputs: names of values; empty for an input that is left out.
        outputs: names of values.
        attributes: integers, floats, strings, dtypes, and lists of them.
        path: path of the module that was running.
        body: what the operator runs again and again, if it is a loop.
        line: line of the code that made it, where that is noted.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    path: str = ""
    body: Body | None = None
    line: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The inputs, and what the body reads of the graph around it."""
        return self.inputs if self.body is None else (*self.inputs, *self.body.reads)

    def renamed(self, names: Mapping[str, str]) -> Node:
        """A copy with other names of values."""
        if not any(name in names for name in (*self.reads, *self.outputs)):
            return self
        inputs, outputs = (tuple(names.get(n, n) for n in side) for side in (self.inputs, self.outputs))
        body = None if self.body is None else self.body.renamed(names)
        return replace(self, inputs=inputs, outputs=outputs, body=body)


@dataclass(frozen=True)
class Body:
    """A graph inside of a node, which may read every value of the graph around it.

    Attributes:
        inputs: name, shape and dtype of each.
        outputs: the same.
        nodes: in the order in which they run.
    """

    inputs: tuple[tuple[str, Shape, Any], ...]
    outputs: tuple[tuple[str, Shape, Any], ...]
    nodes: tuple[Node, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the outer graph's values that are read."""
        own = {name for node in self.nodes for name in node.outputs} | {x[0] for x in self.inputs}
        return tuple(name for node in self.nodes for name in node.reads if name not in own)

    def renamed(self, names: Mapping[str, str]) -> Body:
        """A copy with other names of the outer graph's values."""
        return replace(self, nodes=tuple(node.renamed(names) for node in self.nodes))


class Graph:
    """The nodes that a function of symbolic arrays writes.

    Args:
        dimensions: the dynamic dimensions by name, with the prime that stands for each in this trace.
    """

    made = "exported"  # what is done with a function, in errors
    exact_integers = False  # whether int64 is summed and compared in all its bits, at more operators
    refuses = False  # whether numbers that are computed from a dynamic size are refused at once
    form: Any = None  # of what the function gives
    asked: Sequence[Comparison] = ()  # of dynamic sizes, by the function itself

    def __init__(self, dimensions: dict[str, int]) -> None:
        self.dimensions = dimensions
        self._primes = list(dimensions.values())  # and those of sizes that the graph computes
        self.unused: Iterator[int] = primes(2003)
        self.level = next(numbers)
        self.above = next(numbers)  # of what is computed from parameters under `enable_grad`
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.weights: dict[str, np.ndarray[Any, Any]] = {}
        self.inputs: list[GraphArray] = []
        self._path: list[str] = []
        self._made: dict[Any, Any] = {}  # outputs of the nodes so far: an equal node is used again
        self._sizes: dict[int, tuple[str, int]] = {}  # where to read a dynamic size: a value and its axis
        # Of a joined size, where parts begin: what is before.
        self._joints: dict[int, dict[int, list[int]]] = {}
        self._chosen: dict[Any, Size] = {}  # sizes that a run computes
        self.factors: set[int] = set()  # by which dynamic sizes are multiplied
        self.moves: set[tuple[int, int, int]] = set()  # n + 1 of the first size as (0, 1, 1)
        self._counts: dict[int, str] = {}  # an array with as many elements, by dynamic numbers of elements
        self._arrays: dict[int, GraphArray] = {}  # weights by the identity of their ndarray
        self._kept: list[Any] = []
        self._count = 0
        self.shapes: dict[str, Shape] = {}  # of all values
        self._expanded: dict[str, GraphArray] = {}  # what was broadcast, by the name of the result
        self._thread = threading.get_ident()
        self.track: list[Any] | None = None  # weak references to all arrays, where it matters who keeps them

    # -- where we are ------------------------------------------------------------------------------------

    @contextmanager
    def running(self, path: str) -> Iterator[None]:
        """Set the module that runs, for names of nodes and errors."""
        self._path.append(path)
        try:
            yield
        finally:
            self._path.pop()

    @contextmanager
    def body(self) -> Iterator[list[Node]]:
        """Collect the nodes of a body: they use what is around them, and nothing around uses them."""
        around = self.nodes, self._made, self._sizes, self._counts, self._expanded, self._chosen
        self.nodes = []
        self._made, self._sizes, self._counts, self._expanded, self._chosen = (dict(x) for x in around[1:])
        try:
            yield self.nodes
        finally:
            self.nodes, self._made, self._sizes, self._counts, self._expanded, self._chosen = around

    @property
    def path(self) -> str:
        """Path of the module that runs."""
        return self._path[-1] if self._path else ""

    def refuse_nan(self, value: GraphArray, name: str) -> None:
        """Called with a loss, a number, which must not be NaN; nothing in the graph of a module."""

    def note_replaced(self, array: np.ndarray[Any, Any]) -> None:
        """Called with an ndarray in whose place a container takes an array of the graph."""

    def fail(self, what: str, error: type[Exception] = NotImplementedError) -> NoReturn:
        """Raise `error`, and say which module it was."""
        self._refuse_threads()
        where = self.path
        raise error(f"cannot be exported: {f'the module {where!r}' if where else 'the module'} {what}.")

    def _refuse_threads(self) -> None:
        if threading.get_ident() != self._thread:
            raise RuntimeError(
                "a module is used while another thread traces it (lite.jit), when its parameters have no "
                "numbers: give this thread a copy of its own (copy.deepcopy), or an ONNX file."
            )

    # -- values ------------------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[int], dtype: DtypeLike) -> GraphArray:
        """A new input."""
        array = GraphArray(self, name, tuple(shape), np.dtype(dtype))
        self.inputs.append(array)
        self._note(array)
        return array

    def weight(self, name: str, value: np.ndarray[Any, Any]) -> GraphArray:
        """A named array of the model; the same object gives the same one again."""
        found = self._arrays.get(id(value))
        if found is None:
            found = GraphArray(self, name, value.shape, value.dtype)
            self.weights[name] = value
            self._arrays[id(value)] = found
            self._kept.append(value)
        return found

    def constant(self, value: object, dtype: DtypeLike = None) -> GraphArray:
        """An array that is part of the graph.

        What has the size of a dynamic dimension holds the same along it, as `np.zeros(x.shape)` does, or it
        is refused: a graph for other sizes cannot be made of it.
        """
        array = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype, copy=False)
        known = self._arrays.get(id(array))
        if known is not None:
            return known
        dynamic = [axis for axis, size in enumerate(array.shape) if self.size(size) is not None]
        if not dynamic:
            return self._stored(array)
        small = array
        for axis in dynamic:
            first = small[(slice(None),) * axis + (slice(0, 1),)]
            if not np.array_equal(
                np.broadcast_to(first, small.shape), small, equal_nan=small.dtype.kind in "fc"
            ):
                self.fail(
                    f"computes with an array of shape {array.shape} made for the size of a dynamic "
                    "dimension, whose numbers differ along it",
                    OneSizeError,
                )
            small = first
        return self.expand(self._stored(small), tuple(self.size(n) or n for n in array.shape))

    def _stored(self, array: np.ndarray[Any, Any]) -> GraphArray:
        if array.dtype.hasobject or array.dtype.kind in "USMm":
            self.fail(f"computes with an array of dtype {array.dtype}")
        key = ("constant", array.dtype, array.shape, array.tobytes())
        name = self._made.get(key)
        if name is None:
            self._count += 1
            name = self._made[key] = f"constant_{self._count}"
            self.constants[name] = np.array(array)
            self.shapes[name] = array.shape
        return GraphArray(self, name, array.shape, array.dtype)

    def operand(self, value: Any, dtype: DtypeLike = None) -> GraphArray:
        """Anything that NumPy computes with as an array of the graph, in a dtype."""
        if isinstance(value, ArrayHolder):
            value = value.data
        if isinstance(value, GraphArray):
            if value.graph is not self:
                self.fail(
                    "computes with an array of another trace, kept from an earlier call: what it writes to "
                    "an object that is not an argument is lost; return it, or make the object an argument"
                )
            return value if dtype is None else self.cast(value, dtype)
        if isinstance(value, HostArray):
            self.fail(
                "puts what grad or vmap computes into an array from outside of it, which would lose that: "
                "make this one from the other, with np.zeros_like(x, shape=...)"
            )
        if isinstance(value, list | tuple) and _holds_symbolic(value):
            items = [self.operand(item) for item in value]
            wanted = np.result_type(*[item.dtype for item in items]) if dtype is None else dtype
            value = self.stack([self.cast(item, wanted) for item in items])
            return value
        if isinstance(value, Size | Quotient):
            return self._number(value, dtype)
        known = self._arrays.get(id(value))
        if known is not None:
            return known if dtype is None else self.cast(known, dtype)
        return self.constant(value, dtype)

    def _number(self, value: Size | Quotient, dtype: DtypeLike) -> GraphArray:
        """A dynamic size, or a number over one, as an array without dimensions."""
        if isinstance(value, Size):
            whole = self._counts.get(int(value))
            if whole is not None:
                size = self.emit("Size", [GraphArray(self, whole, (), INT64)], (), INT64)
            else:
                size = self.squeeze(self.size_array(value), 0)
            return size if dtype is None else self.cast(size, dtype)
        wanted = np.dtype(np.float64 if dtype is None else dtype)
        wide = np.dtype(np.float32) if wanted.itemsize < 4 else wanted  # a size may be beyond float16
        size = self._number(value.size, wide)
        if value.number == 1:  # onnxruntime 1.31 loses products by 1 before it makes x * (1 / n) a division
            return self.cast(self.emit("Reciprocal", [size], (), wide), wanted)
        return self.cast(self.emit("Div", [self.constant(value.number, wide), size], (), wide), wanted)

    def cast(self, x: GraphArray, dtype: DtypeLike) -> GraphArray:
        """`x` in another dtype."""
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        if "c" in (x.dtype.kind, dtype.kind):
            self.fail("computes with complex numbers, for which ONNX has next to no operators")
        return self.emit("Cast", [x], x.shape, dtype, to=dtype)

    # -- nodes -------------------------------------------------------------------------------------------

    def emit(
        self, op: str, inputs: Sequence[GraphArray | None], shape: Sequence[int], dtype: DtypeLike,
        **attributes: Any,
    ) -> GraphArray:  # fmt: skip
        """Add a node of one output."""
        return self.emit_all(op, inputs, [(shape, dtype)], **attributes)[0]

    def emit_all(
        self, op: str, inputs: Sequence[GraphArray | None], outputs: Sequence[tuple[Sequence[int], Any]],
        **attributes: Any,
    ) -> list[GraphArray]:  # fmt: skip
        """Add a node, given shape and dtype of each output, or use an equal one again."""
        if (narrow := WIDENED.get(op, ())) and any(x is not None and x.dtype in narrow for x in inputs):
            if op in ORDERING and inputs[0] is not None and inputs[0].dtype == np.uint64:
                self.fail("orders numbers of uint64, which onnxruntime does not")
            wide = [x if x is None or x.dtype not in narrow else self.cast(x, INT64) for x in inputs]
            held = [(shape, INT64 if dtype in narrow else dtype) for shape, dtype in outputs]
            found = zip(self.emit_all(op, wide, held, **attributes), outputs, strict=True)
            return [self.cast(x, dtype) for x, (_, dtype) in found]
        self._refuse_threads()
        names = tuple(["" if x is None else x.name for x in inputs])
        key = (op, names, len(outputs), repr(sorted(attributes.items())) if attributes else "")
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = tuple(self._name(op) for _ in outputs)
            self.nodes.append(Node(op, names, made, attributes, self.path, line=self.line()))
        return [self._value(name, *one) for name, one in zip(made, outputs, strict=True)]

    def local(self, kind: str, shape: Sequence[int], dtype: DtypeLike) -> GraphArray:
        """A value that no node of the graph gives: an input of a body, or an output of a loop."""
        return self._value(self._name(kind), shape, dtype)

    def _value(self, name: str, shape: Sequence[int], dtype: DtypeLike) -> GraphArray:
        array = GraphArray(self, name, tuple(shape), np.dtype(dtype))
        self._note(array)
        return array

    def line(self) -> str:
        """The line of the caller's code that runs; empty where lines are not noted."""
        return ""

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{self.path}/{kind}_{self._count}" if self.path else f"{kind}_{self._count}"

    # -- dynamic sizes -----------------------------------------------------------------------------------

    def _note(self, array: GraphArray) -> None:
        name, count = array.name, 1
        self.shapes[name] = array.shape
        for axis, size in enumerate(array.shape):
            n = index(size)  # int(size) would ask who asks
            count *= n
            if type(size) is Size:
                self._sizes.setdefault(n, (name, axis))
        if count and Size in map(type, array.shape):
            self._counts.setdefault(count, name)

    def size(self, n: int) -> Size | None:
        """The number as a dynamic size, if it is one: seen before, or a multiple of one."""
        if type(n) is Size:
            return n
        if n in self._sizes:
            return Size(n)
        for prime in self._primes:
            if n and n % prime == 0:
                return Size(n)
        return None

    def note_length(self, n: int) -> None:
        """Called with the size that `len` of an array gives, as a plain int."""

    def dynamic(self, shape: Iterable[int]) -> Shape:
        """A shape that NumPy computed, with dynamic sizes marked."""
        return tuple([index(n) and (n if type(n) is Size else self.size(n) or index(n)) for n in shape])

    def size_array(self, n: int) -> GraphArray:
        """A size as an array (1,) of int64."""
        if self.size(n) is None:
            return self.constant(np.array([int(n)], INT64))
        found = self._sizes.get(int(n))
        if found is not None:
            name, axis = found
            return self.emit(
                "Shape", [GraphArray(self, name, (), INT64)], (1,), INT64, start=axis, end=axis + 1
            )
        rest, factors = int(n), []
        for prime in self._primes:
            while rest and rest % prime == 0:
                rest //= prime
                factors.append(prime)
        if not factors or any(factor not in self._sizes for factor in factors):
            return self._moved_size(int(n))
        self.factors.add(rest)
        out = self.size_array(factors[0])
        for factor in factors[1:]:
            out = self.emit("Mul", [out, self.size_array(factor)], (1,), INT64)
        return out if rest == 1 else self.emit("Mul", [out, self.size_array(rest)], (1,), INT64)

    def _moved_size(self, n: int) -> GraphArray:
        """A few times a dynamic size and a few more or less, which other primes of another trace confirm."""
        found = [move for move in self.moves if n == move[1] * self._primes[move[0]] + move[2]]
        for i, prime in enumerate(self._primes):
            times = (n + prime // 2) // prime
            found.append((i, times, n - times * prime))
        for i, times, rest in found:
            if self._primes[i] in self._sizes and 0 < times < 9 and abs(rest) <= MOVED:
                self.moves.add((i, times, rest))
                out = self.size_array(times * self._primes[i])
                return self.emit("Add", [out, self.ints(rest)], (1,), INT64)
        self.fail(f"computes a size from that of a dynamic dimension in a way that is unknown (to {n})")

    def is_computed(self, n: int) -> bool:
        """Whether only a run of the graph knows a size."""
        return any(int(n) % prime == 0 for prime in self._primes[len(self.dimensions) :])

    def computed_size(self, of: Any) -> Size:
        """The size that only a run of the graph knows: of what chooses elements, or a part of such a size."""
        if of not in self._chosen:
            self._primes.append(next(self.unused))
            comparisons.computed.add(self._primes[-1])
            self._chosen[of] = Size(self._primes[-1])
        return self._chosen[of]

    def nonzero(self, mask: GraphArray) -> tuple[GraphArray, ...]:
        """Along each axis the indices of what is not 0: as many as a run of the graph finds."""
        shape = mask.ndim, self.computed_size(mask.name)
        places = self.emit("NonZero", [self.cast(mask, BOOL)], shape, INT64)
        return tuple([self.gather(places, self.constant(i, INT64), 0) for i in range(mask.ndim)])

    def range(self, count: int) -> GraphArray:
        """The integers from 0 on."""
        if self.size(count) is None:
            return self.constant(np.arange(count, dtype=INT64))
        ends = [self.constant(0, INT64), self.squeeze(self.size_array(count), 0), self.constant(1, INT64)]
        return self.emit("Range", ends, (Size(count),), INT64)

    def shape_array(self, shape: Sequence[int]) -> GraphArray:
        """A shape as an array of int64, read from other values where it is dynamic."""
        if all(self.size(n) is None for n in shape):
            return self.constant(np.array([int(n) for n in shape], INT64))
        parts = [self.size_array(n) for n in shape]
        return parts[0] if len(parts) == 1 else self.emit("Concat", parts, (len(parts),), INT64, axis=0)

    def ints(self, *values: int) -> GraphArray:
        """A constant vector of int64."""
        return self._stored(np.array(values, INT64))

    # -- shapes, which many rules need -------------------------------------------------------------------

    def reshape(self, x: GraphArray, shape: Sequence[int]) -> GraphArray:
        """The elements in another shape."""
        target = self.dynamic(shape)
        if tuple(target) == tuple(x.shape):
            return x
        if math.prod(map(int, target)) != math.prod(map(int, x.shape)):
            raise ValueError(f"cannot reshape array of size {math.prod(x.shape)} into shape {tuple(target)}")
        if 0 in target:
            return self.emit("Reshape", [x, self.shape_array(target)], target, x.dtype, allowzero=1)
        # 0 repeats the size at the same place, and one size may be left to the rest.
        written: list[int | None] = []
        for axis, n in enumerate(target):
            same = axis < x.ndim and type(x.shape[axis]) is Size and x.shape[axis] == n
            written.append(0 if same else None if type(n) is Size else int(n))
        if written.count(None) == 1:
            written[written.index(None)] = -1
        wanted = (
            self.shape_array(target) if None in written else self.ints(*(n for n in written if n is not None))
        )
        return self.emit("Reshape", [x, wanted], target, x.dtype)

    def expand(self, x: GraphArray, shape: Sequence[int]) -> GraphArray:
        """`x` broadcast to a shape."""
        target = self.dynamic(shape)
        if tuple(x.shape) == tuple(target):
            return x
        merged = self.broadcast([x.shape, target])
        if tuple(merged) != tuple(target):
            raise ValueError(f"cannot broadcast shape {tuple(x.shape)} to {tuple(target)}.")
        if 0 in target and all(self.size(n) is None for n in target):  # onnxruntime would leave Expand out
            return self.constant(np.zeros(target, x.dtype))
        out = self.emit("Expand", [x, self.shape_array(target)], target, x.dtype)
        self._expanded[out.name] = x
        return out

    def is_zero(self, x: GraphArray) -> bool:
        """Whether an array is a constant without any other number than 0."""
        array = self.constants.get(self._expanded.get(x.name, x).name)
        return array is not None and not array.any()

    def narrowed(self, arrays: Sequence[GraphArray], shape: Shape) -> Sequence[GraphArray]:
        """Operands that are broadcast anyway, as they were before one of them was broadcast by itself."""
        for i, x in enumerate(arrays):
            small = self._expanded.get(x.name)
            if small is not None:
                others = [small if k == i else y for k, y in enumerate(arrays)]
                if self.broadcast([y.shape for y in others]) == shape:
                    return others
        return arrays

    def broadcast(self, shapes: Sequence[Sequence[int]]) -> Shape:
        """The shape that shapes broadcast to."""
        plain = [tuple(map(index, shape)) for shape in shapes]
        longest = max(plain, key=len, default=())
        if plain and all(not shape or shape == longest for shape in plain):
            return self.dynamic(shapes[plain.index(longest)])
        try:
            return self.dynamic(np.broadcast_shapes(*plain))
        except ValueError:
            if any(type(n) is Size and self.is_computed(n) for shape in shapes for n in shape):
                self.fail(
                    "meets what was chosen (by a mask, or nonzero) with an array of another size, which fits "
                    "in some calls alone: choose from both by one mask"
                )
            raise

    def transpose(self, x: GraphArray, order: Sequence[int]) -> GraphArray:
        """The dimensions in another order."""
        order = [int(axis) for axis in order]
        if order == list(range(x.ndim)):
            return x
        return self.emit("Transpose", [x], [x.shape[axis] for axis in order], x.dtype, perm=order)

    def unsqueeze(self, x: GraphArray, *axes: int) -> GraphArray:
        """New dimensions of size 1 at places in the result."""
        places = sorted(axis % (x.ndim + len(axes)) for axis in axes)
        shape = list(x.shape)
        for axis in places:
            shape.insert(axis, 1)
        return self.emit("Unsqueeze", [x, self.ints(*places)], shape, x.dtype)

    def squeeze(self, x: GraphArray, *axes: int) -> GraphArray:
        """Without some dimensions of size 1."""
        places = sorted(axis % x.ndim for axis in axes)
        shape = [n for axis, n in enumerate(x.shape) if axis not in places]
        return self.emit("Squeeze", [x, self.ints(*places)], shape, x.dtype)

    def slice(self, x: GraphArray, axis: int, start: int, stop: int, step: int, length: int) -> GraphArray:
        """Part of a dimension; `length` is what it has."""
        shape = [*x.shape[:axis], length, *x.shape[axis + 1 :]]
        inputs = [x, self.ints(start), self.ints(stop), self.ints(axis), self.ints(step)]
        return self.emit("Slice", inputs, shape, x.dtype)

    def part(self, x: GraphArray, axis: int, start: int, stop: int) -> GraphArray | None:
        """The part between two positions at which arrays of dynamic sizes were joined; None elsewhere."""
        joints = self._joints.get(int(x.shape[axis]), {})
        if start not in joints or stop not in joints:
            return None
        ends = []
        for place in (start, stop):
            end = self.ints(0)
            for size in joints[place]:
                end = self.emit("Add", [end, self.size_array(size)], (1,), INT64)
            ends.append(end)
        shape = self.dynamic((*x.shape[:axis], stop - start, *x.shape[axis + 1 :]))
        return self.emit("Slice", [x, *ends, self.ints(axis), self.ints(1)], shape, x.dtype)

    def concatenate(self, parts: Sequence[GraphArray], axis: int) -> GraphArray:
        """Arrays of one dtype, one after the other."""
        if len(parts) == 1:
            return parts[0]
        axis %= parts[0].ndim
        total: int = sum((x.shape[axis] for x in parts), 0)
        shape = list(parts[0].shape)
        for x in parts[1:]:
            if (*x.shape[:axis], *x.shape[axis + 1 :]) != (*shape[:axis], *shape[axis + 1 :]):
                raise ValueError(
                    "all sizes but along the axis of concatenation must match exactly, got "
                    f"{tuple(map(int, parts[0].shape))} and {tuple(map(int, x.shape))}"
                )
        shape[axis] = total
        if type(total) is Size:
            joints = self._joints.setdefault(int(total), {})
            for i in range(len(parts) + 1):
                sizes = [x.shape[axis] for x in parts[:i]]
                joints.setdefault(int(sum(sizes)), sizes)
        return self.emit("Concat", parts, shape, parts[0].dtype, axis=axis)

    def stack(self, parts: Sequence[GraphArray], axis: int = 0) -> GraphArray:
        """Arrays of one dtype and shape along a new dimension."""
        ndim = parts[0].ndim + 1
        return self.concatenate([self.unsqueeze(x, axis % ndim) for x in parts], axis % ndim)

    def pad(self, x: GraphArray, widths: Sequence[Sequence[int]], mode: str, value: object = 0) -> GraphArray:
        """`x` with (before, after) more in each dimension."""
        if not any(map(any, widths)):
            return x
        shape = [b + n + a for (b, a), n in zip(widths, x.shape, strict=True)]
        ends = self.ints(*(b for b, _ in widths), *(a for _, a in widths))
        filler = self.constant(np.array(value, x.dtype)) if mode == "constant" and value else None
        return self.emit("Pad", [x, ends] if filler is None else [x, ends, filler], shape, x.dtype, mode=mode)

    def gather(self, x: GraphArray, indices: GraphArray, axis: int = 0) -> GraphArray:
        """Elements along an axis by their numbers; negative ones count from the end."""
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        return self.emit("Gather", [x, indices], shape, x.dtype, axis=axis)


def graph_of(arguments: Any) -> Graph:
    """The graph of a call with symbolic arrays among nested lists, tuples and dicts of arguments."""
    return innermost(arguments).graph


def view_of(base: GraphArray, value: GraphArray, index: Any = None) -> GraphArray:
    """The value as a view of the memory of another array, at an index if one is given."""
    return GraphArray(value.graph, value.name, value.shape, value.dtype, base, index)


def _holds_symbolic(items: Any) -> bool:
    return any(
        isinstance(item, GraphArray) or (isinstance(item, list | tuple) and _holds_symbolic(item))
        for item in items
    )
