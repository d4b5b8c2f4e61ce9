"""Dispatch of NumPy's functions on traced arrays to the rules of their derivatives."""

from __future__ import annotations

from typing import Any

import lite._transforms.rules  # noqa: F401 - which registers them
from lite._arrays.types import Function
from lite._transforms.grad.array import rules
from lite._transforms.grad.indexing import get_index, look, set_index, write
from lite._transforms.grad.running import nestings
from lite._transforms.grad.special import elementwise
from lite._transforms.grad.tape import lifted, values_of
from lite._transforms.grad.ufuncs import binary, call_ufunc, no_gradient, same
from lite._transforms.levels import innermost
from lite._transforms.registry import GRAD, ZERO_GRADIENT, NoRule, name_of, without_out


def call_function(func: Function, args: Any, kwargs: Any) -> Any:
    """Call a function on arguments with traced arrays, by its rule. The result is copied into `out`."""
    rule = GRAD.rules.get(func)
    if rule is None:
        if func not in ZERO_GRADIENT:
            raise no_gradient(name_of(func))
        return func(*values_of(args), **values_of(kwargs))
    if nestings[0]:
        level = innermost((args, kwargs)).level
    args, kwargs, out = without_out(func, args, kwargs)
    if nestings[0]:
        args, kwargs = lifted((args, kwargs), level)
    try:
        result = rule(*args, **kwargs)
    except NoRule as error:
        raise no_gradient(name_of(func), str(error)) from None
    target = out[0] if isinstance(out, tuple) else out  # of one result: ufuncs are not called here
    if target is None:
        return result
    write(target, result, "unsafe", name_of(func))
    return target


rules.ufunc = call_ufunc
rules.function = call_function
rules.get_index = get_index
rules.look = look
rules.set_index = set_index
rules.binary = binary
rules.same = same
rules.elementwise = elementwise
