"""Traced arrays that share memory: a write to one changes the others, as in NumPy.

The memory of a value is never written, because vjps may need it. Instead the base of the views, called the
whole, gets a new value, and each view of it is computed again when it is read next.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from lite._arrays.types import Array, HostArray, Shape
from lite._transforms.grad.array import TracedArray


class View:
    """What makes a traced array a view.

    Attributes:
        whole: the base, which is not a view itself; None for a real or imaginary part, which cannot be
            written to.
        places: the index of each element in the flattened whole (C order), intp; None until needed.
        layout: in bytes, the offset in the memory of the whole, the strides, and the strides of the whole;
            None until needed, or if that memory is not one block.
    """

    __slots__ = ("layout", "places", "whole")

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        self.places: Any = None
        self.layout: Any = None


def note_view(new: TracedArray, source: TracedArray) -> None:
    """Note that `new` is a view of `source`, from which it was computed, if they share memory."""
    value, held = new.value, source.value
    if type(value) is not np.ndarray:
        if not isinstance(value, HostArray):
            return  # a scalar, which is a copy
        value, held = memory(value), memory(held)
    base = value.base
    if base is None:
        if value is not held:
            return
    elif value is not held:
        own = getattr(held, "base", None)
        while base is not held and base is not own:  # windows refer to their array through another object,
            base = getattr(base, "base", None)  # and an array of a graph to the step before
            if base is None:
                return
    if type(source.alias) is View:
        whole = source.alias.whole
        new.alias = View(whole)
        if whole is None:
            return
        if source.alias.places is not None and not _shares(source.value, whole.value):
            new.alias.places = source.alias.places.reshape(-1)[_places(new.value, source.value)]
    else:
        whole = source
        new.alias = View(whole)
    views = whole.alias
    if views is None:
        whole.alias = [weakref.ref(new)]
        return
    views.append(weakref.ref(new))
    count = len(views)
    if count >= 32 and not count & (count - 1):  # a power of two: now and then
        views[:] = [view for view in views if view() is not None]


def memory(value: Any) -> Any:
    """The ndarray, or the array of a graph, behind an array of `vmap` or of a gradient."""
    while isinstance(value, HostArray) and not value.symbolic:
        value = value.value  # type: ignore[attr-defined]
    return value


def path_of(view: TracedArray, whole: TracedArray) -> list[Any] | None:
    """The indices that lead from an array of a graph to a view of it; None if other functions do."""
    path: list[Any] = []
    part, end = view.value, whole.value
    while part is not end:
        if not getattr(part, "symbolic", False) or part.base is None or part.index is None:
            return None
        path.insert(0, part.index)
        part = part.base
    return path


def is_symbolic(value: Any) -> bool:
    """Whether a graph computes this value, so that it has no memory."""
    return isinstance(value, HostArray) and isinstance(memory(value), HostArray)


def _shares(part: Array, whole: Array) -> bool:
    return np.may_share_memory(memory(part), memory(whole))


def locate(whole: TracedArray) -> list[TracedArray]:
    """The views of an array, with their `places` set. Called before the array gets a new value."""
    views = [view for ref in whole.alias or () if (view := ref()) is not None]
    for view in views:
        if view.alias.places is None and not is_symbolic(view.value):
            view.alias.places = _places(view.value, whole.value)
            view.alias.layout = _layout(view.value, whole.value)
    return views


def _layout(part: Array, whole: Array) -> Any:
    if type(part) is not np.ndarray or type(whole) is not np.ndarray or not part.size:
        return None
    low, high = byte_bounds(whole)
    if high - low != whole.nbytes:
        return None
    return part.__array_interface__["data"][0] - low, part.strides, whole.strides


def view_in(whole: Array, view: View, shape: Shape) -> Any:
    """A view of the same layout into a new whole; None if the whole has other strides than before."""
    layout = view.layout
    if layout is None or type(whole) is not np.ndarray or whole.strides != layout[2]:
        return None
    elements = as_strided(whole, (whole.size,), (whole.itemsize,))  # in the order of memory
    return as_strided(elements[layout[0] // whole.itemsize :], shape, layout[1])


def laid_out_as(value: Any, old: Array) -> Array:
    """The new value with the strides of the old one, so that reshapes that are views stay views."""
    if type(value) is not np.ndarray or type(old) is not np.ndarray or value.strides == old.strides:
        return value
    new = np.empty_like(old)
    if new.strides == value.strides:
        return value
    new[...] = value
    return new


def _places(part: Any, whole: Any) -> Array:
    """The index of each element of a view in the flattened base (C order)."""
    while isinstance(part, HostArray):  # all elements along the batch dimension have one layout
        first = (0, ...) if part.layered else ...
        part, whole = part.value[first], whole.value[first]  # type: ignore[attr-defined]
    size = whole.itemsize
    low, high = byte_bounds(whole)
    numbers = np.zeros((high - low) // size, np.intp)

    def seen_as(array: Array) -> Array:
        start = (array.__array_interface__["data"][0] - low) // size
        strides = [step // size * numbers.itemsize for step in array.strides]
        return as_strided(numbers[start:], array.shape, strides)

    seen_as(whole)[...] = np.arange(whole.size).reshape(whole.shape)
    return seen_as(part).copy()


def mark_stale(views: list[TracedArray], but: TracedArray | None = None) -> None:
    """Delete the values of views, so that they are computed again when they are read next."""
    for view in views:
        if view is not but:
            for name in ("value", "node"):
                try:
                    delattr(view, name)
                except AttributeError:  # it is marked already
                    break
