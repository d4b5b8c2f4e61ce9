"""Reductions and scans: NumPy's over the batch dims of every array, its features, or all of it."""

import warnings
from typing import Any

import numpy as np
from helpers.fuzz import model as m
from helpers.fuzz.choices import Choices, dim
from helpers.fuzz.keys import elements_or_self, leaves_below
from helpers.fuzz.register import Call, calls, operation
from numpy.lib.array_utils import normalize_axis_index as axis

WITH_DTYPE = ("sum", "mean", "prod", "nansum", "nanmean")
REDUCTIONS = (*WITH_DTYPE, "std", "var", "amax", "amin", "max", "min", "all", "any", "logsumexp")
SCANS = ("cummax", "cummin", "softmax", "cumsum", "cumprod", "sort")
INTEGER = ("sum", "prod", "nansum", "cumsum", "cumprod")  # stay integers
UNSET = "unset"


def formula(
    name: str, x: m.Array, axes: tuple[int, ...], keep: bool, dtype: str | None, ddof: int
) -> m.Array:
    how: dict[str, Any] = {"axis": axes, "keepdims": keep}
    integer = x.dtype.kind in "biu"
    kind = dtype or (x.dtype if not integer else np.int64 if name in INTEGER else np.float64)
    if name in WITH_DTYPE:
        return np.asarray(getattr(np, name)(x.astype(kind), **how))
    if name in ("std", "var"):
        with warnings.catch_warnings(action="ignore"):
            return np.asarray(getattr(np, name)(x.astype(kind), ddof=ddof, **how))
    if name == "logsumexp":
        wide = x.astype(np.float64)
        top = np.max(wide, axes, keepdims=True, initial=-1e308)
        found = top + np.log(np.sum(np.exp(wide - top), axes, keepdims=True))
        return np.asarray(found if keep else found.squeeze(axes)).astype(kind)
    return np.asarray(getattr(np, name)(x, **how))


def reduced(name: str, td: Any, given: Any, keep: bool, dtype: str | None, ddof: int, indices: bool) -> Any:
    """A reduction over batch dims, over the features, or over all there is."""
    ndim = len(td.shape)
    if isinstance(given, tuple) and len({axis(d, ndim) for d in given}) < len(given):
        raise m.Refused
    whole = given in (UNSET, None)
    feature = isinstance(given, str) and given == "feature"
    batch_axes = (
        ()
        if feature
        else tuple(range(ndim))
        if whole
        else tuple(sorted({axis(d, ndim) for d in (given if isinstance(given, tuple) else (given,))}))
    )

    def axes_of(x: m.Array, batch: int) -> tuple[int, ...]:
        return tuple(range(x.ndim)) if whole and name != "logsumexp" else batch_axes

    def one(x: m.Array, batch: int) -> m.Array:
        if feature:
            x = x.reshape(*x.shape[:batch], int(np.prod(x.shape[batch:])))
            axes: tuple[int, ...] = (batch,)
        else:
            axes = axes_of(x, batch)
        if not indices:
            return formula(name, x, axes, keep, dtype, ddof)
        rest = [i for i in range(x.ndim) if i not in axes]
        rows = x.transpose(*rest, *axes).reshape(*(x.shape[i] for i in rest), -1)
        found = getattr(np, f"arg{name}")(rows, -1)
        return np.asarray(np.expand_dims(found, axes) if keep else found)

    def node(n: Any, below: bool) -> m.Tree:
        """Nested batch dims beyond those of the root stay, unless everything is reduced."""
        rest = len(n.shape) if feature else ndim
        kept = below and not (whole and name != "logsumexp")
        shape = root + n.shape[rest:] if kept and not feature else n.shape if feature else root
        entries: dict[str, Any] = {}
        for key, value in n.entries.items():
            if m.is_node(value):
                entries[key] = node(value, True)
            elif isinstance(value, m.One) or (shape == n.shape and not m.is_numbers(value)):
                entries[key] = value
            elif m.is_numbers(value):
                entries[key] = one(value, len(n.shape))
        below_names = n.names[ndim:] if kept else []
        return m.Tree(shape, entries, n.names if feature else [*names, *below_names], kind=n.kind)

    root = tuple(1 if i in batch_axes else n for i, n in enumerate(td.shape) if keep or i not in batch_axes)
    names = [n for i, n in enumerate(td.names) if keep or i not in batch_axes]
    return node(td, False)


def reduction(name: str) -> None:
    @operation(name)
    def run(td: Any, dim: Any = UNSET, keepdim: bool = False, dtype: str | None = None, correction: int = 1,
            return_indices: bool = True) -> Any:  # fmt: skip
        td = m.dense(td)
        if name in ("all", "any") and dim == UNSET:
            found = [getattr(np, name)(v) for _, _, v in leaves_below(td) if m.is_numbers(v)]
            return bool(getattr(np, name)(found))
        if name == "logsumexp" and dim == UNSET:
            dim = None
        values = reduced(name, td, dim, keepdim, dtype, correction, False)
        if name in ("max", "min") and dim not in (UNSET, None) and return_indices:
            return [values, reduced(name, td, dim, keepdim, dtype, correction, True)]
        return values


for _name in REDUCTIONS:
    reduction(_name)


def scan(name: str) -> None:
    @operation(name)
    def run(td: Any, dim: int) -> Any:
        td = m.dense(td)
        at = axis(dim, len(td.shape))
        values = m.mapped(td, lambda x: scanned(name, x, at))
        if name in ("cummax", "cummin", "sort"):
            return [values, m.mapped(td, lambda x: positions(name, x, at))]
        return values


def scanned(name: str, x: m.Array, at: int) -> m.Array:
    kind = x.dtype if x.dtype.kind == "f" else np.int64 if name in INTEGER else np.float64
    if name == "softmax":
        powers = np.exp(
            x.astype(np.float64) - np.max(x.astype(np.float64), at, keepdims=True, initial=-1e308)
        )
        return np.asarray((powers / powers.sum(at, keepdims=True)).astype(kind))
    if name == "sort":
        return np.sort(x, at)
    if name in ("cumsum", "cumprod"):
        return np.asarray(getattr(np, name)(x.astype(kind), at))
    return np.asarray((np.maximum if name == "cummax" else np.minimum).accumulate(x, at))


def positions(name: str, x: m.Array, at: int) -> m.Array:
    """Where the values come from: the last of equal ones for cummax and cummin, in order for sort."""
    if name == "sort":
        return np.argsort(x, at, stable=True)
    best = scanned(name, x, at)
    steps = np.arange(x.shape[at]).reshape([-1 if i == at else 1 for i in range(x.ndim)])
    return np.asarray(
        np.maximum.accumulate(np.where((x == best) | ((x != x) & (best != best)), steps, 0), at)
    )


for _name in SCANS:
    scan(_name)


# -- calls ------------------------------------------------------------------------------------


def usable(td: Any) -> bool:
    """Whether there is something to reduce, and all of it could be dense."""
    if 0 in td.shape or ((isinstance(td, m.Rows) or m.has_rows(td)) and not m.regular(td)):
        return False
    found = [v for row in elements_or_self(td) for _, _, v in leaves_below(row)]
    numbers = [v for v in found if m.is_numbers(v)]
    return (
        bool(numbers) and all(v.size for v in numbers) and not (m.has_rows(td) and len(numbers) < len(found))
    )


@calls(8)
def reduce(c: Choices, v: list[Any], at: int) -> Call:
    td = v[at]
    ndim = len(td.shape)
    name = c.pick(REDUCTIONS)
    if not usable(td) or (name == "logsumexp" and not ndim):
        return Call("numel")
    kwargs: dict[str, Any] = {}
    kind = c.pick(["int", "int", "unset", "tuple", "feature", "none"])
    if kind == "int":
        kwargs["dim"] = dim(c, ndim)
    elif kind == "tuple" and ndim and name not in ("all", "any"):
        kwargs["dim"] = tuple({dim(c, ndim) for _ in range(1 + c.below(2))})
    elif kind == "feature" and name not in ("all", "any", "logsumexp"):
        kwargs["dim"] = "feature"
    elif kind == "none" and name not in ("all", "any"):
        kwargs["dim"] = None
    if name not in ("all", "any") and kwargs.get("dim") not in (None, "feature") and c.one_in(4):
        kwargs["keepdim"] = True
    if name in WITH_DTYPE and c.one_in(6):
        kwargs["dtype"] = "float64"
    elif name in ("std", "var") and c.one_in(2):
        kwargs["correction"] = c.pick([0, 1])
    elif name in ("max", "min") and kwargs.get("dim") is not None and c.one_in(2):
        kwargs["return_indices"] = False
    return Call(name, (), kwargs)


@calls(3)
def scan_call(c: Choices, v: list[Any], at: int) -> Call:
    if not usable(v[at]):
        return Call("is_empty")
    return Call(c.pick(SCANS), (), {"dim": dim(c, len(v[at].shape))})
