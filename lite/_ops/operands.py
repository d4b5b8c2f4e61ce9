"""Operands of pointwise operations: the value that each argument has for each leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lite._arrays.device import on_leaves, wrap
from lite._arrays.dtypes import is_numeric
from lite._arrays.numbers import NUMBERS
from lite._arrays.types import (
    Array,
    ArrayHolder,
    HostArray,
    Shape,
    Unbatched,
    has_namespace,
    is_array,
    refuse_masked,
)
from lite._tree.batch_ops import Expand
from lite._tree.collection import Entry, TensorCollection
from lite._tree.duck_typed_columns import duck_typed_column
from lite._tree.entry_errors import entry_error
from lite._tree.nontensor import NonTensorBase, NonTensorData
from lite._tree.protocol import Container, item_shape
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.values import numeric_array


class Operand:
    """A parsed argument: one value for every leaf, one row per batch element, or a tree matched by key."""

    __slots__ = ()
    batch_size: Shape = ()

    def leaf(self, key: str, entry: object) -> Any:
        """The value for a leaf; None if there is none."""
        raise NotImplementedError

    def child(self, key: str) -> Operand:
        """The operand for the entries of a nested TensorDict."""
        return self

    def expand(self, batch_size: Shape) -> Operand:
        """The operand expanded to a batch size."""
        return self

    def parts(self, count: int, dim: int) -> list[Operand]:
        """One operand for each part of a lazy stack."""
        return [self] * count


class Const(Operand):
    """A number, or an array that is used without alignment to the batch."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def leaf(self, key: str, entry: object) -> Any:
        return self.value


class Rows(Operand):
    """An array that is broadcast against the batch size; dimensions of size 1 are added for features."""

    __slots__ = ("_shaped", "array", "batch_size")

    def __init__(self, array: Array) -> None:
        self.array = self._shaped = array
        self.batch_size = array.shape

    def leaf(self, key: str, entry: Any) -> Any:
        if isinstance(entry, Unbatched):
            raise entry_error(
                RuntimeError,
                f"rows of shape {self.batch_size} cannot be matched with the unbatched entry{{at}}; leave it "
                "out first.",
                (key,),
            )
        # Cached, as most leaves have as many dimensions as the one before.
        if self._shaped.ndim != entry.ndim:
            self._shaped = self.array.reshape(self.batch_size + (1,) * (entry.ndim - self.array.ndim))
        return self._shaped

    def expand(self, batch_size: Shape) -> Operand:
        return Rows(np.broadcast_to(self.array, batch_size))

    def parts(self, count: int, dim: int) -> list[Operand]:
        if dim >= self.array.ndim:  # only the part has this dimension, and the rows broadcast along it
            return [self] * count
        return [Rows(row) if row.ndim else Const(row) for row in np.moveaxis(self.array, dim, 0)]


class Node(Operand):
    """A TensorDict, matched by key. Feature shapes of two leaves may differ.

    Leaves of equal shape are used unchanged. Otherwise batch dimensions are aligned with batch dimensions and
    features with features: the leaf with fewer dimensions gets dimensions of size 1 between the two.
    """

    __slots__ = ("td",)

    def __init__(self, td: Container) -> None:
        self.td = td

    @property
    def batch_size(self) -> Shape:  # type: ignore[override]
        return self.td.batch_size

    def leaf(self, key: str, entry: Any) -> Any:
        value = self.td._get_entry(key)
        plain = type(value) is np.ndarray and type(entry) is np.ndarray
        if (plain or (_reshapes(value) and _reshapes(entry))) and value.ndim < entry.ndim:
            return align_features(value, entry.ndim, self.td.batch_dims)
        return value

    def child(self, key: str) -> Operand:
        node = self.td._as_node(self.td._get_entry(key))
        return NOTHING if node is None else Node(node)

    def parts(self, count: int, dim: int) -> list[Operand]:
        return [Node(part) for part in self.td.unbind(dim)]


def _reshapes(leaf: object) -> bool:
    """Whether a leaf can be reshaped: an array of NumPy or JAX."""
    return type(leaf) is np.ndarray or has_namespace(leaf)


def expand_to(td: Any, size: Shape, others: Sequence[Any]) -> Any:
    """A tree with another batch size. Leaves that match one of equal shape stay, the others are expanded.

    Args:
        td: the tree.
        size: the batch size. That of `td` broadcasts to it, or the shapes of all leaves start with it.
        others: the trees that it is matched with.
    """
    stay = _leaves_stay(td, size, others)
    if False not in stay:
        return td if td.batch_size[: len(size)] == size else td._rebatch(size)
    if True not in stay or td._parts() is not None:
        return td.expand(size)
    ndim = td.batch_dims
    widen = Expand(ndim, size)
    entries: dict[str, Any] = {}
    for key, entry in td._items():
        node = td._as_node(entry)
        if node is not None:
            met = _children(others, key)
            # A node whose leaves all stay keeps its batch size if that is longer.
            inner = (
                size + node.batch_size[ndim:] if False in _leaves_stay(node, size, met) else node.batch_size
            )
            entries[key] = td._rewrap(entry, expand_to(node, max(size, inner, key=len), met))
        elif isinstance(entry, UnbatchedTensor):
            entries[key] = entry._run(widen)
        elif _meets_its_shape(key, tuple(entry.shape), size, others):
            entries[key] = entry
        elif isinstance(entry, NonTensorBase):
            entries[key] = entry._run(widen)
        else:
            entries[key] = on_leaves(widen.array, entry)
    names = td._names and [None] * (len(size) - ndim) + td._names
    return td._make(entries, size, td.device, names)


def leaf_shapes_match(trees: Sequence[Any]) -> bool:
    """Whether the arrays of each key have equal shapes in several trees, with at least one common key."""
    first, *others = trees
    found = False
    for key in first._keys():
        node = first._as_node(first._peek_entry(key))
        if node is not None:
            children = _children(others, key)
            if children and not leaf_shapes_match([node, *children]):
                return False
            found = found or bool(children)
        elif not isinstance(first._peek_entry(key), Entry):
            shape = item_shape(first, key)
            met = [item_shape(other, key) for other in others if _is_leaf(other._peek_entry(key))]
            if met.count(shape) < len(met):
                return False
            found = found or bool(met)
    return found


def with_equal_dims(entry: Any, other: Any) -> tuple[Any, Any]:
    """Two matched non-tensor entries with equal numbers of batch dimensions; missing ones are appended."""
    gap = entry.ndim - other.ndim
    if gap > 0:
        other = _wider(other, entry.batch_size)
    elif gap < 0:
        entry = _wider(entry, other.batch_size)
    return entry, other


def _wider(payload: Any, size: Shape) -> Any:
    if isinstance(payload, NonTensorData):
        return payload._rebatch(size)
    return payload.reshape(payload.batch_size + (1,) * (len(size) - payload.ndim))


def _children(trees: Sequence[Any], key: str) -> list[Any]:
    """The nested nodes of several trees at a key."""
    return [node for tree in trees if (node := tree._as_node(tree._peek_entry(key))) is not None]


def _is_leaf(entry: object) -> bool:
    return entry is not None and not isinstance(entry, TensorCollection)


def _leaves_stay(td: Container, size: Shape, others: Sequence[Any]) -> set[bool]:
    """Whether all, none or some leaves start with `size` and have the shape of the leaf they match."""
    found: set[bool] = set()
    for key in td._keys():
        entry = td._peek_entry(key)
        node = td._as_node(entry)
        if node is not None:
            found |= _leaves_stay(node, size, _children(others, key))
        elif isinstance(entry, NonTensorBase):
            if not isinstance(entry, NonTensorData):
                found.add(entry.batch_size[: len(size)] == size)
        elif not isinstance(entry, UnbatchedTensor):
            found.add(_meets_its_shape(key, td.get_item_shape(key), size, others))
    return found


def _meets_its_shape(key: str, shape: Shape, size: Shape, others: Sequence[Any]) -> bool:
    starts = shape[: len(size)] == size and -1 not in shape
    return starts and any(item_shape(other, key) == shape for other in others)


def align_features(array: Array, ndim: int, batch_dims: int) -> Array:
    """A leaf with as many dimensions as the one it matches; those of size 1 are added after the batch."""
    return array.reshape(array.shape[:batch_dims] + (1,) * (ndim - array.ndim) + array.shape[batch_dims:])


class Nothing(Operand):
    """The operand for a nested TensorDict that the other side lacks."""

    __slots__ = ()

    def leaf(self, key: str, entry: object) -> Any:
        return None


NOTHING = Nothing()


def _drop_absent(like: Container, node: Container) -> None:
    """Drop the Nones of a dict for fields without value of a tensorclass in `like`."""
    for key, entry in like._items():
        fields = getattr(entry, "_fields", ())
        model, given = like._as_node(entry), node._as_node(node._get_entry(key))
        if model is None or given is None:
            continue
        for name in fields:
            held = given._get_entry(name)
            if isinstance(held, NonTensorData) and held.data is None and model._get_entry(name) is None:
                given._remove(name)
        _drop_absent(model, given)


def as_operand(value: object, like: Any) -> Operand | None:
    """Parse an argument of a pointwise operation; None if its type is not supported.

    Args:
        value: a number, an operand, an array, a duck-typed column (pandas, ...), a nested list of numbers, a
            TensorDict or a mapping.
        like: the TensorDict that it is matched with. A mapping gets its batch size.
    """
    if type(value) in NUMBERS:
        return Const(value)
    if type(value) is np.ndarray and value.ndim and is_numeric(value.dtype):
        return Rows(value)
    if isinstance(value, Operand):
        return value
    node = Container._as_node(value)
    if node is not None:
        return Node(node)
    if isinstance(value, Mapping):
        node = like._with({})
        node.update(value)
        _drop_absent(like, node)
        return Node(node)
    if isinstance(value, list | tuple):
        value = numeric_array(value)
        return None if value is None else Rows(value)
    if isinstance(value, np.generic | np.ndarray):
        if not is_numeric(value.dtype):
            return None
        refuse_masked(value)
        return Rows(value) if isinstance(value, np.ndarray) and value.ndim else Const(value)
    if isinstance(value, ArrayHolder):
        return as_operand(value.computing(), like)
    if has_namespace(value):
        value = wrap(value)
    if isinstance(value, HostArray):
        array: Any = value
        return Rows(array) if array.ndim else Const(array)
    if is_array(value):
        return Const(value)
    column = duck_typed_column(value)
    return None if column is None else as_operand(column, like)
