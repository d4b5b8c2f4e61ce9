"""Run one function over the leaves of a TensorDict and those of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

from lite._arrays.device import on_leaves, wrap
from lite._arrays.formulas import COMPARISONS, Pointwise, for_bools
from lite._arrays.numbers import NUMBERS, SCALARS, beside
from lite._arrays.types import as_array, is_array
from lite._ops.operands import Const, Node, Operand, as_operand, widened
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import MISSING, Container

INTERSECTION = "intersection"

# (td, non-tensor entry, operands, key) -> the entry of the result
Objects = Callable[[Any, NonTensorBase, list[Operand], str], Any]


def elementwise(
    td: Any,
    fn: Pointwise,
    others: Sequence[Any],
    default: Any = MISSING,
    objects: Objects | None = None,
) -> Any:
    """`fn(leaf, *values of the others)` for every leaf; NotImplemented if an operand is foreign.

    Batch size, device, names, lock and non-tensor entries are those of `td`, which is expanded if an
    operand has a larger batch size. Comparisons drop names and lock, and compare payloads.

    Args:
        td: decides the order of the keys.
        fn: a ufunc or a function of arrays.
        others: numbers, arrays (against the batch size), TensorDicts and mappings (by key).
        default: what leaves missing on one side count as; "intersection" leaves them out.
        objects: what becomes of non-tensor entries, which are kept unless it is given.

    Raises:
        KeyError: key sets differ and there is no default.
    """
    quick = None if objects is not None else _quick(td, fn, others)
    if quick is not None:
        return quick
    fn = for_bools(fn)
    operands = [as_operand(other, td) for other in others]
    if None in operands:
        return NotImplemented
    source = td
    td, resolved = aligned(td, operands)  # type: ignore[arg-type]
    compare = fn in COMPARISONS
    if compare:
        objects = partial(_compared, fn)
    fn = _as_array(fn) if _has_scalars(td) else fn
    if objects is not None or not all(type(operand) is Const for operand in resolved):
        out = walk(td, fn, resolved, default, objects)
    else:
        out = td._map_leaves(_bound(fn, [wrap(operand.leaf("", None)) for operand in resolved]))
    if compare:
        if out._names is not None:
            out.names = None
    elif source.is_locked and td is source:
        out.lock_()
    return out


def _quick(td: Any, fn: Pointwise, others: Sequence[Any]) -> Any:
    """The most frequent case at little cost: arrays only, and a number or a like TensorDict.

    None if it is not that case.
    """
    compare = fn in COMPARISONS
    columns = columns_of(td, fn, others) if td.batch_size else None
    if columns is not None:
        form = for_bools(fn, td._keys().values())
        entries: dict[str, Any] | None = dict(zip(td._keys(), map(form, *columns)))  # noqa: B905
    elif len(others) < 2 and not compare and td.batch_size and _is_plain(td):
        entries = _entries(td, fn, others)
    else:
        entries = None
    if entries is None:
        return None
    out = td._with(entries)
    if compare:
        out._names = None
    elif td._locked:
        out.lock_()
    return out


def _entries(td: Any, fn: Pointwise, others: Sequence[Any]) -> dict[str, Any] | None:
    """The results for a node and those below it, if the other side is a number or has the same tree."""
    other: Any = others[0] if others else 0
    mine: Any = td._keys()
    constant = type(other) in NUMBERS
    if not constant and not (
        isinstance(other, Container)
        and type(other._keys()) is dict
        and mine.keys() == other._keys().keys()  # type: ignore[attr-defined]
        and td.batch_size == other.batch_size
    ):
        return None
    out: dict[str, Any] = {}
    for key, entry in td._items():
        values = others if constant else (other._get_str(key),)
        if isinstance(entry, NonTensorBase):
            out[key] = entry
        elif isinstance(entry, Container):
            inner = _entries(entry, fn, values)
            if inner is None:
                return None
            out[key] = entry._with(inner)
        elif constant or (type(values[0]) is np.ndarray and values[0].ndim == entry.ndim):
            out[key] = (fn if entry.dtype.num else for_bools(fn))(entry, *values)
        else:
            return None
    return out


def _is_plain(td: Any) -> bool:
    """Whether there are only arrays, objects and TensorDicts, at any depth."""
    if td._parts() is not None:
        return False
    for _, entry in td._items():
        if type(entry) is np.ndarray or isinstance(entry, NonTensorBase):
            continue
        if not isinstance(entry, Container) or not _is_plain(entry):
            return False
    return True


def columns_of(td: Any, fn: Pointwise, others: Sequence[Any]) -> tuple[Iterable[Any], ...] | None:
    """The arrays and what goes with each, if there are only arrays, and a number or a like TensorDict."""
    flat = td._flat()
    if not flat or len(others) > 1:
        return None
    if not others:
        return (flat.values(),)
    other = others[0]
    if type(other) in NUMBERS:
        weak = isinstance(fn, np.ufunc) or fn is np.where
        return flat.values(), beside(other, flat.values()) if weak else repeat(other)
    theirs: Any = other._keys() if isinstance(other, Container) else None
    if type(theirs) is not dict or len(theirs) != len(flat) or td._batch_size != other._batch_size:
        return None
    values = []
    for key, leaf in flat.items():
        value = theirs.get(key)
        if type(value) is not np.ndarray or value.ndim != leaf.ndim:
            return None
        values.append(value)
    return flat.values(), values


def aligned(td: Any, operands: list[Operand]) -> tuple[Any, list[Operand]]:
    """The TensorDict and its operands with one common batch size."""
    size = td.batch_size
    if all(type(operand) is Const or operand.batch_size == size for operand in operands):
        return td, operands
    try:
        common = np.broadcast_shapes(size, *(operand.batch_size for operand in operands))
    except ValueError:
        shapes = [operand.batch_size for operand in operands]
        raise RuntimeError(f"cannot broadcast operands of batch size {shapes} with {size}.") from None
    expanded = [
        operand if type(operand) is Const or operand.batch_size == common else operand.expand(common)
        for operand in operands
    ]
    return (td if size == common else td.expand(common)), expanded


def _has_scalars(td: Any) -> bool:
    """Whether leaves may be 0-d: without batch dimensions, or in the parts of a lazy stack."""
    if not td.batch_size or td._parts() is not None:
        return True
    if td._flat() is not None:
        return False
    nodes = [td._as_node(entry) for _, entry in td._items() if type(entry) is not np.ndarray]
    return any(node is not None and _has_scalars(node) for node in nodes)


def _as_array(fn: Pointwise) -> Pointwise:
    # A ufunc of 0-d arrays gives a scalar, and leaves are arrays.
    def call(*args: Any) -> Any:
        return as_array(fn(*args))

    return call


def _bound(fn: Pointwise, values: list[Any]) -> Pointwise:
    if not values:
        return fn
    if len(values) == 1:
        value = values[0]
        return lambda leaf: fn(leaf, value)
    return lambda leaf: fn(leaf, *values)


def walk(td: Any, fn: Pointwise, operands: list[Operand], default: Any, objects: Objects | None) -> Any:
    stacked = td._parts()
    if stacked is not None:
        parts, dim = stacked
        columns = [operand.parts(len(parts), dim) for operand in operands]
        return td._from_parts(
            [walk(part, fn, [c[i] for c in columns], default, objects) for i, part in enumerate(parts)]
        )
    nodes = [operand for operand in operands if isinstance(operand, Node)]
    if default is MISSING:
        for node in nodes:
            _check_keys(td, node.td, objects is not None)
    entries: dict[str, Any] = {}
    for key, entry in td._items():
        if type(entry) is np.ndarray or is_array(entry):
            values = [operand.leaf(key, entry) for operand in operands]
            ndim = entry.ndim
            for value in values:
                if type(value) is np.ndarray:
                    if value.ndim > ndim:
                        ndim = value.ndim
                elif value is None or not isinstance(value, _VALUES):
                    break
            else:
                if ndim > entry.ndim and nodes and type(entry) is np.ndarray:
                    entry = widened(entry, ndim, td.batch_dims)
                    values = [operand.leaf(key, entry) for operand in operands]
                entries[key] = (
                    fn(entry, *values) if type(entry) is np.ndarray else on_leaves(fn, entry, *values)
                )
                continue
            result = _with_default(fn, entry, values, default, key)
        elif isinstance(entry, NonTensorBase):
            result = entry if objects is None else objects(td, entry, operands, key)
        else:
            child = td._as_node(entry)
            result = walk(child, fn, [operand.child(key) for operand in operands], default, objects)
            if default == INTERSECTION and result.is_empty() and not child.is_empty():
                continue
            result = td._rewrap(entry, result)
        if result is not None:
            entries[key] = result
    if default is not MISSING and default != INTERSECTION:
        _add_missing(td, fn, operands, default, entries)
    return td._with(entries)


_VALUES = (np.ndarray, *SCALARS)


def _with_default(fn: Pointwise, entry: Any, values: list[Any], default: Any, key: str) -> Any:
    """The result for a leaf that some operand lacks, or None to leave it out."""
    for value in values:
        if value is not None and not isinstance(value, _VALUES) and not is_array(value):
            raise KeyError(f"key {key!r} is an array on one side and a {type(value).__name__} on the other.")
    if all(value is not None for value in values):
        return on_leaves(fn, entry, *values)
    if default is MISSING:
        raise KeyError(f"key {key!r} is an array on one side and missing on the other.")
    if default == INTERSECTION:
        return None
    return on_leaves(fn, entry, *(default if value is None else value for value in values))


def _add_missing(
    td: Any, fn: Pointwise, operands: list[Operand], default: Any, entries: dict[str, Any]
) -> None:
    """Entries that only the operand has, computed from the default."""
    for operand in operands:
        if not isinstance(operand, Node):
            continue
        for key, entry in operand.td._items():
            if key in entries or isinstance(entry, NonTensorBase):
                continue
            node = td._as_node(entry)
            if node is not None:
                entries[key] = walk(node.empty(), fn, [o.child(key) for o in operands], default, None)
                continue
            values = [default if (v := o.leaf(key, entry)) is None else v for o in operands]
            entries[key] = np.asarray(fn(default, *values))


def _compared(fn: Pointwise, td: Any, entry: NonTensorBase, operands: list[Operand], key: str) -> Any:
    """Payloads compared one by one; an empty node where there is no payload to compare with."""
    other = operands[0].leaf(key, entry) if isinstance(operands[0], Node) else None
    if fn not in (np.equal, np.not_equal) or not isinstance(other, NonTensorBase):
        return td._blank()
    equal = np.asarray(entry == other)
    return equal if fn is np.equal else ~equal


def _check_keys(td: Any, other: Any, payloads: bool) -> None:
    mine, theirs = td._keys(), other._keys()
    if type(mine) is dict and type(theirs) is dict and mine.keys() == theirs.keys():
        return
    first, second = set(mine), set(theirs)
    if first == second:
        return
    if not payloads:
        # Non-tensor entries take no part in arithmetic, so they may be on one side only.
        first = {key for key in first if not isinstance(td._get_str(key), NonTensorBase)}
        second = {key for key in second if not isinstance(other._get_str(key), NonTensorBase)}
    if first != second:
        raise KeyError(
            f"keys in tensordicts mismatch. The first TD has keys {sorted(first - second)} that the second "
            f"does not have. The second TD has keys {sorted(second - first)} that the first does not have."
        )
