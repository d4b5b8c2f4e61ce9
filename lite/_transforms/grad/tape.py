"""The nodes of traced arrays, and backpropagation through them.

A rule computes a value and gives a vjp (vector-Jacobian product) for each argument::

    @GRAD.rule(np.negative)
    def negative(x):
        return with_node(np.negative(value_of(x)), (x, lambda g: -g))

A vjp maps the derivative by the result to the derivative by the argument, in the argument's shape. It calls
functions that NumPy dispatches, because an outer `vmap` or gradient may pass its own arrays, and never writes
to its input. A value that shares memory with its only argument is a view of it: writes to one change both
(`views.py`).

Arguments and losses are real; what lies between may be complex, for the functions in `ufuncs.COMPLEX`. As
in JAX, the derivative by z = x + iy is the one by x minus i times the one by y, so that rules of functions
that are differentiable by z are those of real numbers, and a real number takes the real part of its share.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from lite._arrays.dtypes import is_floating
from lite._arrays.types import Array, ArrayHolder, Function, HostArray, Shape, is_symbolic
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.running import complexes, pauses, state
from lite._transforms.grad.running import leaf as computing
from lite._transforms.grad.views import note_view
from lite._transforms.levels import innermost

Vjp = Callable[[Any], Any]
Parent = tuple[Any, Vjp]

OUTERMOST = -1  # level of what is computed from parameters: every map inside is an inner transformation
next_number = itertools.count(1).__next__
_COLUMNS = 32  # from which on a graph sums the rows of a matrix by a product
_FLOATS = frozenset(map(np.dtype, (np.float16, np.float32, np.float64, np.longdouble)))


class Node:
    """One computation in the graph of a derivative.

    Attributes:
        number: higher than those of the nodes it was computed from.
        parents: (node, vjp) of each traced argument. Empty for a leaf, and where `vjp` serves all arguments;
            None once released.
        vjp: one function for all arguments, which gives pairs (node, derivative); None where each parent has
            its own.
        shape: shape of the value.
        dtype: dtype of the value.
        holder: the parameter that the node stands for, or None.
    """

    __slots__ = ("__weakref__", "dtype", "holder", "number", "parents", "shape", "vjp")

    def __init__(self, parents: Any, vjp: Any, value: Array, holder: Any = None) -> None:
        self.number = next_number()
        self.parents = parents
        self.vjp = vjp
        self.shape = value.shape
        self.dtype = value.dtype
        self.holder = holder


def value_of(x: Any) -> Any:
    """The value of a traced array or parameter; anything else is returned as it is."""
    if type(x) is TracedArray:
        return x.value
    return x.data if isinstance(x, ArrayHolder) else x


def values_of(x: Any) -> Any:
    """`value_of` for each item of nested lists, tuples and dicts."""
    kind = type(x)
    if kind is TracedArray:
        return x.value
    if kind is tuple or kind is list:
        return kind([values_of(item) for item in x])
    if kind is dict:
        return {key: values_of(item) for key, item in x.items()}
    return x.data if isinstance(x, ArrayHolder) else x


def holds_traced(x: Any) -> bool:
    """Whether there is a traced array in nested lists, tuples and dicts."""
    kind = type(x)
    if kind is TracedArray:
        return True
    if kind is tuple or kind is list:
        return any(map(holds_traced, x))
    return kind is dict and any(map(holds_traced, x.values()))


def is_traced(*arrays: Any) -> bool:
    """Whether there are traced arrays of one gradient, which is the innermost transformation among them."""
    level = None
    others = False
    for x in arrays:
        if type(x) is TracedArray:
            if level is not None and x.level != level:
                return False
            level = x.level
        elif type(x) is not np.ndarray and isinstance(x, HostArray):
            others = True
    return level is not None and (not others or type(innermost(arrays)) is TracedArray)


def lifted(items: Any, level: int) -> Any:
    """Arrays of outer gradients in nested lists, tuples and dicts as constants of an inner one.

    Args:
        items: the arguments of a rule.
        level: level of the inner gradient.

    Raises:
        RuntimeError: an array was left behind by a gradient that has ended, or belongs to a later one.
    """
    kind = type(items)
    if kind is tuple or kind is list:
        return kind([lifted(x, level) for x in items])
    if kind is dict:
        return {key: lifted(x, level) for key, x in items.items()}
    if isinstance(items, ArrayHolder):
        return lifted(computing(items), level)
    if kind is not TracedArray or items.level == level:
        return items
    if items.level > level:
        raise mixed()
    return TracedArray(outer_value(items), None, level)


def outer_value(x: TracedArray) -> Any:
    """The constant that an inner gradient sees for an array of an outer one: the array, or its value.

    Raises:
        RuntimeError: it was left behind by a gradient that has ended.
    """
    if x.level not in state.levels and state.leaf is state.base:
        raise mixed()
    value: Any = x
    while type(value) is TracedArray and (state.paused or value.level < state.floor):
        value = value.value
    return value


def with_node(value: Any, *parents: Parent) -> Any:
    """A result with its derivative: a traced array, or the plain value if no argument is traced.

    Args:
        value: the result; returned as it is if it is of integers or bools, which have no derivative.
        parents: pairs (argument, vjp); arguments that are not traced are left out.

    Raises:
        RuntimeError: arguments belong to different calls of `grad`.
        ComplexResult: see `has_derivative`.
    """
    kept = []
    source = None
    for x, vjp in parents:
        if type(x) is not TracedArray:
            if not isinstance(x, ArrayHolder):
                continue
            x = computing(x)
            if type(x) is not TracedArray:
                continue
        if source is None:
            source = x
        elif source.level != x.level:
            raise mixed()
        node = x.node
        if node is not None:
            kept.append((node, vjp))
    if source is None:
        return value
    out = traced_result(value, kept, source.level)
    if len(parents) == 1 and type(out) is TracedArray:
        note_view(out, source)
    return out


def traced_result(value: Any, parents: list[tuple[Node, Vjp]], level: Any) -> Any:
    """A traced array with its parents; the plain value if nothing is recorded for it."""
    if (pauses[0] or value.dtype not in _FLOATS) and not has_derivative(value, parents):
        return value
    if type(value) is not np.ndarray and isinstance(value, HostArray) and value.level > level:
        raise _inside_out()
    return TracedArray(value, Node(parents, None, value) if parents else None, level)


def with_vjp(value: Any, parents: Iterable[Any], vjp: Callable[[Any], Iterable[Any]]) -> Any:
    """`with_node` with one vjp for all arguments.

    Args:
        value: the result; see `with_node`.
        parents: the arguments.
        vjp: maps the derivative by the result to a tuple of those by the arguments; the entry of an argument
            that is not traced is ignored and may be None.
    """
    nodes: list[Any] = []
    source = None
    for x in parents:
        if isinstance(x, ArrayHolder):
            x = computing(x)
        if type(x) is not TracedArray:
            nodes.append(None)
            continue
        if source is None:
            source = x
        elif source.level != x.level:
            raise mixed()
        nodes.append(x.node)
    if source is None or not has_derivative(value):
        return value
    if value.dtype.kind == "c":
        raise ComplexResult
    if isinstance(value, HostArray) and value.level > source.level:
        raise _inside_out()
    if not any(node is not None for node in nodes):
        return TracedArray(value, None, source.level)
    return TracedArray(value, Node((), _SharedVjp(nodes, vjp), value), source.level)


def _inside_out() -> RuntimeError:
    return RuntimeError(
        "a rule of gradients got an array of a vmap that runs inside of the gradient, whose rules come "
        "first: ask tape.is_traced before."
    )


class _SharedVjp:
    """One vjp for several nodes; None stands for an argument that is not traced."""

    __slots__ = ("nodes", "vjp")

    def __init__(self, nodes: list[Any], vjp: Callable[[Any], Iterable[Any]]) -> None:
        self.nodes = nodes
        self.vjp = vjp

    def __call__(self, g: Array) -> Iterable[tuple[Any, Any]]:
        return zip(self.nodes, self.vjp(g), strict=True)


def with_vjp_of_all(
    values: Sequence[Any], parents: Iterable[Any], vjp: Callable[[tuple[Any, ...]], Iterable[Any]]
) -> list[Any]:
    """`with_vjp` for several results.

    All results have one hidden node as parent, which the walk reaches once all their derivatives are known.

    Args:
        values: the results.
        parents: the arguments.
        vjp: maps the derivatives by the results, None for an unused one, to a tuple of those by the
            arguments.
    """
    found: list[Any] = [None] * len(values)

    def back(nothing: Any) -> Iterable[Any]:
        given = tuple(found)
        found[:] = [None] * len(values)
        return vjp(given)

    behind = with_vjp(np.zeros((), np.float32), parents, back)
    if type(behind) is not TracedArray:
        return list(values)

    def keeping(i: int) -> Callable[[Any], Any]:
        def keep(g: Array) -> Array:
            found[i] = g
            return np.zeros((), np.float32)

        return keep

    return [with_node(value, (behind, keeping(i))) for i, value in enumerate(values)]


class ComplexResult(TypeError):
    """Raised if a rule returns complex numbers for real ones, and may hold for real numbers only."""

    def __str__(self) -> str:
        return "its rule is not for complex numbers: use real and imaginary parts"


def has_derivative(value: Any, parents: Sequence[tuple[Node, Vjp]] = ()) -> bool:
    """Whether a result is recorded: it holds floats, and `no_grad` is not active.

    Raises:
        ComplexResult: it is complex, its parents are real, and the rule does not declare that.
    """
    dtype = value.dtype
    if dtype not in _FLOATS and not is_floating(dtype):
        if dtype.kind != "c":
            return False
        if parents and not state.for_complex and all(node.dtype.kind != "c" for node, _ in parents):
            raise ComplexResult
        complexes[0] = True
    return not pauses[0] or not state.paused


def constant(value: Array, *like: Any) -> Any:
    """A traced array without parents, which traced arrays may be written into.

    Args:
        value: a new array without other references; returned as it is if no argument is traced.
        like: arguments of the function, whose traced arrays give the level.
    """
    level = level_of(like)
    return value if level is None or not has_derivative(value) else TracedArray(value, None, level)


def level_of(items: Iterable[Any]) -> int | None:
    """The number of the transformation that traced arrays in nested lists, tuples and dicts belong to."""
    for x in items:
        kind = type(x)
        if kind is TracedArray:
            return int(x.level)
        if kind is tuple or kind is list or kind is dict:
            found = level_of(x.values() if kind is dict else x)
            if found is not None:
                return found
    return None


def leaf(parameter: Any) -> Any:
    """The traced array of a parameter under `enable_grad`; its value if it requires no gradient."""
    value = parameter.data if state.base is None else state.base(parameter)
    if not getattr(parameter, "requires_grad", False):
        return value
    if isinstance(value, np.ndarray):
        return TracedArray(value, Node((), None, value, parameter), OUTERMOST)
    if is_symbolic(value):
        return TracedArray(value, Node((), None, value, parameter), value.graph.above)
    return value


def mixed() -> RuntimeError:
    """The error of a computation with arrays of different calls of `grad`."""
    return RuntimeError(
        "arrays of different gradients meet in one computation: an array that a differentiated function "
        "left behind must be detached (x.detach()) before it is used in another one, and what an inner "
        "gradient computes cannot be written into an array of an outer one."
    )


def unbroadcast(g: Array, shape: Shape) -> Array:
    """A derivative summed over the dimensions along which an argument of this shape was broadcast."""
    own = g.shape
    if own == shape:
        return g
    if g.dtype.itemsize < 4:  # whose sums would lose digits
        g = g.astype(np.float32)
    extra = len(own) - len(shape)
    if extra < 0:  # assignment drops leading dimensions of size 1
        return unbroadcast(g, shape[-extra:]).reshape(shape)
    axes = (*range(extra), *[i + extra for i, size in enumerate(shape) if size == 1 and own[i + extra] != 1])
    if axes == (0,) and len(own) == 2 and is_symbolic(g) and type(own[1]) is int and own[1] >= _COLUMNS:
        # onnxruntime sums each column of its own: 41 microseconds for 256 x 256, and 4 for the product.
        g = np.matmul(np.ones(own[0], g.dtype), g)
    elif axes:
        g = np.add.reduce(g, axis=axes)
    return g if g.shape == shape else g.reshape(shape)


def walk(ends: Iterable[tuple[Node, Any]], release: bool = True, since: int = 0) -> dict[Any, Any]:
    """Backpropagate: from derivatives by the results to those by the leaves.

    Args:
        ends: nodes of results, each with the derivative by it.
        release: whether nodes drop their parents after use, which frees memory during the walk.
        since: nodes with lower numbers are leaves.

    Returns:
        The derivatives: keys are parameters, and nodes of leaves that are not parameters.

    Raises:
        RuntimeError: a node was released before, or a rule gives a derivative of another shape.
    """
    with np.errstate(all="ignore"):  # np.where may have discarded the values that warn here
        return _Walk(since).back(ends, release)


class Part:
    """A derivative that is 0 except at an index, which a vjp may return in place of an array.

    Args:
        g: the derivative at the index, a plain array or number.
        index: the index.
        shape: shape of the whole derivative.
        once: whether the index reads no element twice.
    """

    __slots__ = ("g", "index", "once", "shape")

    def __init__(self, g: Array, index: Any, shape: Shape, once: bool) -> None:
        self.g = g
        self.index = index
        self.shape = shape
        self.once = once

    def add_to(self, out: Any) -> None:
        """Add it to an array."""
        if self.once:
            out[self.index] += self.g
        else:
            np.add.at(out, self.index, self.g)


class _Walk:
    """Derivatives so far: keys are nodes, and holders of leaves."""

    __slots__ = ("dtypes", "own", "pending", "shares", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.shares: dict[Any, Any] = {}
        self.dtypes: dict[Any, Any] = {}  # of leaves
        self.pending: list[tuple[int, Node]] = []
        self.own: set[Any] = set()  # keys whose sum was allocated here, so it may be added to in place

    def back(self, ends: Iterable[tuple[Node, Any]], release: bool) -> dict[Any, Any]:
        pending, shares = self.pending, self.shares
        for node, g in ends:
            if node.dtype.kind == "c":
                raise TypeError(
                    "what is differentiated must be real numbers, such as np.abs(x), got complex ones."
                )
            self.add(node, g, "the derivative by the result")
        while pending:
            node = heappop(pending)[1]
            parents = node.parents
            if parents is None:
                raise RuntimeError(
                    "what this derivative needs was released by an earlier backward(); say retain_graph=True "
                    "there to go back twice."
                )
            g = shares.pop(node)
            if g.dtype != node.dtype:
                g = g.astype(node.dtype)
            vjp = node.vjp
            if vjp is None:
                for parent, vjp in parents:
                    share = vjp(g)
                    if share is not None:
                        self.add(parent, share, vjp)
            else:
                for parent, share in vjp(g):
                    if parent is not None and share is not None:
                        self.add(parent, share, vjp)
            if release:
                node.parents = node.vjp = None
        for key, dtype in self.dtypes.items():
            if shares[key].dtype != dtype:
                shares[key] = shares[key].astype(dtype)
        return shares

    def add(self, node: Node, share: Any, vjp: Function | str) -> None:
        """Add to the derivative by a node."""
        if share.shape != node.shape:
            raise RuntimeError(
                f"{_name(vjp)} has the shape {tuple(share.shape)}, but belongs to an array of shape "
                f"{tuple(node.shape)}."
            )
        if complexes[0] and type(share) is not Part and share.dtype.kind == "c" != node.dtype.kind:
            share = np.real(share)
        key: Any = node if node.holder is None else node.holder
        old = self.shares.get(key)
        if type(share) is Part:
            share = self._with_part(key, node, share)
            if share is None:
                return
        if old is None:
            self.shares[key] = share
            if node.number < self.since or (node.parents == () and node.vjp is None):
                self.dtypes[key] = node.dtype
            else:
                heappush(self.pending, (-node.number, node))
            return
        if node.dtype.itemsize < 4:  # whose sums would lose digits
            old, share = old.astype(np.float32), share.astype(np.float32)
        if key in self.own and type(old) is type(share) is np.ndarray and old.dtype == share.dtype:
            old += share
            self.shares[key] = old
            return
        self.shares[key] = old + share
        self.own.add(key)

    def _with_part(self, key: Any, node: Node, part: Part) -> Array | None:
        """Add a part to the sum; the first one is returned as an array."""
        old = self.shares.get(key)
        wide = np.dtype(np.float32) if node.dtype.itemsize < 4 else node.dtype
        if isinstance(old, HostArray):
            out = np.zeros(node.shape, wide)
            part.add_to(out)
            self.shares[key] = old + out
            return None
        if key in self.own and isinstance(old, np.ndarray):
            part.add_to(old)
            return None
        out = np.zeros(node.shape, wide) if old is None else np.array(old, wide)
        part.add_to(out)
        self.own.add(key)
        if old is None:
            return out
        self.shares[key] = out
        return None


def _name(vjp: Function | str) -> str:
    if isinstance(vjp, str):
        return vjp
    vjp = vjp.vjp if isinstance(vjp, _SharedVjp) else vjp
    name = str(getattr(vjp, "__qualname__", vjp)).partition(".<locals>")[0]
    return f"the derivative that the rule of {name} gives"
