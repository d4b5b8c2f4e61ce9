"""Assignment at a batch index of a dense TensorDict: `td[index] = value`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lite._collection import Shape, TensorCollection
from lite._core import TensorDictCore
from lite._device_array import write_leaf
from lite._index import normalise, result_shape
from lite._lock import LOCK_ERROR
from lite._nontensor import NonTensorBase, NonTensorStack


def set_index(td: Any, index: Any, value: Any) -> None:
    """`td[index] = value`; nothing is written unless every entry can take its value."""
    if _write_arrays(td, index, value):
        return
    items = normalise(index, td._batch_size)
    shape = result_shape(items, td._batch_size)
    if isinstance(value, Mapping) and not isinstance(value, TensorCollection):
        value = td._make({}, shape, td._device).update(value)
    node = td._as_node(value)
    if node is None:
        _fill_index(td, items, value)
        return
    node = fit_assigned(node, shape, td._batch_size, index)
    check_assign(td, items, shape, node)
    for key in node._keys():
        source = node._get_str(key)
        target = td._data.get(key)
        if target is None:
            target = _allocate(td, source, len(shape))
            td._put(key, target)
        if isinstance(target, TensorCollection):
            td._data[key] = target._assign(items, source)
        else:
            write_leaf(target, items, source)


def _write_arrays(td: Any, index: Any, value: Any) -> bool:
    """The most frequent case, if it is that: an int or a slice, and nothing but arrays that fit exactly."""
    size = td._batch_size
    if not size or (type(index) is not int and type(index) is not slice):
        return False
    targets, sources = td._flat(), value._flat() if isinstance(value, TensorDictCore) else None
    if targets is None or not sources:
        return False
    shape = result_shape((index,), size)
    if value.batch_size != shape:
        return False
    ndim = len(size)
    for key, source in sources.items():
        target = targets.get(key)
        fits = target is not None and source.shape == shape + target.shape[ndim:]
        if not fits or not target.flags.writeable:
            return False
    for key, source in sources.items():
        targets[key][index] = source
    return True


def check_write(td: Any, items: tuple[Any, ...], source: Any) -> None:
    """Raise the error of `td[items] = source` for a TensorDict, lazy or not, without writing."""
    from lite._lazy_index import check_writes

    if td._parts() is not None:
        check_writes(td, items, source)
        return
    shape = result_shape(items, td._batch_size)
    check_assign(td, items, shape, fit_assigned(source, shape, td._batch_size, items))


def check_assign(td: Any, items: tuple[Any, ...], shape: Shape, source: Any) -> None:
    """Raise before anything is written if some entry, at any depth, cannot take its value."""
    for key in source._keys():
        target, value = td._data.get(key), source._get_str(key)
        if target is None and td._locked:
            raise RuntimeError(LOCK_ERROR)
        if target is None:
            _check_new(td, value)
        if target is None or isinstance(target, NonTensorBase):
            continue
        own, other = td._as_node(target), td._as_node(value)
        if (own is None) != (other is None) or isinstance(value, NonTensorBase):
            raise RuntimeError(
                f"cannot write a {type(value).__name__} to the {type(target).__name__} at key {key!r}."
            )
        if own is not None:
            check_write(own, items, other)
        else:
            _check_writeable(target, key)
            wanted = shape + tuple(target.shape[len(td._batch_size) :])
            if value.shape == wanted:
                continue
            try:
                fits = np.broadcast_shapes(tuple(value.shape), wanted) == wanted
            except ValueError:
                fits = False
            if not fits:
                raise RuntimeError(
                    f"shape mismatch at key {key!r}: value of shape {tuple(value.shape)} cannot be "
                    f"written to the indexed shape {wanted}."
                )


def _check_writeable(target: Any, key: str) -> None:
    if isinstance(target, np.ndarray) and not target.flags.writeable:
        raise ValueError(f"the array at key {key!r} is read-only.")


def _check_new(td: Any, value: Any) -> None:
    """Raise if a new entry cannot be allocated as a dense one, because it is ragged."""
    node = td._as_node(value)
    if node is None:
        return
    if node._parts() is not None:
        node.contiguous()
    for _, entry in node._items():
        _check_new(td, entry)


def _fill_index(td: Any, items: tuple[Any, ...], value: Any) -> None:
    """Write one value to every entry."""
    array = value if isinstance(value, np.ndarray) else np.asarray(td._to_entry(value))
    for key, entry in td._data.items():
        if isinstance(entry, np.ndarray):
            _check_writeable(entry, key)
            np.broadcast_to(array, entry[items].shape)
    for key, entry in td._data.items():
        if isinstance(entry, TensorCollection):
            td._data[key] = entry._assign(items, value)
        else:
            write_leaf(entry, items, value)


def fit_assigned(source: Any, shape: Shape, batch_size: Shape, index: Any) -> Any:
    """The source of an assignment with exactly the indexed batch size, expanded if it broadcasts."""
    own = source.batch_size
    if own == shape:
        return source
    if own == shape[len(shape) - len(own) :]:
        return source.expand(shape)
    try:
        return source._rebatch(shape)
    except RuntimeError as error:
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
