"""Rules of functions that act on elements, and of lite's own that have an operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays import formulas
from lite._transforms.graphs.graph import BOOL, Graph
from lite._transforms.graphs.rules import composed, rule, rules_of
from lite._transforms.graphs.ufuncs import binary, select, truth, unary
from lite._transforms.registry import NoRule, default

_NO_VALUE = default(np.clip, "a_min")


@rule(np.where)
def _where(graph: Graph, condition: Any, *choices: Any) -> Any:
    if not choices:
        raise NoRule("where the condition holds depends on numbers")
    x, y = choices
    kinds = [item if type(item) in (int, float, bool) else graph.operand(item).dtype for item in choices]
    dtype = np.result_type(*kinds)
    return select(graph, truth(graph, graph.operand(condition)), x, y, dtype)


@composed(np.clip)
def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None, **kwargs: Any
) -> Any:
    low: Any = min if a_min is None or a_min is _NO_VALUE else a_min
    high: Any = max if a_max is None or a_max is _NO_VALUE else a_max
    out = a
    if low is not None:
        out = np.maximum(out, low, **kwargs)
    if high is not None:
        out = np.minimum(out, high, **kwargs)
    return np.positive(out) if out is a else out


@rules_of(np.real, np.asarray, np.ascontiguousarray, np.real_if_close)
def _itself(function: Any) -> Any:
    return lambda graph, x, *args, **kwargs: x


@rule(np.copy)
def _copy(graph: Graph, a: Any, *args: Any, **kwargs: Any) -> Any:
    return a.copy()


@rule(np.round, np.around)
def _round(graph: Graph, a: Any, decimals: int = 0) -> Any:
    x = graph.operand(a)
    if x.dtype.kind != "f":
        if decimals < 0:
            raise NoRule
        return x.copy()
    if not decimals:
        return unary(graph, "Round", x)
    scaled = unary(graph, "Round", binary(graph, "Mul", x, 10.0**decimals))
    return binary(graph, "Div", scaled, 10.0**decimals)


@composed(np.fix)
def _fix(x: Any) -> Any:
    return np.trunc(x)


@rule(np.nan_to_num)
def _nan_to_num(
    graph: Graph, x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    if not copy:
        raise NoRule("copy=False")
    x = graph.operand(x)
    if x.dtype.kind != "f":
        return x.copy()
    limits = np.finfo(x.dtype)
    out = np.where(np.isnan(x), x.dtype.type(nan), x)
    out = np.where(np.isinf(x) & (x > 0), x.dtype.type(limits.max if posinf is None else posinf), out)
    return np.where(np.isinf(x) & (x < 0), x.dtype.type(limits.min if neginf is None else neginf), out)


@composed(np.isclose)
def _isclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False) -> Any:
    close = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
    return close | (np.isnan(a) & np.isnan(b)) if equal_nan else close


@composed(np.allclose)
def _allclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False) -> Any:
    return np.all(np.isclose(a, b, rtol, atol, equal_nan))


@composed(np.select)
def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    out = default
    for condition, choice in zip(condlist[::-1], choicelist[::-1], strict=True):
        out = np.where(condition, choice, out)
    return out


@rule(np.result_type)
def _result_type(graph: Graph, *arrays_and_dtypes: Any) -> Any:
    return np.result_type(*[item.dtype if _has_dtype(item) else item for item in arrays_and_dtypes])


def _has_dtype(item: Any) -> bool:
    return hasattr(item, "dtype") and not isinstance(item, type)


@rule(np.can_cast)
def _can_cast(graph: Graph, from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(from_.dtype if _has_dtype(from_) else from_, to, casting)


@rule(np.iscomplexobj)
def _iscomplexobj(graph: Graph, x: Any) -> bool:
    return False


@rule(np.isrealobj)
def _isrealobj(graph: Graph, x: Any) -> bool:
    return True


@rule(np.astype)
def _astype(graph: Graph, x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return x.astype(dtype, copy=copy)


@rule(formulas.erf)
def _erf(graph: Graph, x: Any) -> Any:
    return unary(graph, "Erf", x)


@rule(formulas.erfc)
def _erfc(graph: Graph, x: Any) -> Any:
    return binary(graph, "Sub", graph.operand(1.0, x.dtype), _erf(graph, x))


@rule(formulas.softplus)
def _softplus(graph: Graph, x: Any) -> Any:
    return unary(graph, "Softplus", x)


@rule(np.isin)
def _isin(graph: Graph, element: Any, test_elements: Any, *args: Any, **kwargs: Any) -> Any:
    raise NoRule


@rule(np.isposinf)
def _isposinf(graph: Graph, x: Any) -> Any:
    return np.isinf(x) & (x > 0)


@rule(np.isneginf)
def _isneginf(graph: Graph, x: Any) -> Any:
    return np.isinf(x) & (x < 0)


@rule(np.heaviside)
def _heaviside(graph: Graph, x: Any, h0: Any) -> Any:
    x = graph.operand(x)
    above = graph.cast(graph.emit("Greater", [x, graph.operand(0, x.dtype)], x.shape, BOOL), x.dtype)
    return np.where(np.equal(x, 0), h0, above)
