"""Rules of functions that act on elements and broadcast their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.registry import NoRule, default
from lite._transforms.vmap.level import Level, batched_in
from lite._transforms.vmap.rules import composed, rule, rules_of
from lite._transforms.vmap.ufuncs import elementwise

_NO_VALUE = default(np.clip, "a_min")


@rules_of(
    np.real,
    np.imag,
    np.angle,
    np.round,
    np.around,
    np.fix,
    np.nan_to_num,
    np.sinc,
    np.i0,
    np.isreal,
    np.iscomplex,
    np.isposinf,
    np.isneginf,
)
def _of_elements(function: Any) -> Any:
    def run(level: Level, x: Any, *args: Any, **kwargs: Any) -> Any:
        if not level.on(x) or batched_in((args, kwargs), []):
            raise NoRule
        return level.wrap(function(x.value, *args, **kwargs))

    return run


@rule(np.where)
def _where(level: Level, condition: Any, *choices: Any) -> Any:
    return elementwise(np.where, (condition, *choices)) if choices else np.nonzero(condition)


@composed(np.clip)
def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None, **kwargs: Any
) -> Any:
    low: Any = min if a_min is None or a_min is _NO_VALUE else a_min
    high: Any = max if a_max is None or a_max is _NO_VALUE else a_max
    if low is None and high is None:
        return np.positive(a, **kwargs)
    if high is None:
        return np.maximum(a, low, **kwargs)
    if low is None:
        return np.minimum(a, high, **kwargs)
    return elementwise(_clipped, (a, low, high), kwargs)


def _clipped(a: Any, low: Any, high: Any, **kwargs: Any) -> Any:
    return np.clip(a, low, high, **kwargs)


@composed(np.isclose)
def _isclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False) -> Any:
    def close(x: Any, y: Any, relative: Any, absolute: Any) -> Any:
        return np.isclose(x, y, relative, absolute, equal_nan)

    return elementwise(close, (a, b, rtol, atol))


@rule(np.array_equal)
def _array_equal(level: Level, a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    if np.shape(a1) != np.shape(a2):
        return level.wrap(np.zeros(level.size, np.bool_))
    same = np.equal(a1, a2)
    return (same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same).all()


@rule(np.result_type)
def _result_type(level: Level, *arrays_and_dtypes: Any) -> Any:
    return np.result_type(*[item.dtype if hasattr(item, "level") else item for item in arrays_and_dtypes])


@rule(np.can_cast)
def _can_cast(level: Level, from_: Any, to: Any, casting: str = "safe") -> bool:
    return np.can_cast(from_.dtype if hasattr(from_, "level") else from_, to, casting)  # type: ignore[arg-type]


@rule(np.iscomplexobj)
def _iscomplexobj(level: Level, x: Any) -> bool:
    return bool(x.dtype.kind == "c")


@rule(np.isrealobj)
def _isrealobj(level: Level, x: Any) -> bool:
    return bool(x.dtype.kind != "c")


@rule(np.astype)
def _astype(level: Level, x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return x.astype(dtype, copy=copy)
