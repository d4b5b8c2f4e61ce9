"""Batch indices: a user's index becomes an index that NumPy can apply to every leaf.

`normalise` resolves everything that depends on the number of batch dimensions (ellipsis, too many indices,
boolean masks of the wrong shape). So its result never indexes the feature dimensions of a leaf, never fails
for one leaf only, and its trailing ellipsis makes every basic index a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType, NoneType
from typing import Any, TypeAlias

import numpy as np

from lite._arrays.namespace import known
from lite._arrays.types import Array, Names, Shape, has_namespace

Index: TypeAlias = int | slice | EllipsisType | Array | Sequence[Any] | None  # a tuple of them is a Sequence


def normalise(index: object, batch_size: Shape) -> tuple[Any, ...]:
    """Turn an index into a tuple without ellipsis that consumes at most the batch dimensions.

    Raises:
        IndexError: too many indices, or a boolean mask whose shape does not match.
        RuntimeError: more than one ellipsis.
        TypeError: an item that is not an index.
    """
    items = index if isinstance(index, tuple) else (index,)
    out: list[Any] = []
    ellipsis_at = -1
    for item in items:
        if item is Ellipsis:
            if ellipsis_at >= 0:
                raise RuntimeError("An index can only have one ellipsis at most.")
            ellipsis_at = len(out)
        else:
            out.append(_item(item))
    ndim = len(batch_size)
    used = sum(_consumes(item) for item in out)
    if used > ndim:
        if ndim == 0:
            raise RuntimeError(
                f"indexing a tensordict with td.batch_dims==0 is not permitted. Got index {index!r}; "
                "give the number of rows when it is made, batch_size=[n], or take that of the entries: "
                "td.auto_batch_size_()."
            )
        if ellipsis_at >= 0:
            raise RuntimeError("Not enough dimensions in TensorDict for index provided.")
        raise IndexError(f"too many indices for batch_size {batch_size}: index {index!r} uses {used} dims.")
    if ellipsis_at >= 0:
        out[ellipsis_at:ellipsis_at] = [slice(None)] * (ndim - used)
    _check_masks(out, batch_size)
    return tuple(out)


def _item(item: object) -> Any:
    if item is None or isinstance(item, bool | np.bool_ | slice):
        return bool(item) if isinstance(item, np.bool_) else item
    if isinstance(item, int | np.integer):
        return int(item)
    if isinstance(item, range):
        return np.arange(item.start, item.stop, item.step)
    if isinstance(item, np.ndarray):
        return _array_item(item)
    if has_namespace(item):
        return _traced_item(item)
    if isinstance(item, list | tuple):
        array = np.asarray(item)
        return _array_item(array.astype(np.int64) if array.size == 0 else array)
    if isinstance(item, str):
        raise TypeError(
            "mixed string/non-string index: a key path and an index cannot be combined; td[key][index] takes "
            "rows of one entry."
        )
    if hasattr(item, "__array__"):  # first, as tensors of torch have both
        return _array_item(np.asarray(item))
    if hasattr(item, "__index__"):
        return int(item.__index__())
    raise TypeError(f"a batch index must be an int, slice, None, bool, ellipsis or array, got {type(item)}.")


def _traced_item(item: Any) -> Any:
    """A JAX array as a NumPy array; a traced array, whose values cannot be checked, as it is."""
    found = known(item)
    if found is not None:
        return _array_item(found)
    if item.dtype.kind not in "iu":
        raise IndexError(f"an index array that is traced must be of integers, got {item.dtype}; see where.")
    return item


def _array_item(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype.kind == "b":
        return bool(array) if array.ndim == 0 else array
    if array.dtype.kind not in "iu":
        keys = "; td.select(*keys) takes entries by their keys" if array.dtype.kind == "U" else ""
        raise IndexError(f"an index array must be of integer or bool type, got {array.dtype}{keys}.")
    return int(array) if array.ndim == 0 else array


def _consumes(item: object) -> int:
    if item is None or isinstance(item, bool):
        return 0
    if isinstance(item, np.ndarray) and item.dtype.kind == "b":
        return item.ndim
    return 1


def _check_masks(items: list[Any], batch_size: Shape) -> None:
    dim = 0
    for item in items:
        n = _consumes(item)
        if isinstance(item, np.ndarray) and item.dtype.kind == "b":
            expected = batch_size[dim : dim + n]
            if item.shape != expected:
                raise IndexError(f"the mask has shape {item.shape}, the indexed batch dims are {expected}.")
        dim += n


def result_shape(items: tuple[Any, ...], batch_size: Shape) -> Shape:
    """The batch size after indexing, computed by NumPy on an array without memory."""
    if len(items) == 1 and type(items[0]) is int and not -batch_size[0] <= items[0] < batch_size[0]:
        raise IndexError(f"index {items[0]} is out of bounds for dimension 0 with size {batch_size[0]}.")
    shape = basic_shape(items, batch_size)
    return indexed_shape(items, batch_size) if shape is None else shape


def indexed_shape(index: object, shape: Shape) -> Shape:
    """The shape after indexing. Traced index arrays have no values, so their bounds are not checked."""
    items = _with_placeholders(index if isinstance(index, tuple) else (index,))
    indexed: Array = np.broadcast_to(_NOTHING, shape)[items]
    return indexed.shape


def _with_placeholders(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """The items with zeros in place of traced arrays: the resulting shape is the same."""
    if not is_traced(items):
        return items
    sizes = [item.shape if has_namespace(item) else None for item in items]
    return tuple(
        [
            item if size is None else np.zeros(size, np.intp) if size else 0
            for item, size in zip(items, sizes, strict=True)
        ]
    )


def is_traced(items: tuple[Any, ...]) -> bool:
    """Whether a normalised index has a traced array."""
    return not _PLAIN.issuperset(map(type, items)) and any(map(has_namespace, items))


def basic_shape(items: tuple[Any, ...], batch_size: Shape) -> Shape | None:
    """The batch size after an index of integers in range and slices; None for any other index."""
    if len(items) > len(batch_size):
        return None
    shape: list[int] = []
    for item, n in zip(items, batch_size, strict=False):
        if type(item) is slice:
            shape.append(slice_length(item, n))
        elif type(item) is not int or not -n <= item < n:
            return None
    return (*shape, *batch_size[len(items) :])


def views(index: tuple[Any, ...], size: Shape) -> tuple[tuple[Any, ...], Shape] | None:
    """A basic index without its ellipsis, and the batch size after it; None for arrays or a bad index."""
    if not _VIEWS.issuperset(map(type, index)):
        return None
    rest = len(size) + index.count(None) + index.count(Ellipsis) - len(index)
    if rest < 0 or index.count(Ellipsis) > 1:
        return None
    items: list[Any] = []
    shape: list[int] = []
    dim = 0
    for item in index:
        kind = type(item)
        if kind is EllipsisType:
            items += [slice(None)] * rest
            shape += size[dim : dim + rest]
            dim += rest
            continue
        items.append(item)
        if item is None:
            shape.append(1)
            continue
        n = size[dim]
        dim += 1
        if kind is slice:
            shape.append(slice_length(item, n))
        elif not -n <= item < n:
            return None
    return tuple(items), (*shape, *size[dim:])


def slice_length(index: slice, n: int) -> int:
    """The number of elements that a slice picks from `n`."""
    start, stop, step = index.indices(n)
    count = max(stop - start, 0) if step == 1 else len(range(start, stop, step))
    if type(n) is int:
        return count
    # A dynamic size of a graph. With both ends counted from one side the length is fixed.
    first, last = index.start, index.stop
    from_front = step > 0 if first is None else first >= 0
    to_front = step < 0 if last is None else last >= 0
    return count if from_front == to_front else type(n)(count)


_VIEWS = frozenset({int, slice, NoneType, EllipsisType})
_PLAIN = _VIEWS | {bool, np.ndarray}
_NOTHING = np.zeros((), dtype=np.bool_)


def result_names(items: tuple[Any, ...], names: list[str | None], ndim: int) -> Names:
    """Names after indexing: an integer drops a name, a slice or a 1-d array keeps it, None adds None.

    Index arrays, bools and the integers beside them make one block of dimensions, which is unnamed unless it
    comes from a single 1-d array. NumPy puts the block at their position, or first if they are not adjacent.
    """
    items = _with_placeholders(items)
    arrays = [item for item in items if isinstance(item, np.ndarray | bool)]
    block_at = [i for i, item in enumerate(items) if isinstance(item, np.ndarray | int)]
    together = not arrays or block_at[-1] - block_at[0] + 1 == len(block_at)
    out: list[str | None] = []
    block_name: str | None = None
    start = dim = 0
    for i, item in enumerate(items):
        if arrays and i == block_at[0] and together:
            start = len(out)
        if item is None:
            out.append(None)
        elif isinstance(item, slice):
            out.append(names[dim])
        elif isinstance(item, np.ndarray) and len(arrays) == item.ndim == 1:
            block_name = names[dim]
        dim += _consumes(item)
    out.extend(names[dim:])
    block = ndim - len(out)
    return out[:start] + ([block_name] if block == 1 else [None] * block) + out[start:]
