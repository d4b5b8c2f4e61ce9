"""Reading a callable's signature: which direction of a dict of in_keys it accepts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lite.nn._modules.module import Module


def split_key_map(
    in_keys: Mapping[Any, Any], out_to_in_map: bool | None, function: Callable[..., Any] | None
) -> tuple[list[Any], list[Any]]:
    """Read a dict of in_keys as (keys of the TensorDict, names of keyword arguments).

    `out_to_in_map=True` means {argument: key}, False means {key: argument}. With None the signature
    of `function` decides if it accepts the names of one direction only; otherwise {key: argument}.
    """
    first, second = list(in_keys), list(in_keys.values())
    if out_to_in_map is None:
        out_to_in_map = accepts(function, first) and not accepts(function, second)
    return (second, first) if out_to_in_map else (first, second)


def accepts(function: Callable[..., Any] | None, names: Iterable[Any]) -> bool:
    """Whether `function` can be called with these keyword arguments; False if that cannot be known."""
    target = function.forward if isinstance(function, Module) else function
    if target is None or not all(isinstance(name, str) for name in names):
        return False
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):
        return False
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return True
    return all(name in parameters and parameters[name].kind in by_name for name in names)
