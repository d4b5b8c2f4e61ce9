"""TensorDicts from mappings, named tuples, dataclasses, structured arrays and lists of rows."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lite._arrays.types import Array, Device, Size
from lite._ops.combine import lazy_stack, maybe_dense_stack, stack
from lite._tree.collection import TensorCollection
from lite._tree.protocol import Container, class_registry
from lite._tree.shape import as_shape
from lite._tree.values import is_data_frame, is_dataclass, is_namedtuple, plain


def from_any(
    cls: type[Any],
    obj: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: Device = None,
    batch_size: Size = None,
) -> Any:
    """Convert an object to a TensorDict, at any depth; return objects of other kinds unchanged.

    Mappings, named tuples, tuples (keys "0", "1", ...), dataclass instances and structured arrays
    become TensorDicts, and so do pandas' data frames (see `from_pandas`). A list of numbers of one type
    becomes an array, any other list a `NonTensorStack`. A TensorDict is returned itself.

    Args:
        obj: any object.
        auto_batch_size: use the longest leading shape that all entries share.
        batch_dims: at most this many dimensions of it.
        device: device of the TensorDict.
        batch_size: batch size of the TensorDict and of all nested ones. Of a mapping it goes before
            `auto_batch_size`.

    Raises:
        TypeError: both `batch_size` and `auto_batch_size`, for anything but a mapping.
        ValueError: both `batch_size` and `batch_dims`, for a mapping.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict.from_any({"pair": (1, 2.5), "rows": [[1, 2], [3, 4]]})
        >>> td["pair", "1"], td["rows"].shape
        (array(2.5, dtype=float32), (2, 2))
        >>> TensorDict.from_any("text")
        'text'
    """
    if isinstance(obj, TensorCollection):
        return obj
    sizes: Any = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "batch_size": batch_size}
    if is_data_frame(obj):
        return cls.from_pandas(obj, device=device, **sizes)
    if isinstance(obj, Mapping):
        return cls.from_dict(obj, device=device, **sizes)
    value = plain(obj)
    if isinstance(value, TensorCollection) or not isinstance(value, Mapping):
        return value
    if batch_size is None and not auto_batch_size and batch_dims is None:
        batch_size = obj.shape if isinstance(obj, np.ndarray | np.void) else None
    return _build(value, "from_any", auto_batch_size, batch_dims, device, batch_size)


def from_dict(
    cls: type[Any],
    input_dict: Mapping[Any, Any] | TensorCollection,
    *,
    auto_batch_size: bool | None = None,
    batch_size: Size = None,
    device: Device = None,
    batch_dims: int | None = None,
    names: Sequence[str | None] | None = None,
) -> Any:
    """Build from a (nested) mapping, optionally finding the batch size.

    Values are converted as `from_any` does it: tuples, named tuples, dataclasses and structured
    arrays become nested TensorDicts.

    Args:
        input_dict: the entries; a TensorDict is returned as it is.
        auto_batch_size: use the longest leading shape that all entries share, unless there is a `batch_size`.
        batch_size: the batch size, also for nested TensorDicts.
        device: see `TensorDict`.
        batch_dims: cap on the number of batch dimensions found; implies `auto_batch_size`.
        names: dimension names.

    Raises:
        ValueError: both `batch_size` and `batch_dims` are given.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict.from_dict({"a": np.zeros((3, 2))}, auto_batch_size=True).batch_size
        (3, 2)
    """
    if batch_size is not None and batch_dims is not None:
        raise ValueError("Cannot pass both batch_size and batch_dims to `from_dict`.")
    if isinstance(input_dict, TensorCollection):
        return input_dict
    out = cls(plain(input_dict), batch_size=batch_size, device=device)
    if batch_size is None and (auto_batch_size or batch_dims is not None):
        out.auto_batch_size_(batch_dims)
    if names is not None:
        out.names = list(names)
    return out


def from_tuple(
    cls: type[Any],
    obj: Sequence[Any],
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: Device = None,
    batch_size: Size = None,
) -> Any:
    """A TensorDict with the items of a sequence under "0", "1", ...; see `from_any`.

    Raises:
        TypeError: not a sequence, or both `batch_size` and `auto_batch_size` are given.
    """
    if isinstance(obj, str | bytes) or not isinstance(obj, Sequence):
        raise TypeError(f"from_tuple expects a tuple or another sequence, got {type(obj).__name__}.")
    values = {str(i): plain(item) for i, item in enumerate(obj)}
    return _build(values, "from_tuple", auto_batch_size, batch_dims, device, batch_size)


def from_namedtuple(
    cls: type[Any],
    named_tuple: tuple[Any, ...],
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: Device = None,
    batch_size: Size = None,
) -> Any:
    """A TensorDict with the fields of a named tuple; see `from_any`.

    Raises:
        TypeError: not a named tuple, or both `batch_size` and `auto_batch_size` are given.

    Example:
        >>> from collections import namedtuple
        >>> from lite import TensorDict
        >>> TensorDict.from_namedtuple(namedtuple("Pair", "a b")(1, 2)).to_namedtuple()
        GenericDict(a=array(1), b=array(2))
    """
    if not is_namedtuple(named_tuple):
        raise TypeError(f"from_namedtuple expects a named tuple, got {type(named_tuple).__name__}.")
    values = plain(named_tuple)
    return _build(values, "from_namedtuple", auto_batch_size, batch_dims, device, batch_size)


def from_dataclass(
    cls: type[Any],
    dataclass: object,
    *,
    dest_cls: type[Any] | None = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    as_tensorclass: bool = False,
    device: Device = None,
    batch_size: Size = None,
) -> Any:
    """A TensorDict with the fields of a dataclass instance; see `from_any`.

    Args:
        dataclass: an instance of a dataclass.
        dest_cls: tensorclass to return an instance of.
        as_tensorclass: return an instance of a tensorclass with the same fields.
        auto_batch_size, batch_dims, device, batch_size: see `from_any`.

    Raises:
        TypeError: not an instance of a dataclass, or conflicting batch sizes.

    Example:
        >>> from dataclasses import dataclass
        >>> from lite import TensorDict
        >>> @dataclass
        ... class Step:
        ...     reward: float
        ...     text: str = "ok"
        >>> TensorDict.from_dataclass(Step(1.0)).to_dict(convert_tensors=True)
        {'reward': 1.0, 'text': 'ok'}
    """
    if not is_dataclass(dataclass):
        raise TypeError(f"Expected a dataclass input, got a {type(dataclass)} input instead.")
    values = plain(dataclass)
    out = _build(values, "from_dataclass", auto_batch_size, batch_dims, device, batch_size)
    if dest_cls is None and not as_tensorclass:
        return out
    kind: Any = type(dataclass)
    wanted = tensorclass_of(kind) if dest_cls is None else dest_cls
    return wanted.from_tensordict(out)


def from_struct_array(
    cls: type[Any],
    struct_array: Array,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: Device = None,
    batch_size: Size = None,
) -> Any:
    """A TensorDict with the fields of a structured array, which share its memory.

    The batch size is the array's shape unless given. Nested fields become nested TensorDicts,
    subarrays trailing dimensions, and text one Python string per element.

    Raises:
        TypeError: not a structured array, or conflicting batch sizes.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> rows = np.array([(1, "x"), (2, "y")], dtype=[("a", "i8"), ("s", "U1")])
        >>> td = TensorDict.from_struct_array(rows)
        >>> td.batch_size, td["a"], td["s"]
        ((2,), array([1, 2]), ['x', 'y'])
    """
    if not isinstance(struct_array, np.ndarray | np.void) or struct_array.dtype.names is None:
        kind = getattr(struct_array, "dtype", type(struct_array).__name__)
        raise TypeError(f"from_struct_array expects an array with named fields, got {kind}.")
    if batch_size is None and not auto_batch_size and batch_dims is None:
        batch_size = struct_array.shape
    values = plain(struct_array)
    return _build(values, "from_struct_array", auto_batch_size, batch_dims, device, batch_size)


def from_list(
    cls: type[Any],
    input: Sequence[Any],
    *,
    auto_batch_size: bool | None = None,
    batch_size: Size = None,
    device: Device = None,
    batch_dims: int | None = None,
    names: Sequence[str | None] | None = None,
    lazy: bool | None = None,
) -> Any:
    """Stack a list of rows (mappings, dataclasses, TensorDicts, ...) along a new first dimension.

    Args:
        input: the rows; each is converted as `from_any` does it.
        auto_batch_size: find the longest batch size of the rows.
        batch_size: batch size of the result; its first number is the length of the list.
        device: device of the result.
        batch_dims: at most this many dimensions in the result.
        names: dimension names of the result.
        lazy: True keeps the rows as they are (`lazy_stack`), as does None on `LazyStackedTensorDict`; False
            stacks densely, None elsewhere where that is possible (`maybe_dense_stack`).

    Raises:
        ValueError: the batch size does not start with the length of the list.
        RuntimeError: the list is empty, or `lazy=False` and the rows differ.
        TypeError: `from_any` cannot convert a row to a TensorDict.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict.from_list([{"a": 1}, {"a": 2}])
        >>> td.batch_size, td["a"]
        ((2,), array([1, 2]))
    """
    if batch_size is not None:
        batch_size = as_shape((batch_size,), "batch_size")
        if not batch_size or batch_size[0] != len(input):
            raise ValueError(
                f"The provided batch size ({list(batch_size)}) does not match the length of the list "
                f"({len(input)})."
            )
    inner = None if batch_dims is None else max(batch_dims - 1, 0)
    if cls is class_registry.lazy:  # whose from_dict takes several
        cls, lazy = class_registry.dense, lazy is not False
    rows = [
        cls.from_any(
            row,
            auto_batch_size=bool(auto_batch_size),
            batch_dims=inner,
            device=device,
            batch_size=None if batch_size is None else batch_size[1:],
        )
        for row in input
    ]
    for i, row in enumerate(rows):
        if cls._as_node(row) is None:
            raise TypeError(
                f"from_list: row {i} must be a mapping of entries, got {type(input[i]).__name__}."
            )
    combine: Callable[[list[Any]], Any] = maybe_dense_stack if lazy is None else lazy_stack if lazy else stack
    out = combine(rows)
    if names is not None:
        out.names = list(names)
    return out


def from_dict_instance(
    td: Container,
    input_dict: Mapping[Any, Any],
    *,
    auto_batch_size: bool | None = None,
    batch_size: Size = None,
    device: Device = None,
    batch_dims: int | None = None,
    names: Sequence[str | None] | None = None,
) -> Any:
    """As `from_dict`, with the tensorclasses of self's entries for the nested mappings.

    Example:
        >>> import numpy as np
        >>> from lite import TensorClass, TensorDict
        >>> class Point(TensorClass):
        ...     xy: np.ndarray
        >>> td = TensorDict({"p": Point(xy=np.zeros(2))})
        >>> type(td.from_dict_instance({"p": {"xy": np.ones(2)}})["p"]).__name__
        'Point'
    """

    out = class_registry.dense.from_dict(
        _cast(td, input_dict),
        auto_batch_size=auto_batch_size,
        batch_size=batch_size,
        device=device,
        batch_dims=batch_dims,
        names=names,
    )
    return _like_structure(td, out)


def _cast(model: Container, values: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Values with those of tensorclasses in `model` cast to their fields, where the class says so."""
    node = model._as_node(model)
    held = {key: node._get_entry(key) for key in values if isinstance(key, str)}
    nested = {
        key: _cast(held[key], value)
        for key, value in values.items()
        if isinstance(value, Mapping) and node._as_node(held.get(key)) is not None
    }
    cast = getattr(model, "_cast_values", dict)
    return {**cast({key: value for key, value in values.items() if key not in nested}), **nested}


def _like_structure(model: Container, td: Container) -> Container:
    for key, entry in list(td._items()):
        kind = model._get_entry(key)
        inner, node = model._as_node(kind), td._as_node(entry)
        if inner is not None and node is entry:
            node = _like_structure(inner, node)
            wrap = getattr(kind, "_wrap_tensordict", None)
            td._put(key, node if wrap is None else type(kind).from_tensordict(node))
    return td


def _build(
    values: Mapping[Any, Any], name: str, auto_batch_size: bool, batch_dims: int | None, device: Device,
    batch_size: Size,
) -> Any:  # fmt: skip
    refuse_two_sizes(name, auto_batch_size, batch_size)
    out = class_registry.dense(values, batch_size, device)
    if batch_size is None and (auto_batch_size or batch_dims is not None):
        out.auto_batch_size_(batch_dims)
    return out


def refuse_two_sizes(name: str, auto_batch_size: bool | None, batch_size: Size) -> None:
    """Raise a TypeError if both `batch_size` and `auto_batch_size` are given.

    Args:
        name: name of the function that was called.
        auto_batch_size: its argument.
        batch_size: its argument.
    """
    if auto_batch_size and batch_size is not None:
        raise TypeError(
            f"Conflicting batch sizes in {name}: batch_size and auto_batch_size cannot be both specified."
        )


@lru_cache(maxsize=256)
def tensorclass_of(cls: type[Any], options: frozenset[str] = frozenset()) -> Any:
    """The tensorclass with the fields and defaults of a dataclass, and some options of tensorclasses."""
    try:
        kinds_of_fields = typing.get_type_hints(cls)
    except (NameError, TypeError):  # names that only type checkers see
        kinds_of_fields = {}
    namespace: dict[str, Any] = {"__annotations__": {}, "__module__": cls.__module__}
    for field in dataclasses.fields(cls):
        namespace["__annotations__"][field.name] = kinds_of_fields.get(field.name, field.type)
        if field.default is not dataclasses.MISSING:
            namespace[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            namespace[field.name] = dataclasses.field(default_factory=field.default_factory)
    return types.new_class(
        f"{cls.__name__}_tc",
        (class_registry.tensorclass,),
        dict.fromkeys(options, True),
        lambda ns: ns.update(namespace),
    )
