"""Methods of TensorDicts on non-tensor data, generated from those of TensorDict.

Non-tensor data has a batch but no keys. Methods for keys (`keys`, `select`, `pop`, `state_dict` ...), names
and the lock are called on a TensorDict of the same batch size without entries. All other methods are called
on a TensorDict with the data as its only entry, and the entry of the result is returned.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from lite._tree.methods import LazyMethod, set_lazily
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import Container, class_registry

_KEY = "data"

# Modules of operations on keys and on properties of the batch. They are called without the entry.
_ABOUT_KEYS = frozenset(f"lite._ops.{name}" for name in ("access", "structure", "entries", "update"))
_ABOUT_KEYS |= {"lite._convert.state_dict", "lite._tree.lock", "lite._tree.names"}
_ABOUT_BATCH = frozenset({"is_memmap", "is_consolidated", "clear_device_"})
# Methods that write files take non-tensor data directly.
_WRITES_FILES = frozenset({"memmap", "memmap_", "memmap_like", "save"})
# Methods that non-tensor data does not get: they create entries, or convert between containers.
_CREATE = "make_memmap make_memmap_from_tensor memmap_refresh_ to_module auto_batch_size_ from_dict_instance"
_OF_CONTAINERS = frozenset(_CREATE.split())
_CLASS_METHODS = frozenset({"stack", "cat", "lazy_stack", "maybe_dense_stack", "load", "load_memmap"})


def _node(data: NonTensorBase) -> Any:
    """A TensorDict without entries that has the batch size, device, names and lock."""
    if data._about is None:
        data._about = class_registry.dense._make({}, data._batch_size, None)
    return data._about


def _holder(data: NonTensorBase) -> Any:
    """A TensorDict like `_node` with the data as its only entry."""
    about = data._about
    holder = class_registry.dense._make({_KEY: data}, data._batch_size, None)
    if about is not None:
        holder._device, holder._names, holder._locked = about._device, about._names, about._locked
    return holder


def _to_holder(value: object) -> Any:
    return _holder(value) if isinstance(value, NonTensorBase) else value


def _entry_of_result(data: NonTensorBase, holder: Container, result: Any) -> Any:
    """The entry of a result of a method. The result is the holder itself if the method worked in place."""
    if isinstance(result, tuple | list):
        return _like(result, [_entry_of_result(data, holder, item) for item in result])
    entry = result._get_entry(_KEY) if isinstance(result, Container) else None
    if not isinstance(entry, NonTensorBase):
        return result if entry is None else entry
    if result is holder:
        return data if entry is data else data._replace_inplace(entry, "an operation")
    if entry is data:
        entry = data._clone(False)
    names = result._names
    if result.device is not None or names is not None or result.is_locked:
        entry._about = class_registry.dense._make({}, entry._batch_size, result.device, names)
        entry._about._locked = result.is_locked
    return entry


def _through_holder(name: str) -> Callable[..., Any]:
    def call(data: NonTensorBase, *args: object, **kwargs: object) -> Any:
        holder = _holder(data)
        method = getattr(holder, name)
        given = {key: _to_holder(value) for key, value in kwargs.items()}
        return _entry_of_result(data, holder, method(*map(_to_holder, args), **given))

    return call


def _through_node(name: str) -> Callable[..., Any]:
    def call(data: NonTensorBase, *args: object, **kwargs: object) -> Any:
        node = _node(data)
        result = getattr(node, name)(*args, **kwargs)
        if node._data:
            node._data = {}
            raise KeyError(f"{type(data).__name__}.{name}: non-tensor data has no keys to set.")
        return data if result is node else _with_objects(data, result)

    return call


def _with_objects(data: NonTensorBase, result: object) -> Any:
    """Replace each container without entries in a result by the data."""
    if isinstance(result, tuple | list):
        return _like(result, [_with_objects(data, item) for item in result])
    if not isinstance(result, Container):
        return result
    if list(result._keys()):
        raise KeyError(f"{type(data).__name__} has no keys to set, got {list(result._keys())}.")
    out = data._clone(False)
    out._about = result
    return out


def _like(sequence: Any, items: list[Any]) -> Any:
    """A list, tuple or named tuple of the same class with other items."""
    return type(sequence)(*items) if hasattr(sequence, "_fields") else type(sequence)(items)


def _to_files(write: Callable[..., Any]) -> Callable[..., Any]:
    def call(data: NonTensorBase, *args: object, **kwargs: object) -> Any:
        # Self is locked like the result if it is the result.
        return write(data if write.__name__ == "memmap_" else data._clone(False), *args, **kwargs)

    return call


def load_memmap_(data: Any, prefix: object, robust_key: bool | None = True, **options: object) -> Any:
    """Load the object(s) that `memmap` wrote, also if self is locked; returns self.

    See `TensorDict.load_memmap_`.
    """
    found = class_registry.dense.load_memmap(prefix, robust_key=robust_key, **options)
    locked = data._about is not None and data._about.is_locked
    if locked:
        data.unlock_()
    try:
        return data.update(found)
    finally:
        if locked:
            data.lock_()


def _property(name: str, on_container: property) -> property:
    def read(data: NonTensorBase) -> Any:
        return getattr(_node(data), name)

    def write(data: NonTensorBase, value: object) -> None:
        setattr(_node(data), name, value)

    return property(read, write if on_container.fset is not None else None, doc=on_container.__doc__)


def _member_for(name: str, member: object) -> Any:
    """The attribute of non-tensor data that corresponds to one of TensorDict; None if there is none."""
    if isinstance(member, property):
        return _property(name, member)
    if isinstance(member, classmethod):
        return staticmethod(getattr(class_registry.dense, name)) if name in _CLASS_METHODS else None
    if isinstance(member, LazyMethod):
        member = member.make()
    if not inspect.isfunction(member):
        return None
    if member.__name__ in _WRITES_FILES:
        return wraps(member)(_to_files(member))
    about = member.__module__ in _ABOUT_KEYS or name in _ABOUT_BATCH
    return wraps(member)((_through_node if about else _through_holder)(name))


def _add(name: str, member: Any) -> None:
    """Add the attribute for one of TensorDict, if there is one: at once if that costs little, else lazily."""
    function = getattr(member, "__func__", member)
    # 300 forms of functions: 0.2 instead of 0.8 ms of `import lite`
    if inspect.isfunction(member) or isinstance(function, LazyMethod):
        if member is function or name in _CLASS_METHODS:
            set_lazily(NonTensorBase, name, lambda: _member_for(name, member))
    elif (form := _member_for(name, member)) is not None:
        setattr(NonTensorBase, name, form)


def add_methods() -> None:
    """Add the public methods and operators of TensorDict that non-tensor data does not define itself."""
    NonTensorBase._node = _node  # type: ignore[assignment]
    NonTensorBase.load_memmap_ = NonTensorBase.load_ = load_memmap_  # type: ignore[attr-defined]
    own = set(dir(NonTensorBase))
    for base in class_registry.dense.__mro__:
        for name, member in vars(base).items():
            operator = name.startswith("__") and getattr(member, "__module__", "") == "lite._ops.pointwise"
            shown = operator or not name.startswith("_")
            if shown and name not in _OF_CONTAINERS and name not in own:
                own.add(name)
                _add(name, member)
