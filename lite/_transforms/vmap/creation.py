"""Rules of functions that make an array like another, copy one, keep a part of it, show it or save it."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from lite._transforms.formulas import ndim_of
from lite._transforms.registry import NoRule
from lite._transforms.vmap.along import further
from lite._transforms.vmap.level import Level, batched_in
from lite._transforms.vmap.rules import rule, rules_of


def _sizes(level: Level, a: Any, shape: Any) -> tuple[int, ...]:
    if shape is None:
        shape = a.shape
    return (level.size, *(shape if isinstance(shape, tuple | list) else (shape,)))


@rules_of(np.zeros_like, np.ones_like, np.empty_like)
def _like(function: Any) -> Any:
    def run(
        level: Level,
        a: Any,
        dtype: Any = None,
        order: str = "K",
        subok: bool = True,
        shape: Any = None,
        **kwargs: Any,
    ) -> Any:
        return level.wrap(function(a.value, dtype, "C", shape=_sizes(level, a, shape)))

    return run


@rule(np.full_like)
def _full_like(
    level: Level,
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    **kwargs: Any,
) -> Any:
    out = level.wrap(np.empty_like(a.value, dtype, "C", shape=_sizes(level, a, shape)))
    out[...] = fill_value
    return out


@rule(np.copy)
def _copy(level: Level, a: Any, order: str = "K", subok: bool = False) -> Any:
    return level.wrap(a.value.copy())


@rules_of(np.tril, np.triu)
def _triangle(function: Any) -> Any:
    def run(level: Level, m: Any, k: int = 0) -> Any:
        if not level.on(m) or hasattr(k, "level"):
            raise NoRule
        value = m.value
        if m.ndim == 1:  # a row repeated into a square
            value = np.broadcast_to(value[:, None, :], (level.size, m.shape[0], m.shape[0]))
        return level.wrap(function(value, k))

    return run


@rule(np.fill_diagonal)
def _fill_diagonal(level: Level, a: Any, val: Any, wrap: bool = False) -> None:
    if a.ndim != 2 or wrap or np.ndim(val) > 1:
        raise NoRule
    rows = np.arange(min(a.shape))
    if np.ndim(val) and np.shape(val)[0] != len(rows):
        raise NoRule
    a[rows, rows] = val


@rule(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(
    level: Level, x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    ndim = x.ndim
    windows = window_shape if isinstance(window_shape, tuple | list) else (window_shape,)
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    if len(windows) != len(axes):
        raise ValueError(f"window_shape must have one size for each of the axes {tuple(axes)}, got {windows}")
    places = tuple([a % ndim + 1 for a in axes])
    return level.wrap(
        np.lib.stride_tricks.sliding_window_view(x.value, tuple(windows), places, writeable=writeable)
    )


@rules_of(np.linspace, np.logspace, np.geomspace)
def _spaced(function: Any) -> Any:
    def run(level: Level, start: Any, stop: Any, *args: Any, axis: int = 0, **kwargs: Any) -> Any:
        if batched_in((args, kwargs), []):
            raise NoRule
        ndim = max(ndim_of(start), ndim_of(stop))
        place = further(axis, ndim + 1)
        out = function(level.align(start, ndim), level.align(stop, ndim), *args, axis=place, **kwargs)
        return level.wrap_all(out) if isinstance(out, tuple) else level.wrap(out)

    return run


@rules_of(np.tril_indices_from, np.triu_indices_from)
def _triangle_indices(function: Any) -> Any:
    return lambda level, arr, k=0: function(np.broadcast_to(np.int8(0), arr.shape), k)


@rule(np.diag_indices_from)
def _diagonal_indices(level: Level, arr: Any) -> Any:
    return np.diag_indices_from(np.broadcast_to(np.int8(0), arr.shape))


@rule(np.array_repr, np.array_str, np.array2string)
def _text(level: Level, a: Any, *args: Any, **kwargs: Any) -> str:
    return repr(a)


@rule(np.save, np.savez, np.savez_compressed, np.savetxt)
def _refuse(level: Level, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "an array inside vmap stands for one element along the mapped dimension and is not saved: return it "
        "from the mapped function and save the result."
    )
