"""dispatch: call a function of a TensorDict with plain arrays."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import Any, overload

import numpy as np

from lite._arrays.types import Path
from lite._tensordict import TensorDict
from lite._tree.collection import TensorCollection
from lite._tree.keys import NestedKey, require_path
from lite._tree.nontensor import NonTensorBase, unwrap

_Function = Callable[..., Any]
_enabled: ContextVar[bool] = ContextVar(
    "lite.nn.dispatch",
    default=os.environ.get("DISPATCH_TDNN_MODULES", "1").lower() not in ("0", "false", "no", "off"),
)


class _set_dispatch_td_nn_modules:
    """Switch `dispatch` on or off inside a `with` block or a decorated function."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        self._tokens.append(_enabled.set(self.mode))

    def __exit__(self, *exc: object) -> None:
        _enabled.reset(self._tokens.pop())

    def __call__(self, func: _Function) -> _Function:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return wrapper


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
    if not _enabled.get():
        return func
    build = _Builder(separator, auto_batch_size)

    @functools.wraps(func)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            td = args[0]
            if type(td) is TensorDict or isinstance(td, TensorCollection):
                return func(self, *args, **kwargs)
        elif isinstance(kwargs.get("tensordict"), TensorCollection):
            return func(self, **kwargs)
        if not _enabled.get():
            return func(self, *args, **kwargs)
        keys = getattr(self, source) if isinstance(source, str) else source
        td, args = build(keys, args, kwargs)
        out = func(self, td, *args, **kwargs)
        return outputs_of(out, getattr(self, dest) if isinstance(dest, str) else dest)

    @functools.wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        if (args and isinstance(args[0], TensorCollection)) or not _enabled.get():
            return func(*args, **kwargs)
        if isinstance(kwargs.get("tensordict"), TensorCollection):
            return func(**kwargs)
        if isinstance(source, str) or isinstance(dest, str):
            raise RuntimeError(
                "The in keys must be passed to dispatch when func is not a method but a function: "
                "dispatch(source=[...], dest=[...])."
            )
        td, args = build(source, args, kwargs)
        return outputs_of(func(td, *args, **kwargs), dest)

    return method if is_method else function


class _Builder:
    """Builds the temporary TensorDict, remembering the names of each list of keys."""

    def __init__(self, separator: str, auto_batch_size: bool) -> None:
        self.separator = separator
        self.auto_batch_size = auto_batch_size
        self._names: dict[tuple[Any, ...], list[tuple[Path, str]]] = {}

    def __call__(self, keys: Sequence[Any], args: Any, kwargs: dict[str, Any]) -> tuple[TensorDict, Any]:
        """The TensorDict of the given entries, and the positional arguments left; takes from `kwargs`."""
        identity = tuple(keys)
        names = self._names.get(identity)
        if names is None:
            paths = [require_path(key) for key in keys]
            names = self._names[identity] = [(path, self.separator.join(path)) for path in paths]
        td = TensorDict._make({}, ())
        given = len(args)
        for index, (path, name) in enumerate(names):
            if index < given:
                if name in kwargs:
                    raise RuntimeError(
                        f"Duplicated argument in args and kwargs: '{name}' is also positional {index}."
                    )
                value = args[index]
            elif name in kwargs:
                value = kwargs.pop(name)
            else:
                continue
            td._set_path(path, value, False)
        if self.auto_batch_size:
            td.auto_batch_size_()
        return td, args[len(names) :]


def outputs_of(out: Any, dest: Sequence[Any]) -> Any:
    """What a dispatched call returns: the value under the only key, or a tuple of values."""
    if type(out) is TensorDict:
        data = out._data
        found = []
        for key in dest:
            entry = data.get(key)
            if type(entry) is not np.ndarray:
                break
            found.append(entry)
        else:
            return found[0] if len(found) == 1 else tuple(found)
    node = TensorDict._as_node(out)
    values = []
    for key in dest:
        if key == "_":
            continue
        entry = node._get_str(key) if type(key) is str else node._get_path(require_path(key))
        if entry is None:
            raise node._missing(require_path(key))
        values.append(unwrap(entry) if isinstance(entry, NonTensorBase) else entry)
    return values[0] if len(values) == 1 else tuple(values)
