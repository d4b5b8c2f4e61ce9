"""Non-tensor data: any Python object as an entry.

One value shared by the batch is a `NonTensorData`. One value per element is a `NonTensorStack`: an object
array of the batch's shape, so that NumPy indexes and reshapes it. Results of these share the array, which is
copied before one of them is written to. This file implements `Entry` and the methods that differ from those
of TensorDicts; `object_methods.py` adds all others. Past 600 lines, as the two classes convert into each
other.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from lite._arrays.public import belong_to
from lite._arrays.settings import capture_non_tensor_stack
from lite._arrays.types import Array, Names, Shape
from lite._tree.batch_ops import BatchOp
from lite._tree.collection import TensorCollection
from lite._tree.entry_errors import shape_error
from lite._tree.indexing import normalise
from lite._tree.lock import LOCK_ERROR
from lite._tree.shape import BatchShape, parse_batch_size


class NonTensorBase(BatchShape):
    """Base of `NonTensorData` and `NonTensorStack`."""

    __slots__ = ("_about", "_batch_size")
    _is_non_tensor: ClassVar[bool] = True
    _content: ClassVar[tuple[str, ...]]  # the attributes that hold the object(s)
    # The function that checks an entry and writes it to its memory-mapped folder; set by `lite._files`.
    _saving: ClassVar[Callable[[NonTensorBase, str], Callable[[], None]]]
    _batch_size: Shape
    _about: Any  # a TensorDict without entries that holds device, names and lock; None until one is set

    @property
    def batch_size(self) -> Shape:
        """Shape of the batch the object(s) belong to."""
        return self._batch_size

    @property
    def device(self) -> str | None:
        """The device that was set, or None. It has no effect on Python objects."""
        return None if self._about is None else self._about.device

    @property
    def _names(self) -> Names:  # type: ignore[override]
        return None if self._about is None else self._about._names

    def __getitem__(self, index: object) -> Any:
        if isinstance(index, str):
            raise KeyError(f"non-tensor data has no keys, got {index!r}; read `.data` or `.tolist()`.")
        return self._index(index)

    def __contains__(self, key: object) -> bool:
        return False

    def _map_leaves(self, fn: Callable[[Array], Any]) -> Self:
        return self._shallow_copy()

    def _shallow_copy(self) -> Self:
        """A shallow copy: writing to it does not change self."""
        raise NotImplementedError

    def clone(self, recurse: bool = True) -> Self:
        """Copy; payloads are deep-copied if `recurse`."""
        return self._clone(recurse)

    def _clone(self, recurse: bool) -> Self:
        raise NotImplementedError

    def __copy__(self) -> Self:
        return self._clone(False)

    def _copy_metadata(self, about: Any) -> Self:
        """Copy the device, names and lock of `other`, which has the same batch size."""
        self._about = about._clone(False)
        return self

    # -- the object(s) ----------------------------------------------------------------------------

    def tolist(
        self, *, convert_tensors: bool | str = False, tolist_first: bool = False, as_linked_list: bool = False
    ) -> Any:
        """The object, or nested lists of objects in the batch's shape.

        Args:
            convert_tensors: accepted for compatibility; objects stay as they are.
            tolist_first: accepted for compatibility.
            as_linked_list: give lists whose item assignment writes back.
        """
        if as_linked_list and isinstance(self, NonTensorStack):
            return self._linked()
        return self._objects().tolist()

    def to_dict(
        self, *, retain_none: bool = True, convert_tensors: bool | str = False, tolist_first: bool = False
    ) -> Any:
        """The object, or nested lists of objects, as `TensorDict.to_dict` has them."""
        return self._export()

    def numpy(self) -> Any:
        """Same as `to_dict`, as objects have no array form."""
        return self._export()

    def to_tensordict(self, *, retain_none: bool | None = None) -> Self:
        """Self, as there are no entries to convert."""
        return self

    def is_empty(self) -> bool:
        """False, as an object counts as a leaf."""
        return False

    def empty(
        self,
        recurse: bool = False,
        *,
        batch_size: Sequence[int] | int | None = None,
        device: str | None = None,
        names: Sequence[str | None] | None = None,
    ) -> Any:
        """The object(s) themselves, as there are no entries to leave out.

        Args:
            recurse: accepted for compatibility.
            batch_size: another batch size, of one object for the whole batch.
            device: another device.
            names: other names.
        """
        out = self._clone(False)
        if batch_size is not None:
            out = out._rebatch(parse_batch_size(batch_size))
        if device is not None or names is not None:
            about = out._node()
            out._about = about.empty(device=device, names=names)
        return out

    def maybe_to_stack(self) -> NonTensorBase:
        """One object per batch element; self where the batch has no dims."""
        return NonTensorStack._wrap(self._objects().copy())._on(self.device) if self._batch_size else self

    def _on(self, device: str | None) -> Self:
        """Set `device`, which moves nothing; returns self."""
        if device is not None:
            self._about = self._node().empty(device=device)
        return self

    def _repr_on(self, device: str | None) -> str:
        """The text form inside a TensorDict on `device`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._repr_on(self.device)

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

    # -- writing ----------------------------------------------------------------------------------

    def _assign(self, index: object, value: Any) -> NonTensorBase:
        """The result of writing `value` at a batch index; self is unchanged."""
        both = isinstance(self, NonTensorData) and isinstance(value, NonTensorData)
        if both and same_object(self._export(), value._export()):
            return self
        objects = self._objects().copy()
        at = (*index, Ellipsis) if isinstance(index, tuple) else (index, Ellipsis)
        new = value._objects() if isinstance(value, NonTensorBase) else _boxed(value)
        if new.ndim > objects[at].ndim:  # NumPy drops dimensions of size 1
            raise ValueError(f"objects of shape {new.shape} do not broadcast to {objects[at].shape}.")
        objects[at] = new
        return NonTensorStack._wrap(objects) if objects.ndim else NonTensorData._make(objects[()], ())

    def _replace_content(self, other: NonTensorBase) -> Self:
        """Take over the object(s) of `out`, of the same class and batch size, and write mapped files.

        Raises:
            RuntimeError: self is locked.
            TypeError: self is mapped to a folder, and JSON cannot hold an object.
        """
        self._require_unlocked()
        folder = self._folder()
        if folder is not None:
            NonTensorBase._saving(other, folder)()
        self._take(other)
        return self

    def _take(self, other: NonTensorBase) -> None:
        raise NotImplementedError

    def _folder(self) -> str | None:
        """The folder that the object(s) are mapped to. Writes to the object(s) also go to its files."""
        folder = getattr(self._about, "_source", None)
        return folder if isinstance(folder, str) else None

    def _mapped_to(self, folder: str | None) -> Self:
        """Map the object(s) to a folder, whose files every write updates; returns self."""
        if folder is not None:
            self._node()._source = folder
        return self

    def _replace_inplace(self, out: object, name: str) -> Self:
        self._require_unlocked()
        if type(out) is not type(self):
            raise RuntimeError(
                f"{type(self).__name__} cannot become {type(out).__name__} in place; `maybe_to_stack()` "
                "gives one object per element."
            )
        for slot in ("_batch_size", "_about", *self._content):
            setattr(self, slot, getattr(out, slot))
        return self

    def _require_unlocked(self) -> None:
        if self._about is not None and self._about._locked:
            raise RuntimeError(LOCK_ERROR)

    def get(self, key: object, default: object = None, **lazy_kwargs: object) -> Any:
        """`default`, as there are no keys; only a `NonTensorData` has the key "data"."""
        return default

    def set(self, key: object, item: object, inplace: bool = False, *, non_blocking: bool = False) -> Self:
        """Replace the object(s), for the key "data"; returns self.

        Raises:
            KeyError: any other key (AttributeError on a `NonTensorData`, as on a tensorclass).
            RuntimeError: self is locked.
        """
        if key not in ("data", ("data",)):
            error = KeyError if isinstance(self, NonTensorStack) else AttributeError
            raise error(f"the only key of non-tensor data is 'data', got {key!r}.")
        self[...] = item
        return self

    def __setitem__(self, index: object, value: object) -> None:
        if isinstance(index, str):
            self.set(index, value)
            return
        self._require_unlocked()
        if isinstance(value, TensorCollection) and not isinstance(value, NonTensorBase):
            raise TypeError(f"non-tensor data holds objects, got a {type(value).__name__}.")
        if type(value) is list and isinstance(self, NonTensorStack):
            value = NonTensorStack(*value)
        new = self._assign(tuple(normalise(index, self._batch_size)), value)
        if type(new) is NonTensorStack and isinstance(self, NonTensorData):
            objects = list(new._array.flat)
            if not all(item is objects[0] for item in objects):
                raise ValueError(
                    "a NonTensorData has one object for the whole batch, and cannot be written in part; "
                    "`maybe_to_stack()` gives one object per element."
                )
            new = self._make(objects[0], self._batch_size) if objects else self
        self._replace_content(new)

    def set_at_(self, key: object, value: object, index: object, *, non_blocking: bool = False) -> Self:
        """Write at an index of the batch; KeyError for another key than "data"."""
        if key not in ("data", ("data",)):
            raise KeyError(f"the only key of non-tensor data is 'data', got {key!r}.")
        self[index] = value
        return self

    def update(
        self,
        input_dict_or_td: object = None,
        clone: bool = False,
        inplace: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: object = None,
        is_leaf: object = None,
        update_batch_size: bool = False,
        ignore_lock: bool = False,
        **kwargs: object,
    ) -> Self:
        """Take over the object(s) of other non-tensor data; returns self.

        Args:
            input_dict_or_td: the other; None changes nothing. One object for a whole batch goes to every
                element of a `NonTensorStack`.
            clone: take a deep copy.
            inplace: accepted for compatibility, as for all that follow.

        Raises:
            TypeError: entries as keywords.
            ValueError: a `NonTensorStack` for a `NonTensorData`, or one of another batch size.
            RuntimeError: self is locked, or the argument is not non-tensor data (NotImplementedError on a
                `NonTensorStack`).

        Example:
            >>> from lite import NonTensorData, NonTensorStack
            >>> NonTensorStack("a", "b").update(NonTensorData("z")).tolist()
            ['z', 'z']
        """
        if kwargs:
            raise TypeError(f"{type(self).__name__}.update takes non-tensor data, got entries as keywords.")
        source = input_dict_or_td
        if source is None:
            return self
        if not isinstance(source, NonTensorBase):
            if isinstance(source, TensorCollection) and not dict(source.items()):
                return self
            raise self._no_source(source)
        self._replace_content(self._from_other(source._clone(True) if clone else source))
        return self

    def update_(
        self,
        input_dict_or_td: Any = None,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: object = None,
        **kwargs: Any,
    ) -> Self:
        """Same as `update`."""
        return self.update(input_dict_or_td, clone, **kwargs)

    def copy_(self, src: object, non_blocking: bool = False) -> Self:
        """Same as `update`."""
        return self.update(src)

    def update_at_(
        self, input_dict_or_td: object, index: object, clone: bool = False, *, non_blocking: bool = False
    ) -> Self:
        """Write other non-tensor data at an index of the batch; a `NonTensorData` takes only a full index."""
        if not isinstance(input_dict_or_td, NonTensorBase):
            raise self._no_source(input_dict_or_td)
        self[index] = input_dict_or_td._clone(True) if clone else input_dict_or_td
        return self

    def _no_source(self, source: object) -> Exception:
        error = NotImplementedError if isinstance(self, NonTensorStack) else RuntimeError
        return error(f"{type(self).__name__}.update takes non-tensor data, got a {type(source).__name__}.")

    def _from_other(self, other: NonTensorBase) -> NonTensorBase:
        """Convert non-tensor data to the class and batch size of self; ValueError if it does not fit."""
        raise NotImplementedError

    # -- as a TensorDict (object_methods.py) ------------------------------------------------------

    _node: Callable[[], Any]

    def __enter__(self) -> Self:
        self._node().__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        return self._node().__exit__(*error)

    # -- comparison -------------------------------------------------------------------------------

    def _elements(self, other: NonTensorBase, fn: Callable[[Any, Any], Any]) -> Array:
        """`fn(own, other)` for every element, as an array of bools."""
        pairs = np.broadcast(self._objects(), other._objects())
        return np.array([fn(a, b) for a, b in pairs], dtype=np.bool_).reshape(pairs.shape)

    def __eq__(self, other: object) -> Any:
        return isinstance(other, NonTensorBase) and self._elements(other, equal_objects)

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, NonTensorBase):
            return True
        return self._elements(other, lambda a, b: not equal_objects(a, b))

    def __xor__(self, other: object) -> Any:
        return self._elements(other, operator.xor) if isinstance(other, NonTensorBase) else NotImplemented

    def __or__(self, other: object) -> Any:
        return self._elements(other, operator.or_) if isinstance(other, NonTensorBase) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


def equal_objects(a: object, b: object) -> bool:
    """Whether `a == b`. Arrays are equal if their shapes and all elements are."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape != b.shape:
        return False
    return bool(np.all(a == b))


def same_object(a: Any, b: Any) -> bool:
    """Whether two objects are the same or equal; False if comparing them raises."""
    if a is b:
        return True
    if type(a) is not type(b) or (isinstance(a, np.ndarray) and a.dtype != b.dtype):
        return False
    try:
        return equal_objects(a, b)
    except Exception:  # `__eq__` of any class may raise anything
        return False


def _boxed(value: object) -> Array:
    """A 0-d object array: NumPy would unpack a list or array payload when assigning it directly."""
    box = np.empty((), dtype=object)
    box[()] = value
    return box


def common_device(items: Sequence[Any]) -> str | None:
    """The device that some collections are on; None if they differ."""
    device: str | None = items[0].device
    return device if device is None or all(item.device == device for item in items) else None


class NonTensorData(NonTensorBase):
    """One Python object shared by every element of a batch.

    It has the methods of TensorDicts. Those for the batch, files, names and the lock work as on an entry,
    arithmetic does not change it, and it has no keys.

    Args:
        data: any object; non-tensor data is unwrapped.
        batch_size: the batch it belongs to.
        device: the value of `device`; nothing is moved.
        names: one name or None per batch dimension.

    Raises:
        AttributeError: a `NonTensorStack` of different objects.

    Example:
        >>> from lite import NonTensorData, TensorDict
        >>> td = TensorDict({"s": "hello"}, batch_size=[3])
        >>> td["s"], td.get("s")[0].batch_size
        ('hello', ())
    """

    __slots__ = ("data",)
    _content = ("data",)
    data: Any

    def __init__(
        self,
        data: object,
        batch_size: Sequence[int] | int | None = (),
        device: str | None = None,
        names: Sequence[str | None] | None = None,
    ) -> None:
        held: Any = data
        self.data = held.data if isinstance(data, NonTensorBase) else data
        self._batch_size = parse_batch_size(batch_size)
        self._about = None
        if device is not None or names is not None:
            self._about = self._node().empty(device=device, names=names)

    @classmethod
    def _make(cls, data: object, batch_size: Shape) -> Self:
        self = cls.__new__(cls)
        self.data = data
        self._batch_size = batch_size
        self._about = None
        return self

    def _shallow_copy(self) -> Self:
        return self._make(self.data, self._batch_size)

    def _like(self, batch_size: Shape, about: object) -> Self:
        """The object for another batch."""
        out = self._make(self.data, batch_size)
        out._about = about
        return out

    @property
    def batch_size(self) -> Shape:
        """Shape of the batch the object belongs to; assign to change it."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, value: Any) -> None:
        size = parse_batch_size(value)
        if self._about is not None:
            self._about.batch_size = size
        self._batch_size = size

    def _run(self, op: BatchOp) -> TensorCollection:
        if op.fills:
            out: Any = NonTensorStack._wrap(op.array(self._objects()))
        else:
            out = self._make(self.data, op.shape + self._batch_size[op.ndim :])
        if self._about is not None:
            out._about = self._about._run(op)
        return out

    def unbind(self, dim: int) -> tuple[Any, ...]:
        """Split along a batch dimension; the object is shared by all rows."""
        at = self._dim(dim)
        size = self._batch_size
        rest = size[:at] + size[at + 1 :]
        if self._about is not None:
            return tuple([self._like(rest, about) for about in self._about.unbind(dim)])
        return tuple([self._make(self.data, rest) for _ in range(size[at])])

    def _rebatch(self, batch_size: Shape) -> Self:
        return self._like(batch_size, None if self._about is None else self._about._rebatch(batch_size))

    def _clone(self, recurse: bool) -> Self:
        out = self._make(copy.deepcopy(self.data) if recurse else self.data, self._batch_size)
        return out if self._about is None else out._copy_metadata(self._about)

    def _objects(self) -> Array:
        return np.broadcast_to(_boxed(self.data), self._batch_size)

    def _export(self) -> Any:
        return self.data

    def get(self, key: object, default: object = None, **lazy_kwargs: object) -> Any:
        """The object, for the key "data"; else `default`."""
        return self.data if key in ("data", ("data",)) else default

    def _take(self, other: NonTensorBase) -> None:
        self.data = other._export()

    def _from_other(self, other: NonTensorBase) -> NonTensorBase:
        if isinstance(other, NonTensorData):
            return other
        raise ValueError(
            "a NonTensorData cannot be updated with a NonTensorStack; `maybe_to_stack()` gives one object "
            "per element."
        )

    def update_(self, input_dict_or_td: Any = None, clone: bool = False, **kwargs: Any) -> Self:
        """Same as `update`; RuntimeError for a `NonTensorStack`."""
        try:
            return super().update_(input_dict_or_td, clone, **kwargs)
        except ValueError as error:
            raise RuntimeError(str(error)) from error

    def update_at_(
        self, input_dict_or_td: object, index: object, clone: bool = False, *, non_blocking: bool = False
    ) -> Self:
        """Same as `update_`; RuntimeError for an index of a part of the batch."""
        if not (index is Ellipsis or (isinstance(index, tuple | slice) and index in ((), slice(None)))):
            raise RuntimeError(f"a NonTensorData is updated as a whole, got the index {index!r}.")
        return self.update_(input_dict_or_td, clone)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self.data(*args, **kwargs)

    def _repr_on(self, device: str | None) -> str:
        text = str(self.data)
        if len(text) > 200:
            text = text[:20] + "  ...  " + text[-20:]
        return f"{type(self).__name__}(data={text}, batch_size={self._batch_size}, device={device})"


class MetaData(NonTensorData):
    """A `NonTensorData` that stays one: stacking several of the same object gives one `MetaData`.

    `MetaData[int]` holds an `int`: its constructor raises TypeError for any other object. The type may be
    anything that `isinstance` takes. As the annotation of a tensorclass field with `autocast=True` it
    converts values to metadata.

    Example:
        >>> from lite import MetaData, TensorDict, stack
        >>> unit = MetaData("metres")
        >>> stack([TensorDict(unit=unit), TensorDict(unit=unit)])["unit"]
        'metres'
        >>> MetaData[int]("metres")
        Traceback (most recent call last):
        ...
        TypeError: Expected data of type int, got str
    """

    __slots__ = ()
    _expected: ClassVar[Any] = None
    _typed: ClassVar[dict[Any, type[MetaData]]] = {}

    def __class_getitem__(cls, kind: object) -> type[MetaData]:
        """The class of metadata whose object is an instance of `kind`; always the same for one `kind`."""
        if cls._expected is not None:
            raise TypeError(f"Cannot specify type for {cls.__name__}")
        found = cls._typed.get(kind)
        if found is None:
            name = f"{cls.__name__}[{_type_name(kind)}]"
            body = {"__slots__": (), "_expected": kind, "__module__": cls.__module__, "__doc__": cls.__doc__}
            found = cls._typed[kind] = type(name, (cls,), body)
        return found

    def __init__(
        self,
        data: object,
        batch_size: Sequence[int] | int | None = (),
        device: str | None = None,
        names: Sequence[str | None] | None = None,
    ) -> None:
        super().__init__(data, batch_size, device, names)
        kind = self._expected
        if kind is not None and not isinstance(self.data, kind):
            raise TypeError(f"Expected data of type {_type_name(kind)}, got {type(self.data).__name__}")

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._expected is None:
            return super().__reduce_ex__(protocol)
        # The class was created on demand, so a pickle cannot name it.
        state = (None, {"data": self.data, "_batch_size": self._batch_size, "_about": self._about})
        return MetaData._unfilled, (self._expected,), state

    @classmethod
    def _unfilled(cls, kind: object) -> MetaData:
        """Empty metadata of a type, which unpickling fills."""
        typed = cls.__class_getitem__(kind)
        return typed.__new__(typed)


def _type_name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))


class NonTensorStack(NonTensorBase):
    """One Python object per batch element, held in an object array.

    Args:
        items: the objects, in order along the new dimension; non-tensor data of one batch size are stacked.
        stack_dim: where the new dimension goes.
        batch_size: the expected batch size of the stack; without items, the batch size of one item.
        device: accepted for compatibility.
        names: accepted for compatibility; names can be set.
        stack_dim_name: name of the new dimension.
        strict_shape: accepted for compatibility; batch sizes must always be equal.

    Raises: RuntimeError: the items' batch sizes differ, `batch_size` is not that of the stack, or an item has
        entries.

    Example:
        >>> from lite import NonTensorStack
        >>> NonTensorStack("a", "b").tolist()
        ['a', 'b']
    """

    __slots__ = ("_array", "_shared")
    _content = ("_array", "_shared")
    _array: Array
    _shared: bool  # whether other instances share the array, which is then copied before a write

    def __init__(
        self,
        *items: object,
        stack_dim: int = 0,
        batch_size: Sequence[int] | int | None = None,
        device: str | None = None,
        names: Sequence[str | None] | None = None,
        stack_dim_name: str | None = None,
        strict_shape: bool = False,
    ) -> None:
        arrays = []
        for item in items:
            if isinstance(item, NonTensorBase):
                arrays.append(item._objects())
            elif isinstance(item, TensorCollection):
                raise RuntimeError(f"items must be objects or non-tensor data, got a {type(item).__name__}.")
            else:
                arrays.append(_boxed(item))
        size = None if batch_size is None else parse_batch_size(batch_size)
        if arrays:
            try:
                self._array = np.stack(arrays, stack_dim)
            except ValueError as error:
                if isinstance(error, IndexError):  # stack_dim is out of range
                    raise
                shapes = [array.shape for array in arrays]
                raise RuntimeError(f"batch sizes of the items differ: {shapes}.") from error
            if size not in (None, self._array.shape):
                raise RuntimeError(f"batch_size {size} is not that of the stack, {self._array.shape}.")
        else:
            self._array = np.empty((0, *(size or ())), dtype=object)
        self._batch_size = self._array.shape
        self._shared = False
        self._about = None
        own: list[str | None] = [None] * self.ndim
        if stack_dim_name is not None:
            own[stack_dim] = stack_dim_name
        said = bool(items) and all(isinstance(item, NonTensorBase) for item in items)
        place = common_device(items) if said else None
        if place is not None or stack_dim_name is not None:
            self._about = self._node().empty(device=place, names=own)

    @classmethod
    def _wrap(cls, array: Array) -> NonTensorStack:
        self = cls.__new__(cls)
        self._array = array
        self._shared = False
        self._batch_size = array.shape
        self._about = None
        return self

    def _shallow_copy(self) -> Any:
        out = self._wrap(self._array)
        out._shared = self._shared = True
        return out

    def _linked(self) -> LinkedList:
        """Nested lists of the objects. Item assignment writes into self, not into instances that share the
        array.
        """
        if self._shared:
            self._array = self._array.copy()
            self._shared = False
        return LinkedList(self._array.tolist(), self._array, None if self._folder() is None else self)

    @classmethod
    def _stacked(cls, items: list[NonTensorBase], dim: int) -> NonTensorBase:
        """Stack along `dim`, which is not negative; ValueError if batch sizes differ."""
        size = items[0]._batch_size
        first = items[0]
        if isinstance(first, MetaData) and all(
            isinstance(item, type(first)) and item._batch_size == size and item.data is first.data
            for item in items
        ):
            return first._make(first.data, (*size[:dim], len(items), *size[dim:]))
        place = common_device(items)
        if not all(isinstance(item, NonTensorData) and item._batch_size == size for item in items):
            return cls._wrap(np.stack([item._objects() for item in items], dim))._on(place)
        if capture_non_tensor_stack() and all(
            same_object(item._export(), first._export()) for item in items[1:]
        ):
            one = NonTensorData._make(first._export(), (*size[:dim], len(items), *size[dim:]))
            return one._on(place)
        objects = np.fromiter((item._export() for item in items), object, len(items))
        column = objects.reshape(-1, *(1,) * (len(size) - dim))
        return cls._wrap(np.broadcast_to(column, (*size[:dim], len(items), *size[dim:])).copy())._on(place)

    @classmethod
    def from_list(cls, items: Iterable[Any]) -> NonTensorStack:
        """Build from nested lists; lists of equal length at a level become a batch dimension.

        Example:
            >>> from lite import NonTensorStack
            >>> NonTensorStack.from_list([["a", "b"], ["c", "d"]]).batch_size
            (2, 2)
        """
        rows = list(items)
        shape, flat = _list_shape(rows)
        if any(issubclass(kind, list | NonTensorBase) for kind in set(map(type, flat))):
            shape, flat = _list_shape([_rows(item) for item in rows])
            flat = [_plain(item) for item in flat]
        return cls._wrap(np.fromiter(flat, object, len(flat)).reshape(shape))

    @classmethod
    def from_nontensordata(cls, non_tensor: NonTensorData) -> NonTensorBase:
        """A stack with the object of a `NonTensorData` once per element; the argument if its batch is 0-d.

        Example:
            >>> from lite import NonTensorData, NonTensorStack
            >>> NonTensorStack.from_nontensordata(NonTensorData("a", [2])).tolist()
            ['a', 'a']
        """
        return non_tensor.maybe_to_stack()

    @property
    def data(self) -> Any:
        """The value common to all elements; AttributeError when they differ."""
        items = list(self._array.flat)
        if items and all(same_object(item, items[0]) for item in items[1:]):
            return items[0]
        raise AttributeError("Cannot get the non-unique data of a NonTensorStack. Use .tolist() instead.")

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Self:
        """Self, as the objects are in the order of the batch."""
        return self

    @property
    def stack_dim(self) -> int:
        """0, as the objects are in the order of the batch."""
        return 0

    @property
    def tensordicts(self) -> list[Any]:
        """The items along the first dimension, each as non-tensor data."""
        return list(self.unbind(0))

    @property
    def batch_size(self) -> Shape:
        """Shape of the batch that the objects belong to."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, value: object) -> None:
        raise RuntimeError(f"the batch size of a NonTensorStack is that of its objects, {self._batch_size}.")

    def _run(self, op: BatchOp) -> TensorCollection:
        array = op.array(self._array)
        # An array inside vmap holds an object for each element there, also where it has no dims of its own.
        several = array.shape or type(array) is not np.ndarray
        out: Any = self._wrap(array) if several else NonTensorData._make(array[()], ())
        if self._shared and several:
            out._shared = True
        if self._about is not None:
            out._about = self._about._run(op)
        return out

    def _rebatch(self, batch_size: Shape) -> Self:
        if self._batch_size[: len(batch_size)] != batch_size:
            raise shape_error(batch_size, self._batch_size)
        return self

    def _clone(self, recurse: bool) -> Any:
        out = self._wrap(copy.deepcopy(self._array) if recurse else self._array.copy())
        return out if self._about is None else out._copy_metadata(self._about)

    def _take(self, other: NonTensorBase) -> None:
        self._array = other._objects()
        self._shared = False

    def _from_other(self, other: NonTensorBase) -> NonTensorBase:
        if other._batch_size != self._batch_size and isinstance(other, NonTensorStack):
            raise ValueError(f"the batch sizes {self._batch_size} and {other._batch_size} differ.")
        if not isinstance(other, NonTensorStack):
            other = NonTensorData._make(other._export(), self._batch_size)
        return NonTensorStack._wrap(other._objects().copy())

    def _objects(self) -> Array:
        return self._array

    def _export(self) -> Any:
        return self._array.tolist()

    def _repr_on(self, device: str | None) -> str:
        held = self._array
        text = str(held.tolist() if type(held) is np.ndarray else held)
        if len(text) > 50:
            text = text[:50] + "..."
        return (
            f"{type(self).__name__}(\n    {text},\n    batch_size={self._batch_size},\n    device={device})"
        )


def _list_shape(rows: list[Any]) -> tuple[Shape, list[Any]]:
    """The common shape of nested lists, and their items."""
    shape: list[int] = [len(rows)]
    level: list[Any] = rows
    while level and all(isinstance(row, list) for row in level) and len({len(row) for row in level}) == 1:
        shape.append(len(level[0]))
        level = [item for row in level for item in row]
    return tuple(shape), level


def _rows(item: object) -> Any:
    """Replace non-tensor data with batch dimensions, also inside lists, by lists of 0-d non-tensor data."""
    if isinstance(item, NonTensorBase):
        return [_rows(row) for row in item.unbind(0)] if item._batch_size else item
    return [_rows(row) for row in item] if isinstance(item, list) else item


def _plain(item: object) -> Any:
    """Unwrap non-tensor data, also inside lists."""
    if isinstance(item, NonTensorBase):
        return item._export()
    return [_plain(row) for row in item] if isinstance(item, list) else item


def element_objects(array: Array, ndim: int) -> NonTensorStack:
    """An object array of the elements of a batch of `ndim` dimensions: numbers, or arrays of the features."""
    out = np.empty(array.shape[:ndim], dtype=object)
    for at in np.ndindex(out.shape):
        out[at] = array[at].item() if array.ndim == ndim else array[at]
    return NonTensorStack._wrap(out)


class LinkedList(list[Any]):
    """The list that `td["key"]` returns for a `NonTensorStack`: item assignment writes back to the entry.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict({"s": ["a", "b"]}, batch_size=[2])
        >>> td["s"][0] = "z"
        >>> td["s"]
        ['z', 'b']
    """

    def __init__(
        self, items: Iterable[Any] = (), source: Array | None = None, mapped: NonTensorStack | None = None
    ) -> None:
        linked = source is not None and source.ndim > 1
        super().__init__(
            LinkedList(item, source[i], mapped) if linked else item  # type: ignore[index]
            for i, item in enumerate(items)
        )
        self._source = source  # None for a list of its own, as `dataclasses.asdict` makes
        self._mapped = mapped  # the entry, if writes also go to mapped files

    def __reduce__(self) -> Any:
        return list, (list(self),)  # a copy writes nowhere: torch's default_collate fills one

    def __setitem__(self, index: Any, value: Any) -> None:
        # Once resized the list no longer mirrors the batch, so it stops writing back.
        source = self._source
        if source is not None and len(self) == len(source) and isinstance(index, int):
            old = source[index, ...].copy()
            source[index, ...] = _boxed(_plain(value))
            try:
                if self._mapped is not None:
                    self._mapped._replace_content(self._mapped)
            except BaseException:
                source[index, ...] = old
                raise
        super().__setitem__(index, value)


def unwrap(entry: NonTensorBase) -> Any:
    """The value that `td["key"]` returns: the object, or a `LinkedList`."""
    if isinstance(entry, NonTensorData):
        return entry.data
    if isinstance(entry, NonTensorStack):
        return entry._linked()
    return entry


belong_to("lite", MetaData, NonTensorData, NonTensorStack)
