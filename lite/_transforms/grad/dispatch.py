"""From a call of a NumPy function to its derivative's rule."""

from __future__ import annotations

from typing import Any

import lite._transforms.rules  # noqa: F401 - which registers them
from lite._transforms.grad.array import rules
from lite._transforms.grad.indexing import get_index, look, set_index, write
from lite._transforms.grad.special import elementwise
from lite._transforms.grad.tape import values_of
from lite._transforms.grad.ufuncs import astype, binary, call_ufunc, copy
from lite._transforms.registry import GRAD, ZERO_GRADIENT, NoRule, name_of, without_out


def call_function(func: Any, args: Any, kwargs: Any) -> Any:
    """Run a function whose arguments contain traced arrays; `out` is written afterwards."""
    rule = GRAD.rules.get(func)
    if rule is None:
        if func not in ZERO_GRADIENT:
            raise no_rule(func)
        return func(*values_of(args), **values_of(kwargs))
    args, kwargs, out = without_out(func, args, kwargs)
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
