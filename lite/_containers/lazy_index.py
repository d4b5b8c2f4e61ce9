"""Indexing lazy stacks, for reading and for writing.

An index on the stack dimension picks parts; what it says about other dimensions goes to every part.
Where NumPy's rules mix the two (masks or index arrays over several dimensions), elements are picked
one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lite._arrays.types import Array, Shape
from lite._containers.assignment import collect, fit_assigned, require_fit
from lite._containers.dense import DenseMixin
from lite._containers.lazy_shape import nest, unbind_range
from lite._tree import batch_ops
from lite._tree.collection import TensorCollection
from lite._tree.indexing import _consumes, normalise, result_names, result_shape
from lite._tree.keys import require_path
from lite._tree.protocol import TensorDictCore
from lite._tree.values import as_is
from lite._tree.writes import Writes, apart, fitting, trimmed

if TYPE_CHECKING:
    from lite._containers.lazy import LazyStackedTensorDict

_FULL = slice(None)


class Plan(NamedTuple):
    """An index split at the stack dimension."""

    picked: Any  # the int, slice or index array on the stack dimension
    rest: tuple[Any, ...]  # the index for every part
    at: int  # where the stack dimension is in the result


def select(stack: LazyStackedTensorDict, items: tuple[Any, ...]) -> Any:
    """Index with normalised items."""
    plan = _plan(items, stack.stack_dim)
    if plan is None:
        return _by_element(stack, items)
    parts = stack.tensordicts
    if isinstance(plan.picked, int):
        return _apply([at(parts, plan.picked)], plan.rest)[0]
    inner = _index_size(plan.rest, stack._part_size())
    if isinstance(plan.picked, slice):
        return stack._like(_apply(parts[plan.picked], plan.rest), plan.at, stack._dim_name, inner)
    ids = np.arange(len(parts))[plan.picked]
    used = sorted(set(ids.flat))
    done = dict(zip(used, _apply([parts[i] for i in used], plan.rest), strict=True))
    names = [stack._dim_name] if ids.ndim == 1 else None
    return nest([done[i] for i in ids.flat], ids.shape, plan.at, inner, names)


def _plan(items: tuple[Any, ...], dim: int) -> Plan | None:
    """Split an index at the stack dimension, or None where that does not give NumPy's result."""
    used = sum(_consumes(item) for item in items)
    items = items + (_FULL,) * (dim + 1 - used)
    arrays = [i for i, item in enumerate(items) if isinstance(item, np.ndarray)]
    if any(isinstance(item, bool) for item in items):
        return None
    if arrays:
        # Index arrays and the integers beside them form one block; apart, NumPy moves it to the front.
        block = [i for i, item in enumerate(items) if isinstance(item, np.ndarray | int)]
        if block[-1] - block[0] + 1 != len(block):
            return None
    position = at = 0
    counted = False
    for i, item in enumerate(items):
        if isinstance(item, np.ndarray):
            size = _consumes(item)
            if at <= dim < at + size:
                if size > 1 or len(arrays) > 1:
                    return None
                return Plan(item, items[:i] + items[i + 1 :], position)
            if not counted:
                position += max(1 if items[j].dtype.kind == "b" else items[j].ndim for j in arrays)
                counted = True
            at += size
        elif item is None:
            position += 1
        else:
            if at == dim:
                return Plan(item, items[:i] + items[i + 1 :], position)
            position += isinstance(item, slice)
            at += 1
    return None


def at(parts: Sequence[Any], i: int) -> Any:
    if not -len(parts) <= i < len(parts):
        raise IndexError(f"index {i} is out of bounds for a stack of {len(parts)} tensordicts.")
    return parts[i]


def _apply(parts: Sequence[Any], rest: tuple[Any, ...]) -> list[Any]:
    """Index every part alike; the operation is computed once per distinct batch size and names."""
    if all(type(item) is slice and item == _FULL for item in rest):
        return list(parts)
    ops: dict[Any, batch_ops.Index] = {}
    out = []
    for part in parts:
        size, own = part.batch_size, part._own_names()
        key = size if own is None else (size, *own)
        op = ops.get(key)
        if op is None:
            if -1 in size:
                out.append(part._index(rest))
                continue
            shape = result_shape(rest, size)
            names = None if own is None else result_names(rest, own, len(shape))
            op = ops[key] = batch_ops.Index(len(size), shape, rest, names)
        out.append(part._run(op))
    return out


def _index_size(rest: tuple[Any, ...], size: Shape) -> Shape:
    if -1 in size:
        return tuple(n for n in size)
    return result_shape(rest, size) if rest else size


def _by_element(stack: LazyStackedTensorDict, items: tuple[Any, ...]) -> Any:
    if stack.stack_dim == 0 and len(items) == 1 and _consumes(items[0]) > 1:
        out = _masked(stack, items[0])
        if out is not None:
            return out
    ids, used = _element_ids(stack, items)
    # Copies, as index arrays over several dimensions give everywhere.
    elements = {i: _element(stack, i, used)._clone(True) for i in sorted(set(ids.flat))}
    own = stack._own_names()
    names = None if own is None else result_names(items, own, ids.ndim + len(own) - used)
    return nest([elements[i] for i in ids.flat], ids.shape, 0, stack.batch_size[used:], names)


def _masked(stack: LazyStackedTensorDict, mask: Any) -> Any:
    """A mask over the stack dimension and the next ones: the concatenation of the masked parts."""
    from lite._ops.combine import cat

    if not stack.tensordicts or not stack._is_stackable():
        return None
    masked = [part._index(rows) for part, rows in zip(stack.tensordicts, mask, strict=True)]
    try:
        out = cat(masked, 0)
    except RuntimeError:  # lazy parts of different layout
        return None
    own = stack._own_names()
    out.names = None if own is None else [None, *own[_consumes(mask) :]]
    return out


def _element_ids(stack: LazyStackedTensorDict, items: tuple[Any, ...]) -> tuple[Any, int]:
    """The flat numbers of the picked elements, over the first `used` dimensions."""
    taken = sum(_consumes(item) for item in items)
    used = max(taken, stack.stack_dim + 1)
    size = stack.batch_size[:used]
    if -1 in size:
        raise IndexError(f"index {items!r} mixes dimensions of a ragged batch of size {stack.batch_size}.")
    every = np.arange(math.prod(size)).reshape(size)
    return np.asarray(every[items + (_FULL,) * (used - taken)]), used


def _coordinates(stack: LazyStackedTensorDict, i: int, used: int) -> tuple[Any, tuple[int, ...]]:
    where = [int(n) for n in np.unravel_index(i, stack.batch_size[:used])]
    part = stack.tensordicts[where.pop(stack.stack_dim)]
    return part, tuple(where)


def _element(stack: LazyStackedTensorDict, i: int, used: int) -> Any:
    part, rest = _coordinates(stack, i, used)
    return part._index(rest)


def write_arrays(stack: LazyStackedTensorDict, index: Any, value: Any) -> bool:
    """`stack[index] = value` in the most frequent case, if it is that: arrays that fit exactly."""
    items = index if type(index) is tuple else (index,)
    if stack.stack_dim or not items or not isinstance(value, TensorDictCore):
        return False
    first, rest = items[0], items[1:] or Ellipsis
    parts = stack.tensordicts
    if type(first) is int and -len(parts) <= first < len(parts):
        pairs = [(parts[first], value)]
    elif type(first) is slice and value.batch_size[:1] == (len(parts[first]),):
        pairs = list(zip(parts[first], value.unbind(0), strict=True))
    else:
        return False
    found: list[tuple[Any, Any]] = []
    for part, piece in pairs:
        if not isinstance(part, DenseMixin) or not collect(part, rest, piece, found, []):
            return False
    targets = [target for target, _ in found]
    for target, source in zip(targets, apart(targets, [source for _, source in found]), strict=True):
        target[rest] = source
    return True


def set_rows(stack: LazyStackedTensorDict, key: str, item: Array, inplace: bool) -> bool:
    """Set the rows of an array in dense parts, or copy them there, if all fit as they are."""
    parts, dim = stack.tensordicts, stack.stack_dim
    if item.ndim <= dim or item.shape[dim] != len(parts):
        return False
    rows = stack._pieces(item)
    targets: list[Any] = []
    values: list[Any] = []
    for part, row in zip(parts, rows, strict=True):
        if not isinstance(part, DenseMixin) or part._converts:
            return False
        target = part._data.get(key) if inplace else None
        if target is not None:
            ready = fitting(target, row)
            if ready is None:
                return False
            targets.append(target)
            values.append(ready)
        elif part._locked or stack._locked or not as_is(row, part._batch_size, part._device):
            return False
    if not targets:
        for part, row in zip(parts, rows, strict=True):
            part._put(key, row)
        return True
    if len(targets) < len(parts):
        return False
    for target, value in zip(targets, apart(targets, values), strict=True):
        target[...] = value
    return True


def assign(stack: LazyStackedTensorDict, index: Any, value: Any, writes: Writes) -> None:
    """`stack[index] = value`, written to the arrays of the parts."""
    items = normalise(index, stack.batch_size)
    if isinstance(value, Mapping) and not isinstance(value, TensorCollection):
        blank = select(stack, items)._blank()
        blank.update(value)
        value = blank
    node = stack._as_node(value)
    if node is None:
        _fill(stack, items, value, writes)
        return
    size = stack.batch_size
    if -1 not in size:
        shape = result_shape(items, size)
        node = _aligned(stack, fit_assigned(node, shape, size, items), shape)
    own = set(map(id, stack.tensordicts))
    shares = [
        # A part may be a source, too: what it held before counts.
        (part, rest, source._clone(False) if id(source) in own else source)
        for part, rest, source in _shares(stack, items, node)
    ]
    with writes.together():
        for part, rest, source in shares:
            part._set_index(rest, source, writes)


def _aligned(stack: LazyStackedTensorDict, node: Any, shape: Shape) -> Any:
    """A source whose leaves are broadcast to their targets as a whole, as for a dense TensorDict.

    In each part alone they would meet other dimensions.
    """
    out = node
    for path in map(require_path, node.keys(True, True)):
        if stack._peek_path(path) is None:
            continue
        target, own = stack.get_item_shape(path), node.get_item_shape(path)
        wanted = shape + target[stack.ndim :]
        if own == wanted or -1 in target or -1 in own:
            continue
        leaf = node._get_path(path)
        if isinstance(leaf, np.ndarray):
            leaf = trimmed(leaf, len(wanted))
            require_fit(path, leaf.shape, wanted)
            out = node._clone(False) if out is node else out
            out._set_path(path, np.broadcast_to(leaf, wanted), False)
    return out


def _shares(
    stack: LazyStackedTensorDict, items: tuple[Any, ...], node: Any
) -> list[tuple[Any, tuple[Any, ...], Any]]:
    """Which part gets what: (part, index into it, source)."""
    plan = _plan(items, stack.stack_dim)
    if plan is None:
        ids, used = _element_ids(stack, items)
        sources = unbind_range(node, 0, ids.ndim - 1) if ids.ndim else [node]
        targets = [_coordinates(stack, int(i), used) for i in ids.flat]
        return [(part, rest, s) for (part, rest), s in zip(targets, sources, strict=True)]
    if isinstance(plan.picked, int):
        return [(at(stack.tensordicts, plan.picked), plan.rest, node)]
    ids = np.arange(len(stack.tensordicts))[plan.picked]
    if node.batch_size[plan.at : plan.at + ids.ndim] != ids.shape:
        raise RuntimeError(
            f"indexed destination TensorDict batch size has {ids.shape} at dim {plan.at}, which differs "
            f"from the source batch size {node.batch_size}"
        )
    sources = unbind_range(node, plan.at, plan.at + ids.ndim - 1)
    return [(stack.tensordicts[i], plan.rest, s) for i, s in zip(ids.flat, sources, strict=True)]


def _fill(stack: LazyStackedTensorDict, items: tuple[Any, ...], value: Any, writes: Writes) -> None:
    """Write one value to every leaf, broadcasting as NumPy does."""
    if np.ndim(value) == 0:
        plan = _plan(items, stack.stack_dim)
        if plan is None:
            ids, used = _element_ids(stack, items)
            for i in ids.flat:
                part, rest = _coordinates(stack, int(i), used)
                part._set_index(rest, value, writes)
            return
        picked = np.atleast_1d(np.arange(len(stack.tensordicts))[plan.picked])
        for i in picked.flat:
            stack.tensordicts[i]._set_index(plan.rest, value, writes)
        return
    for key in list(stack._keys()):
        stack._set_at((key,), value, items, writes)
