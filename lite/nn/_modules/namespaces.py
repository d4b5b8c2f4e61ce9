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
    inner, shown = False, []
    for arg in (*args, *kwargs.values()):
        inner = inner or _is_shown(arg)
        shown.append(_shown(arg))
    given = len(args)
    try:
        out = forward(*shown[:given], **dict(zip(kwargs, shown[given:], strict=True)))
    except AttributeError as error:
        _refuse_no_array(error, shown)
        raise
    return out if inner else unwrap_result(out)


def _refuse_no_array(error: AttributeError, args: list[Any]) -> None:
    """Raise TypeError if what lacks an attribute of arrays, or of dtypes, is an argument that is no array."""
    name = error.name or ""
    if not hasattr(ndarray, name) and not hasattr(dtype, name):
        return
    for arg in args:
        kind = class_name(arg)
        is_other = "." in kind or type(arg).__module__ == "builtins"  # not an object of the user's
        if is_other and (error.obj is arg or error.obj is getattr(arg, "dtype", error)):
            raise TypeError(f"the input must be an array (np.asarray), got {kind}.") from error


def unwrap_result(out: Any) -> Any:
    """A result with all `NamespaceArray`s unwrapped, also in tuples and lists."""
    if isinstance(out, NamespaceArray):
        return out.leaf
    if type(out) is tuple or type(out) is list:
        return type(out)(map(unwrap_result, out))
    return out


def _is_shown(arg: Any) -> bool:
    if type(arg) is tuple or type(arg) is list:
        return any(map(_is_shown, arg))
    return isinstance(arg, NamespaceArray)


def _shown(arg: Any) -> Any:
    if has_namespace(arg):
        return wrap(arg)
    if type(arg) is tuple or type(arg) is list:
        return type(arg)(map(_shown, arg))
    return arg
