"""dispatch: call a function of a TensorDict with plain arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, overload

from numpy import ndarray

from lite import NestedKey, TensorDict
from lite._tree.collection import TensorCollection
from lite._tree.keys import require_path
from lite._tree.nontensor import NonTensorBase, unwrap
from lite._tree.protocol import MISSING, missing_key
from lite.nn.settings import dispatching

_Function = Callable[..., Any]


@overload
def dispatch(separator: _Function) -> _Function: ...
@overload
def dispatch(
    separator: str = "_",
    source: str | Sequence[NestedKey] = "in_keys",
    dest: str | Sequence[NestedKey] = "out_keys",
    auto_batch_size: bool = True,
) -> Callable[[_Function], _Function]: ...
def dispatch(
    separator: str | _Function = "_",
    source: str | Sequence[NestedKey] = "in_keys",
    dest: str | Sequence[NestedKey] = "out_keys",
    auto_batch_size: bool = True,
) -> Any:
    """Let a function that takes a TensorDict be called with its entries instead.

    Called with a TensorDict, the function runs as written. Otherwise the positional arguments are
    taken in the order of the source keys, keyword arguments by the key's name (the parts of a nested
    key joined by `separator`), and the result is the value under the only dest key, or a tuple of
    the values in dest order. What is left of the arguments goes on to the function.

    Args:
        separator: joins the parts of a nested key to the name of a keyword.
        source: keys to build the TensorDict from, or the attribute of the method's object that lists
            them. A plain function needs a list.
        dest: keys to return, or the attribute that lists them; read at each call. "_" is skipped.
        auto_batch_size: give the TensorDict the longest leading shape its entries share, else `()`.

    Raises:
        RuntimeError: when decorating, if the first argument (after self) is not called `tensordict`;
            when calling, if an entry is given twice, or a plain function has no list of keys.
        KeyError: if the function did not write a dest key.

    Example:
        >>> from lite.nn import dispatch
        >>> @dispatch(source=["a", ("b", "c")], dest=["d"])
        ... def add(tensordict):
        ...     return tensordict.set("d", tensordict["a"] + tensordict["b", "c"])
        >>> int(add(1, b_c=2))
        3
    """
    if callable(separator):
        return _decorate(separator, "_", source, dest, auto_batch_size)

    def decorator(func: _Function) -> _Function:
        return _decorate(func, separator, source, dest, auto_batch_size)

    return decorator


def _decorate(func: _Function, separator: str, source: Any, dest: Any, auto_batch_size: bool) -> _Function:
    names = list(inspect.signature(func).parameters)
    is_method = names[:1] == ["self"]
    first = names[1:2] if is_method else names[:1]
    if first and first != ["tensordict"]:
        raise RuntimeError(
            f"the first argument of the wrapped function must be named 'tensordict'. Got {first[0]} instead."
        )
    if not dispatching():
        return func

    @functools.wraps(func)
    def method(self: Any, tensordict: Any = MISSING, /, *args: Any, **kwargs: Any) -> Any:
        if type(tensordict) is TensorDict and not args and not kwargs:
            return func(self, tensordict)  # a third of the time of passing on whatever there is
        if tensordict is MISSING:
            given = kwargs.get("tensordict")
        else:
            given, args = tensordict, (tensordict, *args)
        if isinstance(given, TensorCollection) or not dispatching():
            return func(self, *args, **kwargs)
        keys = getattr(self, source) if isinstance(source, str) else source
        td = _packed(keys, args, kwargs, separator)
        if auto_batch_size:
            td.auto_batch_size_()
        if kwargs or len(args) > len(keys):
            out = func(self, td, *args[len(keys) :], **kwargs)
        else:
            out = func(self, td)
        return _outputs(out, getattr(self, dest) if isinstance(dest, str) else dest)

    @functools.wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        if (args and isinstance(args[0], TensorCollection)) or not dispatching():
            return func(*args, **kwargs)
        if "tensordict" in kwargs and isinstance(kwargs["tensordict"], TensorCollection):
            return func(**kwargs)
        if isinstance(source, str) or isinstance(dest, str):
            raise RuntimeError(
                "The in keys must be passed to dispatch when func is not a method but a function: "
                "dispatch(source=[...], dest=[...])."
            )
        td = _packed(source, args, kwargs, separator)
        if auto_batch_size:
            td.auto_batch_size_()
        return _outputs(func(td, *args[len(source) :], **kwargs), dest)

    return method if is_method else function


def _packed(keys: Sequence[Any], args: Any, kwargs: dict[str, Any], separator: str) -> TensorDict:
    """The TensorDict of the given entries; takes those by name from `kwargs`."""
    td = TensorDict._make({}, ())
    for index, key in enumerate(keys):
        path = None if type(key) is str else require_path(key)
        name = key if path is None else separator.join(path)
        if name in kwargs:
            if index < len(args):
                raise RuntimeError(f"Duplicated argument in args and kwargs: '{name}' (also {index}).")
            value = kwargs.pop(name)
        elif index < len(args):
            value = args[index]
        else:
            continue
        if path is None:
            td._set_here(key, value, False)
        else:
            td._set_path(path, value, False)
    return td


def _outputs(out: Any, dest: Sequence[Any]) -> Any:
    """The result of a dispatched call: the value under the only key, or a tuple of values."""
    node = out if type(out) is TensorDict else TensorDict._as_node(out)
    own = node._data
    values = []
    for key in dest:
        if key == "_":
            continue
        entry = own.get(key) if type(key) is str else None
        if type(entry) is not ndarray:  # an array is read without `get`, in three fifths of the time
            entry = node.get(key, None)
            if entry is None:
                raise missing_key(node, require_path(key))
            if isinstance(entry, NonTensorBase):
                entry = unwrap(entry)
        values.append(entry)
    return values[0] if len(values) == 1 else tuple(values)
