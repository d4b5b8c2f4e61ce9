"""Stacking and concatenating TensorDicts, arrays and non-tensor data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lite._array_function import implements
from lite._base import TensorDictBase
from lite._collection import Array, Names, TensorCollection, is_array
from lite._lazy import LazyStackedTensorDict
from lite._names import check_names
from lite._nontensor import NonTensorBase, NonTensorData, NonTensorStack
from lite._tensordict import TensorDict

_EXCLUSIVE = (
    "The sets of keys in the tensordicts to stack are exclusive. Consider using "
    "`LazyStackedTensorDict.maybe_dense_stack` instead."
)


@implements(np.stack)
def _numpy_stack(arrays: Any, axis: int = 0, out: Any = None) -> Any:
    return stack(arrays, axis, out=out)


@implements(np.concatenate)
def _numpy_concatenate(arrays: Any, axis: int = 0, out: Any = None) -> Any:
    return cat(arrays, axis, out=out)


def stack(tensordicts: Iterable[Any], dim: int = 0, *, out: Any = None) -> Any:
    """Stack TensorDicts of equal batch size, keys and shapes along a new batch dimension.

    Every leaf is copied once, into one array per key; dtypes promote as in NumPy. Non-tensor data
    becomes one object per element, also where all objects are equal. Tensorclass instances of one
    class give an instance of that class. Lazy stacks of equal length give a lazy stack.

    Args:
        tensordicts: an iterable of TensorDicts (or of arrays, or of non-tensor data).
        dim: position of the new dimension, negative counts from the end of the result.
        out: a TensorDict of the result's batch size whose arrays receive the values.

    Returns:
        A TensorDict (or array); `out` if given.

    Raises:
        RuntimeError: nothing to stack, or batch sizes, keys or shapes differ.
        IndexError: `dim` is out of range.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, stack
        >>> rows = [TensorDict(a=np.full(2, i)) for i in range(3)]
        >>> stack(rows)["a"].shape, stack(rows).batch_size
        ((3, 2), (3,))
    """
    items = _listed(tensordicts, "stack")
    result = _uniform(items, "stack", lambda values: _stack_values(values, dim))
    return result if out is None else _write_out(out, result)


def cat(tensordicts: Iterable[Any], dim: int = 0, *, out: Any = None) -> Any:
    """Concatenate TensorDicts along an existing batch dimension.

    Where an input is a lazy stack the result is one, too.

    Args:
        tensordicts: an iterable of TensorDicts (or of arrays, or of non-tensor data).
        dim: the batch dimension to join, negative counts from the end.
        out: a TensorDict of the result's batch size whose arrays receive the values.

    Raises:
        KeyError: the key sets differ.
        RuntimeError: nothing to concatenate, `dim` is out of range, or other dimensions differ.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, cat
        >>> td = TensorDict(a=np.zeros((2, 3)), batch_size=[2])
        >>> cat([td, td[:1]]).batch_size
        (3,)
    """
    items = _listed(tensordicts, "cat")
    result = _uniform(items, "cat", lambda values: _cat_values(values, dim))
    return result if out is None else _write_out(out, result)


def lazy_stack(items: Iterable[Any], dim: int = 0) -> Any:
    """Stack TensorDicts without copying: the result holds them and stacks entries when read.

    Arrays are stacked at once, non-tensor data becomes a `NonTensorStack`.

    Args:
        items: an iterable of TensorDicts; their keys and the shapes of their leaves may differ.
        dim: position of the new dimension, negative counts from the end of the result.

    Raises:
        RuntimeError: `items` is empty, or numbers of batch dimensions or devices differ.
        IndexError: `dim` is out of range.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, lazy_stack
        >>> rows = lazy_stack([TensorDict(a=np.ones(n)) for n in (1, 2)])
        >>> rows.get("a", as_list=True)
        [array([1.]), array([1., 1.])]
    """
    values = _listed(items, "lazy_stack")

    def nodes(found: list[Any]) -> Any:
        return LazyStackedTensorDict(*found, stack_dim=dim)

    return _uniform(values, "lazy_stack", lambda v: _stack_values(v, dim), nodes)


def maybe_dense_stack(items: Iterable[Any], dim: int = 0) -> Any:
    """Stack densely where keys and shapes allow it, lazily where they do not, node by node.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, maybe_dense_stack
        >>> rows = [TensorDict(a=1, n={"b": np.ones(n)}) for n in (1, 2)]
        >>> out = maybe_dense_stack(rows)
        >>> type(out).__name__, type(out["n"]).__name__
        ('TensorDict', 'LazyStackedTensorDict')
    """
    values = _listed(items, "maybe_dense_stack")
    return _uniform(
        values, "maybe_dense_stack", lambda v: _stack_values(v, dim), lambda v: _maybe_dense(v, dim)
    )


def dense_stack_tds(td_list: Any, dim: int | None = None) -> Any:
    """Stack a list of TensorDicts, or a lazy stack along its own dimension, to a dense TensorDict.

    Raises:
        RuntimeError: keys or shapes differ, or `dim` is not the stack dimension of a lazy stack.
    """
    node = TensorDictBase._as_node(td_list)
    if isinstance(node, LazyStackedTensorDict):
        if dim is not None and dim % node.ndim != node.stack_dim:
            raise RuntimeError(f"dim must be the stack dim {node.stack_dim} of the lazy stack, got {dim}.")
        return node._rewrap(td_list, stack(node.tensordicts, node.stack_dim))
    return stack(td_list, 0 if dim is None else dim)


def merge_tensordicts(*tensordicts: Any, callback_exist: Any = None) -> TensorDict:
    """The union of the entries of several TensorDicts; the first that has a key gives its value.

    Args:
        tensordicts: at least two, of one batch size.
        callback_exist: called with the values of all where every TensorDict has the key; or a
            mapping from key to such a function.

    Raises:
        RuntimeError: fewer than two TensorDicts, or batch sizes do not fit.
    """
    if len(tensordicts) < 2:
        raise RuntimeError(f"merge_tensordicts needs at least 2 tensordicts, got {len(tensordicts)}.")
    first = tensordicts[0]
    out = TensorDict({}, first.batch_size, first.device)
    for td in tensordicts:
        for key, value in td.items(True, True, is_leaf=_is_leaf):
            if key in out:
                continue
            values = [other.get(key) for other in tensordicts]
            fn = callback_exist.get(key) if isinstance(callback_exist, dict) else callback_exist
            if fn is not None and not any(v is None for v in values):
                value = fn(*values)
            out.set(key, value)
    return out


def _is_leaf(cls: type) -> bool:
    return not issubclass(cls, TensorCollection) or bool(getattr(cls, "_is_non_tensor", False))


def _listed(items: Any, name: str) -> list[Any]:
    found = items.unbind(0) if isinstance(items, TensorCollection) else items  # type: ignore[attr-defined]
    if not isinstance(found, Iterable):
        raise TypeError(f"{name} expects an iterable of tensordicts, got {type(items)}.")
    out = list(found)
    if not out:
        raise RuntimeError("items cannot be empty")
    return out


def _uniform(
    items: list[Any],
    name: str,
    values: Callable[[list[Any]], Any],
    nodes: Callable[[list[Any]], Any] | None = None,
) -> Any:
    """Combine containers with `nodes`, or arrays and non-tensors with `values`; classes must agree."""
    first = items[0]
    if isinstance(first, TensorDictBase) and all(isinstance(item, TensorDictBase) for item in items):
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


def _write_out(out: Any, result: Any) -> Any:
    if is_array(out):
        out[...] = result
        return out
    if out.batch_size != result.batch_size:
        raise RuntimeError(
            f"out.batch_size and the stacked batch size must match, got out.batch_size={out.batch_size} and "
            f"{result.batch_size}."
        )
    return out.update(result, inplace=True)


# -- stack ------------------------------------------------------------------------------------


def _stack_values(items: list[Any], dim: int) -> Any:
    """Stack entries of one kind; the caller has checked the kinds."""
    first = items[0]
    if isinstance(first, TensorDictBase):
        return _stack_nodes(items, dim)
    if isinstance(first, NonTensorBase):
        return _stack_objects(items, dim)
    return np.stack(items, dim)


def _stack_objects(items: list[Any], dim: int) -> NonTensorStack:
    try:
        return NonTensorStack._wrap(np.stack([item._objects() for item in items], dim))
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
    lazy = [item for item in items if isinstance(item, LazyStackedTensorDict)]
    if len(lazy) == len(items) and len({item.stack_dim for item in lazy}) == 1:
        return _stack_lazy(lazy, dim)
    dense = [item.contiguous() if isinstance(item, LazyStackedTensorDict) else item for item in items]
    return _stack_dense(dense, dim, first.batch_size)


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
        columns = {key: [data[key] for data in datas] for key in first}
    except KeyError:
        raise RuntimeError(_EXCLUSIVE) from None
    entries = {key: _stack_column(column, dim, key) for key, column in columns.items()}
    return TensorDict._make(
        entries, size[:dim] + (n,) + size[dim:], _device(items), _stacked_names(items, dim)
    )


def _stack_arrays(column: list[Any], dim: int, key: str) -> Array:
    shapes = [array.shape for array in column]
    shape = shapes[0]
    if shapes.count(shape) < len(shapes):
        other = next(other for other in shapes if other != shape)
        raise RuntimeError(
            f"The shapes of the tensors to stack is incompatible: {other} vs {shape} for key {key}."
        )
    if dim == len(shape):
        return np.stack(column, dim)
    # One concatenation and a reshape: np.stack would make a view of every array first.
    return np.concatenate(column, dim).reshape(shape[:dim] + (len(column),) + shape[dim:])


def _stack_column(column: list[Any], dim: int, key: str) -> Any:
    if set(map(type, column)) == {np.ndarray}:
        return _stack_arrays(column, dim, key)
    if all(isinstance(entry, NonTensorBase) for entry in column):
        return _stack_objects(column, dim)
    if all(isinstance(entry, TensorCollection) and not isinstance(entry, NonTensorBase) for entry in column):
        return stack(column, dim)
    if all(is_array(entry) for entry in column):
        return _stack_arrays([np.asarray(entry) for entry in column], dim, key)
    kinds = sorted({type(entry).__name__ for entry in column})
    raise RuntimeError(f"The entries to stack for key {key} are of different kinds: {kinds}.")


def _device(items: list[Any]) -> str | None:
    device: str | None = items[0].device
    return device if device is None or all(item.device == device for item in items) else None


def _stacked_names(items: list[Any], dim: int) -> Names:
    names: Names = items[0]._names
    if names is None or any(item._names != names for item in items):
        return None
    return check_names([*names[:dim], None, *names[dim:]], len(names) + 1)


# -- maybe dense ------------------------------------------------------------------------------


def _maybe_dense(items: list[Any], dim: int) -> Any:
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
            entries[key] = maybe_dense_stack(column, dim) if nested else _stack_column(column, dim, key)
        except RuntimeError:
            return LazyStackedTensorDict(*items, stack_dim=dim)
    shape = size[:dim] + (len(items),) + size[dim:]
    return TensorDict._make(entries, shape, _device(items), _stacked_names(items, dim))


def _lazy_or_stack(items: list[Any], dim: int) -> Any:
    try:
        return _stack_nodes(items, dim)
    except RuntimeError:
        return LazyStackedTensorDict(*items, stack_dim=dim)


# -- cat --------------------------------------------------------------------------------------


def _cat_values(items: list[Any], dim: int) -> Any:
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
    lazy = [item for item in items if isinstance(item, LazyStackedTensorDict)]
    if lazy:
        return _cat_lazy(items, dim, lazy[0])
    first = items[0]
    ndim = first.ndim
    for item in items[1:]:
        if item.ndim != ndim or any(
            a != b for i, (a, b) in enumerate(zip(item.batch_size, first.batch_size, strict=True)) if i != dim
        ):
            raise RuntimeError(
                f"batch sizes must agree except in dim {dim} to concatenate, got {item.batch_size} and "
                f"{first.batch_size}."
            )
    datas = [item._data for item in items]
    keys = datas[0].keys()
    for data in datas:
        if data.keys() != keys:
            differing = sorted(data.keys() ^ keys)
            raise KeyError(f"the tensordicts to concatenate have different keys: {differing} are not in all.")
    entries = {key: _cat_column([data[key] for data in datas], dim, key) for key in keys}
    size = first.batch_size
    joined = size[:dim] + (sum(item.batch_size[dim] for item in items),) + size[dim + 1 :]
    return TensorDict._make(entries, joined, _device(items), first._names and list(first._names))


def _cat_column(column: list[Any], dim: int, key: str) -> Any:
    if all(isinstance(entry, NonTensorBase) for entry in column):
        return _cat_objects(column, dim)
    if all(isinstance(entry, TensorCollection) and not isinstance(entry, NonTensorBase) for entry in column):
        return cat(column, dim)
    try:
        return np.concatenate(column, dim)
    except (ValueError, TypeError) as error:
        shapes = [tuple(getattr(entry, "shape", ())) for entry in column]
        raise RuntimeError(f"the entries of key {key!r} cannot be concatenated: shapes {shapes}.") from error


def _cat_objects(items: list[Any], dim: int) -> NonTensorBase:
    first = items[0]
    size = first.batch_size
    if all(isinstance(item, NonTensorData) for item in items) and all(
        item.data is first.data or _equal(item.data, first.data) for item in items
    ):
        joined = sum(item.batch_size[dim] for item in items)
        return NonTensorData._make(first.data, size[:dim] + (joined,) + size[dim:][1:])
    return NonTensorStack._wrap(np.concatenate([item._objects() for item in items], dim))


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(np.all(a == b))


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
