"""Ragged entries, whose rows differ in shape: read as lists, padded arrays, or values with offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from lite._arrays.types import Array, HostArray, Shape
from lite._containers.joining import stacked
from lite._tree.entry_errors import entry_error
from lite._tree.nontensor import NonTensorBase, NonTensorStack, unwrap


def read(
    td: Any,
    key: str,
    *,
    as_list: bool = False,
    as_padded_tensor: bool = False,
    as_nested_tensor: bool = False,
    padding_side: str = "right",
    padding_value: object = 0.0,
    layout: object = None,
) -> Any:
    """The direct entry `key` of a container in the requested form, or None if there is none.

    Raises:
        TypeError: more than one form is asked for.
        ValueError: `padding_side` is neither "right" nor "left", or
            `padding_value` is out of range for the entry's dtype.
        RuntimeError: the rows cannot be padded or joined, because dimensions after the first differ.
    """
    if as_list + as_padded_tensor + as_nested_tensor > 1:
        raise TypeError("as_list, as_padded_tensor and as_nested_tensor are exclusive.")
    if padding_side not in ("right", "left"):
        raise ValueError(f"padding_side must be 'right' or 'left', got {padding_side!r}.")
    if td._peek_entry(key) is None:
        return None
    if td._parts() is None or not (as_list or as_padded_tensor or as_nested_tensor):
        return td._get_entry(key)
    rows = _rows(td, key)
    leaves = list(_leaves(rows))
    if any(td._as_node(leaf) is not None for leaf in leaves):
        return td._get_entry(key)
    if as_list or not all(isinstance(leaf, np.ndarray | HostArray) for leaf in leaves):
        return rows
    if not leaves:
        return td._get_entry(key)
    if len({leaf.shape[1:] for leaf in leaves}) > 1 or any(leaf.ndim == 0 for leaf in leaves):
        raise RuntimeError(
            f"cannot {'join' if as_nested_tensor else 'pad'} {key!r}: only the first dimension of the rows "
            f"may differ, got shapes {sorted({leaf.shape for leaf in leaves})}."
        )
    if as_nested_tensor:
        lengths = [len(leaf) for leaf in leaves]
        return np.concatenate(leaves), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return _padded(rows, leaves, key, padding_side, padding_value)


def peek_first_part(td: Any, key: str) -> Any:
    """`_peek_entry`, or the entry of the first part if nested containers cannot be stacked."""
    try:
        return td._peek_entry(key)
    except RuntimeError:
        return peek_first_part(td._parts()[0][0], key)


def _rows(td: Any, key: str) -> Any:
    """Nested lists over the stack dimensions; the leaf itself if the container is dense."""
    stacked = td._parts()
    if stacked is not None:
        return [_rows(part, key) for part in stacked[0]]
    entry = td._get_entry(key)
    return unwrap(entry) if isinstance(entry, NonTensorBase) else entry


def _leaves(rows: object) -> Iterator[Any]:
    if isinstance(rows, list):
        for row in rows:
            yield from _leaves(row)
    else:
        yield rows


def _padded(rows: object, leaves: list[Array], key: str, side: str, value: object) -> Array:
    longest = max(len(leaf) for leaf in leaves)
    dtype = np.result_type(*{leaf.dtype for leaf in leaves})
    try:
        out = np.full((len(leaves), longest, *leaves[0].shape[1:]), value, dtype)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"padding_value {value!r} does not fit {key!r} of dtype {dtype}") from error
    if any(isinstance(leaf, HostArray) for leaf in leaves):  # written into, they would lose their gradients
        fills = [row[len(leaf) :] for row, leaf in zip(out, leaves, strict=True)]
        pairs = zip(fills, leaves, strict=True)
        out = np.stack([np.concatenate(pair if side == "left" else pair[::-1]) for pair in pairs])
        return out.reshape(*_list_shape(rows), *out.shape[1:])
    for row, leaf in zip(out, leaves, strict=True):
        if len(leaf):
            row[slice(longest - len(leaf), None) if side == "left" else slice(len(leaf))] = leaf
    return out.reshape(*_list_shape(rows), *out.shape[1:])


def _list_shape(rows: object) -> tuple[int, ...]:
    shape: list[int] = []
    while isinstance(rows, list):
        shape.append(len(rows))
        rows = rows[0]
    return tuple(shape)


def stack_arrays(entries: list[Array], dim: int, host: bool) -> Array:
    """Stack the leaves of all parts along `dim`; `host` tells whether all are NumPy arrays.

    Raises:
        RuntimeError: their shapes differ.
    """
    out = stacked(entries, dim, host)
    if out is None:
        raise _ragged({entry.shape for entry in entries})
    return out


def _ragged(shapes: Collection[Shape]) -> Exception:
    one = len({shape[1:] for shape in shapes}) == 1  # which alone can be padded
    return entry_error(
        RuntimeError,
        "Failed to stack tensors within a tensordict: the rows of {key} have different shapes "
        f"{sorted(shapes)}. "
        f"Use get({{key}}, as_list=True){', as_padded_tensor=True or as_nested_tensor=True' if one else ''}.",
    )


def stack_objects(entries: list[Any], dim: int) -> NonTensorBase:
    """Per-element objects of the whole stack. Dimensions from the first ragged one on become lists.

    Raises:
        RuntimeError: they have different numbers of dimensions, or a dimension before `dim` is ragged.
    """
    shapes = [entry.batch_size for entry in entries]
    if len(set(shapes)) == 1:
        return NonTensorStack._stacked(entries, dim)
    if len({len(shape) for shape in shapes}) > 1:
        raise entry_error(RuntimeError, f"the objects{{at}} are of different kinds, of batch sizes {shapes}.")
    arrays = [entry._objects() for entry in entries]
    axis = next((i for i, sizes in enumerate(zip(*shapes, strict=False)) if len(set(sizes)) > 1), 0)
    if axis < dim:
        raise _ragged(shapes)
    regular = shapes[0][:axis]
    rows = np.empty((len(arrays), *regular), dtype=object)
    for i, array in enumerate(arrays):
        for at in np.ndindex(regular):
            rows[(i, *at)] = array[at].tolist()
    return NonTensorStack._wrap(np.moveaxis(rows, 0, dim))
