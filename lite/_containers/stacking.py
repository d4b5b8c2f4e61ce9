"""How entries are stacked: arrays in one copy, nodes key by key, lazily where they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from lite._arrays.device import on_leaves
from lite._arrays.joining import stacked
from lite._arrays.types import Array, Names, is_array
from lite._base import TensorDictBase
from lite._containers.lazy import LazyStackedTensorDict
from lite._tensordict import TensorDict
from lite._tree.collection import TensorCollection
from lite._tree.names import check_names
from lite._tree.nontensor import NonTensorBase, NonTensorStack

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
    if all(issubclass(kind, TensorDictBase) for kind in set(map(type, items))):
        return values(items) if nodes is None else nodes(items)
    found = [TensorDictBase._as_node(item) for item in items]
    if all(node is not None for node in found):
        result = values(found) if nodes is None else nodes(found)
        wrapped = [item for item in items if not isinstance(item, TensorDictBase)]
        return _rewrap_common(wrapped, result, len(items))
    if all(isinstance(item, NonTensorBase) or is_array(item) for item in items):
        return values(items)
    kinds = sorted({type(item).__name__ for item in items})
    raise TypeError(f"{name} expects tensordicts, got items of type {kinds}.")


def _rewrap_common(wrapped: Sequence[Any], result: Any, total: int) -> Any:
    """Instances of one tensorclass give an instance of it; a mixture gives the plain container."""
    if len(wrapped) == total and len({type(item) for item in wrapped}) == 1:
        return wrapped[0]._wrap_tensordict(result)
    return result


def stack_values(items: list[Any], dim: int) -> Any:
    """Stack entries of one kind; the caller has checked the kinds."""
    first = items[0]
    if isinstance(first, TensorDictBase):
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
    if set(map(type, items)) != {TensorDict}:
        lazy = [item for item in items if isinstance(item, LazyStackedTensorDict)]
        if len(lazy) == len(items):
            if len({item.stack_dim for item in lazy}) == 1:
                return _stack_lazy(lazy, dim)
            # Parts that lie along different dims do not pair up; what they hold may be ragged.
            return LazyStackedTensorDict(*items, stack_dim=dim)
        items = [item.contiguous() if isinstance(item, LazyStackedTensorDict) else item for item in items]
    return _stack_dense(items, dim, first.batch_size)


def _stack_lazy(items: list[LazyStackedTensorDict], dim: int) -> LazyStackedTensorDict:
    at = items[0].stack_dim
    inner = dim if dim <= at else dim - 1
    columns = zip(*(item.tensordicts for item in items), strict=True)
    parts = [_stack_nodes(list(column), inner) for column in columns]
    return LazyStackedTensorDict._make(parts, at + (dim <= at), items[0]._dim_name)


def _stack_dense(items: list[Any], dim: int, size: tuple[int, ...]) -> TensorDict:
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
    return TensorDict._make(
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
    kinds = set(map(type, column))
    if kinds == {np.ndarray}:
        return _stack_arrays(column, dim, key, host=True)
    if kinds == {TensorDict}:
        return _stack_nodes(column, dim)
    if all(isinstance(entry, NonTensorBase) for entry in column):
        return _stack_objects(column, dim)
    if all(isinstance(entry, TensorCollection) and not isinstance(entry, NonTensorBase) for entry in column):
        return uniform(column, "stack", lambda values: stack_values(values, dim))
    if all(is_array(entry) for entry in column):
        return on_leaves(lambda *arrays: _stack_arrays(list(arrays), dim, key), *column)
    names = sorted(kind.__name__ for kind in kinds)
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
    if not all(type(item) is TensorDict for item in items) or any(item.batch_size != size for item in items):
        return _lazy_or_stack(items, dim)
    dim = _check_sizes(items, dim)
    datas = [item._data for item in items]
    keys = datas[0].keys()
    if any(data.keys() != keys for data in datas):
        return LazyStackedTensorDict(*items, stack_dim=dim)
    entries = {}
    for key in keys:
        column = [data[key] for data in datas]
        nested = all(TensorDictBase._as_node(entry) is not None for entry in column)
        try:
            entries[key] = maybe_dense_entries(column, dim) if nested else _stack_column(column, dim, key)
        except RuntimeError:
            return LazyStackedTensorDict(*items, stack_dim=dim)
    shape = size[:dim] + (len(items),) + size[dim:]
    return TensorDict._make(entries, shape, common_device(items), _stacked_names(items, dim))


def _lazy_or_stack(items: list[Any], dim: int) -> Any:
    try:
        return _stack_nodes(items, dim)
    except RuntimeError:
        return LazyStackedTensorDict(*items, stack_dim=dim)
