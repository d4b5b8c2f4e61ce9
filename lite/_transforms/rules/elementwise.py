"""Rules of functions of single numbers that are not ufuncs, of dtypes and memory, and of counts."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays import formulas
from lite._arrays.special import bessel_ratio
from lite._arrays.types import Array, DtypeLike, Function, HostArray, Operand
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import Vjp, holds_traced, unbroadcast, value_of, with_node
from lite._transforms.grad.views import View
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.operators import unary
from lite._transforms.registry import GRAD, ONNX, VMAP, ZERO_GRADIENT, NoRule, default, formula
from lite._transforms.vmap.array import BatchedArray
from lite._transforms.vmap.level import Level, batched_in
from lite._transforms.vmap.ufuncs import elementwise

ZERO_GRADIENT.update((np.isreal, np.iscomplex, np.isposinf, np.isneginf, np.round, np.around, np.fix))
ZERO_GRADIENT.update((np.isclose, np.array_equal, np.array_equiv, np.shares_memory, np.may_share_memory))
ZERO_GRADIENT.update((np.result_type, np.can_cast, np.min_scalar_type, np.common_type))
ZERO_GRADIENT.update((np.iscomplexobj, np.isrealobj))
_NO_VALUE = default(np.clip, "a_min")


@VMAP.rule_of_each(
    *(np.real, np.imag, np.angle, np.round, np.around, np.fix, np.nan_to_num, np.sinc, np.i0),
    *(np.isreal, np.iscomplex, np.isposinf, np.isneginf),
)
def _vmap_of_elements(function: Function, level: Level, x: BatchedArray, *args: Any, **kwargs: Any) -> Array:
    if not level.on(x) or batched_in((args, kwargs), []):
        raise NoRule
    return level.wrap(function(x.value, *args, **kwargs))


def _part(value: Array, z: Any, vjp: Vjp) -> Any:
    out = with_node(value.copy(), (z, vjp))
    if isinstance(out, TracedArray):
        out.alias = View(None)
    return out


@GRAD.rule(np.real)
def _grad_real(val: Any) -> Any:
    held = value_of(val)
    return val if held.dtype.kind != "c" else _part(np.real(held), val, lambda g: g)


@GRAD.rule(np.imag)
def _grad_imag(val: Any) -> Any:
    held = value_of(val)
    return np.imag(held) if held.dtype.kind != "c" else _part(np.imag(held), val, lambda g: g * -1j)


@GRAD.rule(np.angle)
def _grad_angle(z: Any, deg: bool = False) -> Any:
    if value_of(z).dtype.kind != "c":
        return np.angle(value_of(z), deg)  # of real numbers: 0 or pi
    angle = np.arctan2(np.imag(z), np.real(z))
    return np.degrees(angle) if deg else angle


@ONNX.composed(np.real, np.asarray, np.ascontiguousarray, np.real_if_close)
def _itself(val: ArrayLike, *args: Any, **kwargs: Any) -> Any:
    return val


@ONNX.rule(np.round, np.around)
def _onnx_round(graph: Graph, a: ArrayLike, decimals: int = 0) -> GraphArray:
    x = graph.operand(a)
    if x.dtype.kind != "f":
        if decimals < 0:
            raise NoRule
        return x.copy()
    if not decimals:
        return unary(graph, "Round", x)
    return unary(graph, "Round", x * 10.0**decimals) / 10.0**decimals


@ONNX.composed(np.fix)
def _onnx_fix(x: ArrayLike) -> Array:
    return np.trunc(x)


@GRAD.rule(np.nan_to_num)
def _grad_nan_to_num(
    x: ArrayLike, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Array:
    if holds_traced((nan, posinf, neginf)) or not copy:
        raise NoRule
    held = value_of(x)
    value = np.nan_to_num(held, True, nan, posinf, neginf)
    return with_node(value, (x, lambda g: np.where(np.isfinite(held), g, 0)))


@ONNX.composed(np.nan_to_num)
def _onnx_nan_to_num(
    x: Array, copy: bool = True, nan: float = 0.0, posinf: Operand = None, neginf: Operand = None
) -> Array:
    if not copy:
        raise NoRule("copy=False")
    if x.dtype.kind != "f":
        return x.copy()
    limits = np.finfo(x.dtype)
    out = np.where(np.isnan(x), nan, x)
    out = np.where(np.isposinf(x), float(limits.max) if posinf is None else posinf, out)
    return np.where(np.isneginf(x), float(limits.min) if neginf is None else neginf, out)


@ONNX.composed(np.isposinf)
def _onnx_isposinf(x: Array) -> Array:
    return np.isinf(x) & (x > 0)


@ONNX.composed(np.isneginf)
def _onnx_isneginf(x: Array) -> Array:
    return np.isinf(x) & (x < 0)


@GRAD.rule(np.sinc)
def _grad_sinc(x: ArrayLike) -> Array:
    held = value_of(x)
    value = np.sinc(held)

    def vjp(g: Array) -> Array:
        zero = held == 0
        place = np.where(zero, 1, held)
        return np.where(zero, 0, g * (np.cos(math.pi * place) - value) / place)

    return with_node(value, (x, vjp))


@ONNX.composed(np.sinc)
def _onnx_sinc(x: Array) -> Array:
    y = math.pi * np.where(x == 0, 1.0e-20, x)
    return np.sin(y) / y


@GRAD.rule(np.i0)
def _grad_i0(x: ArrayLike) -> Array:
    held = value_of(x)
    value = np.i0(held)

    def vjp(g: Array) -> Array:
        size = np.abs(held)
        ratio = size.elementwise(bessel_ratio) if isinstance(size, HostArray) else bessel_ratio(size)
        return g * value * np.sign(held) * ratio

    return with_node(value, (x, vjp))


def _bounds(a_min: Operand, a_max: Operand, low: Operand, high: Operand) -> tuple[Any, Any]:
    """The bounds of `numpy.clip`, which have two names each; None if not given."""
    low = low if a_min is None or a_min is _NO_VALUE else a_min
    return low, high if a_max is None or a_max is _NO_VALUE else a_max


@GRAD.rule(np.clip)
def _grad_clip(
    a: ArrayLike, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
) -> Array:
    """As `numpy.clip`; at a bound the derivative is that of the array."""
    low, high = _bounds(a_min, a_max, min, max)
    value = value_of(a)
    lower, upper = value_of(low), value_of(high)
    y = np.clip(value, lower, upper)
    below = False if low is None else value < lower
    above = False if high is None else value > upper
    shape, lower_shape, upper_shape = (np.shape(x) for x in (value, lower, upper))
    parents = [(a, lambda g: unbroadcast(np.where(below | above, 0, g), shape))]
    if low is not None:
        within = below & np.logical_not(above)
        parents.append((low, lambda g: unbroadcast(np.where(within, g, 0), lower_shape)))
    if high is not None:
        parents.append((high, lambda g: unbroadcast(np.where(above, g, 0), upper_shape)))
    return with_node(y, *parents)


@VMAP.composed(np.clip)
def _vmap_clip(
    a: ArrayLike, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None, **kwargs: Any
) -> Array:
    low, high = _bounds(a_min, a_max, min, max)
    if low is None and high is None:
        return np.positive(a, **kwargs)
    if low is None or high is None:
        return np.maximum(a, low, **kwargs) if high is None else np.minimum(a, high, **kwargs)
    return elementwise(np.clip, (a, low, high), kwargs)


@ONNX.composed(np.clip)
def _onnx_clip(
    a: ArrayLike, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None, **kwargs: Any
) -> Any:
    low, high = _bounds(a_min, a_max, min, max)
    dtype = np.result_type(a)
    if dtype.kind in "iu":  # numbers beyond the dtype bound nothing
        limits = np.iinfo(dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    out = a if low is None else np.maximum(a, low, **kwargs)
    if high is not None:
        out = np.minimum(out, high, **kwargs)
    return np.positive(out) if out is a else out


@VMAP.composed(np.isclose)
def _vmap_isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1.0e-5, atol: ArrayLike = 1.0e-8, equal_nan: bool = False
) -> Array:
    return elementwise(functools.partial(np.isclose, equal_nan=equal_nan), (a, b, rtol, atol))


@ONNX.composed(np.isclose)
def _onnx_isclose(
    a: Array, b: Array, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False
) -> Array:
    b = np.asarray(b) if isinstance(b, (list, tuple)) else b
    b = b if np.result_type(b).kind == "f" else b * 1.0  # differences of small types wrap around
    close = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
    return close | (np.isnan(a) & np.isnan(b)) if equal_nan else close


@VMAP.rule(np.array_equal)
def _vmap_array_equal(level: Level, a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Any:
    if np.shape(a1) != np.shape(a2):
        return level.wrap(np.zeros(level.size, np.bool_))
    same = np.equal(a1, a2)
    return (same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same).all()


def _type_of(item: Any) -> Any:
    return item.dtype if isinstance(item, HostArray) else item  # type: ignore[attr-defined]


@VMAP.composed(np.result_type)
@ONNX.composed(np.result_type)
def _result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    return np.result_type(*map(_type_of, arrays_and_dtypes))


@VMAP.composed(np.can_cast)
@ONNX.composed(np.can_cast)
def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(_type_of(from_), to, casting)


@VMAP.composed(np.iscomplexobj)
@ONNX.composed(np.iscomplexobj)
def _iscomplexobj(x: Array) -> bool:
    return bool(x.dtype.kind == "c")


@VMAP.composed(np.isrealobj)
@ONNX.composed(np.isrealobj)
def _isrealobj(x: Array) -> bool:
    return bool(x.dtype.kind != "c")


@VMAP.rule_of_each(np.shares_memory, np.may_share_memory)
def _vmap_memory(
    function: Function, level: Level, a: ArrayLike, b: ArrayLike, *args: Any, **kwargs: Any
) -> bool:
    return bool(function(level.value(a), level.value(b), *args, **kwargs))


@GRAD.rule(np.bincount)
def _grad_bincount(x: Array, /, weights: Any = None, minlength: int = 0) -> Array:
    if holds_traced(x):
        raise NoRule
    counts = np.bincount(x, value_of(weights), minlength)
    return with_node(counts, (weights, lambda g: np.take(g, x)))


@ONNX.rule(np.bincount)
def _onnx_bincount(graph: Graph, x: Any, /, weights: Any = None, minlength: Any = 0) -> GraphArray:
    if isinstance(minlength, HostArray) or not minlength:
        raise NoRule("the length of the result depends on numbers: give minlength, which is the length then")
    counts = graph.expand(graph.constant(0, np.int64 if weights is None else np.float64), (minlength,)).copy()
    np.add.at(counts, x, 1 if weights is None else graph.operand(weights, np.float64))
    return counts


@GRAD.rule(np.histogram)
def _grad_histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Operand = None,
) -> tuple[Array, ...]:
    if density or holds_traced((bins, range, weights)) or (range is None and not np.ndim(bins)):
        raise NoRule("where its bins end depends on the numbers, or how they count has a derivative")
    return np.histogram(value_of(a), bins, range, None, weights)


# -- functions of lite, which have an operator -------------------------------------------------------------


@ONNX.rule(formulas.erf)
def _onnx_erf(graph: Graph, x: Any) -> Any:
    return formulas.erf_of_graph(x) if x.dtype == np.float64 else unary(graph, "Erf", x)


@ONNX.rule(formulas.erfc)
def _onnx_erfc(graph: Graph, x: Any) -> Any:
    return formulas.erfc_of_graph(x) if x.dtype == np.float64 else 1.0 - unary(graph, "Erf", x)


@ONNX.rule(formulas.softplus)
def _onnx_softplus(graph: Graph, x: Any) -> GraphArray:
    return unary(graph, "Softplus", x)


# -- formulas ----------------------------------------------------------------------------------------------


@formula(np.astype)
def _astype(x: Array, dtype: DtypeLike, /, *, copy: bool = True, device: Any = None) -> Array:
    return x.astype(dtype, copy=copy)


@formula(np.allclose)
def _allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1.0e-5, atol: ArrayLike = 1.0e-8, equal_nan: bool = False
) -> Any:
    return np.isclose(a, b, rtol, atol, equal_nan).all()
