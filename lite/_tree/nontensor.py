"""Non-tensor data: any Python object as an entry.

One value shared by the batch is a `NonTensorData`; one value per element is a `NonTensorStack`, an
object array of the batch's shape, so that indexing and reshaping are NumPy's own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np

from lite._arrays.types import Array, Shape
from lite._tree.batch_ops import BatchOp
from lite._tree.collection import TensorCollection
from lite._tree.entry_errors import misfit
from lite._tree.shape import BatchShape, as_shape


class NonTensorBase(BatchShape):
    """What `NonTensorData` and `NonTensorStack` share."""

    __slots__ = ("_batch_size",)
    _is_non_tensor: ClassVar[bool] = True
    _batch_size: Shape

    @property
    def batch_size(self) -> Shape:
        """Shape of the batch the object(s) belong to."""
        return self._batch_size

    @property
    def device(self) -> None:
        """Always None: objects live in Python."""
        return None

    def __getitem__(self, index: Any) -> Any:
        return self._index(index)

    def _map_leaves(self, fn: Callable[[Array], Any]) -> Self:
        return self

    def clone(self, recurse: bool = True) -> Self:
        """Copy; payloads are deep-copied if `recurse`."""
        return self._clone(recurse)

    def _clone(self, recurse: bool) -> Self:
        raise NotImplementedError

    def tolist(self) -> Any:
        """The object, or nested lists of objects in the batch's shape."""
        return self._objects().tolist()

    def _repr_on(self, device: str | None) -> str:
        """The text form inside a TensorDict on `device`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._repr_on(None)

    def _objects(self) -> Array:
        """The payloads as an object array of the batch's shape."""
        raise NotImplementedError

    def _export(self) -> Any:
        raise NotImplementedError

    def _broadcast(self, batch_size: Shape) -> NonTensorBase:
        """The objects for a batch of another size; ValueError if they do not broadcast to it."""
        if self._batch_size == batch_size:
            return self
        return NonTensorStack._wrap(np.broadcast_to(self._objects(), batch_size).copy())

    def _assign(self, index: Any, value: Any) -> NonTensorBase:
        """What there is after writing `value` at a batch index; self stays as it is."""
        both = isinstance(self, NonTensorData) and isinstance(value, NonTensorData)
        if both and same_object(self._export(), value._export()):
            return self
        objects = self._objects().copy()
        at = (*index, Ellipsis) if isinstance(index, tuple) else (index, Ellipsis)
        objects[at] = value._objects() if isinstance(value, NonTensorBase) else _boxed(value)
        return NonTensorStack._wrap(objects) if objects.ndim else NonTensorData._make(objects[()], ())

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, NonTensorBase):
            return False
        mine, theirs = self._objects(), other._objects()
        pairs = np.broadcast(mine, theirs)
        return np.array([equal_objects(a, b) for a, b in pairs], dtype=np.bool_).reshape(pairs.shape)

    __hash__ = None  # type: ignore[assignment]


def equal_objects(a: Any, b: Any) -> bool:
    """What `a == b` says, also of arrays, which differ if their shapes do."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape != b.shape:
        return False
    return bool(np.all(a == b))


def same_object(a: Any, b: Any) -> bool:
    """Whether one object can stand for both; not if they cannot tell."""
    if a is b:
        return True
    if type(a) is not type(b) or (isinstance(a, np.ndarray) and a.dtype != b.dtype):
        return False
    try:
        return equal_objects(a, b)
    except Exception:  # comparing is the objects' own code
        return False


def _boxed(value: Any) -> Array:
    """A 0-d object array: NumPy would unpack a list or array payload when assigning it directly."""
    box = np.empty((), dtype=object)
    box[()] = value
    return box


class NonTensorData(NonTensorBase):
    """One Python object shared by every element of a batch.

    Args:
        data: any object; another `NonTensorData` is unwrapped.
        batch_size: the batch it belongs to.

    Example:
        >>> from lite import NonTensorData, TensorDict
        >>> td = TensorDict({"s": "hello"}, batch_size=[3])
        >>> td["s"], td.get("s")[0].batch_size
        ('hello', ())
    """

    __slots__ = ("data",)
    data: Any

    def __init__(self, data: Any, batch_size: Any = (), device: Any = None, names: Any = None) -> None:
        self.data = data.data if isinstance(data, NonTensorData) else data
        self._batch_size = as_shape((batch_size,), "batch_size")

    @classmethod
    def _make(cls, data: Any, batch_size: Shape) -> Self:
        self = cls.__new__(cls)
        self.data = data
        self._batch_size = batch_size
        return self

    def _run(self, op: BatchOp) -> TensorCollection:
        if op.fills:
            return NonTensorStack._wrap(op.array(self._objects()))
        return self._make(self.data, op.shape + self._batch_size[op.ndim :])

    def unbind(self, dim: int) -> tuple[Any, ...]:
        """Split along a batch dimension; the object is shared by all rows."""
        at = self._dim(dim)
        size = self._batch_size
        rest = size[:at] + size[at + 1 :]
        return tuple([self._make(self.data, rest) for _ in range(size[at])])

    def _rebatch(self, batch_size: Shape) -> Self:
        return self._make(self.data, batch_size)

    def _clone(self, recurse: bool) -> Self:
        return self._make(copy.deepcopy(self.data) if recurse else self.data, self._batch_size)

    def _objects(self) -> Array:
        return np.broadcast_to(_boxed(self.data), self._batch_size)

    def _export(self) -> Any:
        return self.data

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.data(*args, **kwargs)

    def _repr_on(self, device: str | None) -> str:
        text = str(self.data)
        if len(text) > 200:
            text = text[:20] + "  ...  " + text[-20:]
        return f"{type(self).__name__}(data={text}, batch_size={self._batch_size}, device={device})"


class MetaData(NonTensorData):
    """A `NonTensorData` that stays one: stacking those of one and the same object gives one again.

    Example:
        >>> from lite import MetaData, TensorDict, stack
        >>> unit = MetaData("metres")
        >>> stack([TensorDict(unit=unit), TensorDict(unit=unit)])["unit"]
        'metres'
    """

    __slots__ = ()


class NonTensorStack(NonTensorBase):
    """One Python object per batch element, held in an object array.

    Args:
        items: the objects, in order along the new first dimension; `NonTensorBase` items of one
            batch shape are stacked.
        stack_dim: where the new dimension goes.

    Example:
        >>> from lite import NonTensorStack
        >>> NonTensorStack("a", "b").tolist()
        ['a', 'b']
    """

    __slots__ = ("_array",)
    _array: Array

    def __init__(self, *items: Any, stack_dim: int = 0) -> None:
        if not items:
            raise RuntimeError("items cannot be empty")
        arrays = [item._objects() if isinstance(item, NonTensorBase) else _boxed(item) for item in items]
        self._array = np.stack(arrays, stack_dim)
        self._batch_size = self._array.shape

    @classmethod
    def _wrap(cls, array: Array) -> NonTensorStack:
        self = cls.__new__(cls)
        self._array = array
        self._batch_size = array.shape
        return self

    @classmethod
    def _stacked(cls, items: list[NonTensorBase], dim: int) -> NonTensorBase:
        """Stack along `dim`, which is not negative; ValueError if batch sizes differ."""
        size = items[0]._batch_size
        first = items[0]
        if isinstance(first, MetaData) and all(
            type(item) is type(first) and item._batch_size == size and item.data is first.data
            for item in items
        ):
            return first._make(first.data, (*size[:dim], len(items), *size[dim:]))
        if not all(isinstance(item, NonTensorData) and item._batch_size == size for item in items):
            return cls._wrap(np.stack([item._objects() for item in items], dim))
        column = np.empty((len(items),) + (1,) * (len(size) - dim), dtype=object)
        for i, item in enumerate(items):
            column[i, ...] = _boxed(item._export())
        array = np.empty(size[:dim] + (len(items),) + size[dim:], dtype=object)
        array[...] = column
        return cls._wrap(array)

    @classmethod
    def from_list(cls, items: Iterable[Any]) -> NonTensorStack:
        """Build from nested lists; lists of equal length at a level become a batch dimension.

        Example:
            >>> from lite import NonTensorStack
            >>> NonTensorStack.from_list([["a", "b"], ["c", "d"]]).batch_size
            (2, 2)
        """
        rows = list(items)
        shape = _list_shape(rows)
        array = np.empty(shape, dtype=object)
        flat: list[Any] = rows
        for _ in shape[1:]:
            flat = [item for row in flat for item in row]
        for i, item in enumerate(flat):
            array.flat[i : i + 1] = _boxed(item)
        return cls._wrap(array)

    @property
    def data(self) -> Any:
        """The value common to all elements; AttributeError when they differ."""
        items = list(self._array.flat)
        if items and all(same_object(item, items[0]) for item in items[1:]):
            return items[0]
        raise AttributeError("Cannot get the non-unique data of a NonTensorStack. Use .tolist() instead.")

    def _run(self, op: BatchOp) -> TensorCollection:
        out = op.array(self._array)
        if not out.shape:
            return NonTensorData._make(out[()], ())
        return self._wrap(out)

    def _rebatch(self, batch_size: Shape) -> Self:
        if self._batch_size[: len(batch_size)] != batch_size:
            raise misfit(batch_size, self._batch_size)
        return self

    def _clone(self, recurse: bool) -> Any:
        return self._wrap(copy.deepcopy(self._array) if recurse else self._array.copy())

    def _objects(self) -> Array:
        return self._array

    def _export(self) -> Any:
        return self._array.tolist()

    def _repr_on(self, device: str | None) -> str:
        text = str(self._array.tolist())
        if len(text) > 50:
            text = text[:50] + "..."
        return (
            f"{type(self).__name__}(\n    {text},\n    batch_size={self._batch_size},\n    device={device})"
        )


def _list_shape(rows: list[Any]) -> Shape:
    shape: list[int] = [len(rows)]
    level: list[Any] = rows
    while level and all(isinstance(row, list) for row in level) and len({len(row) for row in level}) == 1:
        shape.append(len(level[0]))
        level = [item for row in level for item in row]
    return tuple(shape)


def element_objects(array: Array, ndim: int) -> NonTensorStack:
    """The elements of a batch of `ndim` dims as objects: numbers, or the arrays that they are."""
    out = np.empty(array.shape[:ndim], dtype=object)
    for at in np.ndindex(out.shape):
        out[at] = array[at].item() if array.ndim == ndim else array[at]
    return NonTensorStack._wrap(out)


class LinkedList(list[Any]):
    """What `td["key"]` gives for per-element objects: a list whose item assignment writes back.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict({"s": ["a", "b"]}, batch_size=[2])
        >>> td["s"][0] = "z"
        >>> td["s"]
        ['z', 'b']
    """

    def __init__(self, items: list[Any], source: Array) -> None:
        super().__init__(
            LinkedList(item, source[i]) if source.ndim > 1 else item for i, item in enumerate(items)
        )
        self._source: Array | None = source

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        # Once resized the list no longer mirrors the batch, so it stops writing back.
        if self._source is not None and len(self) == len(self._source) and isinstance(index, int):
            self._source[index, ...] = _boxed(value)


def unwrap(entry: NonTensorBase) -> Any:
    """What indexing with a key returns: the object, or a list that writes back."""
    if isinstance(entry, NonTensorData):
        return entry.data
    if isinstance(entry, NonTensorStack):
        return LinkedList(entry._array.tolist(), entry._array)
    return entry
