"""Derivatives of ufuncs, of their methods, and of changes of the dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lite._arrays.types import ArrayHolder, HostArray, Shape
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.indexing import write
from lite._transforms.grad.rules import FLAT, RULES, flat, rule
from lite._transforms.grad.running import leaf
from lite._transforms.grad.scans import running_extreme
from lite._transforms.grad.tape import mixed, noted, record, unbroadcast, value_of, values_of
from lite._transforms.levels import innermost
from lite._transforms.registry import NoRule, name_of
from lite._tree.collection import TensorCollection

# Of one number: from the argument and the result to the derivative, a factor.
_UNARY: dict[Any, Callable[[Any, Any], Any]] = {
    np.exp: lambda x, y: y,
    np.exp2: lambda x, y: y * math.log(2.0),
    np.expm1: lambda x, y: np.exp(x),
    np.log: lambda x, y: 1 / x,
    np.log2: lambda x, y: 1 / (x * math.log(2.0)),
    np.log10: lambda x, y: 1 / (x * math.log(10.0)),
    np.log1p: lambda x, y: 1 / (1 + x),
    np.sqrt: lambda x, y: 0.5 / y,
    np.cbrt: lambda x, y: 1 / (3 * y * y),
    np.square: lambda x, y: 2 * x,
    np.reciprocal: lambda x, y: -y * y,
    np.absolute: lambda x, y: np.sign(x),
    np.fabs: lambda x, y: np.sign(x),
    np.sin: lambda x, y: np.cos(x),
    np.cos: lambda x, y: -np.sin(x),
    np.tan: lambda x, y: 1 + y * y,
    np.arcsin: lambda x, y: 1 / np.sqrt(1 - x * x),
    np.arccos: lambda x, y: -1 / np.sqrt(1 - x * x),
    np.arctan: lambda x, y: 1 / (1 + x * x),
    np.sinh: lambda x, y: np.cosh(x),
    np.cosh: lambda x, y: np.sinh(x),
    np.tanh: lambda x, y: 1 - y * y,
    np.arcsinh: lambda x, y: 1 / np.sqrt(x * x + 1),
    np.arccosh: lambda x, y: 1 / np.sqrt(x * x - 1),
    np.arctanh: lambda x, y: 1 / (1 - x * x),
    np.deg2rad: lambda x, y: math.pi / 180,
    np.radians: lambda x, y: math.pi / 180,
    np.rad2deg: lambda x, y: 180 / math.pi,
    np.degrees: lambda x, y: 180 / math.pi,
    np.positive: lambda x, y: 1,
    np.conjugate: lambda x, y: 1,
    np.negative: lambda x, y: -1,
}


_HALF = np.float32(0.5)  # which leaves derivatives of every width as they are


def _tie(a: Any, b: Any, greater: Any) -> Any:
    """1 where an argument is the one that is chosen, 1/2 where both are, 0 elsewhere."""
    return greater + _HALF * (a == b)


def _power_base(g: Any, a: Any, b: Any, y: Any) -> Any:
    if type(b) in (int, float):
        return g * (b * a ** (b - 1)) if b else g * 0
    return g * (b * a ** np.where(b == 0, 1, b - 1))


def _power_exponent(g: Any, a: Any, b: Any, y: Any) -> Any:
    zero = a == 0
    return g * np.where(zero & (b >= 0), 0, y * np.log(np.where(zero, 1, a)))


# Of two numbers: from the derivative by the result, the arguments and the result to those by each argument.
_BINARY: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {
    np.add: (lambda g, a, b, y: g, lambda g, a, b, y: g),
    np.subtract: (lambda g, a, b, y: g, lambda g, a, b, y: -g),
    np.multiply: (lambda g, a, b, y: g * b, lambda g, a, b, y: g * a),
    np.true_divide: (lambda g, a, b, y: g / b, lambda g, a, b, y: -g * y / b),
    np.power: (_power_base, _power_exponent),
    np.float_power: (_power_base, _power_exponent),
    np.maximum: (lambda g, a, b, y: g * _tie(a, b, a > b), lambda g, a, b, y: g * _tie(a, b, b > a)),
    np.minimum: (lambda g, a, b, y: g * _tie(a, b, a < b), lambda g, a, b, y: g * _tie(a, b, b < a)),
    np.fmax: (
        lambda g, a, b, y: g * _tie(a, b, (a > b) | (b != b)),
        lambda g, a, b, y: g * _tie(a, b, (b > a) | (a != a)),
    ),
    np.fmin: (
        lambda g, a, b, y: g * _tie(a, b, (a < b) | (b != b)),
        lambda g, a, b, y: g * _tie(a, b, (b < a) | (a != a)),
    ),
    np.arctan2: (lambda g, a, b, y: g * b / (a * a + b * b), lambda g, a, b, y: -g * a / (a * a + b * b)),
    np.hypot: (lambda g, a, b, y: g * a / y, lambda g, a, b, y: g * b / y),
    np.logaddexp: (lambda g, a, b, y: g * np.exp(a - y), lambda g, a, b, y: g * np.exp(b - y)),
    np.logaddexp2: (lambda g, a, b, y: g * np.exp2(a - y), lambda g, a, b, y: g * np.exp2(b - y)),
    np.fmod: (lambda g, a, b, y: g, lambda g, a, b, y: -g * np.trunc(a / b)),
    np.remainder: (lambda g, a, b, y: g, lambda g, a, b, y: -g * np.floor(a / b)),
    np.copysign: (lambda g, a, b, y: g * np.sign(a) * np.copysign(1, b), lambda g, a, b, y: g * 0),
    np.heaviside: (lambda g, a, b, y: g * 0, lambda g, a, b, y: g * (a == 0)),
    np.nextafter: (lambda g, a, b, y: g, lambda g, a, b, y: g * 0),
    np.ldexp: (lambda g, a, b, y: np.ldexp(g, b), lambda g, a, b, y: g * 0),
}

flat(
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.sign, np.signbit),
    *(np.floor, np.ceil, np.trunc, np.rint, np.floor_divide, np.isfinite, np.isinf, np.isnan, np.spacing),
    *(np.logical_and, np.logical_or, np.logical_not, np.logical_xor),
)


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
    if method != "__call__":
        return _call_method(ufunc, method, inputs, kwargs)
    if not kwargs:
        return _call(ufunc, inputs)
    out = kwargs.pop("out", None)
    if "where" in kwargs and kwargs["where"] is not True:
        return _call_where(ufunc, inputs, kwargs, out)
    for name in ("order", "subok", "casting", "where"):
        kwargs.pop(name, None)
    dtype = kwargs.pop("dtype", None)
    if dtype is not None:
        inputs = tuple([x.astype(dtype) if hasattr(x, "astype") else np.asarray(x, dtype) for x in inputs])
    result = _call(ufunc, inputs, kwargs)
    return result if out is None else write_results(ufunc, inputs, out, result)


def _as_operand(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return np.asarray(x)
    return leaf(x) if isinstance(x, ArrayHolder) else x


def write_results(ufunc: Any, inputs: Any, out: tuple[Any, ...], result: Any) -> Any:
    """Write results into the `out` of a ufunc; what an in-place operator gives is what it was called for."""
    if len(out) == 1:
        target = out[0]
        if type(target) is TracedArray and isinstance(target.value, np.generic) and target is inputs[0]:
            return result  # as with NumPy's scalars, which are not written to
        write(target, result, "same_kind", name_of(ufunc))
        return target
    for target, value in zip(out, result, strict=True):
        if target is not None:
            write(target, value, "same_kind", name_of(ufunc))
    return tuple(value if target is None else target for target, value in zip(out, result, strict=True))


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
            return record(y, (inputs[0], lambda g: g * derivative(x, y)))
    rule = RULES.get(ufunc)
    if rule is not None:
        try:
            return rule(*inputs, **(kwargs or {}))
        except NoRule as error:
            raise _no_rule(ufunc, "", str(error)) from None
    if ufunc in FLAT:
        return ufunc(*map(value_of, inputs), **values_of(kwargs or {}))
    raise _no_rule(ufunc, "")


def _pair(ufunc: np.ufunc, derivatives: tuple[Callable[..., Any], ...], a: Any, b: Any) -> Any:
    """A function of two numbers, of arrays of which one at least is traced."""
    first, second = derivatives
    left = a.value if type(a) is TracedArray else a
    right = b.value if type(b) is TracedArray else b
    y = ufunc(left, right)
    shape = y.shape
    links = []
    level = None
    if type(a) is TracedArray:
        level = a.level
        if a.node is not None:
            if left.shape == shape:
                links.append((a.node, lambda g: first(g, left, right, y)))
            else:
                links.append((a.node, lambda g: unbroadcast(first(g, left, right, y), left.shape)))
    if type(b) is TracedArray:
        if level is not None and level != b.level:
            raise mixed()
        level = b.level
        if b.node is not None:
            if right.shape == shape:
                links.append((b.node, lambda g: second(g, left, right, y)))
            else:
                links.append((b.node, lambda g: unbroadcast(second(g, left, right, y), right.shape)))
    return noted(y, links, level)


_NUMBERS = frozenset((TracedArray, np.ndarray, float, int))


def binary(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    """An operator of two numbers; a traced array stands on at least one side."""
    if type(a) in _NUMBERS and type(b) in _NUMBERS:
        return _pair(ufunc, _BINARY[ufunc], a, b)
    return ufunc(a, b)


def _no_rule(ufunc: np.ufunc, method: str, reason: str = "") -> NotImplementedError:
    return NotImplementedError(
        f"no gradient through {name_of(ufunc)}{method}: {reason or 'there is no rule for it'}. Write it with "
        "other functions, give its derivative with lite.custom_vjp, or detach the array (x.detach()) if it "
        "is to count as a constant."
    )


def _call_where(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """A ufunc with `where`: elsewhere the result has what `out` holds."""
    if out is None or len(out) != 1 or out[0] is None:
        raise _no_rule(ufunc, "", "with where it needs out, as elsewhere the result would be random memory")
    where = values_of(kwargs.pop("where"))
    (target,) = out
    with np.errstate(all="ignore"):  # the numbers that are not asked for
        result = call_ufunc(ufunc, "__call__", inputs, kwargs)
    write(target, np.where(where, result, target), "same_kind", name_of(ufunc))
    return target


_REDUCE: dict[Any, Any] = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min}
_ACCUMULATE: dict[Any, Any] = {
    np.add: np.cumsum,
    np.multiply: np.cumprod,
    np.maximum: partial(running_extreme, np.maximum),
    np.minimum: partial(running_extreme, np.minimum),
}


def _call_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if method == "at":
        return _at(ufunc, *inputs)
    out = kwargs.pop("out", None)
    if method == "reduce" and ufunc in _REDUCE:
        result = _REDUCE[ufunc](*inputs, **{"axis": 0, **kwargs} if len(inputs) == 1 else kwargs)
    elif method == "accumulate" and ufunc in _ACCUMULATE:
        result = _ACCUMULATE[ufunc](*inputs, **{"axis": 0, **kwargs} if len(inputs) == 1 else kwargs)
    elif method == "outer":
        a, b = inputs
        a = a if hasattr(a, "shape") else np.asarray(a)
        result = ufunc(a[(..., *[None] * np.ndim(b))], b, **kwargs)
    elif ufunc in FLAT:
        result = getattr(ufunc, method)(*values_of(inputs), **values_of(kwargs))
    else:
        raise _no_rule(ufunc, f".{method}")
    if out is None:
        return result
    write(out[0], result, "same_kind", name_of(ufunc))
    return out[0]


def _at(ufunc: np.ufunc, a: Any, indices: Any, *b: Any) -> None:
    if ufunc not in (np.add, np.subtract):
        raise _no_rule(ufunc, ".at")
    value = value_of(a).copy()
    ufunc.at(value, indices, value_of(b[0]))
    sign = 1 if ufunc is np.add else -1
    shape = np.shape(b[0])
    write(a, record(value, (a, lambda g: g), (b[0], lambda g: unbroadcast(sign * g[indices], shape))))


def astype(
    x: TracedArray,
    dtype: Any,
    order: str = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Any:
    """As the method of ndarrays; the derivative is cast back."""
    value = x.value.astype(dtype, order, casting, subok, copy)
    if value is x.value:
        return x
    return record(value, (x, lambda g: g))


def copy(x: TracedArray) -> Any:
    """As the method of ndarrays."""
    return record(x.value.copy(), (x, lambda g: g))


@rule(np.divmod)
def _divmod(x: Any, y: Any) -> Any:
    return np.floor_divide(x, y), np.remainder(x, y)


@rule(np.modf)
def _modf(x: Any) -> Any:
    fraction, whole = np.modf(x.value)
    return record(fraction, (x, lambda g: g)), whole


@rule(np.frexp)
def _frexp(x: Any) -> Any:
    mantissa, exponent = np.frexp(x.value)
    return record(mantissa, (x, lambda g: np.ldexp(g, -exponent))), exponent


@rule(np.clip)
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None
) -> Any:
    """As `numpy.clip`; at a bound the derivative is that of the array."""
    low = a_min if a_min is not None else min
    high = a_max if a_max is not None else max
    value = value_of(a)
    lower, upper = value_of(low), value_of(high)
    y = np.clip(value, lower, upper)
    below = False if low is None else value < lower
    above = False if high is None else value > upper

    def shares(g: Any) -> tuple[Any, ...]:
        high_share = None if high is None else np.where(above, g, 0)
        low_share = None if low is None else np.where(below & np.logical_not(above), g, 0)
        return np.where(below | above, 0, g), low_share, high_share

    def share(i: int, shape: Shape) -> Callable[[Any], Any]:
        return lambda g: unbroadcast(shares(g)[i], shape)

    links = [(x, share(i, np.shape(value_of(x)))) for i, x in enumerate((a, low, high)) if x is not None]
    return record(y, *links)
