"""Indexing and reshaping lazy stacks.

The item of an index on the stack dimension picks parts; the other items index every part. Masks and index
arrays over several dimensions combine the two, so elements are picked one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.types import Names, Shape
from lite._containers.joining import CAT
from lite._containers.lazy_entries import is_stackable
from lite._tree import batch_ops
from lite._tree.indexing import _consumes, result_names, result_shape
from lite._tree.names import set_names
from lite._tree.protocol import class_registry

_FULL = slice(None)


class SplitIndex(NamedTuple):
    """An index split at the stack dimension."""

    picked: Any  # the int, slice or index array on the stack dimension
    rest: tuple[Any, ...]  # the index for every part
    at: int  # the position of the stack dimension in the result


def select(stack: Any, items: tuple[Any, ...]) -> Any:
    """Index with normalised items."""
    split = split_index(items, stack.stack_dim)
    if split is None:
        return _by_element(stack, items)
    parts = stack.tensordicts
    if isinstance(split.picked, int):
        return _apply([at(parts, split.picked)], split.rest)[0]
    inner = stack._part_size()
    if split.rest and -1 not in inner:
        inner = result_shape(split.rest, inner)
    if isinstance(split.picked, slice):
        return stack._like(_apply(parts[split.picked], split.rest), split.at, stack._dim_name, inner)
    ids = np.arange(len(parts))[split.picked]
    used = sorted(set(ids.flat))
    done = dict(zip(used, _apply([parts[i] for i in used], split.rest), strict=True))
    names = [stack._dim_name] if ids.ndim == 1 else None
    return nest([done[i] for i in ids.flat], ids.shape, split.at, inner, names)


def split_index(items: tuple[Any, ...], dim: int) -> SplitIndex | None:
    """Split an index at the stack dimension; None if the split index would not give NumPy's result."""
    used = sum(_consumes(item) for item in items)
    items = items + (_FULL,) * (dim + 1 - used)
    arrays = [i for i, item in enumerate(items) if isinstance(item, np.ndarray)]
    if any(isinstance(item, bool) for item in items):
        return None
    if arrays:
        # Index arrays and integers form one block of dimensions. NumPy moves it to the front if they are not
        # adjacent.
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
                return SplitIndex(item, items[:i] + items[i + 1 :], position)
            if not counted:
                position += max(1 if items[j].dtype.kind == "b" else items[j].ndim for j in arrays)
                counted = True
            at += size
        elif item is None:
            position += 1
        else:
            if at == dim:
                return SplitIndex(item, items[:i] + items[i + 1 :], position)
            position += isinstance(item, slice)
            at += 1
    return None


def at(parts: Sequence[Any], i: int) -> Any:
    if not -len(parts) <= i < len(parts):
        raise IndexError(f"index {i} is out of bounds for a stack of {len(parts)} tensordicts.")
    return parts[i]


def _apply(parts: Sequence[Any], rest: tuple[Any, ...]) -> list[Any]:
    """Apply one index to every part. The operation is computed once per distinct batch size and names."""
    if all(type(item) is slice and item == _FULL for item in rest):
        return list(parts)
    ops: dict[Any, batch_ops.Index] = {}
    out = []
    for part in parts:
        size, own = part.batch_size, part._names
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


def _by_element(stack: Any, items: tuple[Any, ...]) -> Any:
    if stack.stack_dim == 0 and len(items) == 1 and _consumes(items[0]) > 1:
        out = _masked(stack, items[0])
        if out is not None:
            return out
    ids, used = element_ids(stack, items)
    # Copies, as NumPy returns for index arrays.
    found = {i: coordinates(stack, i, used) for i in sorted(set(ids.flat))}
    elements = {i: part._index(rest)._clone(True) for i, (part, rest) in found.items()}
    own = stack._names
    names = None if own is None else result_names(items, own, ids.ndim + len(own) - used)
    return nest([elements[i] for i in ids.flat], ids.shape, 0, stack.batch_size[used:], names)


def _masked(stack: Any, mask: Any) -> Any:
    """A mask over the stack dimension and the next ones: the concatenation of the masked parts."""
    if not stack.tensordicts or not is_stackable(stack):
        return None
    masked = [part._index(rows) for part, rows in zip(stack.tensordicts, mask, strict=True)]
    try:
        out = CAT.nodes(masked, 0)
    except RuntimeError:  # lazy parts with different stack dimensions
        return None
    own = stack._names
    out.names = None if own is None else [None, *own[_consumes(mask) :]]
    return out


def element_ids(stack: Any, items: tuple[Any, ...]) -> tuple[Any, int]:
    """The flat numbers of the picked elements, over the first `used` dimensions."""
    taken = sum(_consumes(item) for item in items)
    used = max(taken, stack.stack_dim + 1)
    size = stack.batch_size[:used]
    if -1 in size:
        raise IndexError(f"index {items!r} mixes dimensions of a ragged batch of size {stack.batch_size}.")
    every = np.arange(math.prod(size)).reshape(size)
    return np.asarray(every[items + (_FULL,) * (used - taken)]), used


def coordinates(stack: Any, i: int, used: int) -> tuple[Any, tuple[int, ...]]:
    where = [int(n) for n in np.unravel_index(i, stack.batch_size[:used])]
    part = stack.tensordicts[where.pop(stack.stack_dim)]
    return part, tuple(where)


# -- batch-shape operations: done per part, so that ragged leaves take part ------------------------------


def run(stack: Any, op: batch_ops.BatchOp) -> Any:
    """Apply `op`, which may read fewer dimensions than the stack has batch dimensions."""
    dim = stack.stack_dim
    if isinstance(op, batch_ops.Pad) and op.ndim > dim:
        return _pad(stack, op)
    if not stack.tensordicts:
        return _run_empty(stack, op)
    if isinstance(op, batch_ops.Index):
        out = select(stack, op.index[:-1])
        copies = any(isinstance(item, np.ndarray) for item in op.index)
        return out._clone(True) if copies else out
    if op.ndim <= dim:
        return stack._like([part._run(op) for part in stack.tensordicts], dim + len(op.shape) - op.ndim)
    for kind, rule in _RULES.items():
        if isinstance(op, kind):
            return rule(stack, op)
    out = op.on_stack(stack)
    return _reshape(stack, op) if out is None else out


def nest(parts: Sequence[Any], shape: Shape, at: int, inner: Shape, names: Names = None) -> Any:
    """Arrange parts (row-major) as lazy stacks whose dimensions `shape` start at `at`.

    Args:
        parts: as many containers as `shape` has elements.
        shape: the dimensions to build; `()` gives the only part itself.
        at: position of the first of them in the result.
        inner: batch size of a part, used if there are no parts.
        names: names of the new dimensions.
    """
    if not shape:
        return parts[0]
    if len(shape) > 1:
        step = math.prod(shape[1:])
        rows = [parts[i * step : (i + 1) * step] for i in range(shape[0])]
        parts = [nest(row, shape[1:], at, inner, None if names is None else names[1:]) for row in rows]
        inner = inner[:at] + shape[1:] + inner[at:]
    name = None if names is None else names[0]
    return class_registry.lazy._make(list(parts), at, name, inner)


def unbind_range(td: Any, start: int, end: int) -> list[Any]:
    """The elements along dimensions `start..end` (inclusive), in row-major order."""
    parts = td.unbind(start)
    if start == end:
        return list(parts)
    return [element for part in parts for element in unbind_range(part, start, end - 1)]


def _head(part: Any, ndim: int) -> Shape:
    size: Shape = part.batch_size
    return size[: ndim - 1]


def _run_empty(stack: Any, op: batch_ops.BatchOp) -> Any:
    shape = op.shape + stack.batch_size[op.ndim :]
    at = shape.index(0) if 0 in shape else 0
    return nest([], shape[at : at + 1], at, shape[:at] + shape[at + 1 :]) if 0 in shape else stack


def _unsqueeze(stack: Any, op: batch_ops.Unsqueeze) -> Any:
    before = op.dim <= stack.stack_dim
    at = op.dim if before else op.dim - 1
    parts = [part._run(batch_ops.Unsqueeze(_head(part, op.ndim), at)) for part in stack.tensordicts]
    return stack._like(parts, stack.stack_dim + before, stack._dim_name)


def _squeeze(stack: Any, op: batch_ops.Squeeze) -> Any:
    dim = stack.stack_dim
    dims = tuple(d if d < dim else d - 1 for d in op.dims if d != dim)
    parts = stack.tensordicts
    if dims:
        parts = [part._run(batch_ops.Squeeze(_head(part, op.ndim), dims)) for part in parts]
    if dim in op.dims:
        return parts[0]
    return stack._like(parts, dim - sum(d < dim for d in dims), stack._dim_name)


def _permute(stack: Any, op: batch_ops.Permute) -> Any:
    dim = stack.stack_dim
    dims = tuple(d if d < dim else d - 1 for d in op.dims if d != dim)
    parts = stack.tensordicts
    if dims != tuple(range(len(dims))):
        parts = [part._run(batch_ops.Permute(_head(part, op.ndim), dims)) for part in parts]
    return stack._like(parts, op.dims.index(dim), stack._dim_name)


def _expand(stack: Any, op: batch_ops.Expand) -> Any:
    at = len(op.shape) - op.ndim + stack.stack_dim
    rest = op.shape[:at] + op.shape[at + 1 :]
    parts = [part._run(_expand_part(part, op.ndim - 1, rest)) for part in stack.tensordicts]
    if len(parts) == 1:
        parts = parts * op.shape[at]
    return stack._like(parts, at, stack._dim_name, inner=rest + stack._part_size()[op.ndim - 1 :])


def _expand_part(part: Any, ndim: int, shape: Shape) -> batch_ops.Expand:
    lead = len(shape) - ndim
    own = part.batch_size
    # Along a ragged dimension (-1 in the shape) each part keeps its size.
    return batch_ops.Expand(ndim, tuple(own[i - lead] if n < 0 else n for i, n in enumerate(shape)))


def _pad(stack: Any, op: batch_ops.Pad) -> Any:
    dim, parts = stack.stack_dim, stack.tensordicts
    kept, total = parts[op.kept[dim]], op.shape[dim]
    first = min(max(0, op.before[dim]), total)
    before, after = [*op.before], [*op.after]
    del before[dim], after[dim]

    def padded(part: Any) -> Any:
        return part._run(batch_ops.Pad(_head(part, op.ndim), before, after, op.value))

    def new(count: int, at: int) -> Sequence[Any]:
        """New parts that hold only the value, with the batch size of their neighbour."""
        if not count:
            return ()
        like = padded(parts[at]) if parts else class_registry.dense._make({}, inner)
        row = like._run(batch_ops.Unsqueeze(like.batch_size, 0))
        return row._run(batch_ops.Pad((1,), [-1], [count], op.value)).unbind(0)

    inner = op.shape[:dim] + op.shape[dim + 1 :] + stack.batch_size[op.ndim :]
    rows = [*new(first, 0), *map(padded, kept), *new(total - first - len(kept), -1)]
    return stack._like(rows, dim, stack._dim_name, inner=inner)


def _flatten(stack: Any, ndim: int, start: int, end: int) -> Any:
    dim = stack.stack_dim
    if start == end:
        return stack
    if dim < start or dim > end:
        a, b = (start - 1, end - 1) if dim < start else (start, end)
        parts = [part._run(batch_ops.Flatten(_head(part, ndim), a, b)) for part in stack.tensordicts]
        return stack._like(parts, dim if dim < start else dim - (end - start), stack._dim_name)
    if any(n < 0 for n in stack.batch_size[start:dim]):
        raise RuntimeError(
            f"cannot flatten dims {start} to {end} of batch size {stack.batch_size}: a ragged dim comes "
            f"before the stack dim {dim}, so the elements have no row-major order."
        )
    size = stack.batch_size
    inner = size[:start] + size[end + 1 :]
    return stack._like(unbind_range(stack, start, end), start, inner=inner)


def _unflatten(stack: Any, ndim: int, at: int, sizes: Shape) -> Any:
    dim = stack.stack_dim
    if at == dim:
        names = [None] * (len(sizes) - 1) + [stack._dim_name]
        return nest(stack.tensordicts, sizes, dim, stack._part_size(), names)
    inner = at if at < dim else at - 1
    parts = [part._run(batch_ops.Unflatten(_head(part, ndim), inner, sizes)) for part in stack.tensordicts]
    return stack._like(parts, dim + len(sizes) - 1 if at < dim else dim, stack._dim_name)


def _reshape(stack: Any, op: batch_ops.BatchOp) -> Any:
    """The result is lazy if dimensions merge or split; else dense, or built of elements if it is ragged."""
    if stack._names is not None:
        stack = stack._clone(False)
        set_names(stack, None)
    old, new = stack.batch_size[: op.ndim], op.shape
    extra = len(old) - len(new)
    for at in range(min(len(old), len(new))):
        if old[:at] != new[:at]:
            break
        if extra > 0 and _merges(old, new, at, extra):
            return _flatten(stack, op.ndim, at, at + extra)
        if extra < 0 and _merges(new, old, at, -extra):
            return _unflatten(stack, op.ndim, at, new[at : at - extra + 1])
    if isinstance(op, batch_ops.View):
        raise RuntimeError("Cannot call `view` on a lazy stacked tensordict. Call `reshape` instead.")
    if is_stackable(stack):
        return stack.contiguous()._run(op)
    if any(n < 0 for n in old[: stack.stack_dim]):
        raise RuntimeError(f"cannot reshape a ragged batch of size {old} to {new}.")
    parts = unbind_range(stack, 0, op.ndim - 1)
    return nest(parts, new, 0, stack.batch_size[op.ndim :])


def _merges(long: Shape, short: Shape, at: int, extra: int) -> bool:
    """Whether merging dims `at..at+extra` of `long` gives `short`; a ragged run may only become 1-D."""
    run_ = long[at : at + extra + 1]
    if any(n < 0 for n in run_):
        return len(short) == 1
    merged = int(np.prod(run_, dtype=np.int64))
    return long[:at] == short[:at] and merged == short[at] and long[at + extra + 1 :] == short[at + 1 :]


_RULES: dict[type[batch_ops.BatchOp], Callable[[Any, Any], Any]] = {
    batch_ops.Unsqueeze: _unsqueeze,
    batch_ops.Squeeze: _squeeze,
    batch_ops.Flatten: lambda stack, op: _flatten(stack, op.ndim, op.start, op.end),
    batch_ops.Unflatten: lambda stack, op: _unflatten(stack, op.ndim, op.dim, op.sizes),
    batch_ops.Permute: _permute,
    batch_ops.Expand: _expand,
}
