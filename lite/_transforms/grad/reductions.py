"""Rules of reductions.

Where several elements are the largest or the smallest, they have equal shares, as with `torch.amax`. Elements
that `where` leaves out, or a function for NaN skips, have none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.grad.along import NOT_GIVEN, Rows, given, kept_shape, masked, spread
from lite._transforms.grad.rules import composed, rule, rules_of
from lite._transforms.grad.tape import is_traced, record, value_of
from lite._transforms.registry import NoRule


@rule(np.sum)
def _sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NOT_GIVEN,
    initial: Any = NOT_GIVEN,
    where: Any = NOT_GIVEN,
) -> Any:
    if is_traced(initial):
        return np.sum(a, axis, dtype, keepdims=keepdims, where=where) + initial
    options = given(dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where)
    held = value_of(a)
    value = _floats(np.sum(held, axis, **options), held)
    shape, mask = held.shape, options.get("where")
    return record(value, (a, lambda g: masked(spread(g, shape, axis), mask)))


def _floats(value: Any, held: Any) -> Any:
    if value.dtype.kind in "biu" and held.dtype.kind not in "biu":
        raise NoRule  # sums of integer parts, which no derivative would be of
    return value


@rule(np.mean)
def _mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NOT_GIVEN,
    *,
    where: Any = NOT_GIVEN,
) -> Any:
    options = given(dtype=dtype, out=out, keepdims=keepdims, where=where)
    held = value_of(a)
    if not options and type(held) is np.ndarray and held.size and held.dtype.char in "fd":
        total = np.add.reduce(held, axis=axis)  # as np.mean does, in a third of its time
        value = total / (held.size // total.size)
    else:
        value = _floats(np.mean(held, axis, **options), held)
    shape, mask = held.shape, options.get("where")
    if mask is None:
        factor = 1 / max(held.size // max(value.size, 1), 1)  # the count itself may be too large for float16
        return record(value, (a, lambda g: spread(g * factor, shape, axis)))
    return record(value, (a, lambda g: masked(spread(g, shape, axis) / _count(mask, shape, axis), mask)))


def _count(mask: Any, shape: Any, axis: Any) -> Any:
    """How many elements take part, with the reduced axes kept; 1 where there are none."""
    full = np.broadcast_to(True if mask is None else mask, shape)
    return np.maximum(np.sum(full, axis, keepdims=True), 1)


@rules_of(np.var, np.std)
def _spread_of(function: Any) -> Any:
    def run(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = NOT_GIVEN,
        *,
        where: Any = NOT_GIVEN,
        mean: Any = NOT_GIVEN,
        correction: Any = NOT_GIVEN,
    ) -> Any:
        if mean is not NOT_GIVEN:
            raise NoRule  # it might depend on the array, or might not
        free = correction if correction is not NOT_GIVEN else ddof
        options = given(dtype=dtype, out=out, ddof=free, keepdims=keepdims, where=where)
        held = value_of(a)
        value = function(held, axis, **options)
        shape, mask = held.shape, options.get("where")

        def pull(g: Any) -> Any:
            if (
                function is np.std
            ):  # a deviation of 0 has no slope there; as in torch its elements have no share
                g = np.where(value == 0, 0, g / (2 * np.where(value == 0, 1, value)))
            data = masked(held, mask)
            count = _count(mask, shape, axis)
            centred = data - np.sum(data, axis, keepdims=True) / count
            return masked(spread(g, shape, axis) * centred * 2 / np.maximum(count - free, 0), mask)

        return record(value, (a, pull))

    return run


@rules_of(np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin)
def _extreme(function: Any) -> Any:
    def run(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = NOT_GIVEN,
        initial: Any = NOT_GIVEN,
        where: Any = NOT_GIVEN,
    ) -> Any:
        options = given(out=out, keepdims=keepdims, initial=initial, where=where)
        held = value_of(a)
        value = function(held, axis, **options)
        shape, mask = held.shape, options.get("where")

        def pull(g: Any) -> Any:
            # Where the result is NaN, it comes from elements that are NaN.
            found = value.reshape(kept_shape(shape, axis))
            chosen = (held == found) | ((held != held) & (found != found))
            if mask is not None:
                chosen = chosen & mask
            ties = np.maximum(np.sum(chosen, axis, keepdims=True), 1)
            return np.where(chosen, spread(g, shape, axis) / ties, 0)

        return record(value, (a, pull))

    return run


@composed(np.ptp)
def _ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NOT_GIVEN) -> Any:
    options = given(out=out, keepdims=keepdims)
    return np.max(a, axis, **options) - np.min(a, axis, **options)


@rule(np.prod)
def _prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NOT_GIVEN,
    initial: Any = NOT_GIVEN,
    where: Any = NOT_GIVEN,
) -> Any:
    options = given(dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where)
    held = value_of(a)
    value = _floats(np.prod(held, axis, **options), held)
    shape, mask = held.shape, options.get("where")

    def pull(g: Any) -> Any:
        rows = Rows(shape, axis)
        data = rows.of(held if mask is None else np.where(mask, held, 1))
        share = spread(g * options.get("initial", 1), shape, axis) * rows.undo(others(data))
        return masked(share, mask)

    return record(value, (a, pull))


def others(x: Any) -> Any:
    """For each element along the last axis the product of the others, which nothing is divided for."""
    one = np.ones_like(x[..., :1])
    before = np.cumprod(np.concatenate([one, x[..., :-1]], -1), -1)
    after = np.flip(np.cumprod(np.concatenate([one, np.flip(x, -1)[..., :-1]], -1), -1), -1)
    return before * after


@rules_of(np.nansum, np.nanprod)
def _without_nan(function: Any) -> Any:
    plain, neutral = (np.sum, 0) if function is np.nansum else (np.prod, 1)

    def run(a: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(np.where(np.isnan(a), neutral, a), *args, **kwargs)

    return run


@rules_of(np.nanmean, np.nanvar, np.nanstd)
def _of_numbers(function: Any) -> Any:
    plain: Any = {np.nanmean: np.mean, np.nanvar: np.var, np.nanstd: np.std}[function]

    def run(a: Any, *args: Any, where: Any = True, **kwargs: Any) -> Any:
        return plain(a, *args, where=~np.isnan(a) & where, **kwargs)

    return run


@rules_of(np.median, np.nanmedian)
def _median(function: Any) -> Any:
    def run(
        a: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        keepdims: Any = False,
    ) -> Any:
        options = given(out=out, keepdims=keepdims)
        held = value_of(a)
        pull = _pull_quantile(held, np.asarray(0.5), axis, "linear", function is np.nanmedian)
        return record(function(held, axis, **options), (a, pull))

    return run


@rules_of(np.quantile, np.percentile, np.nanquantile, np.nanpercentile)
def _quantile(function: Any) -> Any:
    parts = 100 if function in (np.percentile, np.nanpercentile) else 1
    skips = function in (np.nanquantile, np.nanpercentile)

    def run(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
    ) -> Any:
        options = given(out=out, keepdims=keepdims)
        if weights is not None or method not in _POSITIONS or given(q=q).keys() != {"q"}:
            raise NoRule
        held = value_of(a)
        value = function(held, q, axis, method=method, **options)
        return record(value, (a, _pull_quantile(held, np.true_divide(q, parts), axis, method, skips)))

    return run


# Places of quantiles among n sorted elements, counted from 0; in between neighbours are interpolated.
_POSITIONS: dict[str, Any] = {
    "linear": lambda q, n: q * (n - 1),
    "lower": lambda q, n: np.floor(q * (n - 1)),
    "higher": lambda q, n: np.ceil(q * (n - 1)),
    "midpoint": lambda q, n: (np.floor(q * (n - 1)) + np.ceil(q * (n - 1))) / 2,
    "interpolated_inverted_cdf": lambda q, n: q * n - 1,
    "hazen": lambda q, n: q * n - 0.5,
    "weibull": lambda q, n: q * (n + 1) - 1,
    "median_unbiased": lambda q, n: q * (n + 1 / 3) - 2 / 3,
    "normal_unbiased": lambda q, n: q * (n + 1 / 4) - 5 / 8,
}


def _pull_quantile(held: Any, q: Any, axis: Any, method: str, skips: bool) -> Any:
    def pull(g: Any) -> Any:
        rows = Rows(held.shape, axis)
        data = rows.of(held)
        order = np.argsort(data, -1, kind="stable")
        count: Any = rows.length
        if skips:  # NaN is sorted to the end
            count = np.maximum(np.sum(~np.isnan(data), -1), 1)
        lead = q.reshape((q.size, *[1] * len(rows.outer)))
        place = np.clip(_POSITIONS[method](lead, count), 0, count - 1)
        # Each quantile lies between two sorted elements, and goes with the nearer one more.
        weights = np.maximum(1 - np.abs(place[..., None] - np.arange(rows.length)), 0)
        shares = np.sum(g.reshape((q.size, *rows.outer, 1)) * weights, 0)
        return rows.undo(np.take_along_axis(shares, np.argsort(order, -1), -1))

    return pull
