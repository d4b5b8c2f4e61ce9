"""Typed TensorDicts: the entries are declared as annotations of a class, in front of any container.

What a typed TensorDict is asked, the container behind it answers: methods of TensorDict are passed on, and
what comes out is of the same class again. So nothing here depends on how entries are held.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, Final, Self, overload

from lite._arrays.public import belong_to
from lite._tensordict import TensorDict, TensorDictBase
from lite._tree.collection import TensorCollection
from lite._tree.indexing import Index
from lite._tree.keys import NestedKey, to_path
from lite._tree.protocol import Container

_OPTIONS: Final = ("shadow", "frozen", "autocast", "nocast", "tensor_only")
_ARGUMENTS: Final = ("batch_size", "device", "names", "non_blocking", "lock")  # of the constructor
# Also with "shadow": operations ask a container for these by name.
_RESERVED: Final = frozenset({*_ARGUMENTS, "shape", "ndim", "is_locked"})


class _Field:
    """The class attribute behind a declared entry."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        entry = instance._tensordict._get_entry(self.name)
        if entry is None:
            raise AttributeError(self.name)  # `__getattr__`, which is asked then, says more
        return entry

    def __set__(self, instance: Any, value: Any) -> None:
        instance[self.name] = value


class TypedTensorDict(TensorDictBase):
    """A TensorDict whose entries are declared as annotations of its class.

    A subclass declares its fields; those annotated `NotRequired[...]` may be left out. Fields are given to
    the constructor by name, and read and set as attributes; further entries may be set, and `**state` gives
    them all. Results (of indexing, `reshape`, `stack`, arithmetic ...) are of the class again, those of
    reductions and comparisons are TensorDicts. Subclasses inherit fields. Types of values are not checked.

    `TypedTensorDict["frozen"]` and the like are bases with options, which subclasses inherit: "shadow" lets
    fields hide methods of TensorDict of the same name, "frozen" locks what the constructor makes;
    "autocast", "nocast" and "tensor_only" are accepted and change nothing.

    Args:
        source: a mapping or a TensorDict to take the entries from, unchecked, instead of fields.
        batch_size: leading shape of every entry.
        device: None, "cpu" or "cuda".
        names: one name or None per batch dimension.
        non_blocking, lock: accepted for compatibility; lock the new TensorDict.
        fields: the entries.

    Raises:
        TypeError: a required field is missing, a name is not a field, or the class declares nothing.
        AttributeError: a field has the name of a method of TensorDict, and the class is not "shadow".
        ValueError: an unknown option in brackets.
        RuntimeError: an entry does not start with the batch size.

    Example:
        >>> import numpy as np
        >>> from typing import NotRequired
        >>> from lite import TypedTensorDict, stack
        >>> class State(TypedTensorDict):
        ...     obs: np.ndarray
        ...     mask: NotRequired[np.ndarray]
        >>> state = State(obs=np.zeros((2, 3)), batch_size=[2])
        >>> state[0].obs.shape, "mask" in state, type(stack([state, state])).__name__
        ((3,), False, 'State')
    """

    __slots__ = ("_tensordict",)
    _tensordict: Any
    _shadow: ClassVar[bool] = False
    _frozen: ClassVar[bool] = False
    __expected_keys__: ClassVar[frozenset[str]] = frozenset()
    __required_keys__: ClassVar[frozenset[str]] = frozenset()
    __optional_keys__: ClassVar[frozenset[str]] = frozenset()

    def __class_getitem__(cls, options: str | tuple[str, ...]) -> Any:
        """A base class with options: `class State(TypedTensorDict["shadow", "frozen"])`."""
        chosen = options if isinstance(options, tuple) else (options,)
        for option in chosen:
            if option not in _OPTIONS:
                raise ValueError(f"Unknown TypedTensorDict option: {option!r}. Valid: {', '.join(_OPTIONS)}")
        name = "_".join(("TypedTensorDict", *chosen))
        return types.new_class(name, (cls,), dict.fromkeys(chosen, True))

    def __init_subclass__(cls, **options: bool | None) -> None:
        super().__init_subclass__(**{name: options[name] for name in options if name not in _OPTIONS})
        for name, value in options.items():
            if value is not None:
                setattr(cls, f"_{name}", bool(value))
        required: dict[str, bool] = {}
        for base in reversed(cls.__mro__):
            if base is not TypedTensorDict and issubclass(base, TypedTensorDict):
                required.update(_declared(base))
        cls.__expected_keys__ = frozenset(required)
        cls.__required_keys__ = frozenset(name for name, needed in required.items() if needed)
        cls.__optional_keys__ = cls.__expected_keys__ - cls.__required_keys__
        declared = _declared(cls)
        for name in declared:
            if name in _RESERVED or (not cls._shadow and hasattr(TypedTensorDict, name)):
                raise AttributeError(
                    f"Field '{name}' shadows a TensorDictBase attribute. "
                    + ("" if name in _RESERVED else "Use TypedTensorDict['shadow'] to allow this.")
                )
            setattr(cls, name, _Field(name))
        if declared and "__init__" not in cls.__dict__:
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]

    def __init__(
        self,
        source: Mapping[Any, Any] | TensorCollection | None = None,
        /,
        *,
        batch_size: Sequence[int] | int | None = None,
        device: str | None = None,
        names: Sequence[str | None] | None = None,
        non_blocking: bool | None = None,
        lock: bool = False,
        **fields: object,
    ) -> None:
        if type(self) is TypedTensorDict:
            raise TypeError("TypedTensorDict declares no fields; make a subclass that does.")
        given = (batch_size, device, names, non_blocking, lock)
        _set_up(self, type(self), source, fields, dict(zip(_ARGUMENTS, given, strict=True)))

    @classmethod
    def from_tensordict(cls, td: Container, *, check: bool = True) -> Self:
        """An instance in front of a TensorDict of any kind, which it holds (no copy).

        What is written through either shows in the other; so do batch size, names and lock.

        Args:
            td: the TensorDict, a lazy stack for example.
            check: require the required fields; without it reading one that is not there raises.

        Raises:
            TypeError: a required field is missing, or `td` is not a TensorDict.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict, TypedTensorDict
            >>> class State(TypedTensorDict):
            ...     x: np.ndarray
            >>> td = TensorDict(x=np.zeros(3), batch_size=[3])
            >>> State.from_tensordict(td).x = np.ones(3)
            >>> td["x"]
            array([1., 1., 1.])
        """
        node = Container._as_node(td)
        if node is None:
            raise TypeError(f"from_tensordict expects a TensorDict, got {type(td)}.")
        missing = cls.__required_keys__.difference(node._keys()) if check else ()
        if missing:
            raise TypeError(
                f"{cls.__name__}.from_tensordict() missing required field(s): {', '.join(sorted(missing))}"
            )
        return cls._wrap_tensordict(node)

    @classmethod
    def _wrap_tensordict(cls, tensordict: object) -> Self:
        """An instance in front of a container, unchecked."""
        self = cls.__new__(cls)
        self._tensordict = tensordict._tensordict if isinstance(tensordict, TypedTensorDict) else tensordict
        return self

    @classmethod
    def _make(cls, *args: Any, **kwargs: Any) -> Any:
        """Results with another batch size are plain TensorDicts."""
        return TensorDict._make(*args, **kwargs)

    @classmethod
    def from_dict(cls, input_dict: Any, **options: Any) -> Any:
        """As `TensorDict.from_dict`; the fields are not checked."""
        return cls._wrap_tensordict(TensorDict.from_dict(input_dict, **options))

    @classmethod
    def from_any(cls, obj: Any, **options: Any) -> Any:
        """As `TensorDict.from_any`; what becomes a TensorDict is an instance, its fields unchecked."""
        found = TensorDict.from_any(obj, **options)
        return cls._wrap_tensordict(found) if type(found) is TensorDict and found is not obj else found

    @classmethod
    def fromkeys(cls, keys: Iterable[NestedKey], value: object = 0) -> TensorDict:
        """As `TensorDict.fromkeys`, a TensorDict."""
        return TensorDict.fromkeys(keys, value)

    # -- passed on ----------------------------------------------------------------------------------

    def _given(self, result: object) -> Any:
        """The result of the wrapped container's method; a container becomes an instance."""
        if result is self._tensordict:
            return self
        if isinstance(result, Container):
            return result if isinstance(result, TypedTensorDict) else self._wrap_tensordict(result)
        return tuple(map(self._given, result)) if type(result) is tuple else result

    @overload
    def __getitem__(self, index: str | tuple[str, ...]) -> Any: ...
    @overload
    def __getitem__(self, index: Index) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        found = self._tensordict[index]
        is_key = type(index) is str or ((type(index) is tuple or isinstance(index, str)) and to_path(index))
        return found if is_key else self._given(found)

    def __iter__(self) -> Any:
        if not self.batch_size:
            raise TypeError(f"iteration over a 0-d {type(self).__name__}.")
        return iter(self._given(self._tensordict.unbind(0)))

    def __getattr__(self, name: str) -> Any:
        if name in type(self).__expected_keys__:
            raise AttributeError(f"'{type(self).__name__}' has field '{name}' declared but not set")
        try:
            if name != "_tensordict":
                return getattr(self._tensordict, name)
        except AttributeError:
            if hasattr(type(self), name):  # a property that says what is wrong
                raise
        raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}")

    def _lock_children(self) -> list[Any]:
        return [self._tensordict]

    def __reduce__(self) -> Any:
        return type(self)._wrap_tensordict, (self._tensordict,)


def _set_up(
    self: TypedTensorDict, cls: type[TypedTensorDict], source: Any, fields: dict[str, Any], options: Any
) -> None:
    """Give an instance its entries: the fields that `cls` declares, or those of a source."""
    if source is None:
        missing = cls.__required_keys__ - fields.keys()
        extra = fields.keys() - cls.__expected_keys__
        for names, what in ((missing, "missing required"), (extra, "got unexpected")):
            if names:
                raise TypeError(f"{type(self).__name__}() {what} field(s): {', '.join(sorted(names))}")
        source = fields
    elif fields:
        raise TypeError(f"{type(self).__name__}() takes a source or fields, got both.")
    td = TensorDict(source, **options)
    self._tensordict = td.lock_() if cls._frozen else td


def _constructor(cls: type[TypedTensorDict]) -> Callable[..., None]:
    """The `__init__` of a class: it checks the fields that this class has, also when a subclass calls it."""

    @wraps(TypedTensorDict.__init__)
    def __init__(self: Any, source: Any = None, /, **given: Any) -> None:
        options = {name: given.pop(name) for name in _ARGUMENTS if name in given}
        _set_up(self, cls, source, given, options)

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


def _declared(cls: type) -> dict[str, bool]:
    """The fields that a class itself declares, and whether each is required."""
    module = sys.modules.get(cls.__module__)
    names = {} if module is None else vars(module)
    out: dict[str, bool] = {}
    for name, annotation in inspect.get_annotations(cls).items():
        kind = _evaluated(annotation, names, {cls.__name__: cls})
        # What cannot be looked up, such as a name of the function around, is told by its text.
        text = kind.partition("[")[0].rpartition(".")[2] if isinstance(kind, str) else ""
        origin = typing.get_origin(kind) or kind
        if name.startswith("_") or origin is ClassVar or text == "ClassVar":
            continue
        out[name] = origin is not typing.NotRequired and text != "NotRequired"
    return out


def _evaluated(annotation: object, names: dict[str, Any], own: dict[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names, own)
    except Exception:  # whatever the expression raises
        return annotation


# What the container behind answers as it is: its entries, and results that are TensorDicts.
_ANSWERS: Final = """
    _keys _get_entry _peek_entry _items _to_entry _convert _parts _save _rows
    get get_at get_non_tensor pop popitem setdefault to_tensordict to_module
    sum prod mean nansum nanmean std var amax amin argmax argmin max min all any quantile cummax cummin
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__
"""
_AS_IT_IS: Final = frozenset(_ANSWERS.split())
# What works on the instance itself: what stands above, its text, and what only calls other methods.
_METHODS: Final = """
    __init__ __getitem__ __iter__ __getattr__ __reduce__ __getstate__ __setstate__ __repr__ _repr_html_
    summary __array_function__ _lock_children to_lazystack is_shared
"""
_OWN: Final = frozenset(_METHODS.split())


def _passed_on(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that the container behind answers; what comes out is of the class again."""
    as_it_is = name in _AS_IT_IS

    @wraps(function)
    def method(self: Any, *args: object, **kwargs: object) -> Any:
        result = getattr(self._tensordict, name)(*args, **kwargs)
        return result if as_it_is or (kwargs and result is kwargs.get("out")) else self._given(result)

    return method


def _behind(name: str) -> Any:
    """An attribute of the container behind."""

    def read(self: Any) -> Any:
        return getattr(self._tensordict, name)

    def write(self: Any, value: object) -> None:
        setattr(self._tensordict, name, value)

    return property(read, write)


def _pass_on() -> None:
    """Give the class every method of a container, as one that is passed on."""
    found: dict[str, Any] = {}
    for base in reversed(TensorDict.__mro__[:-1]):
        found.update(base.__dict__)
    for name, method in found.items():
        if name not in _OWN and isinstance(method, types.FunctionType):
            setattr(TypedTensorDict, name, _passed_on(name, method))
    slots = [name for name in Container.__slots__ if name != "__weakref__"]
    for name in (*slots, "_data", "_batch_size", "_device", "batch_size", "device", "names", "is_locked"):
        setattr(TypedTensorDict, name, _behind(name))


_pass_on()
belong_to("lite", TypedTensorDict)
