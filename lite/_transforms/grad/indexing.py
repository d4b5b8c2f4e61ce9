"""Reading and writing traced arrays by index.

Vjps may need the memory of a value, so a write never changes it: `x[index] = new` computes a new array, which
replaces the value of `x`, and its node. Views follow, as in NumPy (`views.py`).
"""

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
from lite._transforms.grad.views import View, is_symbolic, laid_out_as, locate, mark_stale, path_of, view_in
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
    return with_node(pick(x.value, index), (x, lambda g: index_vjp(g, index, shape, once)))


def index_vjp(g: Array, index: Any, shape: Shape, once: bool) -> Any:
    """The derivative by an array of a shape from `g`, that by its elements at `index` (see `_reads_once`)."""
    if not isinstance(g, HostArray):
        return Part(g, index, shape, once)  # which the sum of derivatives adds without an array of zeros
    return scatter(g, index, shape) if once else scatter_add(g, index, shape)


def pick(x: Array, index: Any) -> Array:
    """`x[index]`, also for an ndarray and an index that an outer `vmap` maps."""
    if type(index) is int or type(index) is slice or isinstance(x, HostArray):
        return x[index]
    inner = innermost((index,))
    return x[index] if inner is None else inner.pick(x, index)


def scatter(g: Array, index: Any, shape: Shape) -> Array:
    """Zeros of a shape with `g` at `index`, which reads no element twice."""
    out = np.zeros_like(g, shape=shape)
    out[index] = g
    return out


def scatter_add(g: Array, index: Any, shape: Shape) -> Array:
    """Zeros of a shape, with `g` added at `index`, which may read elements more than once."""
    out = np.zeros_like(g, shape=shape)
    np.add.at(out, index, g)
    return out


def _reads_once(index: Any) -> bool:
    """Whether an index certainly reads no element twice: its arrays are all masks."""
    for item in index if type(index) is tuple else (index,):
        kind = type(item)
        if kind is int or kind is slice or item is None or item is Ellipsis or isinstance(item, np.integer):
            continue
        if getattr(item, "dtype", None) != np.bool_:
            return False
    return True


def set_index(x: TracedArray, index: Any, new: ArrayLike) -> None:
    """`x[index] = new`.

    Raises:
        TypeError: `x` is a NumPy scalar.
        RuntimeError: an inner `vmap` maps the index or the new value, but not `x`.
    """
    plain = type(new) is TracedArray and type(index) is slice
    inner = None if plain else innermost((index, new))
    if inner is not None and type(inner) is not TracedArray and inner.level > x.level:
        inner.rules.set_index(x, index, new)  # raises: all elements of the map would write to one x
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
        (x, lambda g: zeroed_at(g, index)),
        (new, lambda g: unbroadcast(g[index] if once else _last(g, index), shape)),
    )
    rebind(x, after, target)


def _writable(old: Array, *others: Any) -> Array:
    """A copy of `old` to write to. If an outer `vmap` maps one of `others`, it maps the copy too."""
    for found in others:
        inner = innermost((found,))
        if inner is not None:
            old = old + np.zeros_like(inner, shape=(), dtype=old.dtype)
    if isinstance(old, np.generic):
        return np.array(old)
    return old.copy("K")  # keeps the order in memory, which decides what is a view


def zeroed_at(g: Array, index: Any) -> Array:
    """A copy of the derivative `g` with zeros at an index."""
    g = _writable(g, index)
    g[index] = 0
    return g


def _last(g: Array, index: Any) -> Array:
    """`g[index]`, with 0 for each element that a later one of the index overwrites."""
    # Write the position of each element of the index to its place: only the last one is still there.
    places = pick(count(g, g.size).reshape(g.shape), index)
    last = np.zeros_like(places, shape=g.size)
    numbers = count(places, places.size).reshape(places.shape)
    last[places] = numbers
    return np.where(last[places] == numbers, g[index], 0)


def write_out(target: Any, result: Any, casting: Any, name: str) -> None:
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

    A view writes its value into its base. Views of the array are computed again when they are read next.

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
        _write_to_base(x, alias, value, node)
        return
    holder = None if x.node is None else x.node.holder
    if holder is not None:
        if not state.paused:
            raise RuntimeError(
                "a parameter that requires a gradient cannot be written to under enable_grad(); under "
                "no_grad() it can."
            )
        np.copyto(holder.data, value)
    views = locate(x) if alias is not None else []
    x.value, x.node = laid_out_as(value, x.value), node
    mark_stale(views)


def _write_to_base(x: TracedArray, view: View, value: object, node: Any) -> None:
    """Give a view a new value by a write to its base, `view.whole`."""
    if view.whole is None:
        raise NotImplementedError(
            "a write to real or imaginary parts does not reach the complex numbers under a gradient: write "
            "to a copy() of the parts, and make new numbers of it (x + 1j * y)."
        )
    if is_symbolic(x.value):
        _write_by_indices(x, view.whole, value, node)
        return
    if x.size and any(step == 0 and size > 1 for step, size in zip(_strides(x.value), x.shape, strict=True)):
        raise ValueError("a broadcast array is read-only: its elements are in one place.")
    whole = view.whole
    views = locate(whole)
    places = view.places
    shape = whole.shape
    old = _writable(whole.value, value).reshape(-1)
    old[places] = value
    part = TracedArray(value, node, x.level)
    new = with_node(
        old.reshape(shape),
        (whole, lambda g: zeroed_at(g.reshape(-1), places).reshape(shape)),
        (part, lambda g: g.reshape(-1)[places]),
    )
    alias, whole.alias = whole.alias, None  # `views` have their places already
    try:
        rebind(whole, new, new.value)
    finally:
        whole.alias = alias
    mark_stale(views, x)
    shared = view_in(whole.value, view, x.shape)
    x.value, x.node = value if shared is None else shared, node


def _write_by_indices(x: TracedArray, whole: TracedArray, value: Any, node: Any) -> None:
    """`_write_to_base` in a graph, whose arrays have no memory: by the indices that made the view."""
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
    """The strides in bytes of the ndarray behind a traced or mapped value, for one element of each map."""
    while isinstance(value, HostArray):
        value = value.value[0, ...] if value.layered else value.value  # type: ignore[attr-defined]
    return value.strides


def refresh_view(view: TracedArray) -> None:
    """Compute the value and the node of a view again after its base was written to."""
    places, whole = view.alias.places, view.alias.whole
    if places is None:
        raise NotImplementedError(
            "a view of an array that was written since would have to change with it, which a graph cannot: "
            "write x = x + y instead of x += y."
        )
    size, shape = whole.size, whole.shape
    value = view_in(whole.value, view.alias, places.shape)
    if value is None:
        value = whole.value.reshape(-1)[places]
    new = with_node(value, (whole, lambda g: scatter_add(g, places, (size,)).reshape(shape)))
    view.value, view.node = value, new.node if type(new) is TracedArray else None
