"""From a call of a NumPy function to its derivative's rule."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

import numpy as np

# Each of these modules registers its rules.
import lite._transforms.grad.choosing
import lite._transforms.grad.creation
import lite._transforms.grad.elementwise
import lite._transforms.grad.joining
import lite._transforms.grad.linalg
import lite._transforms.grad.products
import lite._transforms.grad.reductions
import lite._transforms.grad.scans
import lite._transforms.grad.shapes
import lite._transforms.grad.sorting  # noqa: F401
from lite._transforms.grad.array import rules
from lite._transforms.grad.indexing import get_index, look, set_index, write
from lite._transforms.grad.rules import FLAT, RULES
from lite._transforms.grad.special import elementwise
from lite._transforms.grad.tape import values_of
from lite._transforms.grad.ufuncs import astype, binary, call_ufunc, copy
from lite._transforms.registry import NoRule, name_of


def call_function(func: Any, args: Any, kwargs: Any) -> Any:
    """Run a function whose arguments contain traced arrays; `out` is written afterwards."""
    rule = RULES.get(func)
    if rule is None:
        if func not in FLAT:
            raise no_rule(func)
        return func(*values_of(args), **values_of(kwargs))
    args, kwargs, out = _without_out(func, args, kwargs)
    try:
        result = rule(*args, **kwargs)
    except NoRule as error:
        raise no_rule(func, error) from None
    if out is None:
        return result
    if not isinstance(out, tuple):
        write(out, result)
        return out
    for target, value in zip(out, result if isinstance(result, tuple) else (result,), strict=True):
        if target is not None:
            write(target, value)
    return out[0] if len(out) == 1 else out


def _without_out(func: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    if kwargs:
        out = kwargs.get("out")
        if out is not None:
            return args, {key: value for key, value in kwargs.items() if key != "out"}, out
    if len(args) > 1:
        at = _place_of_out(func)
        if at < len(args) and args[at] is not None:
            return (*args[:at], None, *args[at + 1 :]), kwargs, args[at]
    return args, kwargs, None


@functools.cache
def _place_of_out(func: Any) -> int:
    """The position at which a function takes `out`; out of reach where it has to be named."""
    try:
        found = inspect.signature(func).parameters.values()
    except ValueError:  # functions in C tell their parameters from NumPy 2.4 on
        return 2 if func in (np.concatenate, np.dot) else sys.maxsize
    by_position = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return by_position.index("out") if "out" in by_position else sys.maxsize


def no_rule(func: Any, error: Exception | None = None) -> NotImplementedError:
    """The error for a function whose derivative is not known here."""
    reason = str(error) if error is not None and str(error) else "there is no rule for it"
    return NotImplementedError(
        f"no gradient through {name_of(func)}: {reason}. Write it with other functions, give its "
        "derivative with lite.custom_vjp, or detach the array (x.detach()) if it is to count as a constant."
    )


rules.ufunc = call_ufunc
rules.function = call_function
rules.get_index = get_index
rules.look = look
rules.set_index = set_index
rules.astype = astype
rules.binary = binary
rules.copy = copy
rules.elementwise = elementwise
