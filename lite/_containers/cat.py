"""How entries are concatenated: arrays, objects, nodes key by key, lazy stacks part by part."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np

from lite._arrays.device import on_leaves
from lite._base import TensorDictBase
from lite._containers.lazy import LazyStackedTensorDict
from lite._containers.stacking import common_device, uniform
from lite._tensordict import TensorDict
from lite._tree.collection import TensorCollection
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack, same_object


def cat_values(items: list[Any], dim: int) -> Any:
    first = items[0]
    if isinstance(first, TensorDictBase):
        ndim = first.ndim
        at = dim + ndim if dim < 0 else dim
        if not 0 <= at < ndim:
            raise RuntimeError(
                f"dim must be in the range 0 <= dim < len(batch_size), got dim={dim} and "
                f"batch_size={first.batch_size}"
            )
        return _cat_nodes(items, at)
    if isinstance(first, NonTensorBase):
        return _cat_objects(items, dim)
    return np.concatenate(items, dim)


def _cat_nodes(items: list[Any], dim: int) -> Any:
    if set(map(type, items)) != {TensorDict}:
        lazy = [item for item in items if isinstance(item, LazyStackedTensorDict)]
        if lazy:
            return _cat_lazy(items, dim, lazy[0])
    first = items[0]
    ndim = first.ndim
    sizes = [item._batch_size for item in items]
    size = sizes[0]
    for other in set(sizes) if sizes.count(size) < len(sizes) else ():
        if len(other) != ndim or other[:dim] != size[:dim] or other[dim + 1 :] != size[dim + 1 :]:
            raise RuntimeError(
                f"batch sizes must agree except in dim {dim} to concatenate, got {other} and {size}."
            )
    datas = [item._data for item in items]
    keys = datas[0].keys()
    try:
        columns = {key: list(map(itemgetter(key), datas)) for key in keys}
    except KeyError:
        columns = {}
    if not columns or set(map(len, datas)) != {len(keys)}:
        for data in datas:
            if data.keys() != keys:
                differing = sorted(data.keys() ^ keys)
                raise KeyError(
                    f"the tensordicts to concatenate have different keys: {differing} are not in all."
                )
    entries = {key: _cat_column(column, dim, key) for key, column in columns.items()}
    joined = size[:dim] + (sum(map(itemgetter(dim), sizes)),) + size[dim + 1 :]
    return TensorDict._make(entries, joined, common_device(items), first._names and list(first._names))


def _cat_column(column: list[Any], dim: int, key: str) -> Any:
    kinds = set(map(type, column))
    arrays = kinds == {np.ndarray}
    if kinds == {TensorDict}:
        return _cat_nodes(column, dim)
    if not arrays and all(isinstance(entry, NonTensorBase) for entry in column):
        return _cat_objects(column, dim)
    if not arrays and all(
        isinstance(entry, TensorCollection) and not isinstance(entry, NonTensorBase) for entry in column
    ):
        return uniform(column, "cat", lambda values: cat_values(values, dim))
    try:
        if arrays:
            return np.concatenate(column, dim)
        return on_leaves(lambda *arrays: np.concatenate(arrays, dim), *column)
    except (ValueError, TypeError) as error:
        found = [f"{type(entry).__name__} {tuple(getattr(entry, 'shape', ()))}" for entry in column]
        raise RuntimeError(
            f"the entries of key {key!r} cannot be concatenated: {', '.join(found)}."
        ) from error


def _cat_objects(items: list[Any], dim: int) -> NonTensorBase:
    first = items[0]
    size = first.batch_size
    if all(isinstance(item, NonTensorData) for item in items) and all(
        same_object(item.data, first.data) for item in items
    ):
        joined = sum(item.batch_size[dim] for item in items)
        return NonTensorData._make(first.data, size[:dim] + (joined,) + size[dim:][1:])
    return NonTensorStack._wrap(np.concatenate([item._objects() for item in items], dim))


def _cat_lazy(items: list[Any], dim: int, model: LazyStackedTensorDict) -> LazyStackedTensorDict:
    at = model.stack_dim
    columns = []
    for item in items:
        if isinstance(item, LazyStackedTensorDict) and item.stack_dim != at:
            raise RuntimeError(
                f"lazy stacks to concatenate must have one stack dim, got {at} and {item.stack_dim}."
            )
        if item.ndim != model.ndim:
            raise RuntimeError(f"batch sizes must agree, got {item.batch_size} and {model.batch_size}.")
        columns.append(item.unbind(at))
    if dim == at:
        parts = [part for column in columns for part in column]
        return LazyStackedTensorDict._make(parts, at, model._dim_name, model._empty_size)
    if len({len(column) for column in columns}) > 1:
        raise RuntimeError(f"lazy stacks to concatenate in dim {dim} must have equal lengths.")
    inner = dim if dim < at else dim - 1
    parts = [_cat_nodes(list(parts), inner) for parts in zip(*columns, strict=True)]
    return LazyStackedTensorDict._make(parts, at, model._dim_name)
