"""as_tensordict_module: turn a function or a method into a module by decoration."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from lite._tree.keys import NestedKey
from lite.nn.tensordict_modules.module import TensorDictModule


def as_tensordict_module(
    *, in_keys: NestedKey | list[NestedKey], out_keys: NestedKey | list[NestedKey]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function of arrays, or a method, so that it works on a TensorDict.

    A function becomes a `TensorDictModule`. A method (its first argument is called `self`) stays a
    method: each call runs with the object that it is called on.

    Args:
        in_keys: what to pass, one key or a list.
        out_keys: where the results go.

    Example:
        >>> from lite import TensorDict
        >>> from lite.nn import as_tensordict_module
        >>> @as_tensordict_module(in_keys="c", out_keys="d")
        ... def add_one(c):
        ...     return c + 1
        >>> int(add_one(TensorDict(c=1))["d"])
        2
    """

    def decorator(func: Callable[..., Any]) -> Callable[..., Any]:
        if next(iter(inspect.signature(func).parameters), None) != "self":
            return TensorDictModule(func, in_keys, out_keys)

        @functools.wraps(func)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return TensorDictModule(types.MethodType(func, self), in_keys, out_keys)(*args, **kwargs)

        return method

    return decorator
