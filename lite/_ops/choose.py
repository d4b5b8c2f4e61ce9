"""Choose elements by a mask: `where`, `masked_select`, `masked_fill`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Array, as_array, is_array
from lite._ops.elementwise import columns_of, elementwise
from lite._ops.operands import Node, Operand, Rows
from lite._ops.pointwise import required
from lite._tree.nontensor import NonTensorBase, NonTensorStack, same_object
from lite._tree.protocol import MISSING, Container, T


def where(
    td: Container,
    condition: Any,
    other: Any,
    *,
    out: Any = None,
    pad: Any = None,
    update_batch_size: bool = False,
) -> Any:
    """Entries of self where `condition` holds, of `other` elsewhere.

    Args:
        condition: bool array over the leading batch dimensions, or one that broadcasts to them; the
            dimensions that it lacks, and feature dimensions, follow.
        other: a number, an array over the batch, or a TensorDict.
        out: TensorDict whose arrays receive the result, and which is returned.
        pad: stands for entries that only one side has.
        update_batch_size: let `out` take the batch size and the arrays of the result, instead of
            writing into its own.

    Raises:
        KeyError: an entry is missing on one side and there is no `pad`.
        RuntimeError: the condition does not fit the batch size.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.arange(3)}, batch_size=[3])
        >>> td.where(td["a"] > 1, -1)["a"]
        array([-1, -1,  2])
    """
    mask = as_array(condition)
    if mask.ndim > td.ndim:
        raise RuntimeError(f"condition has shape {mask.shape}, more dims than batch size {td.batch_size}.")
    if mask.ndim < td.ndim:
        mask = mask.reshape(mask.shape + (1,) * (td.ndim - mask.ndim))
    default = MISSING if pad is None else pad
    result = _chosen(td, mask, other)
    if result is None:
        result = elementwise(td, _choose, (other, mask), default, _choose_objects)
        result = required(result, "where", other)
    if out is None:
        return result
    return out.update(result, update_batch_size=True) if update_batch_size else out.update_(result)


def masked_select(td: T, mask: Any) -> T:
    """The batch elements where `mask` holds, as `td[mask]`; trailing dims of size 1 are dropped.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict({"a": np.arange(3)}, batch_size=[3]).masked_select([True, False, True])["a"]
        array([0, 2])
    """
    return td._index(_mask(td, mask))


def masked_fill_(td: T, mask: Any, value: Any) -> T:
    """Write `value` to every array where `mask` holds, in place; allowed when locked.

    Raises:
        IndexError: the mask does not have the shape of leading batch dimensions.
    """
    array = _mask(td, mask)
    if array.shape != td.batch_size[: array.ndim]:
        raise IndexError(
            f"the mask has shape {array.shape} but the leading batch dims are {td.batch_size[: array.ndim]}."
        )
    _fill_masked(td, array, value)
    return td


def masked_fill(td: T, mask: Any, value: Any) -> T:
    """A copy of self with `value` in every array where `mask` holds."""
    out: T = td._clone(True)
    return out.masked_fill_(mask, value)


def _mask(td: Container, mask: Any) -> Array:
    array = np.asarray(mask)
    if array.dtype.kind != "b":
        raise TypeError(f"mask must be an array of bools, got dtype {array.dtype}.")
    while array.ndim > td.ndim and array.shape[-1] == 1:
        array = array[..., 0]
    return array


def _fill_masked(td: Any, mask: Array, value: Any) -> None:
    stacked = td._parts()
    if stacked is not None:
        parts, dim = stacked
        rows = [mask] * len(parts) if dim >= mask.ndim else np.moveaxis(mask, dim, 0)[:, ...]
        for part, row in zip(parts, rows, strict=True):
            _fill_masked(part, np.asarray(row), value)
        return
    for _, entry in td._items():
        node = td._as_node(entry)
        if node is not None:
            _fill_masked(node, mask, value)
        elif is_array(entry):
            entry[mask] = value


def _chosen(td: Any, mask: Array, other: Any) -> Any:
    """`where` of the most frequent case at little cost: arrays only, and a number or a like TensorDict.

    None if it is not that case.
    """
    columns = columns_of(td, np.where, (other,)) if mask.ndim and mask.shape == td.batch_size else None
    if columns is None:
        return None
    rows = Rows(mask)
    triples = zip(td._keys(), *columns, strict=True)
    out = td._with({key: np.where(rows.leaf(key, leaf), leaf, value) for key, leaf, value in triples})
    return out.lock_() if td._locked else out


def _choose(leaf: Any, other: Any, mask: Array) -> Any:
    return np.where(mask, leaf, other)


def _choose_objects(td: Any, entry: NonTensorBase, operands: list[Operand], key: str) -> Any:
    """Per-element objects where the two sides differ; the entry of self where there is no other."""
    other = operands[0].leaf(key, entry) if isinstance(operands[0], Node) else None
    if not isinstance(other, NonTensorBase):
        return entry
    mine, theirs = entry._objects(), other._objects()
    if all(same_object(a, b) for a, b in np.broadcast(mine, theirs)):
        return entry
    return NonTensorStack._wrap(np.where(operands[1].leaf(key, entry), mine, theirs))
