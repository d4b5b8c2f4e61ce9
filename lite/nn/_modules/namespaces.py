"""Modules that are called with arrays of JAX, whose own library has to compute them.

`forward` is written with NumPy's functions. So the outermost call shows it such arrays as `NamespaceArray`s,
and gives back what lies behind those that come out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lite._arrays.device import wrap
from lite._arrays.namespace import NamespaceArray
from lite._arrays.types import has_namespace


def call_shown(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`forward(*args, **kwargs)`, which sees NumPy's protocols where there are arrays of JAX.

    A call from inside another one gets such arrays, and gives them back.
    """
    inner, shown = False, []
    for arg in (*args, *kwargs.values()):
        inner = inner or _is_shown(arg)
        shown.append(_shown(arg))
    given = len(args)
    out = forward(*shown[:given], **dict(zip(kwargs, shown[given:], strict=True)))
    return out if inner else without_shown(out)


def without_shown(out: Any) -> Any:
    """A result with the arrays that lie behind `NamespaceArray`s, also in tuples and lists."""
    if isinstance(out, NamespaceArray):
        return out.leaf
    if type(out) is tuple or type(out) is list:
        return type(out)(map(without_shown, out))
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
