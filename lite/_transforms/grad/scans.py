"""Rules of running sums and products, and of what else goes along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.grad.along import given, operand, wide
from lite._transforms.grad.rules import composed, rule, rules_of
from lite._transforms.grad.tape import is_traced, record, value_of
from lite._transforms.registry import NoRule


def _reverse_sum(g: Any, axis: int) -> Any:
    return np.flip(np.cumsum(np.flip(wide(g), axis), axis), axis)


@rule(np.cumsum)
def _cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    options = given(dtype=dtype, out=out)
    if axis is None:
        a, axis = np.ravel(a), 0
    value = np.cumsum(value_of(a), axis, **options)
    return record(_floats(value), (a, lambda g: _reverse_sum(g, axis)))


def _floats(value: Any) -> Any:
    if value.dtype.kind in "biu":
        raise NoRule  # sums of integer parts, which no derivative would be of
    return value


@rule(np.cumprod)
def _cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    options = given(dtype=dtype, out=out)
    if axis is None:
        a, axis = np.ravel(a), 0
    held = value_of(a)
    value = np.cumprod(held, axis, **options)

    def pull(g: Any) -> Any:
        # By x_i: what is in front of it, times s_i = g_i + x_(i+1) s_(i+1); zeros need no division.
        x, s = np.moveaxis(held, axis, -1), np.moveaxis(g, axis, -1)
        one = np.ones_like(x[..., :1])
        before = np.cumprod(np.concatenate([one, x[..., :-1]], -1), -1)
        return np.moveaxis(before * _recursion(np.concatenate([x[..., 1:], one], -1), s), -1, axis)

    return record(_floats(value), (a, pull))


def _recursion(a: Any, b: Any) -> Any:
    """The s with s_i = b_i + a_i s_(i+1) along the last axis, where what is after the end is 0.

    Maps s -> b + a s are composed with those 1, 2, 4, ... further on.
    """
    length, step = b.shape[-1], 1
    while step < length:
        b = np.concatenate([b[..., :-step] + a[..., :-step] * b[..., step:], b[..., -step:]], -1)
        a = np.concatenate([a[..., :-step] * a[..., step:], np.zeros_like(a[..., -step:])], -1)
        step *= 2
    return b


def running_extreme(ufunc: np.ufunc, a: Any, axis: int = 0, dtype: Any = None) -> Any:
    """`ufunc.accumulate` for the largest or smallest so far: each is an element, the latest of equal ones."""
    if dtype is not None:
        raise NoRule
    held = value_of(a)
    best = ufunc.accumulate(held, axis)
    steps = np.arange(held.shape[axis]).reshape((-1,) + (1,) * (held.ndim - axis % held.ndim - 1))
    found = np.where((held == best) | np.isnan(held), steps, 0)
    return np.take_along_axis(a, np.maximum.accumulate(found, axis), axis)


@rules_of(np.cumulative_sum, np.cumulative_prod)
def _cumulative(function: Any) -> Any:
    running, start = (np.cumsum, 0) if function is np.cumulative_sum else (np.cumprod, 1)

    def run(
        x: Any,
        /,
        *,
        axis: int | None = None,
        dtype: Any = None,
        out: Any = None,
        include_initial: bool = False,
    ) -> Any:
        options = given(dtype=dtype, out=out)
        if axis is None:
            if x.ndim != 1:
                raise ValueError(f"{function.__name__} of {x.ndim} dimensions needs the argument axis.")
            axis = 0
        result = running(x, axis, **options)
        if not include_initial:
            return result
        shape = [1 if d == axis % x.ndim else size for d, size in enumerate(x.shape)]
        return np.concatenate([np.full(shape, start, result.dtype), result], axis)

    return run


@rules_of(np.nancumsum, np.nancumprod)
def _without_nan(function: Any) -> Any:
    plain, neutral = (np.cumsum, 0) if function is np.nancumsum else (np.cumprod, 1)

    def run(a: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(np.where(np.isnan(a), neutral, a), *args, **kwargs)

    return run


@rule(np.unwrap)
def _unwrap(p: Any, *args: Any, **kwargs: Any) -> Any:
    if is_traced((args, kwargs)):
        raise NoRule
    # What is added are whole periods, which change by jumps only.
    return record(np.unwrap(value_of(p), *args, **kwargs), (p, lambda g: g))


@composed(np.interp)
def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    if period is not None:
        raise NoRule
    x, xp, fp = operand(x), operand(xp), operand(fp)
    places, points = value_of(x), value_of(xp)
    if points.shape[0] == 1:
        raise NoRule
    last = len(points) - 1
    i = np.clip(np.searchsorted(points, places, "right") - 1, 0, last - 1)
    x0, x1, f0, f1 = xp[i], xp[i + 1], fp[i], fp[i + 1]
    inner = f0 + (f1 - f0) * ((x - x0) / (x1 - x0))
    low = fp[0] if left is None else left
    high = fp[last] if right is None else right
    return np.where(places < points[0], low, np.where(places > points[last], high, inner))
