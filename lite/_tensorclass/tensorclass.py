"""Tensorclasses: dataclasses whose fields are the entries of a TensorDict."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from textwrap import indent
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, overload

from lite._arrays.public import belong_to
from lite._arrays.types import Array, Shape, is_array
from lite._containers.assignment import require_fields
from lite._ops.cast import DtypeCasts
from lite._tensorclass.annotations import local_types
from lite._tensorclass.delegation import delegate
from lite._tensorclass.fields import Field, Options, signature_of
from lite._tensordict import TensorDict
from lite._tree.batch_ops import BatchOp
from lite._tree.collection import TensorCollection
from lite._tree.entry_errors import prefix_error_path
from lite._tree.indexing import Index
from lite._tree.keys import NestedKey, require_path, to_path
from lite._tree.methods import LazyModule, make_lazy
from lite._tree.nontensor import NonTensorBase, unwrap
from lite._tree.protocol import MISSING, Container

if TYPE_CHECKING:  # `delegate` adds its methods
    from lite._convert import state_dict as state_dicts
    from lite._files import functions, methods
    from lite._show import html, text
    from lite._tensordict import TensorDictBase as _Methods
else:
    _Methods = TensorCollection
    state_dicts = LazyModule("lite._convert.state_dict")
    functions = LazyModule("lite._files.functions")
    methods = LazyModule("lite._files.methods")
    html = LazyModule("lite._show.html")
    text = LazyModule("lite._show.text")

_OPTIONS = frozenset(inspect.signature(TensorDict.update).parameters)
_CASTS = frozenset({"to", "type"})  # beside those by the name of a dtype
_RESERVED = frozenset({"batch_size", "device", "names", "shape", "ndim"})  # also with shadow=True


def _is_method(name: str) -> bool:
    return name != "data" and hasattr(TensorDict, name)


class TensorClass(_Methods):
    """Base of classes whose annotated fields are entries of a TensorDict.

    An instance has a batch size. Fields are arrays that start with it, nested tensorclasses or
    TensorDicts, or any other objects: text, mappings, tuples and objects are stored as non-tensor data and
    come back as they were; a list holds one object per row of the batch. `bool` fields are metadata, one
    value for all. A field that is None has no entry. Everything that a TensorDict can do, an instance can
    do; results with the same fields are instances of the class. `TensorClass["frozen"]` and the like are
    bases with options.

    Args:
        args: values of the fields, in order of their declaration.
        batch_size: the batch size, `()` by default.
        device: None, "cpu" or "cuda".
        names: dimension names.
        lock: lock the new instance, which frozen ones always are.
        kwargs: values of the fields by name.

    Raises:
        TypeError: a field without default is missing, or an argument is not a field.
        RuntimeError: a value does not start with the batch size.

    Example:
        >>> import numpy as np
        >>> from lite import TensorClass, stack
        >>> class Point(TensorClass):
        ...     xy: np.ndarray
        ...     label: str | None = None
        >>> points = stack([Point(xy=np.array([i, 0]), label=f"p{i}") for i in range(3)])
        >>> points.batch_size, points.label, points[1].xy
        ((3,), ['p0', 'p1', 'p2'], array([1, 0]))
    """

    __slots__ = ("__weakref__", "_deleted", "_tensordict")
    if TYPE_CHECKING:
        data: Any  # fields may have this name
    _tensordict: Any
    _deleted: Any  # names of fields that `del` removed; set by the first
    _fields: ClassVar[dict[str, Field]] = {}
    _options: ClassVar[Options] = Options()
    _local_types: ClassVar[dict[str, Any]] = {}
    _deletes: ClassVar[bool] = False  # whether `del` removed a field of any instance
    _sets_itself: ClassVar[bool] = False  # whether the class has a `__setattr__` of its own

    def __class_getitem__(cls, flags: Any) -> Any:
        """A base class with options: `class Point(TensorClass["nocast", "frozen"])`; see `Options`.

        Types are those of a class that is `Generic`.
        """
        chosen = flags if isinstance(flags, tuple) else (flags,)
        if issubclass(cls, Generic) and not any(isinstance(flag, str) for flag in chosen):
            return super().__class_getitem__(flags)  # type: ignore[misc]
        cls._options.extended(dict.fromkeys(chosen, True))
        name = "_".join((cls.__name__, *chosen))
        return types.new_class(name, (cls,), dict.fromkeys(chosen, True))

    def __init_subclass__(cls, kw_only: bool = False, **options: Any) -> None:
        super().__init_subclass__()
        cls._options = cls._options.extended(options)
        cls._local_types = local_types(cls)
        _prepare_defaults(cls)
        written = cls.__doc__
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        cls._fields = {}
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            if field.name in _RESERVED or (not cls._options.shadow and _is_method(field.name)):
                raise AttributeError(
                    f"Attribute name {field.name} can't be used with @tensorclass: TensorDict has something "
                    "of that name."
                    + ("" if field.name in _RESERVED else " With shadow=True the field hides it.")
                )
            cls._fields[field.name] = Field(field, cls, cls._options)
            setattr(cls, field.name, cls._fields[field.name])
        cls._sets_itself = cls.__setattr__ is not TensorClass.__setattr__ and not cls._options.frozen
        if cls._options.frozen and cls.__hash__ is None:
            cls.__hash__ = _hash_frozen
        cls.__signature__ = signature_of(cls)  # type: ignore[attr-defined]
        if written is None:  # dataclasses has written the arguments of the base
            cls.__doc__ = f"{cls.__name__}{cls.__signature__}"  # type: ignore[attr-defined]

    def __init__(
        self,
        *args: object,
        batch_size: Any = None,
        device: Any = None,
        names: Any = None,
        lock: object = None,
        **kwargs: object,
    ) -> None:
        cls = type(self)
        fields = cls._fields
        placed = [name for name, field in fields.items() if not field.kw_only] if args else []
        if len(args) > len(placed):
            raise TypeError(f"{cls.__name__} takes {len(placed)} fields {placed} by place, got {len(args)}.")
        given = dict(zip(placed, args, strict=False))
        for name, value in kwargs.items():
            if name not in fields:
                raise TypeError(
                    f"{cls.__name__} got an unexpected keyword argument {name!r}; its fields are "
                    f"{list(fields)}."
                )
            if name in given:
                raise TypeError(f"{cls.__name__} got multiple values for field {name!r}.")
            given[name] = value
        node = TensorDict({}, batch_size, device, names)
        object.__setattr__(self, "_tensordict", node)
        for name, field in fields.items():
            value = given[name] if name in given else field.initial(cls)
            if cls._sets_itself:
                setattr(self, name, value)
            elif value is not None:
                entry = field.entry(value, node._batch_size)
                try:
                    node._put(name, node._convert(entry))
                except Exception as error:
                    prefix_error_path(error, name)
                    raise
        if hasattr(cls, "__post_init__"):
            self.__post_init__()
        if cls._options.frozen or lock:
            node.lock_()

    @classmethod
    def fields(cls) -> tuple[dataclasses.Field[Any], ...]:
        """The fields, as `dataclasses.fields`."""
        return dataclasses.fields(cls)  # type: ignore[arg-type]

    # -- files (_files/methods.py, _files/functions.py) ---------------------------------------------

    memmap = methods.memmap
    memmap_ = methods.memmap_
    memmap_like = methods.memmap_like
    save = methods.save
    make_memmap = methods.make_memmap
    make_memmap_from_tensor = methods.make_memmap_from_tensor
    to_h5 = methods.to_h5
    consolidate = methods.consolidate
    is_consolidated = methods.is_consolidated
    dumps = methods.save
    load_memmap = classmethod(methods.load_memmap)
    load = classmethod(methods.load)
    load_memmap_ = methods.load_memmap_
    load_ = methods.load_
    memmap_refresh_ = methods.memmap_refresh_
    is_memmap = methods.is_memmap
    from_h5 = classmethod(methods.from_h5)

    @classmethod
    def from_consolidated(cls, filename: Any) -> Any:
        """An instance from a file that `consolidate` wrote; see `TensorDict.from_consolidated`."""
        return cls.from_tensordict(functions.from_consolidated(filename))

    @property
    def saved_path(self) -> str:
        """The folder that the arrays are mapped to; AttributeError if they are not."""
        return methods.saved_path(self)

    # -- wrapping -----------------------------------------------------------------------------

    @classmethod
    def _wrap_tensordict(cls, tensordict: Container) -> Self:
        """An instance around a container whose keys are known to be fields."""
        self = cls.__new__(cls)
        object.__setattr__(self, "_tensordict", tensordict)
        return self

    @classmethod
    def from_tensordict(cls, tensordict: object, non_tensordict: Mapping[str, Any] | None = None) -> Self:
        """An instance whose fields are the entries of a TensorDict, which it holds (no copy).

        Args:
            tensordict: the entries; fields without one are None.
            non_tensordict: values of further fields.

        Raises:
            RuntimeError: no TensorDict.
            ValueError: keys that are not fields of the class.
            KeyError: a field is given in both.
        """
        node = Container._as_node(tensordict)
        if node is None:
            raise RuntimeError(f"from_tensordict expects a TensorDict, got {type(tensordict)}.")
        cls._require_fields([*node._keys(), *(non_tensordict or ())])
        if not non_tensordict:
            return cls._wrap_tensordict(node)
        both = sorted(set(non_tensordict) & set(node._keys()))
        if both:
            raise KeyError(f"{both} are given both in tensordict and in non_tensordict.")
        out = cls._wrap_tensordict(node._clone(False))
        for name, value in non_tensordict.items():
            out.set(name, value)
        return out

    @classmethod
    def _from_mapping(cls, values: Mapping[str, Any], batch_size: Shape) -> Self:
        """An instance of the values of a mapping, converted as fields are; those that lack are None.

        Raises:
            ValueError: the mapping has keys that are not fields.
        """
        cls._require_fields(values)
        out = cls._wrap_tensordict(TensorDict({}, batch_size))
        for name, value in values.items():
            out._set_field(cls._fields[name], value)
        return out

    @classmethod
    def _require_fields(cls, keys: Iterable[str]) -> None:
        unknown = sorted(set(keys) - set(cls._fields))
        if unknown:
            raise ValueError(
                f"Keys from the tensordict must correspond to the class attributes {sorted(cls._fields)}. "
                f"Got the keys {unknown}, which do not belong to the class."
            )

    def _rewrapped(self, result: Any, held: set[int]) -> Any:
        inner = self._tensordict
        if result is inner:
            return self
        if isinstance(result, Container):
            is_entry = id(result) in held
            return result if is_entry or not set(result._keys()) <= set(self._fields) else self._wrap(result)
        if type(result) in (tuple, list):
            return type(result)(self._rewrapped(item, held) for item in result)
        return result

    def _wrap(self, node: Container) -> Self:
        return self._wrap_tensordict(node)

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the TensorDict; what comes out with these fields is an instance again."""
        inner = self._tensordict
        chosen = self._options.cast_filter
        if chosen is not None and (name in _CASTS or name in vars(DtypeCasts)):
            kwargs = {"cast_filter": chosen, **kwargs}
        held = {id(entry) for entry in inner._data.values()} if isinstance(inner, TensorDict) else set()
        unwrapped = [arg._tensordict if isinstance(arg, TensorClass) else arg for arg in args]
        passed = kwargs
        out = kwargs.get("out") if kwargs else None
        if isinstance(out, TensorClass):
            passed = {**kwargs, "out": out._tensordict}
        result = getattr(inner, name)(*unwrapped, **passed)
        for given, taken in zip((*args, *kwargs.values()), (*unwrapped, *passed.values()), strict=True):
            if result is taken:  # written to an argument such as `out`
                return given
        return self._rewrapped(result, held)

    def __getattr__(self, name: str) -> Any:
        # What only lazy stacks have; the rest is on the class.
        if name in TensorClass.__slots__ or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        try:
            attribute = getattr(self._tensordict, name)
        except AttributeError:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}") from None
        if not inspect.ismethod(attribute):
            return attribute
        return lambda *args, **kwargs: self._call(name, args, kwargs)

    # -- fields -------------------------------------------------------------------------------

    def _set_field(self, field: Field, value: object, inplace: bool = False) -> None:
        node = self._tensordict
        if value is not None:
            node._set_here(field.name, field.entry(value, node.batch_size), inplace)
        elif node._peek_entry(field.name) is not None:
            node.del_(field.name)
        elif field.name in self._was_deleted():
            self._deleted.discard(field.name)

    def _cast_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values by field as what the fields are annotated with, for a class with `autocast`."""
        fields = self._fields if self._options.autocast else {}
        return {
            key: value if value is None or key not in fields else fields[key].entry(value, ())
            for key, value in values.items()
        }

    def from_dict_instance(self, input_dict: Mapping[str, Any], **options: object) -> Self:
        """See `TensorDict.from_dict_instance`; values are cast to the fields of a class with `autocast`."""
        return self._call("from_dict_instance", (self._cast_values(input_dict),), options)

    def _was_deleted(self) -> Set[str]:
        return getattr(self, "_deleted", frozenset()) if self._deletes else frozenset()

    def __delattr__(self, name: str) -> None:
        if self._options.frozen:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        if self._options.frozen:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        field = self._fields.get(name)
        if field is not None:
            self._set_field(field, value)
        elif hasattr(inspect.getattr_static(type(self), name, None), "__set__"):
            object.__setattr__(self, name, value)
        else:
            raise self._unknown(name)

    def _unknown(self, name: str) -> AttributeError:
        return AttributeError(
            f"Cannot set the attribute {name!r}, expected attributes are {sorted(self._fields)}."
        )

    def get(self, key: NestedKey, default: object = None, **lazy_kwargs: object) -> Any:
        """The value of a field, or of an entry below it; `default` if it is None.

        Args:
            key: a field, or a tuple that starts with one. A name that is not a field gives the attribute.
            default: returned where there is no entry.
            lazy_kwargs: how to return ragged leaves, see `LazyStackedTensorDict.get`.
        """
        path = require_path(key)
        field = self._fields.get(path[0]) if len(path) == 1 else None
        if field is None and len(path) == 1:
            return getattr(self, path[0], default)
        entry = self._tensordict.get(path, MISSING if default is MISSING else None, **lazy_kwargs)
        if entry is None:
            return default
        if field is not None:
            return field.read(entry)
        return unwrap(entry) if isinstance(entry, NonTensorBase) else entry

    def set(
        self, key: NestedKey, value: object, inplace: bool = False, *, non_blocking: bool = False
    ) -> Self:
        """Set a field (None removes its entry), or an entry below one; returns self.

        Raises:
            AttributeError: the class has no such field.
        """
        path = require_path(key)
        field = self._fields.get(path[0])
        if field is None:
            raise self._unknown(path[0])
        if len(path) == 1:
            self._set_field(field, value, inplace)
        else:
            self._tensordict._set_path(path, value, inplace)
        return self

    def del_(self, key: NestedKey) -> Self:
        """Remove the value of a field, which is None then, or an entry below one; returns self.

        Raises:
            KeyError: no such field, or no such entry below it.
        """
        path = require_path(key)
        if len(path) > 1 or path[0] not in self._fields or self._tensordict._peek_entry(path[0]) is not None:
            self._tensordict.del_(path)
        return self

    def update(self, input_dict_or_td: Any = None, *args: Any, **kwargs: Any) -> Self:
        """Set fields from a mapping, a TensorDict or another instance; see `TensorDict.update`."""
        source = input_dict_or_td
        node = Container._as_node(source)
        keys = getattr(source, "keys", tuple)() if node is None else node._keys()
        fields = {name for name in kwargs if name in self._fields}
        options = {name: value for name, value in kwargs.items() if name not in fields}
        for path in [*(require_path(key) for key in keys), *((name,) for name in options.keys() - _OPTIONS)]:
            if path[0] not in self._fields:
                raise self._unknown(path[0])
        self._tensordict.update(source if node is None else node, *args, **options)
        for name in fields:
            self.set(name, kwargs[name])
        return self

    @overload
    def __getitem__(self, index: str | tuple[str, ...]) -> Any: ...
    @overload
    def __getitem__(self, index: Index) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        path = to_path(index) if isinstance(index, str | tuple) else ()
        return self._tensordict[index] if path else self._rewrapped(self._tensordict._index(index), set())

    def __setitem__(self, index: object, value: object) -> None:
        path = to_path(index) if isinstance(index, str | tuple) else ()
        if path:
            self.set(path, value)
            return
        if isinstance(value, TensorClass):
            require_fields(self, value)
            value = value._tensordict
        elif isinstance(value, (Container, Mapping)):
            require_fields(self, value)
        self._tensordict._set_index(index, value)

    def __iter__(self) -> Iterator[Any]:
        if not self.batch_size:
            raise TypeError(f"iteration over a 0-d {type(self).__name__}.")
        return iter(self._call("unbind", (0,), {}))

    # -- TensorCollection ---------------------------------------------------------------------

    @property
    def batch_size(self) -> Shape:
        """Shape that all fields share as their leading dimensions."""
        return self._tensordict.batch_size

    @batch_size.setter
    def batch_size(self, value: object) -> None:
        self._tensordict.batch_size = value

    def _rebatch(self, batch_size: Shape) -> Self:
        return self._wrap(self._tensordict._rebatch(batch_size))

    def _run(self, op: BatchOp) -> Self:
        return self._wrap(self._tensordict._run(op))

    def _clone(self, recurse: bool) -> Self:
        return self._wrap(self._tensordict._clone(recurse))

    def _map_leaves(self, fn: Callable[[Array], Any]) -> Self:
        return self._wrap(self._tensordict._map_leaves(fn))

    def _export(self) -> Any:
        return self._tensordict._export()

    # -- conversion ---------------------------------------------------------------------------

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        """A plain TensorDict with copies of the fields, nested tensorclasses converted, too.

        Args:
            retain_none: True gives fields that are None an entry, False leaves out all objects that are.
        """
        out = self._tensordict.to_tensordict(retain_none=retain_none)
        for name in self._fields if retain_none else ():
            if name not in out:
                out.set_non_tensor(name, None)
        return out

    def select(
        self, *keys: NestedKey, inplace: bool = False, strict: bool = True, as_tensordict: bool = False
    ) -> Any:
        """Keep only some fields; see `TensorDict.select`.

        Args:
            keys: fields to keep; the others are None.
            inplace: change self instead of building a new instance.
            strict: raise KeyError for a field without entry (else skip it).
            as_tensordict: return a TensorDict, not an instance of the class.
        """
        if as_tensordict:
            return self._tensordict.select(*keys, inplace=inplace, strict=strict)
        return self._call("select", keys, {"inplace": inplace, "strict": strict})

    def pack(self, dim: int = -1, *, layout: Any = None) -> Any:
        """All fields as one array, and the layout that gives the instance again; see `TensorDict.pack`."""
        flat, made = self._tensordict.pack(dim, layout=layout)
        return flat, dataclasses.replace(made, cls=type(self))

    def to_dict(self, *, retain_none: bool = True, **kwargs: object) -> dict[str, Any]:
        """A plain dict of the fields; see `TensorDict.to_dict`.

        Args:
            retain_none: with fields that are None.
            kwargs: arguments of `TensorDict.to_dict`.
        """
        found = self._tensordict.to_dict(retain_none=retain_none, **kwargs)
        if retain_none:
            return {name: found.get(name) for name in self._fields if name not in self._was_deleted()}
        return {name: found[name] for name in self._fields if name in found}

    def state_dict(
        self, destination: object = None, prefix: str = "", keep_vars: bool = False, flatten: bool = True
    ) -> Any:
        """The arrays as an ordered mapping, other fields in its `_metadata`; see `TensorDict.state_dict`."""
        return state_dicts.state_of(self, self._tensordict, destination, prefix, keep_vars, flatten)

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any] | Container,
        strict: bool = True,
        assign: bool = False,
        from_flatten: bool | None = None,
    ) -> Self:
        """Take the fields of a state dict; see `TensorDict.load_state_dict`.

        Raises:
            KeyError: `strict`, and a name of the state dict is not a field, or is None here but not there.
        """
        state_dicts.load_into(self, self._tensordict, state_dict, strict, assign, from_flatten)
        return self

    def __reduce__(self) -> Any:
        return _restore, (type(self), self._tensordict)

    def __repr__(self) -> str:
        node = self._tensordict
        keys = list(node._keys())
        lines = text.ordered({key: text.entry_text(node, key) for key in keys}, "=")
        none = self._fields.keys() - keys - self._was_deleted()
        lines += [f"{name}=None" for name in sorted(none)]
        lines += text.state_lines(node)
        body = indent(",\n".join(lines), "    ")
        return f"{type(self).__name__}(\n{body})"

    def _repr_html_(self) -> str:
        return html.html_of(self, self._tensordict)

    __hash__ = None


def _restore(cls: type[TensorClass], tensordict: Any) -> TensorClass:
    return cls._wrap_tensordict(tensordict)


def _prepare_defaults(cls: type) -> None:
    """Give dataclasses the defaults that it takes: arrays from a factory, and no method for a default."""
    for name in inspect.get_annotations(cls):
        if name in cls.__dict__:
            default = cls.__dict__[name]
            if is_array(default):
                setattr(cls, name, dataclasses.field(default_factory=partial(_same, default)))
        elif _is_method(name):
            setattr(cls, name, dataclasses.field())


def _same(value: object) -> Any:
    return value


def _hash_frozen(self: TensorClass) -> int:
    """By the identity of arrays and containers, as nothing frozen exchanges them, and by the objects."""
    node = self._tensordict
    parts = node._parts()
    entries = node._data.values() if parts is None else parts[0]
    return hash((type(self), *[_hashable(entry) for entry in entries]))


def _hashable(entry: object) -> Any:
    return unwrap(entry) if isinstance(entry, NonTensorBase) else id(entry)


make_lazy(TensorClass)
delegate(TensorClass)
# Hints of subclasses are looked up with those of this class, in the module that it says: lite, not this file.
TensorClass.__annotations__ = inspect.get_annotations(TensorClass, eval_str=True)


belong_to("lite", TensorClass)
