"""Reading and writing by index. A write makes a new value, which the array holds from then on."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import HostArray, Shape, raw
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import is_traced, record, unbroadcast, value_of, values_of
from lite._transforms.levels import innermost


def get_index(x: Any, index: Any) -> Any:
    """`x[index]`."""
    if type(index) is not int and type(index) is not slice:
        index = values_of(index)
        inner = innermost((index,))
        if inner is not None and inner.level > x.level:
            return inner.pick(x, index)
    shape = x.node.shape
    if _reads_once(index):
        return record(pick(x.value, index), (x, lambda g: placed(g, index, shape)))
    return record(pick(x.value, index), (x, lambda g: added(g, index, shape)))


def pick(x: Any, index: Any) -> Any:
    """`x[index]`, also where only the index is mapped by an outer `vmap`, which an ndarray would not notice."""
    if type(index) is int or type(index) is slice or isinstance(x, HostArray):
        return x[index]
    inner = innermost((index,))
    return x[index] if inner is None else inner.pick(x, index)


def placed(g: Any, index: Any, shape: Shape) -> Any:
    """An array of zeros with `g` at an index that reads no element twice."""
    out = np.zeros_like(g, shape=shape)
    out[index] = g
    return out


def added(g: Any, index: Any, shape: Shape) -> Any:
    """An array of zeros to which `g` was added at an index."""
    out = np.zeros_like(g, shape=shape)
    np.add.at(out, index, g)
    return out


def _reads_once(index: Any) -> bool:
    """Whether an index has no arrays but masks, so that it reads no element twice."""
    for item in index if type(index) is tuple else (index,):
        kind = type(item)
        if kind is int or kind is slice or item is None or item is Ellipsis or isinstance(item, np.integer):
            continue
        if not (isinstance(item, np.ndarray | HostArray) and item.dtype.kind == "b"):  # type: ignore[attr-defined]
            return False
    return True


def set_index(x: Any, index: Any, new: Any) -> None:
    """`x[index] = new`."""
    index = values_of(index)
    new = raw(new)
    value = value_of(new)
    shape = np.shape(value)
    target = _writable(x.value, index, value)
    target[index] = value
    once = _reads_once(index)
    node = record(
        target,
        (x, lambda g: _without(g, index)),
        (new, lambda g: unbroadcast(g[index] if once else _last(g, index), shape)),
    )
    _rebind(x, node, target)


def _writable(old: Any, *others: Any) -> Any:
    """A copy to write others into; mapped by an outer `vmap` if one of them is."""
    for found in others:
        inner = innermost((found,))
        if inner is not None:
            old = old + np.zeros_like(inner, shape=(), dtype=old.dtype)
    return old.copy()


def _without(g: Any, index: Any) -> Any:
    g = _writable(g, index)
    g[index] = 0
    return g


def _last(g: Any, index: Any) -> Any:
    """What is read at an index, but 0 where a later part of the index writes to the same place."""
    places = np.arange(g.size).reshape(g.shape)[index]
    last = np.empty(g.size, np.intp)
    count = np.arange(places.size).reshape(places.shape)
    last[places] = count
    return np.where(last[places] == count, g[index], 0)


def write(target: Any, result: Any, casting: Any = "unsafe", name: str = "the function") -> None:
    """Put a result into an array in place of all that it holds, as `out=` does.

    Raises:
        TypeError: a traced result was to be written into an ndarray, or the dtype does not fit.
        ValueError: the result does not broadcast to the array's shape.
    """
    if type(target) is not TracedArray:
        if is_traced(result):
            raise TypeError(
                f"the result of {name} has a gradient, which an ndarray as out= would lose: use the function without "
                "out, or make the array from a traced one, with np.zeros_like(x)."
            )
        target[...] = result
        return
    value = value_of(result)
    dtype, shape = target.dtype, target.shape
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    if not np.can_cast(value.dtype, dtype, casting):
        raise TypeError(
            f"cannot cast the result of {name} from {value.dtype} to {dtype} with casting rule {casting!r}"
        )
    if value.dtype != dtype:
        value = value.astype(dtype)
    own = value.shape
    if own != shape:
        value = np.broadcast_to(value, shape)
    if isinstance(value, np.generic):
        value = np.asarray(value)
    _rebind(target, record(value, (result, lambda g: unbroadcast(g, own))), value)


def _rebind(x: TracedArray, new: Any, value: Any) -> None:
    from lite._transforms.grad.tape import constant

    if type(new) is not TracedArray:  # which nothing traced went into
        new = constant(value, x.level)
    elif new.level != x.level:
        raise RuntimeError("mixed")
    x.value, x.node = new.value, new.node
