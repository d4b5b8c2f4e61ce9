"""Rules of functions that make an array like another, copy one, or show or save it."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from lite._transforms.grad.along import operand
from lite._transforms.grad.rules import composed, rule, rules_of
from lite._transforms.grad.tape import constant, value_of
from lite._transforms.registry import NoRule


@rules_of(np.zeros_like, np.ones_like, np.empty_like)
def _like(function: Any) -> Any:
    def run(a: Any, *args: Any, **kwargs: Any) -> Any:
        # Traced, although nothing leads there yet: it may be written into.
        return constant(function(value_of(a), *args, **kwargs), a)

    return run


@composed(np.full_like)
def _full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    **kwargs: Any,
) -> Any:
    filled = np.ones_like(a, shape=shape) * fill_value
    return filled.astype(a.dtype if dtype is None else dtype, copy=False)


@composed(np.copy)
def _copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    return a.copy()


@composed(np.linspace)
def _linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    start, stop = operand(start), operand(stop)
    parts = num - 1 if endpoint else num
    step = (stop - start) / parts if parts > 0 else (stop - start) * np.nan
    ndim = np.ndim(step)
    places = np.arange(num, dtype=step.dtype).reshape(-1, *[1] * ndim)
    if endpoint and num > 1:  # the end is met exactly
        out = np.concatenate([start + step * places[:-1], np.broadcast_to(stop, (1, *step.shape))])
    else:
        out = start + (step * places if num > 1 else 0 * places)
    out = np.moveaxis(out, 0, axis)
    out = out if dtype is None else out.astype(dtype)
    return (out, step) if retstep else out


@composed(np.logspace)
def _logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    if np.ndim(base):
        raise NoRule
    out = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return out if dtype is None else out.astype(dtype)


@composed(np.geomspace)
def _geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    ratio = np.true_divide(stop, start)
    places = np.linspace(0.0, 1.0, num, endpoint).reshape(-1, *[1] * np.ndim(ratio))
    out = np.moveaxis(start * np.power(ratio, places), 0, axis)
    return out if dtype is None else out.astype(dtype)


@rule(np.save, np.savez, np.savez_compressed, np.savetxt)
def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "an array that a gradient is computed for is not saved, as its derivative would be lost: save what "
        "detach() gives, or what the differentiated function returns."
    )
