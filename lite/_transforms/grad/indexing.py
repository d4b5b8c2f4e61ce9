"""Reading and writing traced arrays by index. A write gives the array a new value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.types import Array, HostArray, Shape
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.running import nestings, state
from lite._transforms.grad.tape import (
    Part,
    holds_traced,
    lifted,
    mixed,
    unbroadcast,
    value_of,
    values_of,
    with_node,
)
from lite._transforms.grad.views import View, forget, is_symbolic, laid_out_as, path_of, seen_in, settle
from lite._transforms.levels import count, innermost


def get_index(x: TracedArray, index: Any) -> Array:
    """`x[index]`."""
    if type(index) is not int and type(index) is not slice:
        index = values_of(index)
        inner = innermost((index,))
        if inner is not None and inner.level > x.level:
            return inner.pick(x, index)
    shape = x.value.shape
    once = _reads_once(index)
    return with_node(pick(x.value, index), (x, lambda g: share(g, index, shape, once)))


def share(g: Array, index: Any, shape: Shape, once: bool) -> Any:
    """The derivative by an array, from `g`, the derivative by what an index reads; 0 elsewhere."""
    if not isinstance(g, HostArray):
        return Part(g, index, shape, once)
    return placed(g, index, shape) if once else added(g, index, shape)


def pick(x: Array, index: Any) -> Array:
    """`x[index]`, also for an ndarray and an index that an outer `vmap` maps."""
    if type(index) is int or type(index) is slice or isinstance(x, HostArray):
        return x[index]
    inner = innermost((index,))
    return x[index] if inner is None else inner.pick(x, index)


def placed(g: Array, index: Any, shape: Shape) -> Array:
    """An array of zeros with `g` at an index that reads no element twice."""
    out = np.zeros_like(g, shape=shape)
    out[index] = g
    return out


def added(g: Array, index: Any, shape: Shape) -> Array:
    """An array of zeros to which `g` was added at an index."""
    out = np.zeros_like(g, shape=shape)
    np.add.at(out, index, g)
    return out


def _reads_once(index: Any) -> bool:
    """Whether all arrays of an index are masks, so that it reads no element twice."""
    for item in index if type(index) is tuple else (index,):
        kind = type(item)
        if kind is int or kind is slice or item is None or item is Ellipsis or isinstance(item, np.integer):
            continue
        if getattr(item, "dtype", None) != np.bool_:
            return False
    return True


def set_index(x: TracedArray, index: Any, new: ArrayLike) -> None:
    """`x[index] = new`."""
    plain = type(new) is TracedArray and type(index) is slice
    inner = None if plain else innermost((index, new))
    if inner is not None and type(inner) is not TracedArray and inner.level > x.level:
        inner.rules.set_index(x, index, new)  # which says that the elements of a map share x
    if nestings[0]:
        new = lifted(new, x.level)
    if type(new) is TracedArray and x.dtype.kind == "c" != new.dtype.kind:
        new = new.astype(x.dtype)
    index = values_of(index)
    value = value_of(new)
    if isinstance(x.value, np.generic):
        raise TypeError("a single number cannot be written to.")
    shape = np.shape(value)
    target = _writable(x.value, index, value)
    target[index] = value
    once = _reads_once(index)
    after = with_node(
        target,
        (x, lambda g: without(g, index)),
        (new, lambda g: unbroadcast(g[index] if once else _last(g, index), shape)),
    )
    rebind(x, after, target)


def _writable(old: Array, *others: Any) -> Array:
    """A copy that `others` can be written into: mapped if an outer `vmap` maps one of them."""
    for found in others:
        inner = innermost((found,))
        if inner is not None:
            old = old + np.zeros_like(inner, shape=(), dtype=old.dtype)
    if isinstance(old, np.generic):
        return np.array(old)
    return old.copy("K")  # keeps the order in memory, which decides what is a view


def without(g: Array, index: Any) -> Array:
    """A derivative with zeros at an index."""
    g = _writable(g, index)
    g[index] = 0
    return g


def _last(g: Array, index: Any) -> Array:
    """The values at an index, with 0 where a later part of the index writes to the same place."""
    places = pick(count(g, g.size).reshape(g.shape), index)
    last = np.zeros_like(places, shape=g.size)
    numbers = count(places, places.size).reshape(places.shape)
    last[places] = numbers
    return np.where(last[places] == numbers, g[index], 0)


def write(target: Any, result: Any, casting: Any, name: str) -> None:
    """Write a result into all of an array, as `out=` does.

    Raises:
        TypeError: a traced result was to be written into an ndarray, or the dtype does not fit.
        ValueError: the result does not broadcast to the array's shape.
    """
    if type(target) is not TracedArray:
        if holds_traced(result):
            raise TypeError(
                f"the result of {name} has a gradient, which an ndarray as out= would lose: use the "
                "function without out, or make the array from a traced one, with np.zeros_like(x)."
            )
        np.copyto(target, result, casting=casting)
        return
    value = value_of(result)
    dtype, shape = target.dtype, target.shape
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    if isinstance(target.value, np.generic):
        raise TypeError(f"{name} cannot write into a single number.")
    if not np.can_cast(value.dtype, dtype, casting):
        raise TypeError(f"{name} gives {value.dtype}, which {casting} casting does not put into {dtype}.")
    own = value.shape
    if len(own) > len(shape) or np.broadcast_shapes(own, shape) != shape:
        raise ValueError(f"{name} gives the shape {own}, which does not fit into {shape}.")
    if value.dtype != dtype:
        value = value.astype(dtype)
    if own != shape or isinstance(value, np.generic):
        value = np.broadcast_to(value, shape).copy()
    rebind(target, with_node(value, (result, lambda g: unbroadcast(g, own))), value)


def rebind(x: TracedArray, after: Any, value: Any) -> None:
    """Give an array a new value, also in the arrays that share memory with it.

    Args:
        x: the array.
        after: the new value, traced if it depends on traced arrays.
        value: the new value, not traced.
    """
    traced = type(after) is TracedArray
    if traced and after.level != x.level:
        raise mixed()
    node = after.node if traced else x.node if state.paused else None
    alias = x.alias
    if type(alias) is View:
        _through(x, alias, value, node)
        return
    holder = None if x.node is None else x.node.holder
    if holder is not None:
        if not state.paused:
            raise RuntimeError(
                "a parameter that requires a gradient cannot be written to under enable_grad(); under "
                "no_grad() it can."
            )
        np.copyto(holder.data, value)
    views = settle(x) if alias is not None else []
    x.value, x.node = laid_out_as(value, x.value), node
    forget(views)


def _through(x: TracedArray, view: View, value: object, node: Any) -> None:
    """Write to the base of a view."""
    if view.whole is None:
        raise NotImplementedError(
            "a write to real or imaginary parts does not reach the complex numbers under a gradient: write "
            "to a copy() of the parts, and make new numbers of it (x + 1j * y)."
        )
    if is_symbolic(x.value):
        _through_indices(x, view.whole, value, node)
        return
    if x.size and any(step == 0 and size > 1 for step, size in zip(_strides(x.value), x.shape, strict=True)):
        raise ValueError("a broadcast array is read-only: its elements are in one place.")
    whole = view.whole
    views = settle(whole)
    places = view.places
    shape = whole.shape
    old = _writable(whole.value, value).reshape(-1)
    old[places] = value
    part = TracedArray(value, node, x.level)
    new = with_node(
        old.reshape(shape),
        (whole, lambda g: without(g.reshape(-1), places).reshape(shape)),
        (part, lambda g: g.reshape(-1)[places]),
    )
    view_of, whole.alias = whole.alias, None
    try:
        rebind(whole, new, new.value)
    finally:
        whole.alias = view_of
    forget(views, x)
    seen = seen_in(whole.value, view, x.shape)
    x.value, x.node = value if seen is None else seen, node


def _through_indices(x: TracedArray, whole: TracedArray, value: Any, node: Any) -> None:
    """Write to the base of a view in a graph, by the indices that made the view."""
    path = path_of(x, whole)
    if path is None:
        raise NotImplementedError(
            "a graph writes to a view of an array only where indices made it, not another shape or order: "
            "write a new array."
        )
    path = path or [...]  # the array itself
    parts = [whole]
    for index in path[:-1]:
        parts.append(parts[-1][index].copy())
    new: Any = TracedArray(value, node, x.level)
    for part, index in zip(reversed(parts), reversed(path), strict=True):
        part[index] = new
        new = part
    x.value, x.node = value, node


def _strides(value: Any) -> tuple[int, ...]:
    while isinstance(value, HostArray):
        value = value.value[0, ...] if value.layered else value.value  # type: ignore[attr-defined]
    return value.strides


def look(view: TracedArray) -> None:
    """Compute the value of a view again after its base was written to."""
    places, whole = view.alias.places, view.alias.whole
    if places is None:
        raise NotImplementedError(
            "a view of an array that was written since would have to change with it, which a graph cannot: "
            "write x = x + y instead of x += y."
        )
    size, shape = whole.size, whole.shape
    value = seen_in(whole.value, view.alias, places.shape)
    if value is None:
        value = whole.value.reshape(-1)[places]
    new = with_node(value, (whole, lambda g: added(g, places, (size,)).reshape(shape)))
    view.value, view.node = value, new.node if type(new) is TracedArray else None
