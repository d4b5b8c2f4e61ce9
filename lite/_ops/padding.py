"""`pad` and `pad_sequence`: grow batches and sequences to a common size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite._arrays.types import Array, Path, Shape, is_array
from lite._tree.batch_ops import BatchOp
from lite._tree.collection import TensorCollection, is_leaf_nontensor
from lite._tree.key_views import walk
from lite._tree.keys import NestedKey, require_path
from lite._tree.nontensor import NonTensorBase, NonTensorStack
from lite._tree.protocol import Container, T


class Pad(BatchOp):
    """Add elements before and after those of the batch; dimension names are dropped.

    Negative counts crop. New elements hold `value`, those of objects None.
    """

    __slots__ = ("fills", "kept", "value", "within")
    keeps_lock = False

    def __init__(self, size: Shape, before: Sequence[int], after: Sequence[int], value: Any) -> None:
        counts = list(zip(size, before, after, strict=True))
        super().__init__(len(size), tuple([n + a + b for n, a, b in counts]))
        self.value = value
        self.fills = any(a > 0 or b > 0 for _, a, b in counts)
        # Where the elements that are kept are, and where they go.
        self.kept = tuple([slice(max(0, -a), max(0, n - max(0, -b))) for n, a, b in counts])
        self.within = tuple([slice(max(0, a), max(0, n + a + b - max(0, b))) for n, a, b in counts])

    def array(self, value: Array) -> Array:
        dtype = value.dtype
        out = np.empty(self.shape + value.shape[self.ndim :], dtype)
        out.fill(None if dtype.hasobject else self.value)
        out[self.within] = value[self.kept]
        return out


def grown(array: Array, before: Sequence[int], after: Sequence[int], value: Any) -> Array:
    """The array with `value` (None for objects) around its first dimensions; negative counts crop."""
    return Pad(array.shape[: len(before)], before, after, value).array(array)


def pad(td: T, pad_size: Sequence[int], value: float = 0.0, inplace: bool = False, safe: bool = True) -> T:
    """Pad the batch with a constant, objects with None.

    Args:
        pad_size: (before, after) of the first batch dimension, then of the second, and so on;
            negative counts crop.
        value: the constant.
        inplace: give self the padded entries and batch size, and return it.
        safe: accepted for compatibility; everything is always checked first.

    Raises:
        RuntimeError: `pad_size` has an odd length or names more than the batch dimensions, or
            crops more than there is.

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
    counts += [0] * (2 * len(size) - len(counts))
    op = Pad(size, counts[::2], counts[1::2], value)
    if any(n < 0 for n in op.shape):
        raise RuntimeError(f"pad_size {list(pad_size)} crops more than a batch of size {size} has.")
    source: Any = td if td._parts() is None else td.contiguous()
    out = source._run(op)
    return td._adopt(out, "pad") if inplace else out


def pad_sequence(
    list_of_tensordicts: Sequence[Any],
    pad_dim: int = 0,
    padding_value: float = 0.0,
    out: Any = None,
    return_mask: bool | NestedKey = False,
) -> Any:
    """Stack TensorDicts of different lengths, each entry padded to the longest.

    Args:
        list_of_tensordicts: the TensorDicts; only keys that all have are kept.
        pad_dim: dimension of the entries that differs in length; negative counts from their last.
        padding_value: fills the padded elements of arrays; objects are padded with None.
        out: TensorDict whose arrays receive the result, and which is returned.
        return_mask: add, under "masks" or the given key, a bool entry for every array that tells
            its elements from the padding.

    Returns:
        A TensorDict of batch size `(N, *batch)`; `batch` is padded, too, if `pad_dim` is in it.

    Raises:
        RuntimeError: the list is empty, an entry has no such dimension, or entries differ in more
            than their length.

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
    nodes = [Container._as_node(td) for td in tds]
    rows: list[dict[Path, Any]] = [dict(walk(td, True, True, is_leaf_nontensor)) for td in nodes]
    shared = [path for path in rows[0] if all(path in row for row in rows)]
    ndim = nodes[0].ndim
    inside = 0 <= pad_dim < ndim or (pad_dim < 0 and _all_inside(rows[0], shared, pad_dim, ndim))
    size = _padded_size([td.batch_size for td in nodes], inside)
    result = nodes[0].empty(recurse=True, batch_size=(len(nodes), *size))
    mask_path = _mask_path(return_mask)
    for path in shared:
        column = [row[path] for row in rows]
        if isinstance(column[0], TensorCollection):
            result._set_path(path, _objects(column, size), False)
            continue
        arrays, masks = zip(
            *(_padded(path, column, i, pad_dim, padding_value, ndim) for i in range(len(column))), strict=True
        )
        result._set_path(path, np.stack(arrays), False)
        if mask_path is not None:
            result._set_path((*mask_path, *path), np.stack(masks), False)
    if out is not None:
        return out.update(result, inplace=True)
    return nodes[0]._rewrap(tds[0], result) if mask_path is None else result


def _mask_path(return_mask: bool | NestedKey) -> Path | None:
    if isinstance(return_mask, bool):
        return ("masks",) if return_mask else None
    return require_path(return_mask)


def _all_inside(row: dict[Path, Any], paths: list[Path], pad_dim: int, ndim: int) -> bool:
    return all(row[path].ndim + pad_dim < ndim for path in paths if is_array(row[path]))


def _padded_size(sizes: list[Shape], inside: bool) -> Shape:
    if len({len(size) for size in sizes}) > 1 or (not inside and len(set(sizes)) > 1):
        raise RuntimeError(f"the batch sizes {sizes} differ in more than the padded dimension.")
    return tuple(max(n) for n in zip(*sizes, strict=True))


def _padded(
    path: Path, column: list[Array], i: int, pad_dim: int, value: Any, batch_dims: int
) -> tuple[Array, Array]:
    """Row `i` grown to the longest of the column, and the mask of its own elements."""
    array = column[i]
    at = pad_dim if pad_dim >= 0 else array.ndim + pad_dim
    if not 0 <= at < array.ndim:
        raise RuntimeError(
            f"Cannot pad scalars: the entry {path} of shape {array.shape} has no dim {pad_dim}."
        )
    if len({(a.shape[:at], a.shape[at + 1 :]) for a in column}) > 1:
        raise RuntimeError(
            f"pad_sequence failed for key {path}: shapes {[a.shape for a in column]} differ in more than "
            f"dim {at}."
        )
    length = max(a.shape[at] for a in column)
    after = [0] * at + [length - array.shape[at]]
    before = [0] * (at + 1)
    own = np.ones(array.shape[: max(at + 1, batch_dims)], np.bool_)
    return grown(array, before, after, value), grown(own, before, after, False)


def _objects(column: list[Any], size: Shape) -> NonTensorBase:
    rows = []
    for entry in column:
        own = entry._objects()
        own = own if own.ndim else np.broadcast_to(own, (1,) * len(size))
        rows.append(grown(own, [0] * len(size), [n - m for n, m in zip(size, own.shape, strict=False)], None))
    return NonTensorStack._wrap(np.stack(rows))
