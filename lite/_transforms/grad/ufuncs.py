"""From a call of NumPy to its derivative: functions by their rules, ufuncs, their methods, other dtypes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import lite._transforms.rules  # noqa: F401 - which registers them
from lite._arrays.types import Array, ArrayHolder, DtypeLike, Function, HostArray
from lite._transforms.grad.array import TracedArray, rules
from lite._transforms.grad.indexing import get_index, refresh_view, set_index, write_out
from lite._transforms.grad.running import complexes, leaf, nestings, state
from lite._transforms.grad.special import elementwise
from lite._transforms.grad.tape import (
    ComplexResult,
    holds_traced,
    lifted,
    traced_result,
    unbroadcast,
    value_of,
    values_of,
    with_node,
)
from lite._transforms.levels import innermost
from lite._transforms.registry import GRAD, ZERO_GRADIENT, NoRule, name_of, without_out
from lite._transforms.rules.ufuncs import METHODS, UFUNCS
from lite._tree.collection import TensorCollection

# Functions whose rule of gradients also holds for complex numbers, or that return them for real ones.
_COMPLEX = """
    absolute add conjugate divide multiply negative positive subtract exp log power reciprocal sqrt square
    cos cosh sin sinh tan tanh equal isfinite isinf isnan not_equal allclose angle copy imag real
    empty_like full_like ones_like zeros_like broadcast_to expand_dims flip moveaxis pad permute_dims ravel
    reshape roll squeeze swapaxes transpose concatenate hstack stack vstack array_split split take where
    cumsum diff mean sum dot einsum matmul outer tensordot
"""
_FOURIER = "fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn fftshift ifftshift"
COMPLEX = frozenset(
    [*(getattr(np, name) for name in _COMPLEX.split()), *(getattr(np.fft, name) for name in _FOURIER.split())]
)

_DERIVATIVES = {
    ufunc: row.derivatives for ufunc, row in UFUNCS.items() if row.derivatives and ufunc not in GRAD.rules
}
_UNARY = {ufunc: given[0] for ufunc, given in _DERIVATIVES.items() if ufunc.nin == 1}
_BINARY = {ufunc: given for ufunc, given in _DERIVATIVES.items() if ufunc.nin == 2}


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`getattr(ufunc, method)(*inputs, **kwargs)` with traced arrays among the arguments."""
    for x in inputs:
        kind = type(x)
        if kind is TracedArray or kind is np.ndarray or kind is float or kind is int:
            continue
        if isinstance(x, TensorCollection):
            return NotImplemented
        if isinstance(x, HostArray) and type(innermost((inputs, kwargs))) is not TracedArray:
            return NotImplemented
        if isinstance(x, ArrayHolder) or (isinstance(x, list | tuple) and method == "__call__"):
            return call_ufunc(ufunc, method, tuple(map(_as_operand, inputs)), kwargs)
    if nestings[0]:
        level = innermost((inputs, kwargs)).level
        inputs = lifted(inputs, level)
        kwargs = {key: x if key == "out" else lifted(x, level) for key, x in kwargs.items()}
    if complexes[0] and (ufunc not in COMPLEX or (method != "__call__" and ufunc is not np.add)):
        _require_real(ufunc, inputs)
    if method != "__call__":
        return _call_method(ufunc, method, inputs, kwargs)
    if not kwargs:
        try:
            return _call(ufunc, inputs)
        except ComplexResult:
            return _for_complex(ufunc, _call, ufunc, inputs)
    out = kwargs.pop("out", None)
    if "where" in kwargs and kwargs["where"] is not True:
        return _call_where(ufunc, inputs, kwargs, out)
    for name in ("order", "subok", "casting", "where"):
        kwargs.pop(name, None)
    dtype = kwargs.pop("dtype", None)
    if dtype is not None:
        inputs = tuple([x.astype(dtype) if hasattr(x, "astype") else np.asarray(x, dtype) for x in inputs])
    # Perhaps only `out` is traced.
    traced = holds_traced(inputs)
    result = _for_complex(ufunc, _call, ufunc, inputs, kwargs) if traced else ufunc(*inputs, **kwargs)
    return result if out is None else write_results(ufunc, inputs, out, result)


def _as_operand(x: object) -> Any:
    if isinstance(x, list | tuple):
        return np.asarray(x)
    return leaf(x) if isinstance(x, ArrayHolder) else x


def write_results(ufunc: np.ufunc, inputs: Any, out: tuple[Any, ...], result: Any) -> Any:
    """Write results into the `out` of a ufunc; what an in-place operator gives is what it was called for."""
    if len(out) == 1:
        target = out[0]
        value = target.value if target is inputs[0] and type(target) is TracedArray else None
        if isinstance(value, np.generic) or getattr(value, "is_number", False):
            return result  # as with NumPy's scalars, which are not written to
        write_out(target, result, "same_kind", name_of(ufunc))
        return target
    for target, value in zip(out, result, strict=True):
        if target is not None:
            write_out(target, value, "same_kind", name_of(ufunc))
    return tuple(value if target is None else target for target, value in zip(out, result, strict=True))


def _require_real(function: Function, *items: Any) -> None:
    """Raise for complex numbers among the arguments of a function whose rule is not for them."""
    if _has_complex(items):
        raise no_gradient(name_of(function), str(ComplexResult()))


def _has_complex(items: Any) -> bool:
    if isinstance(items, list | tuple | dict):
        return any(map(_has_complex, items.values() if isinstance(items, dict) else items))
    return getattr(getattr(items, "dtype", None), "kind", "") == "c"


def _for_complex(function: Function, call: Function, *args: Any, **kwargs: Any) -> Any:
    """`call` where complex numbers may come of real ones, if the rule of the function is for them."""
    before, state.for_complex = state.for_complex, function in COMPLEX
    try:
        return call(*args, **kwargs)
    except ComplexResult as error:
        raise no_gradient(name_of(function), str(error)) from None
    finally:
        state.for_complex = before


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
    count = len(inputs)
    if count == 2:
        pair = _BINARY.get(ufunc)
        if pair is not None and not kwargs:
            return _pair(ufunc, pair, *inputs)
    elif count == 1:
        derivative = _UNARY.get(ufunc)
        if derivative is not None and not kwargs:
            x = inputs[0].value
            y = ufunc(x)
            return with_node(y, (inputs[0], lambda g: g * derivative(x, y)))
    rule = GRAD.rules.get(ufunc)
    if rule is not None:
        try:
            return rule(*inputs, **(kwargs or {}))
        except NoRule as error:
            raise no_gradient(name_of(ufunc), str(error)) from None
    if ufunc in ZERO_GRADIENT:
        return ufunc(*map(value_of, inputs), **values_of(kwargs or {}))
    raise no_gradient(name_of(ufunc))


def _pair(ufunc: np.ufunc, derivatives: tuple[Callable[..., Any], ...], a: Any, b: Any) -> Array:
    """A ufunc of two arrays, at least one of them traced."""
    first, second = derivatives
    left = a.value if type(a) is TracedArray else a
    right = b.value if type(b) is TracedArray else b
    out = y = ufunc(left, right)
    shape = y.shape
    parents = []
    level = None
    if type(a) is TracedArray:
        level = a.level
        if a.node is not None:
            if left.shape == shape:
                parents.append((a.node, lambda g: first(g, left, right, y)))
            else:
                own = left.shape
                parents.append((a.node, lambda g: unbroadcast(first(g, left, right, y), own)))
    if type(b) is TracedArray:
        if level is not None and level != b.level:
            return _pair(ufunc, derivatives, *lifted((a, b), max(a.level, b.level)))
        level = b.level
        if b.node is not None:
            if right.shape == shape:
                parents.append((b.node, lambda g: second(g, left, right, y)))
            else:
                other = right.shape
                parents.append((b.node, lambda g: unbroadcast(second(g, left, right, y), other)))
    # What the derivatives do not read is not kept until the backward pass.
    if ufunc is np.add or ufunc is np.subtract:
        left = right = y = None
    elif ufunc is np.multiply:
        y = None
        if type(a) is not TracedArray or a.node is None:
            right = None
        elif type(b) is not TracedArray or b.node is None:
            left = None
    return traced_result(out, parents, level)


_NUMBERS = frozenset((TracedArray, np.ndarray, float, int))


def binary(ufunc: np.ufunc, a: ArrayLike, b: ArrayLike) -> Array:
    """An operator of two numbers; a traced array stands on at least one side."""
    if type(a) in _NUMBERS and type(b) in _NUMBERS:
        try:
            return _pair(ufunc, _BINARY[ufunc], a, b)
        except ComplexResult:
            return _for_complex(ufunc, _pair, ufunc, _BINARY[ufunc], a, b)
    return ufunc(a, b)


def no_gradient(name: str, reason: str = "") -> NotImplementedError:
    """The error for a function without a rule of gradients."""
    return NotImplementedError(
        f"no gradient through {name}: {reason or 'there is no rule for it'}. Write it with other functions, "
        "give its derivative with lite.custom_vjp, or detach the array (x.detach()) if it is to count as a "
        "constant."
    )


def _call_where(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """A ufunc with `where`: elsewhere the result has what `out` holds."""
    if out is None or len(out) != 1:
        raise no_gradient(
            name_of(ufunc), "with where it needs out, as elsewhere the result would be random memory"
        )
    where = values_of(kwargs.pop("where"))
    (target,) = out
    with np.errstate(all="ignore"):  # the numbers that are not asked for
        result = ufunc(*inputs, **kwargs)
    write_out(target, np.where(where, result, target), "same_kind", name_of(ufunc))
    return target


def _running_extreme(ufunc: np.ufunc, a: ArrayLike, axis: int = 0, dtype: DtypeLike = None) -> Array:
    """`ufunc.accumulate` for the largest or smallest so far: each is an element, the latest of equal ones."""
    if dtype is not None:
        raise NoRule
    held = value_of(a)
    best = ufunc.accumulate(held, axis)
    steps = np.arange(held.shape[axis]).reshape((-1,) + (1,) * (held.ndim - axis % held.ndim - 1))
    found = np.where((held == best) | np.isnan(held), steps, 0)
    return np.take_along_axis(a, np.maximum.accumulate(found, axis), axis)


def _log_sum_exp(a: ArrayLike, axis: Any = 0, dtype: DtypeLike = None, keepdims: bool = False) -> Array:
    """`numpy.logaddexp.reduce`."""
    if dtype is not None:
        raise NoRule
    held = value_of(a)
    kept = np.logaddexp.reduce(held, axis=axis, keepdims=True)
    value = kept if keepdims else np.squeeze(kept, axis)

    def vjp(g: Array) -> Array:
        # Nothing has a share in a sum of zeros.
        return g.reshape(kept.shape) * np.exp(held - np.where(kept == -np.inf, 0, kept))

    return with_node(value, (a, vjp))


_METHODS: dict[tuple[np.ufunc, str], Function] = {
    **METHODS,
    (np.logaddexp, "reduce"): _log_sum_exp,
    (np.maximum, "accumulate"): partial(_running_extreme, np.maximum),
    (np.minimum, "accumulate"): partial(_running_extreme, np.minimum),
}


def _call_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if method == "at":
        return _at(ufunc, *inputs)
    out = kwargs.pop("out", None)
    function = _METHODS.get((ufunc, method))
    if function is not None:
        result = function(*inputs, **{"axis": 0, **kwargs} if len(inputs) == 1 else kwargs)
    elif method == "outer":
        a, b = inputs
        a = a if hasattr(a, "shape") else np.asarray(a)
        result = ufunc(a[(..., *[None] * np.ndim(b))], b, **kwargs)
    elif ufunc in ZERO_GRADIENT:
        result = getattr(ufunc, method)(*values_of(inputs), **values_of(kwargs))
    else:
        raise no_gradient(f"{name_of(ufunc)}.{method}")
    if out is None:
        return result
    write_out(out[0], result, "same_kind", name_of(ufunc))
    return out[0]


def _at(ufunc: np.ufunc, a: Any, indices: Array, *b: Any) -> None:
    before = value_of(a)
    value, shape = before.copy(), np.shape(b[0])
    ufunc.at(value, indices, value_of(b[0]))
    if ufunc in (np.maximum, np.minimum):
        result = _with_extremes(value, before, a, indices, b[0])
    elif ufunc in (np.add, np.subtract):
        sign = 1 if ufunc is np.add else -1
        result = with_node(value, (a, lambda g: g), (b[0], lambda g: unbroadcast(sign * g[indices], shape)))
    else:
        raise no_gradient(f"{name_of(ufunc)}.at")
    write_out(a, result, "unsafe", f"{name_of(ufunc)}.at")


def _with_extremes(value: Array, before: Array, a: Any, indices: Array, b: Any) -> Array:
    """The largest or smallest of what stood and came at each place: equal ones share the derivative."""
    shape = np.shape(b)
    stood, came = before == value, value_of(b) == value[indices]
    count = stood.astype(value.dtype)
    np.add.at(count, indices, came.astype(value.dtype))
    return with_node(
        value,
        (a, lambda g: np.where(stood, g / count, 0)),
        (b, lambda g: unbroadcast(np.where(came, (g / count)[indices], 0), shape)),
    )


def same(value: Array, x: TracedArray) -> Any:
    """A copy or cast of `x`, to which the derivative goes back as it is."""
    return _for_complex(np.copy, with_node, value, (x, lambda g: g))


def call_function(func: Function, args: Any, kwargs: Any) -> Any:
    """Call a function on arguments with traced arrays, by its rule. The result is copied into `out`."""
    rule = GRAD.rules.get(func)
    if complexes[0] and func not in COMPLEX and func not in ZERO_GRADIENT:
        _require_real(func, args, kwargs)
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
        try:
            result = rule(*args, **kwargs)
        except ComplexResult:
            result = _for_complex(func, rule, *args, **kwargs)
    except NoRule as error:
        raise no_gradient(name_of(func), str(error) or "its rule is not for these arguments") from None
    target = out[0] if isinstance(out, tuple) else out  # of one result: ufuncs are not called here
    if target is None:
        return result
    write_out(target, result, "unsafe", name_of(func))
    return target


rules.ufunc = call_ufunc
rules.function = call_function
rules.get_index = get_index
rules.refresh_view = refresh_view
rules.set_index = set_index
rules.binary = binary
rules.same = same
rules.elementwise = elementwise
