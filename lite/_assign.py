"""Assignment at a batch index of a dense TensorDict: `td[index] = value`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lite._collection import Shape, TensorCollection
from lite._index import normalise, result_shape
from lite._lock import LOCK_ERROR
from lite._nontensor import NonTensorBase, NonTensorStack, rows
from lite._writes import Writes, fits, trimmed


def set_index(td: Any, index: Any, value: Any, writes: Writes | None = None) -> None:
    """`td[index] = value`; nothing is written unless every entry can take its value."""
    if writes is not None:
        _plan(td, index, value, writes)
    elif not _write_arrays(td, index, value):
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
            target = _allocate(td, source, len(shape))
            writes.put(td, key, target)
        own, other = td._as_node(target), td._as_node(source)
        objects = isinstance(target, NonTensorBase)
        if objects and isinstance(source, np.ndarray):
            source = rows(source, len(shape))
        if (own is None) != (other is None) or isinstance(source, NonTensorBase) != objects:
            raise RuntimeError(
                f"cannot write a {type(source).__name__} to the {type(target).__name__} at key {key!r}."
            )
        if objects:
            writes.put(td, key, target._assign(items, source))
        elif own is not None:
            own._set_index(items, other, writes)
        else:
            _plan_leaf(td, key, target, items, shape, source, writes)


def _plan_leaf(
    td: Any, key: str, target: Any, items: tuple[Any, ...], shape: Shape, source: Any, writes: Writes
) -> None:
    wanted = shape + tuple(target.shape[len(td._batch_size) :])
    source = trimmed(source, len(wanted))
    if not fits(tuple(source.shape), wanted):
        raise RuntimeError(
            f"shape mismatch at key {key!r}: value of shape {tuple(source.shape)} cannot be "
            f"written to the indexed shape {wanted}."
        )
    try:
        writes.copy(target, source, items, wanted)
    except ValueError as error:
        raise ValueError(f"cannot write to key {key!r}: {error}") from error


def _write_arrays(td: Any, index: Any, value: Any) -> bool:
    """The most frequent case, if it is that: an int or a slice, and nothing but arrays that fit exactly."""
    size = td._batch_size
    if not size or (type(index) is not int and type(index) is not slice):
        return False
    if type(value) is not type(td) or not value._data:
        return False
    targets, sources = td._data, value._data
    shape = result_shape((index,), size)
    if value._batch_size != shape:
        return False
    ndim = len(size)
    own = fitting = None  # the shape of the target before, which mostly is that of the next one, too
    for key, source in sources.items():
        target = targets.get(key)
        if type(source) is not np.ndarray or type(target) is not np.ndarray:
            return False
        if target.shape != own:
            own = target.shape
            fitting = shape + own[ndim:]
        if (
            source.shape != fitting
            or (source.dtype is not target.dtype and not np.can_cast(source.dtype, target.dtype))
            or not target.flags.writeable
        ):
            return False
    for key, source in sources.items():
        targets[key][index] = source
    return True


def _fill_index(td: Any, items: tuple[Any, ...], shape: Shape, value: Any, writes: Writes) -> None:
    """Write one value to every entry."""
    array = value if isinstance(value, np.ndarray) else np.asarray(td._to_entry(value))
    for key, entry in list(td._data.items()):
        node = td._as_node(entry)
        if node is not None:
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
