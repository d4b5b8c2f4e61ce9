"""Ufuncs: a row for each, with its operator in ONNX and its derivatives. `vmap` needs nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.types import Array, Function
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import with_node
from lite._transforms.registry import GRAD, ONNX, ZERO_GRADIENT

Formula = Function


class Row:
    """The description of a ufunc.

    Args:
        onnx: its operator in ONNX, or a formula of NumPy's functions, which gets arrays of the dtype that
            NumPy computes in; None where there is none.
        derivatives: of one number, from the argument and the result to the derivative, a factor. Of two, from
            the derivative by the result, the arguments and the result to the derivative by each argument.
            None where it is zero wherever there is one.
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
        return np.floor(a / b)
    return a.graph.emit("Div", [a - _remainder(a, b), b], a.graph.broadcast([a.shape, b.shape]), a.dtype)


def _remainder(a: Any, b: Any) -> Array:
    if a.dtype.kind == "f":
        return a - np.floor(a / b) * b
    return a.graph.emit("Mod", [a, b], a.graph.broadcast([a.shape, b.shape]), a.dtype)


def _fmod(a: Any, b: Any) -> Any:
    shape = a.graph.broadcast([a.shape, b.shape])
    return a.graph.emit("Mod", [a, b], shape, a.dtype, fmod=1)


def _skipping_nan(choose: np.ufunc, a: Any, b: Any) -> Any:
    if a.dtype.kind != "f":
        return choose(a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, choose(a, b)))


def _trunc(x: Array) -> Array:
    return np.sign(x) * np.floor(np.abs(x)) if x.dtype.kind == "f" else x.copy()


def _arctan2(y: Array, x: Array) -> Array:
    angle = np.arctan(y / np.where(x == 0.0, 1.0, x))
    turned = np.where(y < 0.0, angle - math.pi, angle + math.pi)
    return np.where(x == 0.0, np.sign(y) * (math.pi / 2), np.where(x < 0.0, turned, angle))


def _asked(op: str) -> Formula:
    """An operator that tells of floats alone."""

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


def _power_base(g: Array, a: Array, b: Any, y: ArrayLike) -> Array:
    if type(b) in (int, float):
        return g * (b * a ** (b - 1)) if b else g * 0
    return g * (b * a ** np.where(b == 0, 1, b - 1))


def _power_exponent(g: Array, a: Array, b: Array, y: Array) -> Array:
    zero = a == 0
    return g * np.where(zero & (b >= 0), 0, y * np.log(np.where(zero, 1, a)))


def _itself(x: Array) -> Array:
    return x.copy()


UFUNCS: dict[Any, Row] = {
    # -- of one number
    np.exp: Row("Exp", lambda x, y: y),
    np.exp2: Row(lambda x: np.exp(x * math.log(2.0)), lambda x, y: y * math.log(2.0)),
    np.expm1: Row(_expm1, lambda x, y: np.exp(x)),
    np.log: Row("Log", lambda x, y: 1 / x),
    np.log2: Row(lambda x: np.log(x) * (1 / math.log(2.0)), lambda x, y: 1 / (x * math.log(2.0))),
    np.log10: Row(lambda x: np.log(x) * (1 / math.log(10.0)), lambda x, y: 1 / (x * math.log(10.0))),
    np.log1p: Row(_log1p, lambda x, y: 1 / (1 + x)),
    np.sqrt: Row("Sqrt", lambda x, y: 0.5 / y),
    np.cbrt: Row(lambda x: np.sign(x) * np.abs(x) ** (1 / 3), lambda x, y: 1 / (3 * y * y)),
    np.square: Row(lambda x: x * x, lambda x, y: 2 * x),
    np.reciprocal: Row("Reciprocal", lambda x, y: -y * y),
    **dict.fromkeys((np.absolute, np.fabs), Row("Abs", lambda x, y: np.sign(x))),
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
    np.fmax: _choice(lambda a, b: _skipping_nan(np.maximum, a, b), lambda a, b: (a > b) | (b != b)),
    np.fmin: _choice(lambda a, b: _skipping_nan(np.minimum, a, b), lambda a, b: (a < b) | (b != b)),
    np.arctan2: Row(
        _arctan2, lambda g, a, b, y: g * b / (a * a + b * b), lambda g, a, b, y: -g * a / (a * a + b * b)
    ),
    np.hypot: Row(
        lambda a, b: np.sqrt(a * a + b * b), lambda g, a, b, y: g * a / y, lambda g, a, b, y: g * b / y
    ),
    np.logaddexp: Row(
        lambda a, b: np.maximum(a, b) + np.log1p(np.exp(-np.abs(a - b))),
        lambda g, a, b, y: g * np.exp(a - y),
        lambda g, a, b, y: g * np.exp(b - y),
    ),
    np.logaddexp2: Row(
        lambda a, b: np.maximum(a, b) + np.log2(1.0 + np.exp2(-np.abs(a - b))),
        lambda g, a, b, y: g * np.exp2(a - y),
        lambda g, a, b, y: g * np.exp2(b - y),
    ),
    np.fmod: Row(_fmod, lambda g, a, b, y: g, lambda g, a, b, y: -g * np.trunc(a / b)),
    np.remainder: Row(_remainder, lambda g, a, b, y: g, lambda g, a, b, y: -g * np.floor(a / b)),
    np.copysign: Row(
        lambda a, b: np.where(b < 0.0, -np.abs(a), np.abs(a)),
        lambda g, a, b, y: g * np.sign(a) * np.copysign(1, b),
        lambda g, a, b, y: g * 0,
    ),
    np.heaviside: Row(
        lambda x, h0: np.where(x == 0.0, h0, (x > 0.0).astype(x.dtype)),
        lambda g, a, b, y: g * 0,
        lambda g, a, b, y: g * (a == 0),
    ),
    np.nextafter: Row(None, lambda g, a, b, y: g, lambda g, a, b, y: g * 0),
    np.ldexp: Row(
        None,
        lambda g, a, b, y: np.ldexp(g, b),
        lambda g, a, b, y: g * 0,
    ),
    # -- without a derivative
    np.sign: Row("Sign"),
    np.floor: Row("Floor"),
    np.ceil: Row("Ceil"),
    np.rint: Row("Round"),
    np.trunc: Row(_trunc),
    np.floor_divide: Row(_floor_divide),
    np.signbit: Row(None),
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
    (np.add, "reduce"): np.sum,
    (np.add, "accumulate"): np.cumsum,
    (np.multiply, "reduce"): np.prod,
    (np.multiply, "accumulate"): np.cumprod,
    (np.maximum, "reduce"): np.max,
    (np.minimum, "reduce"): np.min,
    (np.logical_and, "reduce"): np.all,
    (np.logical_or, "reduce"): np.any,
}
ZERO_GRADIENT.update(ufunc for ufunc, row in UFUNCS.items() if not row.derivatives)


@GRAD.rule(np.divmod)
@ONNX.composed(np.divmod)
def _divmod(x: ArrayLike, y: ArrayLike) -> Any:
    return np.floor_divide(x, y), np.remainder(x, y)


@ONNX.composed(np.modf)
def _onnx_modf(x: Array) -> tuple[Array, Array]:
    whole = np.trunc(x)
    return x - whole, whole


@GRAD.rule(np.modf)
def _grad_modf(x: TracedArray) -> tuple[Array, ...]:
    fraction, whole = np.modf(x.value)
    return with_node(fraction, (x, lambda g: g)), whole


@GRAD.rule(np.frexp)
def _grad_frexp(x: TracedArray) -> tuple[Array, ...]:
    mantissa, exponent = np.frexp(x.value)
    return with_node(mantissa, (x, lambda g: np.ldexp(g, -exponent))), exponent
