"""Joining the entries of several containers under one key: stacking, concatenating, or a lazy stack of them.

`join_column` distinguishes arrays, objects and containers, and a `JoinFunctions` has the function for each.
Here are the `JoinFunctions`s of `stack` and `cat`; `lazy_entries` has the one that reads entries of a lazy
stack.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.device import on_leaves
from lite._arrays.foreign import class_name
from lite._arrays.types import Array, Names, Shape, is_array
from lite._tree.collection import TensorCollection
from lite._tree.entry_errors import entry_error, prefix_error_path
from lite._tree.names import check_names
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack, common_device, same_object
from lite._tree.protocol import Container, class_registry
from lite._tree.unbatched import UnbatchedTensor, joined, require_equal_shapes

_ARRAYS = {np.ndarray}
_SMALL = 256  # elements up to which a second copy costs less than a view of every array


def stacked(arrays: list[Array], dim: int, host: bool) -> Array | None:
    """`np.stack(arrays, dim)`; None if the shapes differ.

    Args:
        arrays: at least one.
        dim: where the new dimension is.
        host: whether all are NumPy arrays.
    """
    if host and dim == 0:
        # Compares shapes and copies all at once, in a third of the time of np.stack.
        try:
            out = np.array(arrays)
        except ValueError:
            return None
        return out if out.shape[1:] == arrays[0].shape else None
    shapes = [array.shape for array in arrays]
    shape = shapes[0]
    if shapes.count(shape) < len(shapes):
        return None
    if dim == len(shape):
        if host and arrays[0].size <= _SMALL:
            rows = np.array(arrays)
            return np.ascontiguousarray(rows.transpose(*range(1, rows.ndim), 0))
        out = np.stack(arrays, dim)
    else:
        # A concatenation and a reshape, as np.stack creates a view of every array first.
        out = np.concatenate(arrays, dim).reshape(shape[:dim] + (len(arrays),) + shape[dim:])
    # NumPy joins transposed arrays to a transposed one, which has no views where torch's has.
    return np.ascontiguousarray(out) if host else out


class JoinFunctions(NamedTuple):
    """The functions of a join for arrays, objects and containers; each also gets the dimension."""

    name: str  # the verb in errors
    arrays: Callable[[list[Array], int, bool], Array]  # the last argument is True if all are NumPy arrays
    objects: Callable[[list[Any], int], NonTensorBase]
    nodes: Callable[[list[Any], int], Any]


def join_column(entries: list[Any], functions: JoinFunctions, dim: int) -> Any:
    """The joined entry of the entries of several containers under one key; None if one of them lacks it.

    Containers of one tensorclass become an instance of it. Different tensorclasses, if they are copied,
    become an instance of the first if it has the fields. Containers of other classes become a plain
    container.

    Raises:
        RuntimeError: the entries are not all arrays, all objects or all containers, or shapes do not fit.
    """
    found = set(map(type, entries))
    if found == _ARRAYS:
        return functions.arrays(entries, dim, True)
    if found == {class_registry.dense}:
        return functions.nodes(entries, dim)
    if NoneType in found:
        return None
    if all(isinstance(entry, UnbatchedTensor) for entry in entries):
        return _join_unbatched(entries, functions, dim)
    if all(map(is_array, entries)):
        return on_leaves(lambda *arrays: functions.arrays(list(arrays), dim, False), *entries)
    if all(isinstance(entry, NonTensorBase) for entry in entries):
        return functions.objects(entries, dim)
    nodes = [Container._as_node(entry) for entry in entries]
    if any(node is None for node in nodes):
        shown = [f"{type(entry).__name__} of shape {tuple(entry.shape)}" for entry in entries]
        raise entry_error(
            RuntimeError, f"the entries{{at}} to {functions.name} are of different kinds: {shown}."
        )
    out = functions.nodes(nodes, dim)
    if nodes[0] is entries[0]:
        return out
    if len(found) > 1:
        fields: Any = entries[0]._fields
        tensorclasses = all(hasattr(kind, "_fields") for kind in found)
        if not tensorclasses or out._parts() is not None or not set(out._keys()) <= set(fields):
            return out
    return Container._rewrap(entries[0], out)


def _join_unbatched(items: list[Any], functions: JoinFunctions, dim: int) -> UnbatchedTensor:
    size = items[0].batch_size
    if functions is CAT:
        dim %= len(size)
        count = sum(item.batch_size[dim] for item in items)
        return joined(items, (*size[:dim], count, *size[dim + 1 :]))
    if functions is STACK or functions is MAYBE_DENSE:
        require_equal_shapes(items)
    else:  # a lazy stack, whose parts keep their batch sizes, which may differ
        sizes = zip(*(item.batch_size for item in items), strict=False)
        size = tuple([n[0] if len(set(n)) == 1 else -1 for n in sizes])
    dim %= len(size) + 1
    return joined(items, (*size[:dim], len(items), *size[dim:]))


def join(items: list[Any], functions: JoinFunctions, dim: int) -> Any:
    """The joined form of a user's containers, arrays or objects.

    Raises:
        TypeError: the items are of different kinds, or not containers, arrays or objects.
    """
    if not hasattr(dim, "__index__"):  # stack(a, b), perhaps
        raise TypeError(f"dim must be an integer, got {class_name(dim)}: {functions.name} takes a list.")
    if all(issubclass(kind, Container) for kind in set(map(type, items))):
        return functions.nodes(items, dim)
    if all(map(is_array, items)):
        return on_leaves(
            lambda *arrays: (np.concatenate if functions is CAT else np.stack)(arrays, dim), *items
        )
    payloads = [isinstance(item, NonTensorBase) for item in items]
    if not all(isinstance(item, TensorCollection) for item in items) or (any(payloads) and not all(payloads)):
        got = sorted(set(map(class_name, items)))
        raise TypeError(
            f"{functions.name} expects tensordicts, got items of type {got}; TensorDict(dict) and"
            " TensorDict.from_list(list of dicts) make some."
        )
    return join_column(items, functions, dim)


def _is_typed(found: set[type]) -> bool:
    return any(hasattr(kind, "_wrap_tensordict") for kind in found)


def _join_typed(join: Callable[[list[Any], int], Any], items: list[Any], dim: int) -> Any:
    """Join the containers inside typed TensorDicts; the result has the class of the first."""
    out = join([getattr(item, "_tensordict", item) for item in items], dim)
    return Container._rewrap(items[0], out)


def _join_columns(
    nodes: list[Any], functions: JoinFunctions, dim: int, keys_error: Callable[[list[str]], Exception]
) -> Any:
    """Join the entries of dense TensorDicts key by key; all must have the same keys."""
    datas = [node._data for node in nodes]
    first = datas[0]
    try:
        columns = {key: list(map(itemgetter(key), datas)) for key in first}
    except KeyError:
        columns = None
    if columns is None or set(map(len, datas)) != {len(first)}:
        raise keys_error(sorted(set().union(*datas).difference(set(first).intersection(*datas))))
    entries = {}
    for key, column in columns.items():
        try:
            entries[key] = join_column(column, functions, dim)
        except (RuntimeError, KeyError) as error:
            prefix_error_path(error, key)
            raise
    return entries


# -- stack ------------------------------------------------------------------------------------------------


def _stack_arrays(arrays: list[Array], dim: int, host: bool) -> Array:
    out = stacked(arrays, dim, host)
    if out is None:
        shape = arrays[0].shape
        other = next(array.shape for array in arrays if array.shape != shape)
        raise entry_error(
            RuntimeError, f"The shapes of the tensors to stack is incompatible{{at}}: {other} vs {shape}."
        )
    return out


def _stack_objects(items: list[Any], dim: int) -> NonTensorBase:
    try:
        return NonTensorStack._stacked(items, dim % (items[0].ndim + 1))
    except ValueError:
        sizes = sorted({item.batch_size for item in items})
        raise entry_error(
            RuntimeError, f"non-tensor entries to stack have different batch sizes{{at}}: {sizes}."
        ) from None


def _check_sizes(items: list[Any], dim: int) -> int:
    sizes = [item.batch_size for item in items]
    size = sizes[0]
    if sizes.count(size) < len(sizes):
        i, other = next((i, other) for i, other in enumerate(sizes) if other != size)
        raise entry_error(
            RuntimeError,
            "stacking tensordicts requires them to have congruent batch sizes{at}, got "
            f"td[{i}].batch_size={other} and td[0].batch_size={size}.",
        )
    if not -len(size) - 1 <= dim <= len(size):
        raise IndexError(f"dim must be in [{-len(size) - 1}, {len(size)}] to stack {size}, got {dim}.")
    return dim % (len(size) + 1)


def _stack_nodes(items: list[Any], dim: int) -> Any:
    dim = _check_sizes(items, dim)
    found = set(map(type, items))
    if found != {class_registry.dense}:
        if _is_typed(found):
            return _join_typed(_stack_nodes, items, dim)
        lazy = [item for item in items if isinstance(item, class_registry.lazy)]
        if len(lazy) == len(items):
            if len({item.stack_dim for item in lazy}) == 1:
                return _stack_lazy(lazy, dim)
            # Stacks along different dimensions have no matching parts, and their entries may be ragged.
            return class_registry.lazy(*items, stack_dim=dim)
        items = [item.contiguous() if isinstance(item, class_registry.lazy) else item for item in items]
    return _stacked_dense(items, STACK, dim)


def _stacked_dense(items: list[Any], functions: JoinFunctions, dim: int) -> Any:
    """Stack dense TensorDicts of one batch size; `functions` stacks nested ones.

    The result has the class of the first, as in all joins. It may be a user's subclass.
    """
    entries = _join_columns(items, functions, dim, _exclusive)
    size, names = items[0]._batch_size, items[0]._names
    if names is not None:
        same = all(item._names == names for item in items)
        names = check_names([*names[:dim], None, *names[dim:]], len(names) + 1) if same else None
    make = type(items[0])._make
    return make(entries, (*size[:dim], len(items), *size[dim:]), common_device(items), names)


def _exclusive(keys: list[str]) -> Exception:
    return entry_error(
        RuntimeError,
        f"The sets of keys in the tensordicts to stack are exclusive{{at}}: {keys} are not in all. Consider "
        "using `LazyStackedTensorDict.maybe_dense_stack` instead.",
    )


def _stack_lazy(items: list[Any], dim: int) -> Any:
    at = items[0].stack_dim
    inner = dim if dim <= at else dim - 1
    columns = zip(*(item.tensordicts for item in items), strict=True)
    parts = [_stack_nodes(list(column), inner) for column in columns]
    return class_registry.lazy._make(parts, at + (dim <= at), items[0]._dim_name)


STACK = JoinFunctions("stack", _stack_arrays, _stack_objects, _stack_nodes)


# -- stack what can be stacked, node by node --------------------------------------------------------------


def _maybe_dense(items: list[Any], dim: int) -> Any:
    sizes = [item.batch_size for item in items]
    size = sizes[0]
    if len(set(map(len, sizes))) > 1:
        raise RuntimeError(f"Lazy stacking requires congruent batch dimensions, got {sizes}.")
    found = set(map(type, items))
    if found != {class_registry.dense} and _is_typed(found):
        try:
            return _join_typed(_stack_nodes, items, dim)
        except RuntimeError:
            return class_registry.lazy(*items, stack_dim=dim)
    lazy = any(issubclass(kind, class_registry.lazy) for kind in found)
    regular = not lazy and sizes.count(size) == len(sizes)
    if regular:
        dim = _check_sizes(items, dim)
    try:
        return _stacked_dense(items, MAYBE_DENSE, dim) if regular else _stack_nodes(items, dim)
    except RuntimeError:
        return class_registry.lazy(*items, stack_dim=dim)


MAYBE_DENSE = JoinFunctions("maybe_dense_stack", _stack_arrays, _stack_objects, _maybe_dense)


# -- concatenate ------------------------------------------------------------------------------------------


def _cat_arrays(arrays: list[Array], dim: int, host: bool) -> Array:
    try:
        out: Array = np.concatenate(arrays, dim)
        return np.ascontiguousarray(out) if host else out
    except (ValueError, TypeError) as error:
        shown = ", ".join(f"{type(array).__name__} {tuple(array.shape)}" for array in arrays)
        raise entry_error(RuntimeError, f"the entries{{at}} cannot be concatenated: {shown}.") from error


def _cat_objects(items: list[Any], dim: int) -> NonTensorBase:
    first = items[0]
    size = first.batch_size
    if all(isinstance(item, NonTensorData) and same_object(item.data, first.data) for item in items):
        joined = sum(item.batch_size[dim] for item in items)
        kind = type(first) if all(isinstance(item, type(first)) for item in items) else NonTensorData
        return kind._make(first.data, size[:dim] + (joined,) + size[dim:][1:])
    out = NonTensorStack._wrap(np.concatenate([item._objects() for item in items], dim))
    return out._on(common_device(items))


def _cat_nodes(items: list[Any], dim: int) -> Any:
    first = items[0]
    ndim = first.ndim
    if not -ndim <= dim < ndim:
        raise RuntimeError(
            f"dim must be in the range 0 <= dim < len(batch_size), got dim={dim} and "
            f"batch_size={first.batch_size}"
        )
    dim %= ndim
    found = set(map(type, items))
    if found != {class_registry.dense} and _is_typed(found):
        return _join_typed(_cat_nodes, items, dim)
    if any(issubclass(kind, class_registry.lazy) for kind in found):
        return _cat_lazy(items, dim)
    sizes = [item._batch_size for item in items]
    size = sizes[0]
    for other in set(sizes) if sizes.count(size) < len(sizes) else ():
        if len(other) != ndim or other[:dim] != size[:dim] or other[dim + 1 :] != size[dim + 1 :]:
            raise entry_error(
                RuntimeError,
                f"batch sizes must agree except in dim {dim} to concatenate{{at}}, got {other} and {size}.",
            )
    entries = _join_columns(items, CAT, dim, _different)
    joined: Shape = size[:dim] + (sum(map(itemgetter(dim), sizes)),) + size[dim + 1 :]
    names: Names = first._names and list(first._names)
    return type(items[0])._make(entries, joined, common_device(items), names)


def _different(keys: list[str]) -> Exception:
    return entry_error(
        KeyError, f"the tensordicts to concatenate have different keys{{at}}: {keys} are not in all."
    )


def _cat_lazy(items: list[Any], dim: int) -> Any:
    model = next(item for item in items if isinstance(item, class_registry.lazy))
    at = model.stack_dim
    columns = []
    for item in items:
        if isinstance(item, class_registry.lazy) and item.stack_dim != at:
            raise RuntimeError(f"lazy stacks to cat must have one stack dim, got {at} and {item.stack_dim}.")
        if item.ndim != model.ndim:
            raise RuntimeError(f"batch sizes must agree, got {item.batch_size} and {model.batch_size}.")
        columns.append(item.unbind(at))
    make = type(model)._make
    if dim == at:
        parts = [part for column in columns for part in column]
        return make(parts, at, model._dim_name, model._empty_size)
    if len({len(column) for column in columns}) > 1:
        raise RuntimeError(f"lazy stacks to concatenate in dim {dim} must have equal lengths.")
    inner = dim if dim < at else dim - 1
    parts = [_cat_nodes(list(parts), inner) for parts in zip(*columns, strict=True)]
    return make(parts, at, model._dim_name)


CAT = JoinFunctions("cat", _cat_arrays, _cat_objects, _cat_nodes)
