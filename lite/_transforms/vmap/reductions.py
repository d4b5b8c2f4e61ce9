"""Rules of reductions, scans and other functions along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.formulas import ndim_of
from lite._transforms.registry import NoRule, default, parameters
from lite._transforms.vmap.along import all_further, along
from lite._transforms.vmap.level import Level
from lite._transforms.vmap.rules import rule, rules_of


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


@rule(np.flip)
def _flip(level: Level, m: Any, axis: Any = None) -> Any:
    return level.wrap(np.flip(m.value, all_further(range(m.ndim) if axis is None else axis, m.ndim)))
