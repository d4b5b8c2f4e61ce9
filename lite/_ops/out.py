"""`out=`: results are written into the arrays of a TensorDict, and missing entries are created.

`apply` does not use it: with its `out`, results replace the entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lite._arrays.types import is_array
from lite._tree.entry_errors import entry_error, error_path
from lite._tree.lock import LOCK_ERROR
from lite._tree.protocol import Container


def write_out(
    out: object, result: object, name: str, casting: object = "same_kind", locked: bool = True
) -> Any:
    """Write a result into `out`, completely or not at all; returns `out`.

    Args:
        out: a TensorDict or tensorclass; an array if the result is one.
        result: the result of the operation. Entries that `out` lacks are copied, as they may be inputs.
        name: the name of the operation, for errors.
        casting: the casting rule, as in NumPy's functions.
        locked: whether a locked `out` may be written into; it never gets new entries.

    Raises:
        TypeError: `out` is of another kind, or a dtype cannot be cast.
        ValueError: an array has another shape, or is read-only.
        RuntimeError: `out` has another batch size, is locked, or has a nested TensorDict for an array.
    """
    given = Container._as_node(result)
    if given is None:
        return _write_array(out, result, name, casting)
    node = Container._as_node(out)
    if node is None:
        raise TypeError(f"out of {name} must be a TensorDict, got {type(out).__name__}.")
    if node.batch_size != given.batch_size:
        raise RuntimeError(
            f"out.batch_size and the batch size of the result of {name} must match, got out.batch_size="
            f"{node.batch_size} and {given.batch_size}."
        )
    if node.is_locked and not locked:
        raise RuntimeError(LOCK_ERROR)
    complete = _check(node, given, casting)
    node.update(given, clone=not complete, inplace=True)
    return out


def _write_array(out: Any, result: Any, name: str, casting: object) -> Any:
    if not is_array(out):
        raise TypeError(f"out of {name} must be an array, as the result is one, got {type(out).__name__}.")
    _check_array(out, result, casting)
    out[...] = result
    return out


def _check(out: Any, result: Any, casting: object) -> bool:
    """Whether `out` has all entries of the result; raises if a result does not fit its array."""
    if out._parts() is not None:
        pairs = list(_side_by_side(out, result))
        return all([_check(part, row, casting) for part, row in pairs])  # noqa: C419 - all are to be checked
    complete = True
    for key, value in result._items():
        entry = out._get_entry(key)
        both = type(entry) is np.ndarray and type(value) is np.ndarray
        if both and entry.dtype is value.dtype and entry.shape == value.shape and entry.flags.writeable:
            continue  # true for nearly all
        node, given = out._as_node(entry), out._as_node(value)
        if entry is None:
            complete = False
        elif node is not None and given is not None:
            with error_path(key):
                complete = _check(node, given, casting) and complete
        elif (node is None) != (given is None) or is_array(entry) != is_array(value):
            kinds = type(entry).__name__, type(value).__name__
            raise entry_error(RuntimeError, f"{kinds[0]} {{key}} of out cannot take a {kinds[1]}.", (key,))
        elif is_array(entry):
            with error_path(key):
                _check_array(entry, value, casting)
    return complete


def _side_by_side(out: Any, result: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of a part of a lazy stack and its piece of the result; both may be ragged."""
    parts, dim = out._parts()
    given = result._parts()
    if given is None or given[1] == dim:
        yield from zip(parts, result.unbind(dim), strict=True)
        return
    rows, other = given
    columns = [row.unbind(dim - (dim > other)) for row in rows]
    for i, part in enumerate(parts):
        cells = part.unbind(other - (other > dim))
        yield from zip(cells, [column[i] for column in columns], strict=True)


def _check_array(target: Any, value: Any, casting: Any) -> None:
    if tuple(target.shape) != tuple(value.shape):
        raise entry_error(ValueError, f"out has shape {target.shape}{{at}}, the result {value.shape}.")
    if not np.can_cast(value.dtype, target.dtype, casting):
        raise entry_error(TypeError, f"a {value.dtype} result cannot be cast to {target.dtype}{{at}}.")
    if isinstance(target, np.ndarray) and not target.flags.writeable:
        raise entry_error(ValueError, "the array of out{at} is read-only.")
