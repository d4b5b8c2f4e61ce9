"""Ufuncs and their methods, as operators of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.types import ArrayHolder
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import BOOL, Graph
from lite._transforms.graphs.rules import RULES
from lite._transforms.registry import NoRule, name_of

Formula = Callable[..., GraphArray]

# ufuncs that are one operator, of the dtype that NumPy computes in.
_OPERATORS: dict[np.ufunc, str] = {
    np.add: "Add",
    np.subtract: "Sub",
    np.multiply: "Mul",
    np.true_divide: "Div",
    np.power: "Pow",
    np.float_power: "Pow",
    np.maximum: "Max",
    np.minimum: "Min",
    np.negative: "Neg",
    np.absolute: "Abs",
    np.fabs: "Abs",
    np.exp: "Exp",
    np.log: "Log",
    np.sqrt: "Sqrt",
    np.reciprocal: "Reciprocal",
    np.sin: "Sin",
    np.cos: "Cos",
    np.tan: "Tan",
    np.arcsin: "Asin",
    np.arccos: "Acos",
    np.arctan: "Atan",
    np.sinh: "Sinh",
    np.cosh: "Cosh",
    np.tanh: "Tanh",
    np.arcsinh: "Asinh",
    np.arccosh: "Acosh",
    np.arctanh: "Atanh",
    np.sign: "Sign",
    np.floor: "Floor",
    np.ceil: "Ceil",
    np.rint: "Round",
}
_COMPARISONS: dict[np.ufunc, str] = {
    np.equal: "Equal",
    np.less: "Less",
    np.less_equal: "LessOrEqual",
    np.greater: "Greater",
    np.greater_equal: "GreaterOrEqual",
}
_LOGIC: dict[np.ufunc, str] = {
    np.logical_and: "And",
    np.logical_or: "Or",
    np.logical_xor: "Xor",
    np.logical_not: "Not",
}
_OF_FLOATS = (np.floor, np.ceil, np.rint, np.reciprocal)  # whole numbers stay what they are
_INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))  # ONNX has no arithmetic of most others
_OF_BOOLS: dict[np.ufunc, str] = {np.add: "Or", np.multiply: "And", np.maximum: "Or", np.minimum: "And"}
_BITS: dict[np.ufunc, tuple[str, str]] = {  # of bools, of integers
    np.bitwise_and: ("And", "BitwiseAnd"),
    np.bitwise_or: ("Or", "BitwiseOr"),
    np.bitwise_xor: ("Xor", "BitwiseXor"),
    np.invert: ("Not", "BitwiseNot"),
}


def _python_scalar(x: Any) -> bool:
    return type(x) in (bool, int, float)


def call_ufunc(graph: Graph, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: Any) -> Any:
    """`getattr(ufunc, method)(*inputs, **kwargs)` with symbolic arrays among the arguments."""
    out = kwargs.get("out")
    out = None if out is None or all(target is None for target in out) else out
    kwargs = {key: value for key, value in kwargs.items() if key not in ("out", "casting", "order", "subok")}
    inputs = tuple(x.data if isinstance(x, ArrayHolder) else x for x in inputs)
    try:
        if method == "__call__":
            result = _call(graph, ufunc, inputs, kwargs)
        else:
            result = _METHODS[method](graph, ufunc, *inputs, **kwargs)
    except (NoRule, KeyError):
        name = name_of(ufunc) + ("" if method == "__call__" else f".{method}")
        graph.fail(f"calls {name}, which has no rule for ONNX with these arguments")
    return result if out is None else write(graph, out, result)


def write(graph: Graph, out: Any, result: Any) -> Any:
    """Put results where the caller asked for them."""
    for target, value in zip(out, result if type(result) is tuple else (result,), strict=True):
        if target is None:
            continue
        if not isinstance(target, GraphArray):
            graph.fail("writes what it computed into an ndarray (out=, or +=): use the result instead")
        if not np.can_cast(value.dtype, target.dtype, "same_kind"):
            raise TypeError(f"cannot cast the result from {value.dtype} to {target.dtype} in place.")
        target.replace(graph.cast(graph.expand(value, target.shape), target.dtype))
    return out[0] if len(out) == 1 else out


def _call(graph: Graph, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if ufunc in RULES:
        return RULES[ufunc](graph, *inputs, **kwargs)
    wanted = kwargs.pop("dtype", None)
    where = kwargs.pop("where", True)
    if kwargs or where is not True:
        raise NoRule
    loop = list(resolved(ufunc, inputs, wanted))
    arrays = [graph.operand(x, dtype) for x, dtype in zip(inputs, loop, strict=False)]
    result = loop[len(inputs)]
    formula = _FORMULAS.get(ufunc)
    if formula is not None:
        return formula(graph, *arrays)
    shape = graph.broadcast([x.shape for x in arrays])
    if ufunc in _COMPARISONS:
        if arrays[0].dtype == BOOL and ufunc is not np.equal:
            arrays = [graph.cast(x, np.int32) for x in arrays]
        return graph.emit(_COMPARISONS[ufunc], arrays, shape, BOOL)
    if ufunc in _LOGIC:
        return graph.emit(_LOGIC[ufunc], [truth(graph, x) for x in arrays], shape, BOOL)
    if ufunc in _BITS:
        return graph.emit(_BITS[ufunc][arrays[0].dtype != BOOL], arrays, shape, result)
    if result == BOOL:  # sums and products of bools
        if ufunc not in _OF_BOOLS:
            raise NoRule
        return graph.emit(_OF_BOOLS[ufunc], arrays, shape, BOOL)
    if result.kind in "iu" and ufunc in _OF_FLOATS:
        if ufunc is np.reciprocal:
            raise NoRule
        return arrays[0].copy()
    if result.kind in "iu" and result not in _INTEGERS:
        wide = [graph.cast(x, np.int64) for x in arrays]
        return graph.cast(graph.emit(_OPERATORS[ufunc], wide, shape, np.int64), result)
    if len(arrays) == 1:
        return unary(graph, _OPERATORS[ufunc], arrays[0], result)
    return graph.emit(_OPERATORS[ufunc], arrays, shape, result)


def resolved(ufunc: np.ufunc, inputs: tuple[Any, ...], wanted: Any = None) -> tuple[np.dtype[Any], ...]:
    """The dtypes that NumPy computes in, of inputs and outputs."""
    kinds: list[Any] = []
    for x in inputs:
        if _python_scalar(x) and type(x) is not bool:
            kinds.append(type(x))
        else:
            kinds.append(x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype)
    if all(kind in (int, float) for kind in kinds):
        kinds[0] = np.dtype(kinds[0])
    asked = (*kinds, *[None] * ufunc.nout)
    if wanted is None:
        return ufunc.resolve_dtypes(asked)
    return ufunc.resolve_dtypes(asked, signature=(*[None] * ufunc.nin, np.dtype(wanted)))


def truth(graph: Graph, x: GraphArray) -> GraphArray:
    """Whether numbers are not 0."""
    return graph.cast(x, BOOL)


def binary(graph: Graph, op: str, a: GraphArray, b: Any, dtype: Any = None) -> GraphArray:
    """An operator of two arrays of one dtype; a number takes that of the first."""
    b = graph.operand(b, a.dtype)
    return graph.emit(op, [a, b], graph.broadcast([a.shape, b.shape]), a.dtype if dtype is None else dtype)


def unary(graph: Graph, op: str, x: GraphArray, dtype: Any = None) -> GraphArray:
    """An operator of one array; of float64 by others, if onnxruntime has it for float32 alone."""
    if x.dtype == np.float64 and op in _FLOAT32_ONLY:
        formula = _OF_FLOAT64.get(op)
        if formula is not None:
            return formula(graph, x)
        return graph.cast(unary(graph, op, graph.cast(x, np.float32)), x.dtype)
    return graph.emit(op, [x], x.shape, x.dtype if dtype is None else dtype)


def select(graph: Graph, condition: GraphArray, a: Any, b: Any, dtype: Any) -> GraphArray:
    """`np.where` in a dtype."""
    arrays = [condition, graph.operand(a, dtype), graph.operand(b, dtype)]
    return graph.emit("Where", arrays, graph.broadcast([x.shape for x in arrays]), dtype)


# -- ufuncs that take several operators, of arrays in the dtypes that NumPy computes in -------------------


def _log1p(graph: Graph, x: GraphArray) -> GraphArray:
    # log(1 + x) loses the digits of a small x; times x / ((1 + x) - 1) they are back (Kahan).
    one_more = binary(graph, "Add", x, 1.0)
    kept = binary(graph, "Sub", one_more, 1.0)
    small = graph.emit("Equal", [kept, graph.operand(0.0, x.dtype)], x.shape, BOOL)
    infinite = unary(graph, "IsInf", x, BOOL)
    plain = unary(graph, "Log", one_more)
    safe = select(graph, small, 1.0, kept, x.dtype)
    exact = binary(graph, "Mul", plain, binary(graph, "Div", x, safe))
    return select(graph, small, x, select(graph, infinite, plain, exact, x.dtype), x.dtype)


def _expm1(graph: Graph, x: GraphArray) -> GraphArray:
    # exp(x) - 1 = 2 exp(x / 2) sinh(x / 2) keeps the digits of a small x, and x itself where that overflows.
    half = binary(graph, "Mul", x, 0.5)
    near = binary(
        graph, "Mul", binary(graph, "Mul", unary(graph, "Exp", half), unary(graph, "Sinh", half)), 2.0
    )
    close = graph.emit("Less", [unary(graph, "Abs", x), graph.operand(1.0, x.dtype)], x.shape, BOOL)
    return select(graph, close, near, binary(graph, "Sub", unary(graph, "Exp", x), 1.0), x.dtype)


def _floor_divide(graph: Graph, a: GraphArray, b: GraphArray) -> GraphArray:
    if a.dtype.kind == "f":
        return unary(graph, "Floor", binary(graph, "Div", a, b))
    rest = _remainder(graph, a, b)
    return binary(graph, "Div", binary(graph, "Sub", a, rest), b)


def _remainder(graph: Graph, a: GraphArray, b: GraphArray) -> GraphArray:
    if a.dtype.kind == "f":
        whole = unary(graph, "Floor", binary(graph, "Div", a, b))
        return binary(graph, "Sub", a, binary(graph, "Mul", whole, b))
    return binary(graph, "Mod", a, b)


def _trunc(graph: Graph, x: GraphArray) -> GraphArray:
    if x.dtype.kind != "f":
        return x.copy()
    return binary(graph, "Mul", unary(graph, "Sign", x), unary(graph, "Floor", unary(graph, "Abs", x)))


def _copysign(graph: Graph, a: GraphArray, b: GraphArray) -> GraphArray:
    below = binary(graph, "Less", b, 0.0, BOOL)
    size = unary(graph, "Abs", a)
    return select(graph, below, unary(graph, "Neg", size), size, a.dtype)


def _arctan2(graph: Graph, y: GraphArray, x: GraphArray) -> GraphArray:
    zero = binary(graph, "Equal", x, 0.0, BOOL)
    left = binary(graph, "Less", x, 0.0, BOOL)
    below = binary(graph, "Less", y, 0.0, BOOL)
    angle = unary(graph, "Atan", binary(graph, "Div", y, select(graph, zero, 1.0, x, x.dtype)))
    turned = binary(graph, "Add", angle, select(graph, below, -math.pi, math.pi, x.dtype))
    upright = binary(graph, "Mul", unary(graph, "Sign", y), math.pi / 2)
    return select(graph, zero, upright, select(graph, left, turned, angle, x.dtype), x.dtype)


def _logaddexp(graph: Graph, a: GraphArray, b: GraphArray) -> GraphArray:
    gap = unary(graph, "Neg", unary(graph, "Abs", binary(graph, "Sub", a, b)))
    return binary(graph, "Add", binary(graph, "Max", a, b), _log1p(graph, unary(graph, "Exp", gap)))


def _isfinite(graph: Graph, x: GraphArray) -> GraphArray:
    bad = binary(graph, "Or", _tested("IsNaN")(graph, x), _tested("IsInf")(graph, x))
    return unary(graph, "Not", bad)


def _tested(op: str) -> Formula:
    def formula(graph: Graph, x: GraphArray) -> GraphArray:
        x = x if x.dtype.kind == "f" else graph.cast(x, np.float32)
        return unary(graph, op, x, BOOL)

    return formula


def _scaled_log(base: float) -> Formula:
    return lambda graph, x: binary(graph, "Mul", unary(graph, "Log", x), 1.0 / math.log(base))


def _not_equal(graph: Graph, a: GraphArray, b: GraphArray) -> GraphArray:
    return unary(graph, "Not", binary(graph, "Equal", a, b, BOOL))


def _hypot(graph: Graph, a: GraphArray, b: GraphArray) -> GraphArray:
    total = binary(graph, "Add", binary(graph, "Mul", a, a), binary(graph, "Mul", b, b))
    return unary(graph, "Sqrt", total)


def _sinh(graph: Graph, x: GraphArray) -> GraphArray:
    rest = unary(graph, "Exp", unary(graph, "Neg", x))
    return binary(graph, "Mul", binary(graph, "Sub", unary(graph, "Exp", x), rest), 0.5)


def _cosh(graph: Graph, x: GraphArray) -> GraphArray:
    rest = unary(graph, "Exp", unary(graph, "Neg", x))
    return binary(graph, "Mul", binary(graph, "Add", unary(graph, "Exp", x), rest), 0.5)


def _arcsinh(graph: Graph, x: GraphArray) -> GraphArray:
    size = unary(graph, "Abs", x)
    root = unary(graph, "Sqrt", binary(graph, "Add", binary(graph, "Mul", x, x), 1.0))
    return binary(
        graph, "Mul", unary(graph, "Sign", x), unary(graph, "Log", binary(graph, "Add", size, root))
    )


def _arccosh(graph: Graph, x: GraphArray) -> GraphArray:
    root = unary(graph, "Sqrt", binary(graph, "Sub", binary(graph, "Mul", x, x), 1.0))
    return unary(graph, "Log", binary(graph, "Add", x, root))


def _arctanh(graph: Graph, x: GraphArray) -> GraphArray:
    below = _log1p(graph, unary(graph, "Neg", x))
    return binary(graph, "Mul", binary(graph, "Sub", _log1p(graph, x), below), 0.5)


def _softplus(graph: Graph, x: GraphArray) -> GraphArray:
    rest = unary(graph, "Exp", unary(graph, "Neg", unary(graph, "Abs", x)))
    return binary(graph, "Add", binary(graph, "Max", x, 0.0), _log1p(graph, rest))


def _tan(graph: Graph, x: GraphArray) -> GraphArray:
    return binary(graph, "Div", unary(graph, "Sin", x), unary(graph, "Cos", x))


# Those without a formula lose the digits that float32 lacks.
_OF_FLOAT64: dict[str, Formula] = {
    "Sinh": _sinh,
    "Cosh": _cosh,
    "Tan": _tan,
    "Asinh": _arcsinh,
    "Acosh": _arccosh,
    "Atanh": _arctanh,
    "Softplus": _softplus,
}
_FLOAT32_ONLY = frozenset({*_OF_FLOAT64, "Acos", "Asin", "Atan", "Erf"})


_FORMULAS: dict[np.ufunc, Formula] = {
    np.positive: lambda graph, x: x.copy(),
    np.square: lambda graph, x: binary(graph, "Mul", x, x),
    np.conjugate: lambda graph, x: x.copy(),
    np.log1p: _log1p,
    np.expm1: _expm1,
    np.log2: _scaled_log(2.0),
    np.log10: _scaled_log(10.0),
    np.exp2: lambda graph, x: unary(graph, "Exp", binary(graph, "Mul", x, math.log(2.0))),
    np.deg2rad: lambda graph, x: binary(graph, "Mul", x, math.pi / 180),
    np.rad2deg: lambda graph, x: binary(graph, "Mul", x, 180 / math.pi),
    np.floor_divide: _floor_divide,
    np.remainder: _remainder,
    np.trunc: _trunc,
    np.copysign: _copysign,
    np.arctan2: _arctan2,
    np.logaddexp: _logaddexp,
    np.hypot: _hypot,
    np.isnan: _tested("IsNaN"),
    np.isinf: _tested("IsInf"),
    np.isfinite: _isfinite,
    np.not_equal: _not_equal,
}


# -- methods of ufuncs -------------------------------------------------------------------------------------

_REDUCTIONS: dict[np.ufunc, Any] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}


def _reduce(graph: Graph, ufunc: np.ufunc, a: Any, axis: Any = 0, dtype: Any = None, **kwargs: Any) -> Any:
    function = _REDUCTIONS.get(ufunc)
    if function is None:
        raise NoRule
    if dtype is not None:
        kwargs["dtype"] = dtype
    return RULES[function](graph, a, axis=axis, **kwargs)


def _accumulate(graph: Graph, ufunc: np.ufunc, a: Any, axis: int = 0, dtype: Any = None) -> Any:
    if ufunc is not np.add:
        raise NoRule
    return RULES[np.cumsum](graph, a, axis=axis, dtype=dtype)


def _outer(graph: Graph, ufunc: np.ufunc, a: Any, b: Any, **kwargs: Any) -> Any:
    first = graph.operand(a)
    second = graph.operand(b)
    return ufunc(first[(..., *[None] * second.ndim)], second, **kwargs)


_METHODS: dict[str, Any] = {"reduce": _reduce, "accumulate": _accumulate, "outer": _outer}
SUPPORTED = frozenset({*_OPERATORS, *_COMPARISONS, *_LOGIC, *_BITS, *_FORMULAS})
