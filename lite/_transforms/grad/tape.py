"""The nodes behind traced arrays, and the walk back.

A rule computes a value and gives a pullback for each argument::

    @GRAD.rule(np.negative)
    def negative(x):
        return with_node(np.negative(value_of(x)), (x, lambda g: -g))

A pullback gets the derivative of what is differentiated by the result, and gives that by the argument, in the
argument's shape. It calls functions that NumPy dispatches, as there may be arrays of an outer `vmap` among
its numbers, and never writes into what it got. A value that shares the memory of the one argument is a view
of it, which writes to either side take into account (`views.py`).
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
from lite._transforms.grad.running import leaf as computing
from lite._transforms.grad.running import pauses, state
from lite._transforms.grad.views import remember
from lite._transforms.levels import innermost

Pullback = Callable[[Any], Any]
Parent = tuple[Any, Pullback]

OUTERMOST = -1  # level of what is computed from parameters: every map inside is an inner transformation
next_number = itertools.count(1).__next__
_FLOATS = frozenset(map(np.dtype, (np.float16, np.float32, np.float64, np.longdouble)))


class Node:
    """One computation: what it started from, and how a derivative goes back there.

    Attributes:
        number: higher than those of the nodes it was computed from.
        parents: (node, pullback) for each thing it was computed from. Empty where a derivative ends, unless
            there is `vjp`; None once released.
        vjp: gives all shares at once, (node, share) each; None where each parent has a pullback.
        shape: of the value.
        dtype: of the value.
        holder: the parameter that computes as this, where that is so.
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
    """What a traced array or a parameter holds; all else as it is, also an array of an outer `vmap`."""
    if type(x) is TracedArray:
        return x.value
    return x.data if isinstance(x, ArrayHolder) else x


def values_of(x: Any) -> Any:
    """`value_of` of all that is in nested lists, tuples, dicts and slices."""
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
    """Whether there is a traced array, and no array of a `vmap` inside, whose own rules would come first."""
    found = False
    for x in arrays:
        if type(x) is TracedArray:
            found = True
        elif type(x) is not np.ndarray and isinstance(x, HostArray):
            return type(innermost(arrays)) is TracedArray
    return found


def with_node(value: Any, *parents: Parent) -> Any:
    """A result with its derivative: a traced array, or the plain value if no argument is traced.

    Args:
        value: the result; returned as it is if it is of integers or bools, which have no derivative.
        parents: (argument, pullback) each; arguments that are not traced are left out.

    Raises:
        RuntimeError: arguments belong to different calls of `grad`.
        TypeError: the result is complex.
    """
    kept = []
    source = None
    for x, pullback in parents:
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
            kept.append((node, pullback))
    if source is None:
        return value
    out = noted(value, kept, source.level)
    if len(parents) == 1 and type(out) is TracedArray:
        remember(out, source)
    return out


def noted(value: Any, parents: list[tuple[Node, Pullback]], level: Any) -> Any:
    """A result with its parents, unless nothing is noted of it."""
    if (pauses[0] or value.dtype not in _FLOATS) and not has_derivative(value):
        return value
    if type(value) is not np.ndarray and isinstance(value, HostArray) and value.level > level:
        raise _inside_out()
    return TracedArray(value, Node(parents, None, value) if parents else None, level)


def with_vjp(value: Any, parents: Iterable[Any], vjp: Callable[[Any], Iterable[Any]]) -> Any:
    """`with_node` with one vjp for all arguments, which gives a share for each of them.

    Args:
        value: the result; see `with_node`.
        parents: the arguments; of those that are not traced the share is not used and may be None.
        vjp: from the derivative by the result to a tuple of those by the arguments.
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
    """One vjp for several nodes; None stands for what takes no part."""

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

    All results have one hidden node as parent, so the walk reaches it when the derivatives by all of them are
    known.

    Args:
        values: the results.
        parents: the arguments.
        vjp: from the derivatives by the results, None for those that nothing depends on, to a tuple of
            those by the arguments.
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


def has_derivative(value: Any) -> bool:
    """Whether a result is noted: one of floats, unless under `no_grad`."""
    dtype = value.dtype
    if dtype not in _FLOATS and not is_floating(dtype):
        if dtype.kind == "c":
            raise TypeError("there are no derivatives of complex numbers here; use real and imaginary parts.")
        return False
    return not pauses[0] or not state.paused


def constant(value: Array, *like: Any) -> Any:
    """An array that depends on nothing, but on what traced arrays write into it; plain if none is traced.

    Args:
        value: a new array, to which there is no other reference.
        like: arguments, among them the traced arrays that it is to take part with.
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
    """What a parameter computes as under `enable_grad`: a traced array, unless it requires no gradient."""
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
        "arrays of different gradients meet in one computation: a gradient of a gradient is not supported, "
        "and an array that a differentiated function left behind must be detached (x.detach()) before it is "
        "used in another one."
    )


def unbroadcast(g: Array, shape: Shape) -> Array:
    """A derivative summed over the dimensions along which an argument of this shape was repeated."""
    own = g.shape
    if own == shape:
        return g
    if g.dtype.itemsize < 4:  # whose sums would lose digits
        g = g.astype(np.float32)
    extra = len(own) - len(shape)
    if extra < 0:  # dimensions of size 1 in front, which assignment takes off
        return unbroadcast(g, shape[-extra:]).reshape(shape)
    axes = (*range(extra), *[i + extra for i, size in enumerate(shape) if size == 1 and own[i + extra] != 1])
    if axes:
        g = np.add.reduce(g, axis=axes)
    return g if g.shape == shape else g.reshape(shape)


def walk(ends: Iterable[tuple[Node, Any]], release: bool = True, since: int = 0) -> dict[Any, Any]:
    """Derivatives by all that nothing lies behind, from those by the results.

    Args:
        ends: nodes of results, with the derivatives by them.
        release: whether nodes give up what they keep, so that memory is freed on the way.
        since: nodes of lower numbers are where the walk ends.

    Returns:
        The derivatives, of each parameter by itself, of what else was traced by its node.

    Raises:
        RuntimeError: a node was released before, or a rule gives a share of another shape.
    """
    with np.errstate(all="ignore"):  # a formula may have ruled out what a derivative meets
        return _Walk(since).back(ends, release)


class Part:
    """A derivative that is 0 but at an index: what a pullback may give in place of an array.

    Args:
        g: the derivative there, a plain array or number.
        index: the index.
        shape: of the whole.
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
    """Derivatives that are known so far, by node, and by holder where they end."""

    __slots__ = ("dtypes", "own", "pending", "shares", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.shares: dict[Any, Any] = {}
        self.dtypes: dict[Any, Any] = {}  # of what the walk ends at
        self.pending: list[tuple[int, Node]] = []
        self.own: set[Any] = set()  # nodes whose sum is in memory of its own, so that more is added in place

    def back(self, ends: Iterable[tuple[Node, Any]], release: bool) -> dict[Any, Any]:
        pending, shares = self.pending, self.shares
        for node, g in ends:
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
                for parent, pullback in parents:
                    share = pullback(g)
                    if share is not None:
                        self.add(parent, share, pullback)
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

    def add(self, node: Node, share: Any, pullback: Function | str) -> None:
        """Add to the derivative by a node."""
        if share.shape != node.shape:
            raise RuntimeError(
                f"{_name(pullback)} has the shape {tuple(share.shape)}, but belongs to an array of shape "
                f"{tuple(node.shape)}."
            )
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
        """Add a part to what is known; the first one as an array, which is returned."""
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


def _name(pullback: Function | str) -> str:
    if isinstance(pullback, str):
        return pullback
    pullback = pullback.vjp if isinstance(pullback, _SharedVjp) else pullback
    name = str(getattr(pullback, "__qualname__", pullback)).partition(".<locals>")[0]
    return f"the derivative that the rule of {name} gives"
