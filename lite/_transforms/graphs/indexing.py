"""Brackets: slices, integers, new axes, and arrays of integers."""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import Any

import numpy as np

from lite._arrays.types import ArrayHolder, Shape
from lite._transforms.graphs.array import GraphArray, number_of
from lite._transforms.graphs.graph import BOOL, INT64, Graph, view_of
from lite._transforms.graphs.operators import select
from lite._transforms.graphs.sizes import Size

_FAR = np.iinfo(np.int64).max


def get_index(x: GraphArray, index: Any) -> GraphArray:
    """`x[index]`."""
    graph: Graph = x.graph
    items = _items(x, index)
    arrays = [item for item in items if isinstance(item, GraphArray)]
    if len(arrays) > 1:
        return _by_arrays(graph, x, items)
    out, axis = x, 0
    moved = _gathered_first(items)
    for item in items:
        if item is None:
            out = graph.unsqueeze(out, axis)
            axis += 1
        elif isinstance(item, slice):
            out = _slice(graph, out, axis, item)
            axis += 1
        elif isinstance(item, GraphArray):
            out = graph.gather(out, item, axis)
            if moved:
                order = list(range(out.ndim))
                front = order[axis : axis + item.ndim]
                out = graph.transpose(out, [*front, *(i for i in order if i not in front)])
            axis += item.ndim
        else:
            out = _one(graph, out, axis, item)
    if not out.ndim and not any(item is Ellipsis for item in (index if type(index) is tuple else (index,))):
        return number_of(out)
    return out if arrays else view_of(x, out, index)


def _items(x: GraphArray, index: Any) -> list[Any]:
    """An index as one item for each dimension, and None for new ones; arrays as int64."""
    graph = x.graph
    given = without_masks(graph, index)
    used = sum(1 for item in given if item is not None and not isinstance(item, EllipsisType))
    if used > x.ndim:
        raise IndexError(
            f"too many indices for array: array is {x.ndim}-dimensional, but {used} were indexed"
        )
    missing = [slice(None)] * (x.ndim - used)
    dots = [i for i, item in enumerate(given) if isinstance(item, EllipsisType)]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    given = [*given[: dots[0]], *missing, *given[dots[0] + 1 :]] if dots else [*given, *missing]
    items: list[Any] = []
    for item in given:
        if item is None or isinstance(item, slice):
            items.append(item)
        elif isinstance(item, GraphArray | np.ndarray) and (item.ndim or isinstance(item, GraphArray)):
            if item.dtype.kind not in "iu":
                raise IndexError("arrays used as indices must be of integer (or boolean) type")
            items.append(graph.cast(graph.operand(item), INT64))
        elif isinstance(item, bool | np.bool_):
            graph.fail("indexes with a bool")
        else:
            items.append(operator.index(item))
    return items


def without_masks(graph: Graph, index: Any) -> list[Any]:
    """The items of an index, and in place of a mask the indices of what it chooses."""
    given = list(index) if isinstance(index, tuple) else [index]
    given = [item.data if isinstance(item, ArrayHolder) else item for item in given]
    given = [np.asarray(item, None if item else INT64) if isinstance(item, list) else item for item in given]
    out: list[Any] = []
    for item in given:
        if isinstance(item, GraphArray | np.ndarray | np.bool_) and item.dtype == BOOL:
            if not item.ndim:
                graph.fail("indexes with a bool, which gives a shape that depends on numbers: use np.where")
            mask = graph.operand(item)
            fixed = graph.constants.get(mask.name)
            out += graph.nonzero(mask) if fixed is None else np.nonzero(fixed)
        else:
            out.append(item)
    return out


def _gathered_first(items: list[Any]) -> bool:
    """Whether NumPy puts the dimensions of an index array first: integers apart from it count as arrays."""
    kinds = [isinstance(item, int | GraphArray) for item in items]
    if not any(isinstance(item, GraphArray) for item in items):
        return False
    first, last = kinds.index(True), len(kinds) - 1 - kinds[::-1].index(True)
    return not all(kinds[first : last + 1])


def _slice(graph: Graph, x: GraphArray, axis: int, item: slice) -> GraphArray:
    size = x.shape[axis]
    step = 1 if item.step is None else operator.index(item.step)
    if not step:
        raise ValueError("slice step cannot be zero")
    start, stop = _bound(item.start), _bound(item.stop)
    if graph.size(size) is None:
        # Compared here, as `indices` asks nothing: a call must know whether a dynamic size is beyond the end.
        start, stop = (n if n is None else max(-size - 1, min(n, size)) for n in (start, stop))
        begin, end, _ = slice(start, stop, step).indices(size)
        count = len(range(begin, end, step))
        if (begin, count, step) == (0, size, 1):
            return x
        if not count:  # the operator would take a beginning before the first number for the last one
            begin = end = 0
        return graph.slice(x, axis, begin, -_FAR if end < 0 else end, step, count)
    cuts = (start, stop, abs(step)) != (None, None, 1)
    if cuts and graph.is_computed(size) and Size not in (type(start), type(stop)):
        # A number at one end keeps as many as the opposite number does at the other.
        of = (0, -start) if step == 1 and stop is None else (start or 0, stop)
        length: Any = graph.computed_size((int(size), *of, step))
        first, last = (0, _FAR) if step > 0 else (-1, -_FAR)
        first, last = first if start is None else start, last if stop is None else stop
        return graph.slice(x, axis, first, last, step, length)
    # A bound at an end of the dimension is the same as no bound.
    start = None if step > 0 and start == 0 else start
    stop = None if step > 0 and stop == size else stop
    if start is None and stop is None and step == 1:
        return x
    found = graph.part(x, axis, start or 0, size if stop is None else stop) if step == 1 else None
    if found is not None:
        return found
    for bound in (start, stop):
        if bound and (graph.size(bound) is not None or abs(bound) >= size):
            graph.fail(
                f"cuts a dynamic dimension at {int(bound)}, a number that depends on the size of the example"
            )
    if start is None and stop is None and step == -1:
        return graph.slice(x, axis, -1, -_FAR, -1, size)
    begin, end, _ = slice(start, stop, step).indices(size)
    length = len(range(begin, end, step))
    # With both ends counted from one side the length is fixed, otherwise it grows with the size. A negative
    # step begins at the end of the dimension.
    if (step > 0 if start is None else start >= 0) != (step < 0 if stop is None else stop >= 0):
        length = Size(length)
    first = (0 if step > 0 else -1) if start is None else int(start)
    last = (_FAR if step > 0 else -_FAR) if stop is None else int(stop)
    return graph.slice(x, axis, first, last, step, length)


def _bound(value: Any) -> Any:
    if value is None or isinstance(value, Size):
        return value
    return operator.index(value)


def _one(graph: Graph, x: GraphArray, axis: int, item: int) -> GraphArray:
    size = x.shape[axis]
    if not -size <= item < size:
        raise IndexError(f"index {item} is out of bounds for axis {axis} with size {size}")
    return graph.gather(x, graph.constant(np.array(item, INT64)), axis)


def _by_arrays(graph: Graph, x: GraphArray, items: list[Any]) -> GraphArray:
    """Several index arrays: one number for each combination, looked up in the dimensions made one."""
    at = [i for i, item in enumerate(items) if isinstance(item, int | GraphArray)]
    if any(item is None for item in items):
        graph.fail("indexes with several arrays and new axes: add the axes before or after")
    if at != list(range(at[0], at[-1] + 1)):  # then NumPy has the dimensions of the arrays in front
        order = [*at, *(i for i in range(x.ndim) if i not in at)]
        x, items = graph.transpose(x, order), [items[i] for i in order]
        at = list(range(len(at)))
    sizes = x.shape[at[0] : at[-1] + 1]
    number: Any = None
    for i, size in zip(at, sizes, strict=True):
        place: Any = graph.operand(np.int64(items[i]) if isinstance(items[i], int) else items[i])
        place = np.where(place < 0, place + graph.squeeze(graph.size_array(size), 0), place)
        number = place if number is None else number * size + place
    flat = x
    for axis, item in enumerate(items):
        if isinstance(item, slice):
            flat = _slice(graph, flat, axis, item)
    joined = 1
    for size in sizes:
        joined = joined * size
    flat = graph.reshape(flat, (*flat.shape[: at[0]], joined, *flat.shape[at[-1] + 1 :]))
    return graph.gather(flat, number, at[0])


def set_index(x: GraphArray, index: Any, value: object) -> None:
    """`x[index] = value`, where the index is all of `x`, arrays, or basic with fixed sizes."""
    graph: Graph = x.graph
    if isinstance(value, ArrayHolder):  # with its gradient, which graph.operand would leave behind
        value = value.computing()
    if isinstance(index, GraphArray | np.ndarray) and index.dtype == BOOL and index.ndim <= x.ndim:
        chosen = graph.operand(index)
        chosen = graph.unsqueeze(chosen, *range(index.ndim, x.ndim)) if index.ndim < x.ndim else chosen
        new = graph.operand(value)
        if new.ndim <= x.ndim - index.ndim:  # the same for all that it chooses
            written: Any = np.where(chosen, graph.cast(new, x.dtype), x)
            x.replace(graph.cast(written, x.dtype))
            return
    new = graph.operand(value)
    items = _items(x, index)
    if any(isinstance(item, GraphArray) for item in items):
        scatter(x, index, new, "none")
        return
    if None in items:
        axes = _new_axes(items)
        shape = get_index(x, index).shape
        new = graph.squeeze(graph.expand(_without_ones(graph, new, len(shape)), shape), *axes)
        items = [item for item in items if item is not None]
    new = _without_ones(graph, new, sum(isinstance(item, slice) for item in items))
    whole = all(
        isinstance(item, slice) and _covers(item, size) for item, size in zip(items, x.shape, strict=True)
    )
    if whole:
        x.replace(graph.cast(graph.expand(new, x.shape), x.dtype))
        return
    _write_part(graph, x, items, graph.cast(new, x.dtype))


def has_arrays(x: GraphArray, index: Any) -> bool:
    """Whether an index of an array has arrays of integers."""
    return any(isinstance(item, GraphArray) for item in _items(x, index))


def scatter(x: GraphArray, index: Any, new: GraphArray, reduction: str) -> None:
    """Write to `x[index]`, where an array is in the index; `reduction` joins what is written to one place.

    Elements are counted: the index, applied to their numbers, says which are written.
    """
    graph: Graph = x.graph
    items = _items(x, index)
    arrays = [axis for axis, item in enumerate(items) if isinstance(item, GraphArray)]
    rest = [item for axis, item in enumerate(items) if axis not in arrays]
    if len(arrays) == 1 and items[arrays[0]].ndim == 1 and all(item == slice(None) for item in rest):
        axis, places = arrays[0], items[arrays[0]]
        shape = (*x.shape[:axis], places.shape[0], *x.shape[axis + 1 :])
        places = graph.reshape(places, [places.shape[0] if d == axis else 1 for d in range(x.ndim)])
        out = _scattered(x, graph.expand(places, shape), _fitting(x, new, shape), axis, reduction)
    else:
        count = x.size
        places = get_index(graph.reshape(graph.range(count), x.shape), index)
        updates = graph.reshape(_fitting(x, new, places.shape), (places.size,))
        flat = graph.reshape(x, (count,))
        out = _scattered(flat, graph.reshape(places, (places.size,)), updates, 0, reduction)
        out = graph.reshape(out, x.shape)
    x.replace(out)


def _fitting(x: GraphArray, new: GraphArray, shape: Shape) -> GraphArray:
    """The updates, in the dtype of the array and the shape of its part."""
    graph: Graph = x.graph
    return graph.expand(graph.cast(_without_ones(graph, new, len(shape)), x.dtype), shape)


def _scattered(
    x: GraphArray, places: GraphArray, updates: GraphArray, axis: int, reduction: str
) -> GraphArray:
    graph: Graph = x.graph
    if reduction != "none" and x.dtype == np.float16:  # which onnxruntime 1.31 only writes, and does not add
        x, updates = (graph.cast(array, np.dtype(np.float32)) for array in (x, updates))
        return graph.cast(_scattered(x, places, updates, axis, reduction), np.dtype(np.float16))
    return graph.emit(
        "ScatterElements", [x, places, updates], x.shape, x.dtype, axis=axis, reduction=reduction
    )


def scatter_along(x: GraphArray, places: GraphArray, new: GraphArray, axis: int) -> None:
    """`np.put_along_axis`."""
    graph: Graph = x.graph
    head = graph.broadcast([(*y.shape[:axis], *y.shape[axis + 1 :]) for y in (x, places)])
    shape = (*head[:axis], places.shape[axis], *head[axis:])
    x.replace(_scattered(x, graph.expand(places, shape), _fitting(x, new, shape), axis, "none"))


def _new_axes(items: list[Any]) -> list[int]:
    """Places of the new axes in what an index without arrays gives."""
    kept = [item for item in items if item is None or isinstance(item, slice)]
    return [axis for axis, item in enumerate(kept) if item is None]


def _without_ones(graph: Graph, x: GraphArray, ndim: int) -> GraphArray:
    """Without first dimensions of size 1 that what is written has no place for."""
    more = x.ndim - ndim
    if more > 0 and all(n == 1 for n in x.shape[:more]):
        return graph.squeeze(x, *range(more))
    return x


def _covers(item: slice, size: int) -> bool:
    if item == slice(None):
        return True
    if item.step not in (None, 1) or item.start not in (None, 0):
        return False
    return item.stop is None or (item.stop == size and isinstance(item.stop, Size | int))


# Dtypes for which onnxruntime has the operator Pad on every device.
_PADDED = frozenset(map(np.dtype, (np.float32, np.float64, np.int32, np.int64, np.bool_)))


def _run(places: np.ndarray[Any, Any] | None, size: int) -> tuple[int, int] | None:
    """The numbers of elements before and after the written ones; None if those are not contiguous."""
    if places is None:
        return 0, 0
    first, count = int(places[0]), len(places)
    return (first, int(size) - first - count) if (places == np.arange(first, first + count)).all() else None


def _write_places(graph: Graph, x: GraphArray, items: list[Any], partial: list[int], new: GraphArray) -> None:
    """Write `new` along dynamic dimensions: the graph indexes `arange(size)` to find the positions."""
    if len(partial) == 1:
        axis = partial[0]
        places = get_index(graph.range(x.shape[axis]), items[axis])
        if not places.ndim:
            shape = (*x.shape[:axis], *x.shape[axis + 1 :])
            new, places = graph.unsqueeze(graph.expand(new, shape), axis), graph.unsqueeze(places, 0)
        items = [places if d == axis else slice(None) for d in range(x.ndim)]
    scatter(x, tuple(items), new, "none")


def _write_part(graph: Graph, x: GraphArray, items: list[Any], new: GraphArray) -> None:
    """Write `new` at an index of numbers and slices: by padding or concatenation, else by a mask."""
    dynamic = [graph.size(size) is not None for size in x.shape]
    for axis, (item, size) in enumerate(zip(items, x.shape, strict=True)):
        if not isinstance(item, slice) and not -size <= item < size:
            raise IndexError(f"index {item} is out of bounds for axis {axis} with size {size}")
    covered = [isinstance(item, slice) and _covers(item, n) for item, n in zip(items, x.shape, strict=True)]
    if any(moves and not all_of for moves, all_of in zip(dynamic, covered, strict=True)):
        _write_places(graph, x, items, [axis for axis, all_of in enumerate(covered) if not all_of], new)
        return
    places = [  # along each dimension, which are written; None for all of a dynamic one
        None if moves else np.arange(size)[item if isinstance(item, slice) else slice(item, item + 1 or None)]
        for item, size, moves in zip(items, x.shape, dynamic, strict=True)
    ]
    if any(at is not None and not len(at) for at in places):
        return  # nothing is written
    lengths = [size if at is None else len(at) for at, size in zip(places, x.shape, strict=True)]
    full = graph.expand(new, [n for n, item in zip(lengths, items, strict=True) if isinstance(item, slice)])
    numbers = [axis for axis, item in enumerate(items) if not isinstance(item, slice)]
    full = graph.unsqueeze(full, *numbers) if numbers else full
    runs = [_run(at, size) for at, size in zip(places, x.shape, strict=True)]
    if None not in runs:
        ends: Any = runs
        partial = [axis for axis, (before, after) in enumerate(ends) if before or after]
        if graph.is_zero(x) and x.dtype in _PADDED:
            x.replace(graph.pad(full, ends, "constant"))
            return
        if len(partial) == 1:
            axis = partial[0]
            before, after = ends[axis]
            size = int(x.shape[axis])
            parts = [graph.slice(x, axis, 0, before, 1, before)] if before else []
            parts.append(full)
            parts += [graph.slice(x, axis, size - after, size, 1, after)] if after else []
            x.replace(graph.concatenate(parts, axis))
            return
    mask: Any = np.ones((1,) * x.ndim, bool)
    for axis, at in enumerate(places):
        if at is None:
            continue
        source = np.zeros(x.shape[axis], np.int64)
        source[at] = np.arange(len(at))
        written = np.zeros(x.shape[axis], bool)
        written[at] = True
        mask = mask & written.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        full = graph.gather(full, graph.constant(source), axis)
    x.replace(select(graph, graph.constant(mask), full, x, x.dtype))
