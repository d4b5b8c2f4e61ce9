"""Padding of batches and sequences to a common size: `pad`, `pad_sequence`, dense forms of lazy stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from lite._arrays.device import on_leaves, wrap
from lite._arrays.numbers import SCALARS
from lite._arrays.types import Array, Path, Shape, Unbatched, as_array, computed, is_array
from lite._containers.joining import STACK
from lite._ops.combine import lazy_stack, maybe_dense_stack
from lite._ops.out import write_out
from lite._tree.batch_ops import Pad
from lite._tree.collection import TensorCollection, is_leaf_nontensor
from lite._tree.key_views import walk
from lite._tree.keys import NestedKey, require_path, to_key
from lite._tree.lock import require_unlocked
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack
from lite._tree.protocol import Container, T, class_registry
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.walks import keep, map_tree


def pad(td: T, pad_size: Sequence[int], value: float = 0.0, inplace: bool = False, safe: bool = True) -> T:
    """Pad the batch with a constant, objects with None. A lazy stack stays one.

    Args:
        pad_size: (before, after) of the first batch dimension, then of the second, and so on;
            negative counts crop.
        value: the constant.
        inplace: replace the entries and batch size of self and of every node, and return self.
        safe: accepted for compatibility; arguments are always checked.

    Raises:
        RuntimeError: `pad_size` has an odd length, more pairs than batch dimensions, or crops more than there
            is; a ragged batch; `inplace` on a locked node.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2]}, batch_size=[2]).pad([1, 2])["a"]
        array([0, 1, 2, 0, 0])
    """
    counts = [int(n) for n in pad_size]
    size = td.batch_size
    if len(counts) % 2:
        raise RuntimeError("pad_size must have an even number of dimensions")
    if len(counts) > 2 * len(size):
        raise RuntimeError("The length of pad_size must be <= 2 * the number of batch dimensions")
    if -1 in size:
        raise RuntimeError(f"a ragged batch of size {size} cannot be padded.")
    counts += [0] * (2 * len(size) - len(counts))
    op = Pad(size, counts[::2], counts[1::2], value)
    if any(n < 0 for n in op.shape):
        raise RuntimeError(f"pad_size {list(pad_size)} crops more than a batch of size {size} has.")
    if inplace:
        require_unlocked(td)
    out: Any = td._run(op)
    if not inplace:
        return out
    stacked = td._parts()
    if stacked is not None:
        parts, dim = stacked
        kept, made = parts[op.kept[dim]], out._parts()[0]
        for part, padded in zip(kept, made[op.within[dim]], strict=True):
            part._replace_content(padded)
        made[op.within[dim]] = kept
    return td._replace_content(out)


def pad_sequence(
    list_of_tensordicts: Sequence[Any],
    pad_dim: int = 0,
    padding_value: float | Mapping[NestedKey, float] = 0.0,
    out: object = None,
    return_mask: bool | NestedKey = False,
    padding_side: str = "right",
) -> Any:
    """Stack TensorDicts of different lengths, each entry padded to the longest.

    Args:
        list_of_tensordicts: the TensorDicts; only keys that all have are kept.
        pad_dim: dimension of the entries that differs in length; negative counts from their last.
        padding_value: fills the padded elements of arrays; a mapping has one for each of some keys, and 0 is
            for the others. Objects are padded with None.
        out: TensorDict whose arrays receive the result, and which is returned.
        return_mask: add, under "masks" or the given key, a bool entry for every array, of the batch and the
            padded dimension, that is True for its elements and False for the padding.
        padding_side: "right" pads behind the elements, "left" before them.

    Returns:
        A TensorDict of batch size `(N, *batch)`; `batch` is padded, too, if `pad_dim` is in it.

    Raises:
        RuntimeError: the list is empty, an entry has no such dimension, or entries differ in more
            than their length.
        KeyError: `padding_value` has a key that is not an entry of all.
        ValueError: an unknown `padding_side`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, pad_sequence
        >>> tds = [TensorDict({"a": np.ones(n)}, batch_size=[n]) for n in (1, 3)]
        >>> out = pad_sequence(tds, return_mask=True)
        >>> out.batch_size, out["a"][0], out["masks", "a"][0]
        ((2, 3), array([1., 0., 0.]), array([ True, False, False]))
    """
    tds = list(list_of_tensordicts)
    if not tds:
        raise RuntimeError("list_of_tensordicts cannot be empty")
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side must be 'left' or 'right', got {padding_side!r}.")
    nodes = [Container._as_node(td) for td in tds]
    rows: list[dict[Path, Any]] = [dict(walk(td, True, True, is_leaf_nontensor)) for td in nodes]
    shared = [path for path in rows[0] if all(path in row for row in rows)]
    values = _values_by_path(padding_value, shared)
    ndim = nodes[0].ndim
    inside = 0 <= pad_dim < ndim or (pad_dim < 0 and _all_inside(rows[0], shared, pad_dim, ndim))
    size = _padded_size([td.batch_size for td in nodes], inside)
    result = nodes[0].empty(recurse=True, batch_size=(len(nodes), *size))
    named = "masks" if return_mask is True else return_mask
    masks = None if named is False else require_path(named)
    for path in shared:
        column = [row[path] for row in rows]
        if isinstance(column[0], TensorCollection):
            result._set_path(path, _padded_objects(column, size, padding_side), False)
            continue
        if isinstance(column[0], UnbatchedTensor):
            result._set_path(path, column[0], False)
            continue
        shapes = [array.shape for array in column]
        shape, at = _longest(path, shapes, pad_dim)
        arrays = [_grown_to(array, shape, values[path], padding_side) for array in column]
        result._set_path(path, np.stack(arrays), False)
        if masks is not None:
            length = slice(at, at + 1) if at >= ndim else slice(0)
            *sizes, full = [own[:ndim] + own[length] for own in (*shapes, shape)]
            own = [_grown_to(np.ones(size, np.bool_), full, False, padding_side) for size in sizes]
            result._set_path((*masks, *path), np.stack(own), False)
    if out is not None:
        return write_out(out, result, "pad_sequence")
    return nodes[0]._rewrap(tds[0], result) if masks is None else result


def _values_by_path(padding_value: Any, paths: list[Path]) -> dict[Path, Any]:
    if not isinstance(padding_value, Mapping):
        return dict.fromkeys(paths, padding_value)
    given = {require_path(key): value for key, value in padding_value.items()}
    missing = [to_key(path) for path in given if path not in paths]
    if missing:
        raise KeyError(f"padding_value has the keys {missing}, which are not entries of all TensorDicts.")
    return {path: given.get(path, 0.0) for path in paths}


def _all_inside(row: dict[Path, Any], paths: list[Path], pad_dim: int, ndim: int) -> bool:
    arrays = [row[path] for path in paths if is_array(row[path]) and not isinstance(row[path], Unbatched)]
    return all(array.ndim + pad_dim < ndim for array in arrays)


def _padded_size(sizes: list[Shape], inside: bool) -> Shape:
    if len({len(size) for size in sizes}) > 1 or (not inside and len(set(sizes)) > 1):
        raise RuntimeError(f"the batch sizes {sizes} differ in more than the padded dimension.")
    return tuple(max(n) for n in zip(*sizes, strict=True))


def _padded_objects(column: list[Any], size: Shape, side: str) -> NonTensorBase:
    rows = []
    for entry in column:
        own = entry._objects()
        rows.append(_grown_to(own if own.ndim else own.reshape((1,) * len(size)), size, None, side))
    return NonTensorStack._wrap(np.stack(rows))


def _longest(path: Path, shapes: list[Shape], pad_dim: int) -> tuple[Shape, int]:
    """The shape that the arrays of one key are padded to, and the dimension that grows."""
    first = shapes[0]
    at = pad_dim if pad_dim >= 0 else len(first) + pad_dim
    if not 0 <= at < len(first):
        raise RuntimeError(f"Cannot pad scalars: the entry {path} of shape {first} has no dim {pad_dim}.")
    if len({(shape[:at], shape[at + 1 :]) for shape in shapes}) > 1:
        raise RuntimeError(f"pad_sequence of key {path}: shapes {shapes} differ in more than dim {at}.")
    return (*first[:at], max(shape[at] for shape in shapes), *first[at + 1 :]), at


def unpad_sequence(padded: Any, mask: Any = None, *, pad_dim: int = 0) -> Any:
    """The TensorDicts that `pad_sequence` stacked, as a lazy stack of views.

    Args:
        padded: a TensorDict with one sequence for each index of its first batch dimension.
        mask: what is not padding: a TensorDict of masks as `pad_sequence` makes them, or a bool array
            `(N, length)` for all entries; the entry "masks", which the result lacks, by default.
        pad_dim: that of `pad_sequence`.

    Raises:
        ValueError: no batch dimension, no mask, a mask of another shape, or one with holes.
        KeyError: there is no mask of an entry.
        IndexError: an entry has no dimension `pad_dim`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, pad_sequence, unpad_sequence
        >>> tds = [TensorDict({"a": np.arange(n)}, batch_size=[n]) for n in (1, 3)]
        >>> rows = unpad_sequence(pad_sequence(tds, return_mask=True, padding_side="left"))
        >>> rows[0]["a"], rows[1]["a"]
        (array([0]), array([0, 1, 2]))
    """
    node = Container._as_node(padded)
    if not node.ndim:
        raise ValueError("padded must have the sequences along a batch dimension, got a batch size of ().")
    if mask is None:
        mask, node = node._get_entry(("masks",)), node._excluded(["masks"])
        if mask is None:
            raise ValueError(
                "mask must be given, as padded has no entry 'masks': see return_mask of pad_sequence."
            )
    ndim, found = node.ndim - 1, walk(node, True, True, is_leaf_nontensor)
    arrays = {
        path: entry for path, entry in found if not isinstance(entry, TensorCollection | UnbatchedTensor)
    }
    dims = {path: pad_dim if pad_dim >= 0 else array.ndim - 1 + pad_dim for path, array in arrays.items()}
    for path, dim in dims.items():
        if not 0 <= dim < arrays[path].ndim - 1:
            raise IndexError(f"pad_dim {pad_dim} is not a dimension of the sequences at {to_key(path)!r}.")
    rows = list(node.unbind(0))
    if ndim and all(dim < ndim for dim in dims.values()):
        path, dim = next(iter(dims.items()), ((), pad_dim % ndim))
        runs = _runs(mask, path, dim, node.batch_size, ndim)
        rows = [row[(*[slice(None)] * dim, run)] for row, run in zip(rows, runs, strict=True)]
    else:
        rows = [row._clone(False) for row in rows]
        for path, dim in dims.items():
            for row, run in zip(rows, _runs(mask, path, dim, arrays[path].shape, ndim), strict=True):
                row._set_path(path, row._get_entry(path)[(*[slice(None)] * dim, run)], False)
    return lazy_stack([node._rewrap(padded, row) for row in rows])


def _runs(mask: Any, path: Path, dim: int, shape: Shape, ndim: int) -> list[slice]:
    """Where each row of an entry of a shape is not padding along `dim`, not counting that of the rows."""
    masks = Container._as_node(mask)
    if masks is None:
        marked, expected = as_array(wrap(mask)), (shape[0], shape[dim + 1])
        if marked.shape != expected:
            raise ValueError(f"mask must have the shape (N, length) = {expected}, got {marked.shape}.")
    else:
        marked = masks._get_entry(path)
        if marked is None:
            raise KeyError(f"the mask has no entry for the key {to_key(path)!r} of padded.")
        marked = np.moveaxis(marked, min(dim, ndim) + 1, -1)
        marked = np.any(marked, tuple(range(1, marked.ndim - 1)))
    marked = marked.astype(np.bool_)
    edges = np.diff(marked, axis=-1, prepend=False, append=False)
    if (edges.sum(-1) > 2).any():
        raise ValueError(f"the mask of {to_key(path)!r} must mark one run of each row, got one with holes.")
    starts, lengths = edges.argmax(-1).tolist(), marked.sum(-1).tolist()
    return [slice(start, start + length) for start, length in zip(starts, lengths, strict=True)]


def collate(
    batch: Any,
    *,
    pad_keys: Mapping[NestedKey, float] | None = None,
    nested_keys: Sequence[NestedKey] | None = None,
    mask_key: NestedKey | None = None,
) -> Any:
    """Make a batch of a list of samples, as the `collate_fn` of a data loader does.

    TensorDicts and tensorclasses are stacked, densely where keys and shapes allow it, else lazily; arrays and
    numbers are stacked; text stays a list; mappings, tuples and lists are collated entry by entry.

    Args:
        batch: the samples, all like the first; anything but a list that holds something is returned itself.
        pad_keys: entries of TensorDicts that are padded along their first dimension, with their values; the
            samples have no batch dimensions.
        nested_keys: not available.
        mask_key: key of the masks of these entries, as those of `pad_sequence`.

    Raises:
        KeyError: a sample lacks a key of `pad_keys`.
        ValueError: `mask_key` without `pad_keys`, or of an entry; `pad_keys` and batch dimensions.
        RuntimeError: tuples or lists of different lengths.
        TypeError: samples of other kinds.
        NotImplementedError: `nested_keys`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, collate
        >>> samples = [(TensorDict(ids=np.arange(1, n)), n) for n in (2, 4)]
        >>> td, numbers = collate(samples, pad_keys={"ids": -1}, mask_key="mask")
        >>> td["ids"].tolist(), td["mask", "ids"].sum(-1), numbers
        ([[1, -1, -1], [1, 2, 3]], array([1, 3]), array([2, 4]))
    """
    if nested_keys:
        raise NotImplementedError(
            "nested_keys is not available: without it, ragged entries are stacked lazily."
        )
    if not isinstance(batch, list) or not batch:
        return batch
    first = batch[0]
    if isinstance(first, TensorCollection):
        if pad_keys is None and mask_key is None:
            return maybe_dense_stack(batch)
        return _collated(batch, {} if pad_keys is None else pad_keys, mask_key)
    again = partial(collate, pad_keys=pad_keys, mask_key=mask_key)
    if isinstance(first, Mapping):
        return {key: again([sample[key] for sample in batch]) for key in first}
    if isinstance(first, tuple | list):
        if len({len(sample) for sample in batch}) > 1:
            raise RuntimeError(f"samples differ in length: {sorted({len(sample) for sample in batch})}.")
        items = [again(list(entries)) for entries in zip(*batch, strict=True)]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    if isinstance(first, str | bytes):
        return batch
    if not is_array(first) and not isinstance(first, SCALARS):
        raise TypeError(f"samples must be TensorDicts, arrays, numbers, text or of these, got {type(first)}.")
    return np.stack(batch)


def _collated(samples: list[Any], pad_keys: Mapping[NestedKey, float], mask_key: NestedKey | None) -> Any:
    if mask_key is not None and not pad_keys:
        raise ValueError(f"mask_key {mask_key!r} needs pad_keys, got none.")
    if samples[0].ndim:
        raise ValueError(f"pad_keys are for samples without batch dimensions, got {samples[0].batch_size}.")
    nodes = [Container._as_node(sample) for sample in samples]
    for node in nodes:
        for key in pad_keys:
            if node._get_entry(require_path(key)) is None:
                raise KeyError(f"a sample has no entry {key!r}, which is one of pad_keys.")
        if mask_key is not None and node._get_entry(require_path(mask_key)) is not None:
            raise ValueError(f"mask_key must not be the key of an entry, got {mask_key!r}.")
    out = maybe_dense_stack([sample.exclude(*pad_keys) for sample in samples])
    chosen = [node.select(*pad_keys) for node in nodes]
    padded = pad_sequence(chosen, padding_value=pad_keys, return_mask=False if mask_key is None else mask_key)
    for key in pad_keys if mask_key is None else (*pad_keys, mask_key):
        out.set(key, padded._get_entry(require_path(key)))
    return out


def to_lazystack(td: Container, dim: int = 0) -> Any:
    """A lazy stack of the slices along a batch dimension. Its arrays are views.

    Raises:
        IndexError: `dim` is not a batch dimension.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.zeros((2, 3))}, batch_size=[2])
        >>> type(td.to_lazystack()).__name__, len(td.to_lazystack().tensordicts)
        ('LazyStackedTensorDict', 2)
    """

    d = td._dim(dim)
    size, names = td.batch_size, td._names
    name = None if names is None else names[d]
    return class_registry.lazy._make(list(td.unbind(d)), d, name, size[:d] + size[d + 1 :])


def densify(td: Container, padding_value: Any = 0.0, padding_side: str = "right") -> Any:
    """Make all lazy stacks in self dense; ragged arrays are padded along their first dimension."""

    def dense(stack: Any) -> Any:
        return stack.densify(padding_value, padding_side)

    return map_tree(td, keep, dense=dense)


def to_padded_tensor(td: Container, padding: object = 0.0, mask_key: NestedKey | None = None) -> Any:
    """A dense TensorDict: ragged batches and arrays are padded at their ends.

    Args:
        padding: fills arrays; objects are padded with None.
        mask_key: key of a bool array over the batch that is False for padding.

    Raises:
        RuntimeError: `mask_key` without a ragged batch, or arrays of one key differ in kind of dtype or in
            number of dimensions.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, lazy_stack
        >>> rows = lazy_stack([TensorDict({"a": np.ones(n)}, batch_size=[n]) for n in (1, 2)])
        >>> out = rows.to_padded_tensor(mask_key="mask")
        >>> out["a"], out["mask"]
        (array([[1., 0.],
               [1., 1.]]), array([[ True, False],
               [ True,  True]]))
    """
    if mask_key is not None and -1 not in td.batch_size:
        raise RuntimeError("mask_key needs a heterogenous dimension that is part of the batch-size.")
    out = _padded_tree(td, padding)
    if mask_key is not None:
        out._set_path(require_path(mask_key), _batch_mask(td, out.batch_size), False)
    return out


def _padded_tree(td: Container, padding: object) -> Any:
    return map_tree(td, keep, dense=partial(_padded_stack, padding=padding))


def _padded_stack(stack: Any, padding: object) -> Any:
    parts, dim = stack._parts()
    dense = [_padded_tree(part, padding) for part in parts]
    if not dense:
        return stack.contiguous()
    out = STACK.nodes(_unified(dense, padding), dim)
    out._names = stack._names
    return out


def _unified(tds: list[Any], padding: object) -> list[Any]:
    """Dense TensorDicts of their common keys, padded to one batch size and one shape per key."""
    size = _largest([td.batch_size for td in tds])
    keys = [key for key in tds[0]._keys() if all(td._get_entry(key) is not None for td in tds[1:])]
    columns = {key: _unified_column([td._get_entry(key) for td in tds], size, padding, key) for key in keys}
    return [
        td._make({key: columns[key][i] for key in keys}, size, td.device, td._names)
        for i, td in enumerate(tds)
    ]


def _unified_column(column: list[Any], size: Shape, padding: object, key: str) -> list[Any]:
    nodes = [Container._as_node(entry) for entry in column]
    if all(node is not None for node in nodes):
        unified = _unified(nodes, padding)
        return [nodes[i]._rewrap(entry, unified[i]) for i, entry in enumerate(column)]
    if all(isinstance(entry, UnbatchedTensor) for entry in column):
        return [entry._rebatch(size) for entry in column]
    if all(is_array(entry) for entry in column):
        shape = _largest([entry.shape for entry in column], key)
        return [
            entry if entry.shape == shape else on_leaves(_grown_to, entry, shape, padding) for entry in column
        ]
    if all(isinstance(entry, NonTensorBase) for entry in column):
        return [_grown_objects(entry, size) for entry in column]
    raise RuntimeError(f"the entries {key!r} are of different kinds: {[type(e).__name__ for e in column]}.")


def _grown_objects(entry: Any, size: Shape) -> Any:
    if entry.batch_size == size:
        return entry
    if isinstance(entry, NonTensorData):
        return entry._rebatch(size)
    return NonTensorStack._wrap(_grown_to(entry._objects(), size, None))


def _grown_to(array: Array, shape: Shape, value: object, side: str = "right") -> Array:
    """The array padded to `shape` on one side of its dimensions, with `value` or, for objects, None.

    It is itself returned where nothing is to be padded.
    """
    size = array.shape[: len(shape)]
    if size == shape:
        return computed(array)
    grown, none = [n - m for n, m in zip(shape, size, strict=True)], [0] * len(size)
    before, after = (none, grown) if side == "right" else (grown, none)
    return Pad(size, before, after, value).array(array)


def _largest(shapes: list[Shape], key: str = "") -> Shape:
    if len({len(shape) for shape in shapes}) > 1:
        raise RuntimeError(f"entries {key!r} of shapes {shapes} have no common padded shape.")
    return tuple(max(n) for n in zip(*shapes, strict=True))


def _batch_mask(td: Container, size: Shape) -> Any:
    stacked = td._parts()
    if stacked is None:
        return _grown_to(np.ones(td.batch_size, np.bool_), size, False)
    parts, dim = stacked
    inner = size[:dim] + size[dim + 1 :]
    return np.stack([_batch_mask(part, inner) for part in parts], dim)
