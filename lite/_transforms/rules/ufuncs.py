"""Ufuncs: a row for each, with its operator in ONNX and its derivatives. `vmap` needs no rules for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.types import Array, Function
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import value_of, with_node
from lite._transforms.registry import GRAD, ONNX, ZERO_GRADIENT

Formula = Function


class Row:
    """The description of a ufunc.

    Args:
        onnx: its operator in ONNX, or a formula of NumPy's functions, called with arrays of the dtype that
            NumPy computes in; None if there is none.
        derivatives: of one argument, a function (x, y) of argument and result to dy/dx. Of two arguments,
            functions (g, a, b, y), where g is the derivative by the result, to the derivative by each.
            None if it is zero everywhere.
    """

    __slots__ = ("derivatives", "onnx")

    def __init__(self, onnx: str | Formula | None, *derivatives: Formula) -> None:
        self.onnx = onnx
        self.derivatives = derivatives


def _log1p(x: Array) -> Array:
    # log(1 + x) loses the digits of a small x; times x / ((1 + x) - 1) they are back (Kahan).
    kept = (x + 1.0) - 1.0
    small = kept == 0.0
    plain = np.log(x + 1.0)
    exact = plain * (x / np.where(small, 1.0, kept))
    return np.where(small, x, np.where(np.isinf(x), plain, exact))


def _expm1(x: Array) -> Array:
    # exp(x) - 1 = 2 exp(x / 2) sinh(x / 2) keeps the digits of a small x, and x itself where that overflows.
    half = x * 0.5
    return np.where(np.abs(x) < 1.0, np.exp(half) * np.sinh(half) * 2.0, np.exp(x) - 1.0)


def _floor_divide(a: Any, b: Any) -> Array:
    if a.dtype.kind == "f":
        rest = _fmod(a, b)
        whole = np.rint((a - rest) / b) - _is_other_sign(rest, b).astype(a.dtype)
        return np.where(b == 0.0, a / b, whole)
    divisor = _divisor(b)
    whole = _of_two("Div", a, divisor)
    if a.dtype.kind == "i":
        whole = whole - (a - whole * divisor != _of_two("Mod", a, divisor)).astype(a.dtype)
    return whole if divisor is b else np.where(b == 0, 0, np.where(b == divisor, whole, -a))


def _remainder(a: Any, b: Any) -> Array:
    if a.dtype.kind == "f":
        rest = _fmod(a, b)  # which is exact, as a - floor(a / b) * b is not
        return np.where(_is_other_sign(rest, b), rest + b, rest)
    return _of_two("Mod", a, _divisor(b))


def _is_other_sign(rest: Array, b: Array) -> Array:
    return (rest != 0.0) & ((rest < 0.0) != (b < 0.0))


def _fmod(a: Any, b: Any) -> Any:
    if a.dtype.kind != "f":  # the operator's is computed in float64, which has not all of int64
        divisor = _divisor(b)
        return a - _of_two("Div", a, divisor) * divisor
    return _of_two("Mod", a, b, fmod=1)


def _of_two(op: str, a: Any, b: Any, **attributes: int) -> Any:
    return a.graph.emit(op, [a, b], a.graph.broadcast([a.shape, b.shape]), a.dtype, **attributes)


def _divisor(b: Any) -> Any:
    """A divisor of whole numbers, 1 in place of 0 and -1: the remainder is 0 there, too.

    By 0 onnxruntime raises, and the smallest number by -1 ends the process.
    """
    known = b.graph.constants.get(b.name)
    if known is not None and np.all((known != 0) & (known + 1 != 0)):
        return b
    stops = (b == 0) | (b == -1) if b.dtype.kind == "i" else b == 0
    return np.where(stops, 1, b)


def _left_shift(a: Any, b: Any) -> Array:
    bits = 8 * a.dtype.itemsize
    return np.where((b < 0) | (b >= bits), 0, a * _power_of_two(a, b, bits - 1))


def _right_shift(a: Any, b: Any) -> Array:
    most = 8 * a.dtype.itemsize - 1 - (a.dtype.kind == "i")  # beyond it nothing but the sign is left
    sign = np.where(a < 0, -1, 0).astype(a.dtype)
    return np.where((b < 0) | (b > most), sign, np.floor_divide(a, _power_of_two(a, b, most)))


def _power_of_two(a: Any, b: Any, most: int) -> Any:
    powers = np.left_shift(np.ones(most + 1, a.dtype), np.arange(most + 1, dtype=a.dtype))
    return np.take(a.graph.constant(powers), np.clip(b, 0, most).astype(np.int64))


def _skipping_nan(choose: np.ufunc, a: Any, b: Any) -> Any:
    if a.dtype.kind != "f":
        return choose(a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, choose(a, b)))


def _trunc(x: Array) -> Array:
    return np.sign(x) * np.floor(np.abs(x)) if x.dtype.kind == "f" else x.copy()


def _is_negative(x: Array) -> Array:
    """The sign bit of numbers; that of 0 is the sign of its reciprocal."""
    return (x < 0.0) | (1.0 / x < 0.0)


def _arctan2(y: Array, x: Array) -> Array:
    height, width = np.abs(y), np.abs(x)
    share = np.where(height == width, (height != 0.0).astype(x.dtype), height / width)  # infinite ones, too
    angle = np.arctan(share)
    angle = np.where(_is_negative(x), math.pi - angle, angle)
    return np.where(_is_negative(y), -angle, angle)


def _hypot(a: Array, b: Array) -> Array:
    """Without overflow; infinite where one is, whatever the other."""
    largest = np.maximum(np.abs(a), np.abs(b))
    scale = np.where((largest == 0.0) | np.isinf(largest), 1.0, largest)
    found = np.sqrt((a / scale) ** 2 + (b / scale) ** 2) * scale
    return np.where(np.isinf(a) | np.isinf(b), np.inf, found)


def _distance(a: Array, b: Array) -> Array:
    """The absolute difference of two numbers; 0 for equal infinite ones."""
    return np.where(a == b, 0.0, -np.abs(a - b))


def _asked(op: str) -> Formula:
    """A test, such as IsNaN, whose operator takes floats alone."""

    def formula(x: Any) -> Array:
        x = x if x.dtype.kind == "f" else x.astype(np.float32)
        return x.graph.emit(op, [x], x.shape, np.bool_)

    return formula


_HALF = np.float32(0.5)  # which leaves derivatives of every width as they are


def _choice(onnx: Any, wins: Callable[[Array, Array], Array]) -> Row:
    """A choice of the argument that wins; where both are equal, each has half of the derivative."""

    def share(g: Array, a: Array, b: Array) -> Array:
        return g * (wins(a, b) + _HALF * (a == b))

    return Row(onnx, lambda g, a, b, y: share(g, a, b), lambda g, a, b, y: share(g, b, a))


def _choice_past_nan(choose: np.ufunc, wins: Callable[[Array, Array], Array]) -> Row:
    """A choice that skips NaN. As in torch, the first has all of the derivative where neither is chosen."""

    def first(a: Array, b: Array) -> Array:
        return wins(a, b) | (b != b)

    return Row(
        lambda a, b: _skipping_nan(choose, a, b),
        lambda g, a, b, y: g * first(a, b),
        lambda g, a, b, y: g * np.logical_not(first(a, b)),
    )


def _power_base(g: Array, a: Array, b: Any, y: ArrayLike) -> Array:
    if type(b) in (int, float):
        return g * (b * a ** (b - 1)) if b else g * 0
    return g * (b * a ** np.where(b == 0, 1, b - 1))


def _power_exponent(g: Array, a: Array, b: Array, y: Array) -> Array:
    zero = a == 0
    return g * np.where(zero & (b >= 0), 0, y * np.log(np.where(zero, 1, a)))


def _direction(x: Array, y: Array) -> Array:
    return np.conjugate(x) / np.where(y == 0, 1, y)


def _itself(x: Array) -> Array:
    return x.copy()


UFUNCS: dict[Any, Row] = {
    # -- of one number
    np.exp: Row("Exp", lambda x, y: y),
    np.exp2: Row(lambda x: np.power(2.0, x), lambda x, y: y * math.log(2.0)),
    np.expm1: Row(_expm1, lambda x, y: np.exp(x)),
    np.log: Row("Log", lambda x, y: 1 / x),
    np.log2: Row(lambda x: np.log(x) * (1 / math.log(2.0)), lambda x, y: 1 / (x * math.log(2.0))),
    np.log10: Row(lambda x: np.log(x) * (1 / math.log(10.0)), lambda x, y: 1 / (x * math.log(10.0))),
    np.log1p: Row(_log1p, lambda x, y: 1 / (1 + x)),
    np.sqrt: Row("Sqrt", lambda x, y: 0.5 / y),
    np.cbrt: Row(lambda x: np.sign(x) * np.abs(x) ** (1 / 3), lambda x, y: 1 / (3 * y * y)),
    np.square: Row(lambda x: x * x, lambda x, y: 2 * x),
    np.reciprocal: Row("Reciprocal", lambda x, y: -y * y),
    np.absolute: Row("Abs", lambda x, y: np.sign(x) if x.dtype.kind != "c" else _direction(x, y)),
    np.fabs: Row("Abs", lambda x, y: np.sign(x)),
    np.sin: Row("Sin", lambda x, y: np.cos(x)),
    np.cos: Row("Cos", lambda x, y: -np.sin(x)),
    np.tan: Row("Tan", lambda x, y: 1 + y * y),
    np.arcsin: Row("Asin", lambda x, y: 1 / np.sqrt(1 - x * x)),
    np.arccos: Row("Acos", lambda x, y: -1 / np.sqrt(1 - x * x)),
    np.arctan: Row("Atan", lambda x, y: 1 / (1 + x * x)),
    np.sinh: Row("Sinh", lambda x, y: np.cosh(x)),
    np.cosh: Row("Cosh", lambda x, y: np.sinh(x)),
    np.tanh: Row("Tanh", lambda x, y: 1 - y * y),
    np.arcsinh: Row("Asinh", lambda x, y: 1 / np.sqrt(x * x + 1)),
    np.arccosh: Row("Acosh", lambda x, y: 1 / np.sqrt(x * x - 1)),
    np.arctanh: Row("Atanh", lambda x, y: 1 / (1 - x * x)),
    **dict.fromkeys((np.deg2rad, np.radians), Row(lambda x: x * (math.pi / 180), lambda x, y: math.pi / 180)),
    **dict.fromkeys((np.rad2deg, np.degrees), Row(lambda x: x * (180 / math.pi), lambda x, y: 180 / math.pi)),
    **dict.fromkeys((np.positive, np.conjugate), Row(_itself, lambda x, y: 1)),
    np.negative: Row("Neg", lambda x, y: -1),
    # -- of two numbers
    np.add: Row("Add", lambda g, a, b, y: g, lambda g, a, b, y: g),
    np.subtract: Row("Sub", lambda g, a, b, y: g, lambda g, a, b, y: -g),
    np.multiply: Row("Mul", lambda g, a, b, y: g * b, lambda g, a, b, y: g * a),
    np.true_divide: Row("Div", lambda g, a, b, y: g / b, lambda g, a, b, y: -g * y / b),
    **dict.fromkeys((np.power, np.float_power), Row("Pow", _power_base, _power_exponent)),
    np.maximum: _choice("Max", lambda a, b: a > b),
    np.minimum: _choice("Min", lambda a, b: a < b),
    np.fmax: _choice_past_nan(np.maximum, lambda a, b: a >= b),
    np.fmin: _choice_past_nan(np.minimum, lambda a, b: a <= b),
    np.arctan2: Row(
        _arctan2, lambda g, a, b, y: g * b / (a * a + b * b), lambda g, a, b, y: -g * a / (a * a + b * b)
    ),
    np.hypot: Row(_hypot, lambda g, a, b, y: g * a / y, lambda g, a, b, y: g * b / y),
    np.logaddexp: Row(
        lambda a, b: np.maximum(a, b) + np.log1p(np.exp(_distance(a, b))),
        lambda g, a, b, y: g * np.exp(a - y),
        lambda g, a, b, y: g * np.exp(b - y),
    ),
    np.logaddexp2: Row(
        lambda a, b: np.maximum(a, b) + np.log2(1.0 + np.exp2(_distance(a, b))),
        lambda g, a, b, y: g * np.exp2(a - y),
        lambda g, a, b, y: g * np.exp2(b - y),
    ),
    np.fmod: Row(_fmod, lambda g, a, b, y: g, lambda g, a, b, y: -g * np.trunc(a / b)),
    np.remainder: Row(_remainder, lambda g, a, b, y: g, lambda g, a, b, y: -g * np.floor(a / b)),
    np.copysign: Row(
        lambda a, b: np.where(_is_negative(b), -np.abs(a), np.abs(a)),
        lambda g, a, b, y: g * np.sign(a) * np.copysign(1, b),
        lambda g, a, b, y: g * 0,
    ),
    np.heaviside: Row(
        lambda x, h0: np.where(x == 0.0, h0, np.where(np.isnan(x), x, (x > 0.0).astype(x.dtype))),
        lambda g, a, b, y: g * 0,
        lambda g, a, b, y: g * (a == 0),
    ),
    np.nextafter: Row(None, lambda g, a, b, y: g, lambda g, a, b, y: g * 0),
    np.ldexp: Row(None, lambda g, a, b, y: np.ldexp(g, b), lambda g, a, b, y: g * 0),
    # -- without a derivative
    np.sign: Row("Sign"),
    np.floor: Row("Floor"),
    np.ceil: Row("Ceil"),
    np.rint: Row("Round"),
    np.trunc: Row(_trunc),
    np.floor_divide: Row(_floor_divide),
    np.signbit: Row(_is_negative),
    np.left_shift: Row(_left_shift),
    np.right_shift: Row(_right_shift),
    np.spacing: Row(None),
    np.isnan: Row(_asked("IsNaN")),
    np.isinf: Row(_asked("IsInf")),
    np.isfinite: Row(lambda x: ~(np.isnan(x) | np.isinf(x))),
    np.equal: Row("Equal"),
    np.not_equal: Row(lambda a, b: ~(a == b)),
    np.less: Row("Less"),
    np.less_equal: Row("LessOrEqual"),
    np.greater: Row("Greater"),
    np.greater_equal: Row("GreaterOrEqual"),
    np.logical_and: Row("And"),
    np.logical_or: Row("Or"),
    np.logical_xor: Row("Xor"),
    np.logical_not: Row("Not"),
    np.bitwise_and: Row("BitwiseAnd"),
    np.bitwise_or: Row("BitwiseOr"),
    np.bitwise_xor: Row("BitwiseXor"),
    np.invert: Row("BitwiseNot"),
}
# Methods of ufuncs that are functions of their own.
METHODS: dict[tuple[np.ufunc, str], Function] = {
    (np.add, "reduce"): np.sum, (np.add, "accumulate"): np.cumsum, (np.multiply, "reduce"): np.prod,
    (np.multiply, "accumulate"): np.cumprod, (np.maximum, "reduce"): np.max, (np.minimum, "reduce"): np.min,
    (np.logical_and, "reduce"): np.all, (np.logical_or, "reduce"): np.any,
}  # fmt: skip


@GRAD.rule(np.conjugate)
def _grad_conjugate(x: Array) -> Array:
    return with_node(np.conjugate(value_of(x)), (x, np.conjugate))


ZERO_GRADIENT.update(ufunc for ufunc, row in UFUNCS.items() if not row.derivatives)


@GRAD.rule(np.divmod)
@ONNX.composed(np.divmod)
def _divmod(x: ArrayLike, y: ArrayLike) -> Any:
    return np.floor_divide(x, y), np.remainder(x, y)


@ONNX.composed(np.modf)
def _onnx_modf(x: Array) -> tuple[Array, Array]:
    x = x if x.dtype.kind == "f" else x.astype(np.modf.resolve_dtypes((x.dtype, None, None))[0])
    whole = np.trunc(x)
    return np.where(np.isinf(x), 0.0, x - whole), whole


@GRAD.rule(np.modf)
def _grad_modf(x: TracedArray) -> tuple[Array, ...]:
    fraction, whole = np.modf(x.value)
    return with_node(fraction, (x, lambda g: g)), whole


@GRAD.rule(np.frexp)
def _grad_frexp(x: TracedArray) -> tuple[Array, ...]:
    mantissa, exponent = np.frexp(x.value)
    return with_node(mantissa, (x, lambda g: np.ldexp(g, -exponent))), exponent
