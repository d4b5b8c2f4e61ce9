"""Calls of modules with arrays of JAX.

`forward` is written with NumPy's functions. So the outermost call wraps JAX arrays in `NamespaceArray`s, and
unwraps those in the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import dtype, ndarray

from lite._arrays.device import wrap
from lite._arrays.foreign import class_name
from lite._arrays.namespace import NamespaceArray
from lite._arrays.types import has_namespace


def call_wrapped(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`forward(*args, **kwargs)` with arrays of JAX wrapped in `NamespaceArray`s.

    A nested call gets and returns wrapped arrays.
    """
    nested, wrapped = False, []
    for arg in (*args, *kwargs.values()):
        nested = nested or _is_wrapped(arg)
        wrapped.append(_wrapped(arg))
    count = len(args)
    try:
        out = forward(*wrapped[:count], **dict(zip(kwargs, wrapped[count:], strict=True)))
    except AttributeError as error:
        _require_arrays(error, wrapped)
        raise
    return out if nested else unwrap_result(out)


def _require_arrays(error: AttributeError, args: list[Any]) -> None:
    """Raise TypeError if `error` comes from an argument that is not an array, such as a list.

    That is so if the missing attribute is one of arrays or dtypes, and the object without it is an argument.
    """
    name = error.name or ""
    if not hasattr(ndarray, name) and not hasattr(dtype, name):
        return
    for arg in args:
        kind = "list" if isinstance(arg, list) else class_name(arg)  # also what an entry of objects gives
        # Not for objects of the user's classes, which a forward may take.
        is_library = "." in kind or kind == "list" or type(arg).__module__ == "builtins"
        if is_library and (error.obj is arg or error.obj is getattr(arg, "dtype", error)):
            raise TypeError(f"the input must be an array (np.asarray), got {kind}.") from error


def unwrap_result(out: Any) -> Any:
    """A result with all `NamespaceArray`s unwrapped, also in tuples and lists."""
    if isinstance(out, NamespaceArray):
        return out.leaf
    if type(out) is tuple or type(out) is list:
        return type(out)(map(unwrap_result, out))
    return out


def _is_wrapped(arg: Any) -> bool:
    """Whether an argument is a `NamespaceArray`, or has one in tuples and lists."""
    if type(arg) is tuple or type(arg) is list:
        return any(map(_is_wrapped, arg))
    return isinstance(arg, NamespaceArray)


def _wrapped(arg: Any) -> Any:
    """An argument with all arrays of JAX wrapped, also in tuples and lists."""
    if has_namespace(arg):
        return wrap(arg)
    if type(arg) is tuple or type(arg) is list:
        return type(arg)(map(_wrapped, arg))
    return arg
