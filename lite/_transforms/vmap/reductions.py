"""Rules of reductions, scans and other functions along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.registry import NoRule, default, parameters
from lite._transforms.vmap.along import all_further, along
from lite._transforms.vmap.level import Level, ndim_of
from lite._transforms.vmap.rules import composed, rule, rules_of


def bound_to(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments by the names of a function's parameters."""
    return {**dict(zip(parameters(function), args, strict=False)), **kwargs}


@rules_of(
    *(np.sum, np.prod, np.max, np.min, np.amax, np.amin, np.mean, np.std, np.var, np.any, np.all, np.ptp),
    *(np.argmax, np.argmin, np.median, np.cumsum, np.cumprod, np.cumulative_sum, np.cumulative_prod),
    *(np.nansum, np.nanprod, np.nanmax, np.nanmin, np.nanmean, np.nanstd, np.nanvar, np.nanmedian),
    *(np.nanargmax, np.nanargmin, np.nancumsum, np.nancumprod, np.count_nonzero),
    *(np.sort, np.argsort, np.partition, np.argpartition, np.unwrap, np.delete),
)
def _along_axis(function: Any) -> Any:
    name, start = parameters(function)[0], default(function, "axis")

    def run(level: Level, *args: Any, **kwargs: Any) -> Any:
        bound = bound_to(function, args, kwargs)
        array, axis = bound.pop(name), bound.pop("axis", start)
        if axis is None and function in _ONE_DIMENSION and ndim_of(array) != 1:
            raise ValueError(f"{function.__name__} of an array of {ndim_of(array)} dimensions needs an axis.")
        return along(level, function, array, axis, bound)

    return run


_ONE_DIMENSION = (np.cumulative_sum, np.cumulative_prod)


@rules_of(np.quantile, np.percentile, np.nanquantile, np.nanpercentile)
def _quantile(function: Any) -> Any:
    def run(level: Level, *args: Any, **kwargs: Any) -> Any:
        bound = bound_to(function, args, kwargs)
        array, axis = bound.pop("a"), bound.pop("axis", None)
        if bound.get("weights") is not None:
            raise NoRule
        if bound.get("keepdims") is True and axis is None:
            axis = tuple(range(ndim_of(array)))
        ndim = ndim_of(bound["q"])

        def first(a: Any, **rest: Any) -> Any:
            # The dimensions of q come first, before the mapped one.
            return np.moveaxis(function(a, **rest), ndim, 0)

        return along(level, first, array, axis, bound)

    return run


@composed(np.average)
def _average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    if weights is None:
        mean = np.mean(a, axis, keepdims=keepdims)
        count = np.size(a) / max(np.size(mean), 1)
        return (mean, np.full_like(mean, count)) if returned else mean
    if np.shape(weights) != np.shape(a):
        (place,) = all_further(axis, ndim_of(a))
        weights = np.reshape(weights, (-1, *[1] * (ndim_of(a) - place)))
    weights = np.broadcast_to(weights, np.shape(a))
    total = np.sum(weights, axis, keepdims=keepdims)
    mean = np.sum(a * weights, axis, keepdims=keepdims) / total
    return (mean, total) if returned else mean


@composed(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    no_value = default(np.diff, "prepend")
    ends = [end for end in (prepend, append) if end is not None and end is not no_value]
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if n and ends:
        one = tuple(1 if d == axis % ndim_of(a) else size for d, size in enumerate(np.shape(a)))

        def wide(end: Any) -> Any:
            return np.broadcast_to(end, one) if ndim_of(end) == 0 else end

        parts = [wide(prepend)] if prepend is not None and prepend is not no_value else []
        parts.append(a)
        if append is not None and append is not no_value:
            parts.append(wide(append))
        a = np.concatenate(parts, axis)
    at = (slice(None),) * (axis % ndim_of(a))
    for _ in range(n):
        later, earlier = a[(*at, slice(1, None))], a[(*at, slice(None, -1))]
        a = later != earlier if a.dtype.kind == "b" else later - earlier
    return a


@composed(np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    ndim = ndim_of(y)
    at = (slice(None),) * (axis % ndim)
    if x is not None:
        dx = np.diff(x, axis=axis if ndim_of(x) > 1 else -1)
        if ndim_of(dx) == 1:
            dx = dx.reshape(-1, *[1] * (ndim - 1 - axis % ndim))
    return (dx * (y[(*at, slice(1, None))] + y[(*at, slice(None, -1))]) / 2.0).sum(axis)


@composed(np.cov)
def _cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Any:
    rows = _rows(m, rowvar)
    if y is not None:
        rows = np.concatenate([rows, _rows(y, rowvar)], 0)
    count = rows.shape[1] - (ddof if ddof is not None else 0 if bias else 1)
    centred = rows - rows.mean(1, keepdims=True)
    return np.squeeze(np.matmul(centred, np.conjugate(centred.T)) / count)


@composed(np.corrcoef)
def _corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    covariance = np.cov(x, y, rowvar)
    if ndim_of(covariance) == 0:
        return covariance / covariance
    deviation = np.sqrt(np.diagonal(covariance).real)
    return np.clip(covariance / deviation[:, None] / deviation, -1, 1)


def _rows(x: Any, rowvar: bool) -> Any:
    x = np.atleast_2d(x)
    return x if rowvar or np.shape(x)[0] == 1 else x.T


@rule(np.flip)
def _flip(level: Level, m: Any, axis: Any = None) -> Any:
    return level.wrap(np.flip(m.value, all_further(range(m.ndim) if axis is None else axis, m.ndim)))


@composed(np.polyval)
def _polyval(p: Any, x: Any) -> Any:
    out = np.zeros_like(x)
    for coefficient in p:
        out = out * x + coefficient
    return out
