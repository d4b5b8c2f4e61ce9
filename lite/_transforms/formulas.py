"""Formulas of NumPy functions that are written with other NumPy functions.

They know of no interpreter: one that has rules for the functions that they call has them for these, too. It
enters them in its table, and afterwards its own rule where it has a better way. Arguments that a formula does
not cover raise `NoRule`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from lite._transforms.registry import NoRule, default

F = TypeVar("F", bound=Callable[..., Any])
FORMULAS: dict[Any, Callable[..., Any]] = {}


def formula(*functions: Any) -> Callable[[F], F]:
    """Register `fn` as what the functions compute, for arguments as they take them."""

    def register(fn: F) -> F:
        FORMULAS.update(dict.fromkeys(functions, fn))
        return fn

    return register


def ndim_of(x: Any) -> int:
    """As `numpy.ndim`, which would ask an array of an interpreter through NumPy's protocol."""
    try:
        ndim: int = x.ndim
    except AttributeError:
        return np.ndim(x)
    return ndim


def _array(x: Any) -> Any:
    return x if hasattr(x, "ndim") else np.asarray(x)


def _items(arrays: Any) -> list[Any]:
    return list(map(_array, arrays))


@formula(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*map(np.shape, args))
    return tuple([np.broadcast_to(a, shape) for a in args])


@formula(np.atleast_1d)
def _atleast_1d(*arys: Any) -> Any:
    return _each(arys, lambda a: a.reshape(1) if a.ndim == 0 else a)


@formula(np.atleast_2d)
def _atleast_2d(*arys: Any) -> Any:
    return _each(arys, lambda a: a if a.ndim > 1 else a.reshape(1, math.prod(a.shape)))


@formula(np.atleast_3d)
def _atleast_3d(*arys: Any) -> Any:
    def grown(a: Any) -> Any:
        shape = a.shape
        new = {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}
        return a.reshape(new[a.ndim]) if a.ndim < 3 else a

    return _each(arys, grown)


def _each(arys: Any, fn: Any) -> Any:
    out = tuple([fn(a if hasattr(a, "ndim") else np.asarray(a)) for a in arys])
    return out[0] if len(out) == 1 else out


@formula(np.fliplr)
def _fliplr(m: Any) -> Any:
    if np.ndim(m) < 2:
        raise ValueError("Input must be >= 2-d.")
    return np.flip(m, 1)


@formula(np.flipud)
def _flipud(m: Any) -> Any:
    return np.flip(m, 0)


@formula(np.trace)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return np.diagonal(a, offset, axis1, axis2).sum(-1, dtype=dtype)


@formula(np.linalg.trace)
def _linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return np.diagonal(x, offset, -2, -1).sum(-1, dtype=dtype)


@formula(np.average)
def _average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    if weights is None:
        mean = np.mean(a, axis, keepdims=keepdims)
        count = np.size(a) / max(np.size(mean), 1)
        return (mean, np.full_like(mean, count)) if returned else mean
    if np.shape(weights) != np.shape(a):
        (place,) = normalize_axis_tuple(axis, ndim_of(a))
        weights = np.reshape(weights, (-1, *[1] * (ndim_of(a) - 1 - place)))
    weights = np.broadcast_to(weights, np.shape(a))
    total = np.sum(weights, axis, keepdims=keepdims)
    mean = np.sum(a * weights, axis, keepdims=keepdims) / total
    return (mean, total) if returned else mean


@formula(np.diff)
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


@formula(np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    ndim = ndim_of(y)
    at = (slice(None),) * (axis % ndim)
    if x is not None:
        dx = np.diff(x, axis=axis if ndim_of(x) > 1 else -1)
        if ndim_of(dx) == 1:
            dx = dx.reshape(-1, *[1] * (ndim - 1 - axis % ndim))
    return (dx * (y[(*at, slice(1, None))] + y[(*at, slice(None, -1))]) / 2.0).sum(axis)


@formula(np.cov)
def _cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Any:
    rows = _rows(m, rowvar)
    if y is not None:
        rows = np.concatenate([rows, _rows(y, rowvar)], 0)
    count = rows.shape[1] - (ddof if ddof is not None else 0 if bias else 1)
    centred = rows - rows.mean(1, keepdims=True)
    return np.squeeze(np.matmul(centred, np.conjugate(centred.T)) / count)


@formula(np.corrcoef)
def _corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    covariance = np.cov(x, y, rowvar)
    if ndim_of(covariance) == 0:
        return covariance / covariance
    deviation = np.sqrt(np.diagonal(covariance).real)
    return np.clip(covariance / deviation[:, None] / deviation, -1, 1)


def _rows(x: Any, rowvar: bool) -> Any:
    x = np.atleast_2d(x)
    return x if rowvar or np.shape(x)[0] == 1 else x.T


@formula(np.polyval)
def _polyval(p: Any, x: Any) -> Any:
    out = np.zeros_like(x)
    for coefficient in p:
        out = out * x + coefficient
    return out


@formula(np.vstack)
def _vstack(tup: Any, **kwargs: Any) -> Any:
    return np.concatenate([np.atleast_2d(a) for a in tup], 0, **kwargs)


@formula(np.hstack)
def _hstack(tup: Any, **kwargs: Any) -> Any:
    items = [np.atleast_1d(a) for a in tup]
    return np.concatenate(items, 0 if items and ndim_of(items[0]) == 1 else 1, **kwargs)


@formula(np.dstack)
def _dstack(tup: Any) -> Any:
    return np.concatenate([np.atleast_3d(a) for a in tup], 2)


@formula(np.column_stack)
def _column_stack(tup: Any) -> Any:
    items = _items(tup)
    return np.concatenate([a.reshape(-1, 1) if a.ndim < 2 else a for a in items], 1)


@formula(np.block)
def _block(arrays: Any) -> Any:
    parts, depth = arrays, 0
    while isinstance(parts, list) and parts:
        depth, parts = depth + 1, parts[0]

    def widest(part: Any) -> int:
        return max(map(widest, part)) if isinstance(part, list) else ndim_of(part)

    ndim = max(depth, widest(arrays))

    def join(part: Any, axis: int) -> Any:
        if isinstance(part, list):
            if not axis or not part:
                raise NoRule  # NumPy names the list that is too deep, or empty
            return np.concatenate([join(item, axis + 1) for item in part], axis)
        if axis:
            raise NoRule
        missing = (None,) * (ndim - ndim_of(part))
        return (part if hasattr(part, "ndim") else np.asarray(part))[missing]

    return join(arrays, -depth)


@formula(np.append)
def _append(arr: Any, values: Any, axis: int | None = None) -> Any:
    if axis is None:
        return np.concatenate([np.ravel(arr), np.ravel(values)])
    return np.concatenate([arr, values], axis)


@formula(np.hsplit)
def _hsplit(ary: Any, indices_or_sections: Any) -> Any:
    return np.split(ary, indices_or_sections, 1 if ndim_of(ary) > 1 else 0)


@formula(np.vsplit)
def _vsplit(ary: Any, indices_or_sections: Any) -> Any:
    if ndim_of(ary) < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return np.split(ary, indices_or_sections, 0)


@formula(np.dsplit)
def _dsplit(ary: Any, indices_or_sections: Any) -> Any:
    if ndim_of(ary) < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return np.split(ary, indices_or_sections, 2)


@formula(np.meshgrid)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    ndim = len(xi)
    places = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        places[:2] = 1, 0
    grids = [
        np.reshape(x, [-1 if d == place else 1 for d in range(ndim)])
        for x, place in zip(xi, places, strict=True)
    ]
    if sparse:
        return tuple(grids)
    return tuple([grid.copy() if copy else grid for grid in np.broadcast_arrays(*grids)])


@formula(np.inner)
def _inner(a: Any, b: Any, /) -> Any:
    if not ndim_of(a) or not ndim_of(b):
        return np.multiply(a, b)
    return np.tensordot(a, b, axes=([-1], [-1]))


@formula(np.vdot)
def _vdot(a: Any, b: Any, /) -> Any:
    return np.matmul(np.conjugate(np.ravel(a)), np.ravel(b))


@formula(np.outer)
def _outer(a: Any, b: Any) -> Any:
    return np.ravel(a)[:, None] * np.ravel(b)


@formula(np.linalg.outer)
def _linalg_outer(x1: Any, x2: Any, /) -> Any:
    return np.outer(x1, x2)


@formula(np.linalg.matmul)
def _linalg_matmul(x1: Any, x2: Any, /) -> Any:
    return np.matmul(x1, x2)


@formula(np.linalg.vecdot)
def _linalg_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    if axis != -1:
        x1, x2 = np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)
    return np.vecdot(x1, x2)


@formula(np.linalg.multi_dot)
def _multi_dot(arrays: Any) -> Any:
    return functools.reduce(np.dot, arrays)


@formula(np.kron)
def _kron(a: Any, b: Any) -> Any:
    a, b = (x if hasattr(x, "ndim") else np.asarray(x) for x in (a, b))
    ndim = max(a.ndim, b.ndim)
    a = a.reshape(*[1] * (ndim - a.ndim), *a.shape)
    b = b.reshape(*[1] * (ndim - b.ndim), *b.shape)
    sizes = [n * m for n, m in zip(a.shape, b.shape, strict=True)]
    wide = a.reshape([n for size in a.shape for n in (size, 1)])
    return (wide * b.reshape([n for size in b.shape for n in (1, size)])).reshape(sizes)


@formula(np.cross)
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if np.shape(a)[-1] != 3 or np.shape(b)[-1] != 3:
        raise NoRule
    out = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.stack(out, axisc)


@formula(np.linalg.cross)
def _linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return np.cross(x1, x2, axis=axis)


@formula(np.correlate)
def _correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    if np.shape(v)[0] > np.shape(a)[0] and mode == "same":
        raise NoRule  # centred in another way
    return np.convolve(a, np.conjugate(v[::-1]), mode)


@formula(np.convolve)
def _convolve(a: Any, v: Any, mode: str = "full") -> Any:
    if np.shape(v)[0] > np.shape(a)[0]:
        a, v = v, a
    long, short = np.shape(a)[0], np.shape(v)[0]
    ends = {"full": short - 1, "same": short // 2, "valid": 0}
    padded = np.pad(a, (short - 1, short - 1))
    terms = [padded[short - 1 - i : long + 2 * (short - 1) - i] * v[i] for i in range(short)]
    out = functools.reduce(np.add, terms)
    if mode == "full":
        return out
    if mode not in ends:
        raise ValueError(f"mode must be 'full', 'same' or 'valid', got {mode!r}")
    start = (short - 1) // 2 if mode == "same" else short - 1
    return out[start : start + (long if mode == "same" else long - short + 1)]


@formula(np.diag)
def _diag(v: Any, k: int = 0) -> Any:
    if np.ndim(v) == 2:
        return np.diagonal(v, k)
    if np.ndim(v) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    size = v.shape[0] + abs(k)
    out = np.zeros_like(v, shape=(size, size))
    rows = np.arange(v.shape[0]) + max(-k, 0)
    out[rows, rows + k] = v
    return out


@formula(np.diagflat)
def _diagflat(v: Any, k: int = 0) -> Any:
    return np.diag(np.ravel(v), k)


@formula(np.vander)
def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    count = x.shape[0] if N is None else N
    powers = np.arange(count)
    return x[:, None] ** (powers if increasing else powers[::-1])


@formula(np.resize)
def _resize(a: Any, new_shape: Any) -> Any:
    sizes = tuple(new_shape) if isinstance(new_shape, tuple | list) else (new_shape,)
    flat = np.ravel(a)
    count = math.prod(sizes)
    if not flat.size:
        return np.zeros_like(flat, shape=sizes)
    return np.take(flat, np.arange(count) % flat.size).reshape(sizes)


@formula(np.flatnonzero)
def _flatnonzero(a: Any) -> Any:
    return np.nonzero(np.ravel(a))[0]


@formula(np.argwhere)
def _argwhere(a: Any) -> Any:
    return np.stack(np.nonzero(a), -1)


@formula(np.compress)
def _compress(condition: Any, a: Any, axis: int | None = None) -> Any:
    if axis is None:
        a, axis = np.ravel(a), 0
    return np.take(a, np.flatnonzero(condition), axis)


@formula(np.extract)
def _extract(condition: Any, arr: Any) -> Any:
    return np.take(np.ravel(arr), np.flatnonzero(condition))


@formula(np.choose)
def _choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    if out is not None:
        raise NoRule
    if isinstance(choices, list | tuple):
        choices = np.stack(np.broadcast_arrays(*choices))
    shape = np.broadcast_shapes(np.shape(a), np.shape(choices)[1:])
    indices = np.broadcast_to(a, shape)
    choices = np.broadcast_to(
        choices[(slice(None), *[None] * (len(shape) + 1 - ndim_of(choices)))], (len(choices), *shape)
    )
    if mode != "raise":
        indices = indices % len(choices) if mode == "wrap" else np.clip(indices, 0, len(choices) - 1)
    return np.take_along_axis(choices, indices[None], 0)[0]


@formula(np.putmask)
def _putmask(a: Any, mask: Any, values: Any) -> None:
    if ndim_of(values):
        raise NoRule  # repeated in the order of all elements
    np.copyto(a, values, "unsafe", mask)


@formula(np.allclose)
def _allclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False) -> Any:
    return np.isclose(a, b, rtol, atol, equal_nan).all()


@formula(np.select)
def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    arrays = [choice if hasattr(choice, "dtype") else np.asarray(choice) for choice in choicelist]
    out = default if hasattr(default, "dtype") else np.asarray(default)
    dtype = np.result_type(*[a.dtype for a in arrays], out.dtype if out.ndim else default)
    out = out.astype(dtype)
    for condition, choice in zip(condlist[::-1], arrays[::-1], strict=True):
        out = np.where(condition, choice.astype(dtype), out)
    return out


@formula(np.gradient)
def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    axes = tuple(range(f.ndim)) if axis is None else normalize_axis_tuple(axis, f.ndim)
    if edge_order not in (1, 2):
        raise ValueError(f"'edge_order' must be 1 or 2, got {edge_order}.")
    steps = varargs or (1.0,)
    if len(steps) == 1:
        steps = steps * len(axes)
    if len(steps) != len(axes):
        raise TypeError("invalid number of arguments")
    results = [_slope(f, step, d, edge_order) for step, d in zip(steps, axes, strict=True)]
    return results[0] if len(axes) == 1 else tuple(results)


def _slope(f: Any, step: Any, axis: int, edge_order: int) -> Any:
    """Slopes along one axis: of parabolas through three neighbours, or of lines at the ends."""
    if f.shape[axis] < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient.")
    f = np.moveaxis(f, axis, -1)
    if ndim_of(step):
        steps = np.diff(step)
    else:
        steps = np.broadcast_to(step, f.shape[-1] - 1)
    slopes = np.diff(f) / steps
    first, second = steps[:-1], steps[1:]
    inner = (slopes[..., :-1] * second + slopes[..., 1:] * first) / (first + second)
    low, high = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:  # a parabola's slopes at an end and in the middle are as far from that of the line
        low = 2 * low - inner[..., :1]
        high = 2 * high - inner[..., -1:]
    return np.moveaxis(np.concatenate([low, inner, high], -1), -1, axis)


@formula(np.ediff1d)
def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    inner = np.diff(np.ravel(ary))
    parts = [np.ravel(part) for part in (to_begin, inner, to_end) if part is not None]
    return np.concatenate(parts) if len(parts) > 1 else inner


@formula(np.insert)
def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    arr, values = _array(arr), _array(values)
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    axis = normalize_axis_index(axis, arr.ndim)
    size = arr.shape[axis]
    # Elements go where their numbers go; those from `size` on are new.
    if isinstance(obj, slice):
        obj = np.arange(size)[obj]
    single = not np.ndim(obj)
    if single or np.size(obj) == 1:
        new = np.reshape(values, (1,) * (arr.ndim - values.ndim) + values.shape)
        if single:
            new = np.moveaxis(new, 0, axis)
        count = new.shape[axis]
        obj = np.reshape(obj, ())
    else:
        new, count = values, np.size(obj) if np.asarray(obj).dtype.kind != "b" else int(np.sum(obj))
    shape = [count if d == axis else n for d, n in enumerate(arr.shape)]
    order = np.insert(np.arange(size), obj, np.arange(size, size + count))
    both = np.concatenate([arr, np.broadcast_to(new, shape).astype(arr.dtype)], axis)
    return np.take(both, order, axis)


@formula(np.linalg.tensorinv)
def _tensorinv(a: Any, ind: int = 2) -> Any:
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    front, back = a.shape[:ind], a.shape[ind:]
    return np.linalg.inv(a.reshape(math.prod(front), math.prod(back))).reshape((*back, *front))


@formula(np.linalg.tensorsolve)
def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    a, b = _array(a), _array(b)
    if axes is not None:
        last = normalize_axis_tuple(axes, a.ndim)
        a = np.transpose(a, [d for d in range(a.ndim) if d not in last] + list(last))
    shape = a.shape[b.ndim :]
    return np.linalg.solve(a.reshape(b.size, math.prod(shape)), b.reshape(-1)).reshape(shape)
