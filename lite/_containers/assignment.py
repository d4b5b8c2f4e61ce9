"""Assignment at a batch index of a dense TensorDict: `td[index] = value`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from lite._arrays.types import Path, Shape
from lite._tree.collection import TensorCollection
from lite._tree.entry_errors import below, entry_error
from lite._tree.indexing import basic_shape, normalise, result_shape, slice_length
from lite._tree.lock import LOCK_ERROR
from lite._tree.nontensor import NonTensorBase, NonTensorStack, rows
from lite._tree.writes import Writes, fits, fitting, trimmed

_ALL = slice(None)
_NUMBERS = (float, int, bool)


def set_index(td: Any, index: Any, value: Any, writes: Writes | None = None) -> None:
    """`td[index] = value`; nothing is written unless every entry can take its value."""
    if writes is not None:
        _plan(td, index, value, writes)
    elif not write_arrays(td, index, value):
        with Writes() as own:
            _plan(td, index, value, own)


def _plan(td: Any, index: Any, value: Any, writes: Writes) -> None:
    items = normalise(index, td._batch_size)
    shape = result_shape(items, td._batch_size)
    if isinstance(value, Mapping) and not isinstance(value, TensorCollection):
        value = td._make({}, shape, td._device).update(value)
    node = td._as_node(value)
    if node is None:
        _fill_index(td, items, shape, value, writes)
        return
    node = fit_assigned(node, shape, td._batch_size, index)
    if not td._data.keys() >= set(node._keys()):
        node = node._clone(False)  # it may be, or hold, the one that gets new entries
    for key in node._keys():
        source, target = node._get_str(key), td._data.get(key)
        if target is None:
            if td._locked:
                raise RuntimeError(LOCK_ERROR)
            writes.put(td, key, _allocate(td, source, len(shape)))
            target = td._data[key]  # under names a node is stored as a copy
        own, other = td._as_node(target), td._as_node(source)
        objects = isinstance(target, NonTensorBase)
        if objects and isinstance(source, np.ndarray):
            source = rows(source, len(shape))
        if (own is None) != (other is None) or isinstance(source, NonTensorBase) != objects:
            raise entry_error(
                RuntimeError,
                f"cannot write a {type(source).__name__} to the {type(target).__name__}{{at}}.",
                (key,),
            )
        if objects:
            writes.put(td, key, target._assign(items, source))
        elif own is not None:
            with below(key):
                own._set_index(items, other, writes)
        else:
            _plan_leaf(td, key, target, items, shape, source, writes)


def _plan_leaf(
    td: Any, key: str, target: Any, items: tuple[Any, ...], shape: Shape, source: Any, writes: Writes
) -> None:
    wanted = shape + tuple(target.shape[len(td._batch_size) :])
    if source.shape != wanted:
        source = trimmed(source, len(wanted))
    require_fit((key,), tuple(source.shape), wanted)
    try:
        writes.copy(target, source, items, wanted)
    except ValueError as error:
        raise entry_error(ValueError, f"cannot write to key {{key}}: {error}", (key,)) from error


def require_fit(path: Path, shape: Shape, wanted: Shape) -> None:
    if not fits(shape, wanted):
        raise entry_error(
            RuntimeError,
            f"shape mismatch{{at}}: value of shape {shape} cannot be written to the indexed shape {wanted}.",
            path,
        )


def write_arrays(td: Any, index: Any, value: Any) -> bool:
    """`td[index] = value` in the most frequent cases, if it is one: arrays that fit exactly, or a number."""
    kind = type(index)
    if kind is slice:
        index = Ellipsis if index == _ALL else index
    elif kind is ndarray and index.dtype.kind == "b" and index.shape == td._batch_size[:1]:
        index = index.nonzero()[0]
    elif kind is range or (kind is list and set(map(type, index)) == {int}):
        index = np.asarray(index, np.intp)
    found: list[tuple[Any, Any]] = []
    if type(value) in _NUMBERS:
        if _simple_shape(index, td._batch_size) is None or not _fill(td, td._to_entry(value), found):
            return False
    elif not collect(td, index, value, found):
        return False
    for target, source in found:  # the first says if an index array is out of bounds
        target[index] = source
    return bool(found)


def _fill(td: Any, number: Any, found: list[tuple[Any, Any]]) -> bool:
    """Find what is to be written for a number: (array, number of its dtype), if there are only arrays."""
    for target in td._data.values():
        if type(target) is type(td):
            if not _fill(target, number, found):
                return False
        else:
            ready = fitting(target, number, ())
            if ready is None:
                return False
            found.append((target, ready))
    return True


def collect(td: Any, index: Any, value: Any, found: list[tuple[Any, Any]]) -> bool:
    """Find what is to be written at an index: (array, array that fits), if there is nothing else."""
    if type(value) is not type(td) or not value._data:
        return False
    size = td._batch_size
    shape = _simple_shape(index, size)
    if shape is None or value._batch_size != shape:
        return False
    targets = td._data
    ndim = len(size)
    own = wanted = None  # the shape of the target before, which mostly is that of the next one, too
    for key, source in value._data.items():
        target = targets.get(key)
        if type(target) is not ndarray:
            if type(target) is type(td) and collect(target, index, source, found):
                continue
            return False
        if target.shape != own:
            own = target.shape
            wanted = shape + own[ndim:]
        ready = fitting(target, source, wanted)
        if ready is None:
            return False
        found.append((target, ready))
    return True


def _simple_shape(index: Any, size: Shape) -> Shape | None:
    """The batch size after one of the frequent indices; None for all others."""
    kind = type(index)
    if kind is int:
        return size[1:] if size and -size[0] <= index < size[0] else None
    if kind is slice:
        return (slice_length(index, size[0]), *size[1:]) if size else None
    if kind is tuple:
        return basic_shape(index, size)
    if kind is ndarray and index.ndim == 1 and index.dtype.kind == "i" and size:
        return (len(index), *size[1:])
    return size if index is Ellipsis else None


def _fill_index(td: Any, items: tuple[Any, ...], shape: Shape, value: Any, writes: Writes) -> None:
    """Write one value to every entry."""
    array = value if type(value) is ndarray else np.asarray(td._to_entry(value))
    for key, entry in list(td._data.items()):
        node = td._as_node(entry)
        if node is not None:
            with below(key):
                node._set_index(items, value, writes)
        elif isinstance(entry, NonTensorBase):
            writes.put(td, key, entry._assign(items, value))
        else:
            _plan_leaf(td, key, entry, items, shape, array, writes)


def fit_assigned(source: Any, shape: Shape, batch_size: Shape, index: Any) -> Any:
    """The source of an assignment with exactly the indexed batch size, expanded if it broadcasts."""
    own = source.batch_size
    if own == shape:
        return source
    if own and own == shape[len(shape) - len(own) :]:
        return source.expand(shape)
    try:
        return source._rebatch(shape)
    except RuntimeError as error:
        if not own:  # one element, unless its entries say that it only lacks the batch size
            return source.expand(shape)
        raise RuntimeError(
            f"indexed destination TensorDict batch size is {shape} (batch_size = {batch_size}, "
            f"index={index}), which differs from the source batch size {own}"
        ) from error


def _allocate(td: Any, source: Any, indexed_ndim: int) -> Any:
    """Zeros for the whole batch, shaped like an entry that is about to be written to a part of it."""
    batch_size = td._batch_size
    if isinstance(source, NonTensorBase):
        return NonTensorStack._wrap(np.full(batch_size, None, dtype=object))
    if isinstance(source, TensorCollection):
        size = batch_size + source.batch_size[indexed_ndim:]
        return td._make({}, size)
    return np.zeros(batch_size + source.shape[indexed_ndim:], source.dtype)
