"""Choose elements by a mask (`where`, `masked_select`, `masked_fill`), or by the values of one entry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from lite._arrays.device import unwrap, with_value, wrap
from lite._arrays.numbers import NUMBERS
from lite._arrays.types import Array, HostArray, Unbatched, as_array, computed, has_namespace, is_array
from lite._ops.elementwise import choose
from lite._ops.operands import Const, Node, with_equal_dims
from lite._ops.out import write_out
from lite._ops.pointwise import run
from lite._tree.collection import TensorCollection
from lite._tree.keys import NestedKey, require_path
from lite._tree.nontensor import NonTensorBase, NonTensorStack, same_object
from lite._tree.protocol import Container, T, class_registry, item_shape
from lite._tree.walks import leaves
from lite._tree.writes import Writes


def where(
    td: Container,
    condition: object,
    other: object,
    *,
    out: Any = None,
    pad: object = None,
    update_batch_size: bool = False,
) -> Any:
    """Entries of self where `condition` holds, of `other` elsewhere.

    Args:
        condition: bool array over the leading batch dimensions, or one that broadcasts to them; it applies to
            all following batch and feature dimensions.
        other: a number, an array over the batch, or a TensorDict.
        out: TensorDict whose arrays receive the result, and which is returned; entries that it lacks are
            added.
        pad: value for entries that only one side has, of whose dtype it is made.
        update_batch_size: replace the batch size and the arrays of `out` by those of the result, instead of
            writing into its arrays.

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
    mask = condition if type(condition) is np.ndarray else as_array(wrap(condition))
    size = td.batch_size
    node = td._as_node(other)
    if node is not None and node.batch_size[: len(size)] == size:  # the number of batch dimensions
        size = node.batch_size
    if mask.ndim > len(size):
        raise RuntimeError(f"condition has shape {mask.shape}, more dims than batch size {size}.")
    if mask.ndim < len(size):
        mask = mask.reshape(mask.shape + (1,) * (len(size) - mask.ndim))
    fn = choose if node is None or type(pad) not in NUMBERS else partial(_choose_or_pad, pad)
    chosen: list[Any] = []  # nodes whose rows are those of one side
    whole = None if node is None else partial(_choose_rows, pad, chosen)
    result = run(td, "where", fn, other, mask, default=pad, objects=_choose_objects, whole=whole)
    if out is None:
        return result
    if update_batch_size:
        with Writes() as writes:
            if chosen and out is td and not out._locked:
                writes.keep(out)
                _remove_resized(out, result)
            return out.update(result, update_batch_size=True)
    return write_out(out, result, "where", locked=False)


def _choose_or_pad(pad: Any, leaf: Any, other: Any, mask: Any) -> Any:
    """`choose`, where the pad has the dtype of the array that it stands beside."""
    if leaf is pad:
        return choose(other.dtype.type(pad).item(), other, mask)
    return choose(leaf, leaf.dtype.type(pad).item() if other is pad else other, mask)


def masked_select(td: T, mask: object, *, inplace: bool = False) -> T:
    """The batch elements where `mask` holds, as `td[mask]`; trailing dims of size 1 are dropped.

    `inplace` replaces the entries and batch size of self by them, and returns self.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict({"a": np.arange(3)}, batch_size=[3]).masked_select([True, False, True])["a"]
        array([0, 2])
    """
    out: T = td._index(unwrap(_mask(td, mask)))
    return td._replace_inplace(out, "masked_select") if inplace else out


def masked_fill_(td: T, mask: object, value: object) -> T:
    """Write `value` to every array where `mask` holds, in place; allowed when locked.

    Raises:
        IndexError: the mask does not have the shape of leading batch dimensions.
        RuntimeError: an entry is unbatched.
    """
    array = _mask(td, mask)
    if array.shape != td.batch_size[: array.ndim]:
        raise IndexError(
            f"the mask has shape {array.shape} but the leading batch dims are {td.batch_size[: array.ndim]}."
        )
    if any(isinstance(leaf, Unbatched) for leaf in leaves(td)):
        raise RuntimeError("a mask of the batch does not apply to unbatched entries; leave them out first.")
    _fill_masked(td, array, value)
    return td


def masked_fill(td: T, mask: object, value: object) -> T:
    """A copy of self with `value` in every array where `mask` holds."""
    out: T = td._clone(True)
    return out.masked_fill_(mask, value)


def _mask(td: Container, mask: object) -> Array:
    array = mask if type(mask) is np.ndarray else as_array(wrap(mask))
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
            _fill_masked(part, as_array(row), value)
        return
    traced = isinstance(computed(value), HostArray)
    for key, entry in list(td._items()):
        if traced and is_array(entry):
            td.set_at_(key, value, mask)
        elif type(entry) is np.ndarray:
            entry[mask] = value
        elif (node := td._as_node(entry)) is not None:
            _fill_masked(node, mask, value)
        elif has_namespace(entry):
            held = mask.reshape(mask.shape + (1,) * (entry.ndim - mask.ndim))
            td._put(key, with_value(entry, ..., unwrap(np.where(held, value, wrap(entry)))))
        elif is_array(entry):
            entry[mask] = value


def _choose_objects(td: Container, key: str, entry: Any, operands: Sequence[Any]) -> Any:
    """Per-element objects if the two sides differ; the entry of self if the other side has none."""
    other = operands[0].leaf(key, entry) if isinstance(operands[0], Node) else None
    if not isinstance(other, NonTensorBase):
        return entry._shallow_copy()
    mask = operands[1].leaf(key, entry)
    if not entry.ndim and not other.ndim:  # one object, and no stack of no dimensions
        return (entry if mask else other)._shallow_copy()
    mine, theirs = (payload._objects() for payload in with_equal_dims(entry, other))
    if all(same_object(a, b) for a, b in np.broadcast(mine, theirs)):
        return entry._shallow_copy()
    return NonTensorStack._wrap(np.where(mask, mine, theirs))


def _choose_rows(pad: Any, found: list[Any], td: Any, operands: Sequence[Any]) -> Any:
    """Rows of two sides whose lengths differ, each of which is that of one side; None for other nodes."""
    node, mask = operands
    if type(node) is not Node:
        return None
    other: Any = node.td
    by_row = type(mask) is not Const
    if by_row and type(td) is type(other) is class_registry.dense and td._batch_size == other._batch_size:
        return None  # which is so of most
    mine, theirs = td._parts(), other._parts()
    if by_row and mine is not None:
        return None
    # Arrays are broadcast, objects are not.
    uneven = td.batch_size != other.batch_size and td.ndim == other.ndim and _has_objects(td)
    if not by_row:  # one for all, a NumPy scalar where `Rows.parts` makes it of a row's mask
        if not uneven and not (type(mask.value) is np.bool_ and _have_other_lengths(td, other)):
            return None
        found.append(_choose_row(pad, td, other, mask.value))
        return found[-1]
    if theirs is not None:
        uneven = any(-1 in (item_shape(other, key) or ()) for key in other._keys())
    if not uneven:
        return None
    dim = 0 if theirs is None else theirs[1]
    rows, others = td.unbind(dim), other.unbind(dim)
    made = []
    for row, part, own in zip(rows, others, mask.parts(len(rows), dim), strict=True):
        whole = _choose_rows(pad, found, row, (Node(part), own))
        made.append(where(row, own.leaf("", row), part, pad=pad) if whole is None else whole)
    found.append(made)
    out = class_registry.lazy(*made, stack_dim=dim)
    out._dim_name = td.names[dim]
    return out


def _choose_row(pad: Any, td: Any, other: Any, mine: object) -> Any:
    """A copy of one side, with `pad` for the arrays that only the other has."""
    chosen, rest = (td, other) if mine else (other, td)
    known = set(chosen.keys(True, True))
    missing = [key for key in rest.keys(True, True) if key not in known]
    if missing and pad is None:
        raise KeyError(f"the keys {missing} are missing on one side.")
    out = chosen._clone(True)
    if missing:
        out.update(rest.select(*missing)._map_leaves(lambda leaf: np.full_like(leaf, pad)))
    return out


def _remove_resized(out: Any, result: Any) -> None:
    """Remove the nodes that have another size in the result, so that they are replaced as they are."""
    mine, theirs = out._parts(), result._parts()
    if mine is not None and theirs is not None:
        for part, row in zip(mine[0], theirs[0], strict=True):
            _remove_resized(part, row)
        return
    for key in list(out._keys()):
        nodes = [side._as_node(side._peek_entry(key)) for side in (out, result)]
        if None in nodes:
            continue
        if nodes[0].batch_size == nodes[1].batch_size and -1 not in nodes[0].batch_size:
            _remove_resized(*nodes)
        else:
            out._remove(key)


def _has_objects(td: Any) -> bool:
    return any(isinstance(entry, NonTensorBase) for _, entry in td._items(True))


def _have_other_lengths(td: Any, other: Any) -> bool:
    """Whether entries of two rows have as many dimensions, and others sizes."""
    plain = td._parts() is None and other._parts() is None
    for key in td._keys():
        entry, value = td._peek_entry(key), other._peek_entry(key)
        if value is None:
            continue
        nodes = td._as_node(entry), other._as_node(value)
        if None not in nodes and _have_other_lengths(*nodes):
            return True
        a, b = (entry.shape, value.shape) if plain else (item_shape(td, key), item_shape(other, key))
        if a != b and a is not None and b is not None and len(a) == len(b):
            return True
    return False


def isin(input: Any, reference: Any, key: NestedKey, dim: int = 0) -> Array:
    """Tell for every index of a batch dimension whether its values of `key` also occur in `reference`.

    Args:
        input: the TensorDict to test.
        reference: a TensorDict of as many batch dimensions.
        key: an array in both, of shapes that differ in `dim` only.
        dim: the batch dimension.

    Returns:
        A bool array with one element per index of `dim`.

    Raises:
        KeyError: one of the two has no array at `key`.
        ValueError: numbers of batch dimensions differ, `dim` is not a batch dimension, or the shapes of the
            arrays differ in other dimensions.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, isin
        >>> rows = TensorDict({"a": np.array([[1, 2], [3, 4], [1, 2]])}, [3])
        >>> isin(rows, TensorDict({"a": np.array([[1, 2], [9, 9]])}, [2]), "a")
        array([ True, False,  True])
    """
    if input.ndim != reference.ndim:
        raise ValueError(
            f"input and reference must have as many batch dims, got {input.batch_size} and "
            f"{reference.batch_size}."
        )
    mine, theirs = (_column(td, key, dim, name) for td, name in ((input, "input"), (reference, "reference")))
    if mine.shape[1:] != theirs.shape[1:]:
        raise ValueError(f"the arrays at {key!r} differ in shape: rows {mine.shape[1:]}, {theirs.shape[1:]}.")
    numbers = _group_numbers(np.concatenate([theirs, mine]))
    return np.isin(numbers[len(theirs) :], numbers[: len(theirs)])


def remove_duplicates(input: Any, key: NestedKey, dim: int = 0, *, return_indices: bool = False) -> Any:
    """Keep the first of all indices with equal values of `key`, sorted by these values.

    Args:
        input: a TensorDict.
        key: an array in it.
        dim: the batch dimension.
        return_indices: also return, for every index of `input`, the index of its values in the result.

    Raises:
        KeyError: there is no array at `key`.
        ValueError: `dim` is not a batch dimension.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, remove_duplicates
        >>> td = TensorDict({"a": np.array([1, 3, 1]), "b": np.arange(3)}, [3])
        >>> remove_duplicates(td, "a")["b"]
        array([0, 1])
    """
    numbers = _group_numbers(_column(input, key, dim, "input"))
    first = np.unique(numbers, return_index=True)[1]
    out = input[(*[slice(None)] * (dim % input.ndim), first)]
    return (out, numbers) if return_indices else out


def group_by(tensordict: Any, key: NestedKey) -> tuple[Any, tuple[Any, ...]]:
    """Split the rows of the first batch dimension by the values of an entry.

    Args:
        tensordict: a TensorDict or tensorclass.
        key: an array, whose rows are compared whole, or objects that can be hashed and sorted.

    Returns:
        The sorted values (an array; a list of objects), and for each the rows that have it, in their order.

    Raises:
        ValueError: no batch dimension.
        KeyError: no entry at `key`.
        TypeError: a nested TensorDict, or objects that cannot be hashed or sorted.

    Example:
        >>> from lite import TensorDict, group_by
        >>> td = TensorDict({"prompt": [7, 3, 7], "reward": [0.5, 1.0, 1.5]}, [3])
        >>> values, groups = group_by(td, "prompt")
        >>> values, [group["reward"].tolist() for group in groups]
        (array([3, 7]), [[1.0], [0.5, 1.5]])
    """
    if not tensordict.ndim:
        raise ValueError("tensordict must have a batch dimension to be split along, got a batch size of ().")
    entry = Container._as_node(tensordict)._get_entry(require_path(key))
    values: Any
    rows: Any
    if entry is None:
        raise KeyError(f"tensordict has no entry {key!r}.")
    if isinstance(entry, NonTensorBase):
        rows = [_hashable(row) for row in entry._objects().tolist()]
        try:
            values = sorted(set(rows))
        except TypeError as error:
            raise TypeError(f"the objects at {key!r} must be hashable and sortable: {error}.") from error
        number = {value: i for i, value in enumerate(values)}
        inverse = np.array([number[row] for row in rows], np.intp)
    elif isinstance(entry, TensorCollection | Unbatched):
        raise TypeError(f"key must be that of an array or of objects, got {key!r}, a {type(entry).__name__}.")
    else:
        rows = _column(tensordict, key, 0, "tensordict")
        axis = 0 if rows.ndim > 1 else None
        values, inverse = np.unique(rows, axis=axis, return_inverse=True, equal_nan=False)
    order = np.argsort(inverse.reshape(-1), stable=True)
    ends = np.cumsum(np.bincount(inverse.reshape(-1), minlength=len(values)))
    found = tensordict[order]
    return values, tuple(found[end - n : end] for n, end in zip(np.diff(ends, prepend=0), ends, strict=True))


def _hashable(row: Any) -> Any:
    return tuple(map(_hashable, row)) if isinstance(row, list) else row


def _column(td: Container, key: NestedKey, dim: int, name: str) -> Array:
    """The array at `key` with `dim` in front."""
    array = td.get(key, None)
    if has_namespace(array):
        array = np.asarray(array)
    if not isinstance(array, np.ndarray):
        raise KeyError(f"{name} has no array at {key!r}.")
    if not -td.ndim <= dim < td.ndim:
        raise ValueError(f"dim {dim} is not a batch dimension of {name}, whose size is {td.batch_size}.")
    return np.moveaxis(array, dim % td.ndim, 0)


def _group_numbers(rows: Array) -> Array:
    """One number per row, the same for equal rows."""
    if not len(rows):
        return np.zeros(0, np.int64)
    return np.unique(rows.reshape(len(rows), -1), axis=0, return_inverse=True)[1].reshape(-1)
