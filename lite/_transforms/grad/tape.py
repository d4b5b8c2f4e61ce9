"""What traced arrays note while they are computed, and the walk back.

A rule computes a value and says for each argument what share of the derivative it gets::

    @rule(np.negative)
    def negative(x):
        return record(np.negative(value_of(x)), (x, lambda g: -g))

A pullback gets the derivative of what is differentiated by the result, and gives that by the argument, in the
argument's shape. It calls functions that NumPy dispatches and never writes into what it got.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any

import numpy as np

from lite._arrays.dtypes import is_floating
from lite._arrays.types import ArrayHolder, Shape
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.mode import leaf, pauses, recording

Pullback = Callable[[Any], Any]
Link = tuple[Any, Pullback]

_next = itertools.count(1).__next__
_FLOATS = frozenset(map(np.dtype, (np.float16, np.float32, np.float64, np.longdouble)))


class Node:
    """One computation: what it started from, and how a derivative goes back there.

    Attributes:
        number: higher than those of the nodes it was computed from.
        links: of what it was computed from, (node, pullback) each; nodes only, if `joint` is there; None
            once released, and none where a derivative ends.
        joint: one pullback for all, which gives a tuple.
        shape: of the value.
        dtype: of the value.
        holder: whose `grad` gets the derivative that ends here.
    """

    __slots__ = ("__weakref__", "dtype", "holder", "joint", "links", "number", "shape")

    def __init__(self, links: Any, joint: Any, value: Any) -> None:
        self.number = _next()
        self.links = links
        self.joint = joint
        self.shape = value.shape
        self.dtype = value.dtype
        self.holder: Any = None


def value_of(x: Any) -> Any:
    """What a traced array or a parameter holds; all else as it is, also an array of an outer `vmap`."""
    if type(x) is TracedArray:
        return x.value
    return x.data if isinstance(x, ArrayHolder) else x


def values_of(x: Any) -> Any:
    """`value_of` of all that is in nested lists, tuples and dicts."""
    kind = type(x)
    if kind is TracedArray:
        return x.value
    if kind is tuple or kind is list:
        return kind([values_of(item) for item in x])
    if kind is dict:
        return {key: values_of(item) for key, item in x.items()}
    return x.data if isinstance(x, ArrayHolder) else x


def is_traced(x: Any) -> bool:
    """Whether a derivative goes back to an argument, or into a nested list, tuple or dict."""
    kind = type(x)
    if kind is TracedArray:
        return True
    if kind is tuple or kind is list:
        return any(map(is_traced, x))
    return kind is dict and any(map(is_traced, x.values()))


def record(value: Any, *links: Link) -> Any:
    """A result with its derivative: a traced array, or the plain value if no argument is traced.

    Args:
        value: the result, of floats; integers and bools have no derivative and are returned as they are.
        links: (argument, pullback) each; arguments that are not traced are left out.

    Raises:
        RuntimeError: arguments belong to different calls of `grad`.
    """
    kept = []
    level = None
    for x, pullback in links:
        if type(x) is not TracedArray:
            if not isinstance(x, ArrayHolder):
                continue
            x = leaf(x)
            if type(x) is not TracedArray:
                continue
        if level is None:
            level = x.level
        elif level != x.level:
            raise mixed()
        kept.append((x.node, pullback))
    if level is None:
        return value
    return _traced(value, kept, None, level)


def record_joint(value: Any, parents: Iterable[Any], pullback: Callable[[Any], Iterable[Any]]) -> Any:
    """`record` with one pullback for all arguments, which gives a share for each of them.

    Args:
        value: the result, of floats.
        parents: the arguments; of those that are not traced the share is not used and may be None.
        pullback: from the derivative by the result to a tuple of those by the arguments.
    """
    nodes: list[Any] = []
    level = None
    for x in parents:
        if isinstance(x, ArrayHolder):
            x = leaf(x)
        if type(x) is not TracedArray:
            nodes.append(None)
            continue
        if level is None:
            level = x.level
        elif level != x.level:
            raise mixed()
        nodes.append(x.node)
    if level is None:
        return value
    return _traced(value, nodes, pullback, level)


def _traced(value: Any, links: Any, joint: Any, level: int) -> Any:
    dtype = value.dtype
    if dtype not in _FLOATS and not is_floating(dtype):
        if dtype.kind == "c":
            raise TypeError("there are no derivatives of complex numbers here; use real and imaginary parts.")
        return value
    if pauses[0] and not recording():
        return value
    return TracedArray(value, Node(links, joint, value), level)


def constant(value: Any, level: int) -> TracedArray:
    """A traced array that depends on nothing yet, to be written into."""
    return TracedArray(value, Node((), None, value), level)


def level_of(*items: Any) -> int:
    """The number of the transformation that the traced arrays among the arguments belong to."""
    for x in items:
        if type(x) is TracedArray:
            return x.level
        if type(x) in (tuple, list) and is_traced(x):
            return level_of(*x)
    raise TypeError("none of the arguments is traced.")


def mixed() -> RuntimeError:
    """The error of a computation with arrays of different calls of `grad`."""
    return RuntimeError(
        "arrays of different gradients meet in one computation: a gradient of a gradient is not supported, and "
        "an array that a differentiated function left behind must be detached (x.detach()) before it is used "
        "in another one."
    )


def unbroadcast(g: Any, shape: Shape) -> Any:
    """A derivative summed over the dimensions along which an argument of this shape was repeated."""
    own = g.shape
    if own == shape:
        return g
    if g.dtype.itemsize < 4:  # sums of many small numbers
        g = g.astype(np.float32)
    extra = len(own) - len(shape)
    axes = tuple(range(extra)) + tuple(
        [i + extra for i, size in enumerate(shape) if size == 1 and own[i + extra] != 1]
    )
    if axes:
        g = np.add.reduce(g, axis=axes, keepdims=not extra)
    return g if g.shape == shape else g.reshape(shape)


def walk(ends: Iterable[tuple[Node, Any]], release: bool = True) -> dict[Any, Any]:
    """Derivatives by all nodes that nothing lies behind, from those by the results.

    Args:
        ends: nodes of results with the derivatives by them.
        release: whether nodes give up what they keep, so that memory is freed on the way.

    Raises:
        RuntimeError: a node was released before, or a rule gives a share of another shape.
    """
    shares: dict[Any, Any] = {}
    pending: list[tuple[int, Node]] = []
    own: set[Any] = set()  # nodes whose share is nobody else's, to be added to in place
    for node, g in ends:
        _add(shares, pending, own, node, g, "the derivative given")
    while pending:
        node = heappop(pending)[1]
        links = node.links
        if links is None:
            raise RuntimeError(
                "the way back was released by an earlier backward: call it with retain_graph=True before."
            )
        if not links:
            continue
        g = shares.pop(node)
        if g.dtype != node.dtype:
            g = g.astype(node.dtype)
        joint = node.joint
        if joint is not None:
            results = joint(g)
            for parent, share in zip(links, results, strict=True):
                if parent is not None and share is not None:
                    _add(shares, pending, own, parent, share, joint)
        else:
            for parent, pullback in links:
                share = pullback(g)
                if share is not None:
                    _add(shares, pending, own, parent, share, pullback)
        if release:
            node.links = node.joint = None
    for node in shares:
        g = shares[node]
        if g.dtype != node.dtype:
            shares[node] = g.astype(node.dtype)
    return shares


def _add(
    shares: dict[Any, Any], pending: list[Any], own: set[Any], node: Node, share: Any, pullback: Any
) -> None:
    if share.shape != node.shape:
        raise RuntimeError(
            f"the derivative of {_name(pullback)} has the shape {tuple(share.shape)}, but what it belongs to "
            f"has {tuple(node.shape)}."
        )
    old = shares.get(node)
    if old is None:
        shares[node] = share
        heappush(pending, (-node.number, node))
        return
    if node.dtype.itemsize < 4:
        old, share = (x if x.dtype.itemsize > 2 else x.astype(np.float32) for x in (old, share))
    if node in own and type(old) is np.ndarray and type(share) is np.ndarray and old.dtype == share.dtype:
        old += share
    else:
        shares[node] = old + share
        own.add(node)


def _name(pullback: Any) -> str:
    """Where a pullback was made, for messages."""
    if isinstance(pullback, str):
        return pullback
    return str(getattr(pullback, "__qualname__", pullback)).partition(".<locals>")[0]
