"""How the entries of one key become one, stacked or concatenated: arrays in one copy, nodes key by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from lite._arrays.device import on_leaves
from lite._arrays.joining import stacked
from lite._arrays.types import Array, Names, is_array
from lite._tree.collection import TensorCollection
from lite._tree.names import check_names
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack, same_object
from lite._tree.protocol import Container, kinds

_EXCLUSIVE = (
    "The sets of keys in the tensordicts to stack are exclusive. Consider using "
    "`LazyStackedTensorDict.maybe_dense_stack` instead."
)


def uniform(
    items: list[Any],
    name: str,
    values: Callable[[list[Any]], Any],
    nodes: Callable[[list[Any]], Any] | None = None,
) -> Any:
    """Combine containers with `nodes`, or arrays and non-tensors with `values`; classes must agree."""
    if all(issubclass(kind, Container) for kind in set(map(type, items))):
        return values(items) if nodes is None else nodes(items)
    found = [Container._as_node(item) for item in items]
    if all(node is not None for node in found):
        result = values(found) if nodes is None else nodes(found)
        wrapped = [item for item in items if not isinstance(item, Container)]
        return _rewrap_common(wrapped, result, len(items))
    if all(isinstance(item, NonTensorBase) or is_array(item) for item in items):
        return values(items)
    got = sorted({type(item).__name__ for item in items})
    raise TypeError(f"{name} expects tensordicts, got items of type {got}.")


def _rewrap_common(wrapped: Sequence[Any], result: Any, total: int) -> Any:
    """Instances of one tensorclass give an instance of it; a mixture gives the plain container."""
    if len(wrapped) == total and len({type(item) for item in wrapped}) == 1:
        return wrapped[0]._wrap_tensordict(result)
    return result


def stack_values(items: list[Any], dim: int) -> Any:
    """Stack entries of one kind; the caller has checked the kinds."""
    first = items[0]
    if isinstance(first, Container):
        return _stack_nodes(items, dim)
    if isinstance(first, NonTensorBase):
        return _stack_objects(items, dim)
    return np.stack(items, dim)


def _stack_objects(items: list[Any], dim: int) -> NonTensorBase:
    try:
        return NonTensorStack._stacked(items, dim % (items[0].ndim + 1))
    except ValueError:
        sizes = sorted({item.batch_size for item in items})
        raise RuntimeError(f"non-tensor entries to stack have different batch sizes: {sizes}.") from None


def _check_sizes(items: list[Any], dim: int) -> int:
    sizes = [item.batch_size for item in items]
    size = sizes[0]
    if sizes.count(size) < len(sizes):
        i, other = next((i, other) for i, other in enumerate(sizes) if other != size)
        raise RuntimeError(
            "stacking tensordicts requires them to have congruent batch sizes, got "
            f"td[{i}].batch_size={other} and td[0].batch_size={size}."
        )
    if not -len(size) - 1 <= dim <= len(size):
        raise IndexError(
            f"dim must be in [{-len(size) - 1}, {len(size)}] to stack batch size {size}, got {dim}."
        )
    return dim % (len(size) + 1)


def _stack_nodes(items: list[Any], dim: int) -> Any:
    dim = _check_sizes(items, dim)
    first = items[0]
    if set(map(type, items)) != {kinds.dense}:
        lazy = [item for item in items if isinstance(item, kinds.lazy)]
        if len(lazy) == len(items):
            if len({item.stack_dim for item in lazy}) == 1:
                return _stack_lazy(lazy, dim)
            # Parts that lie along different dims do not pair up; what they hold may be ragged.
            return kinds.lazy(*items, stack_dim=dim)
        items = [item.contiguous() if isinstance(item, kinds.lazy) else item for item in items]
    return _stack_dense(items, dim, first.batch_size)


def _stack_lazy(items: list[Any], dim: int) -> Any:
    at = items[0].stack_dim
    inner = dim if dim <= at else dim - 1
    columns = zip(*(item.tensordicts for item in items), strict=True)
    parts = [_stack_nodes(list(column), inner) for column in columns]
    return kinds.lazy._make(parts, at + (dim <= at), items[0]._dim_name)


def _stack_dense(items: list[Any], dim: int, size: tuple[int, ...]) -> Any:
    datas = [item._data for item in items]
    first = datas[0]
    n = len(datas)
    if set(map(len, datas)) != {len(first)}:
        raise RuntimeError(_EXCLUSIVE)
    try:
        columns = {key: list(map(itemgetter(key), datas)) for key in first}
    except KeyError:
        raise RuntimeError(_EXCLUSIVE) from None
    entries = {key: _stack_column(column, dim, key) for key, column in columns.items()}
    return kinds.dense._make(
        entries, size[:dim] + (n,) + size[dim:], common_device(items), _stacked_names(items, dim)
    )


def _stack_arrays(column: list[Any], dim: int, key: str, host: bool = False) -> Array:
    out = stacked(column, dim, host)
    if out is None:
        shape = column[0].shape
        other = next(array.shape for array in column if array.shape != shape)
        raise RuntimeError(
            f"The shapes of the tensors to stack is incompatible: {other} vs {shape} for key {key}."
        )
    return out


def _stack_column(column: list[Any], dim: int, key: str) -> Any:
    found = set(map(type, column))
    if found == {np.ndarray}:
        return _stack_arrays(column, dim, key, host=True)
    if found == {kinds.dense}:
        return _stack_nodes(column, dim)
    if all(isinstance(entry, NonTensorBase) for entry in column):
        return _stack_objects(column, dim)
    if all(isinstance(entry, TensorCollection) and not isinstance(entry, NonTensorBase) for entry in column):
        return uniform(column, "stack", lambda values: stack_values(values, dim))
    if all(is_array(entry) for entry in column):
        return on_leaves(lambda *arrays: _stack_arrays(list(arrays), dim, key), *column)
    names = sorted(kind.__name__ for kind in found)
    raise RuntimeError(f"The entries to stack for key {key} are of different kinds: {names}.")


def common_device(items: list[Any]) -> str | None:
    device: str | None = items[0].device
    return device if device is None or all(item.device == device for item in items) else None


def _stacked_names(items: list[Any], dim: int) -> Names:
    names: Names = items[0]._names
    if names is None or any(item._names != names for item in items):
        return None
    return check_names([*names[:dim], None, *names[dim:]], len(names) + 1)


def maybe_dense_entries(items: list[Any], dim: int) -> Any:
    """`maybe_dense_stack` of entries of one kind."""
    return uniform(items, "maybe_dense_stack", lambda v: stack_values(v, dim), lambda v: maybe_dense(v, dim))


def maybe_dense(items: list[Any], dim: int) -> Any:
    first = items[0]
    size = first.batch_size
    if any(item.ndim != len(size) for item in items):
        raise RuntimeError(
            "Lazy stacking of tensordicts requires them to have congruent batch dimensions, got "
            f"{[item.batch_size for item in items]}."
        )
    if not all(type(item) is kinds.dense for item in items) or any(item.batch_size != size for item in items):
        return _lazy_or_stack(items, dim)
    dim = _check_sizes(items, dim)
    datas = [item._data for item in items]
    keys = datas[0].keys()
    if any(data.keys() != keys for data in datas):
        return kinds.lazy(*items, stack_dim=dim)
    entries = {}
    for key in keys:
        column = [data[key] for data in datas]
        nested = all(Container._as_node(entry) is not None for entry in column)
        try:
            entries[key] = maybe_dense_entries(column, dim) if nested else _stack_column(column, dim, key)
        except RuntimeError:
            return kinds.lazy(*items, stack_dim=dim)
    shape = size[:dim] + (len(items),) + size[dim:]
    return kinds.dense._make(entries, shape, common_device(items), _stacked_names(items, dim))


def _lazy_or_stack(items: list[Any], dim: int) -> Any:
    try:
        return _stack_nodes(items, dim)
    except RuntimeError:
        return kinds.lazy(*items, stack_dim=dim)


def cat_values(items: list[Any], dim: int) -> Any:
    first = items[0]
    if isinstance(first, Container):
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
    if set(map(type, items)) != {kinds.dense}:
        lazy = [item for item in items if isinstance(item, kinds.lazy)]
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
    return kinds.dense._make(entries, joined, common_device(items), first._names and list(first._names))


def _cat_column(column: list[Any], dim: int, key: str) -> Any:
    found = set(map(type, column))
    arrays = found == {np.ndarray}
    if found == {kinds.dense}:
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
        shown = [f"{type(entry).__name__} {tuple(getattr(entry, 'shape', ()))}" for entry in column]
        raise RuntimeError(
            f"the entries of key {key!r} cannot be concatenated: {', '.join(shown)}."
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


def _cat_lazy(items: list[Any], dim: int, model: Any) -> Any:
    at = model.stack_dim
    columns = []
    for item in items:
        if isinstance(item, kinds.lazy) and item.stack_dim != at:
            raise RuntimeError(
                f"lazy stacks to concatenate must have one stack dim, got {at} and {item.stack_dim}."
            )
        if item.ndim != model.ndim:
            raise RuntimeError(f"batch sizes must agree, got {item.batch_size} and {model.batch_size}.")
        columns.append(item.unbind(at))
    if dim == at:
        parts = [part for column in columns for part in column]
        return kinds.lazy._make(parts, at, model._dim_name, model._empty_size)
    if len({len(column) for column in columns}) > 1:
        raise RuntimeError(f"lazy stacks to concatenate in dim {dim} must have equal lengths.")
    inner = dim if dim < at else dim - 1
    parts = [_cat_nodes(list(parts), inner) for parts in zip(*columns, strict=True)]
    return kinds.lazy._make(parts, at, model._dim_name)
