"""NumPy's functions of TensorDicts: one table from each to the method that is its form here.

Axes are batch dimensions. Functions with an argument of their own kind (`np.stack`, `np.where`,
`np.zeros_like`) are registered beside their implementations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite._tree.numpy_protocol import implements
from lite._tree.protocol import MISSING


def _reduction(name: str) -> Callable[..., Any]:
    """`np.sum(td, axis, keepdims=...)` as `td.sum(dim, keepdim)`."""

    def call(a: Any, axis: Any = None, *, keepdims: bool = False, **options: Any) -> Any:
        dim = MISSING if axis is None else axis
        return getattr(a, name)(dim, keepdims, **options)

    return call


def _spread(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
        return getattr(a, name)(MISSING if axis is None else axis, keepdims, correction=ddof)

    return call


def _truth(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        return getattr(a, name)(axis, keepdims)

    return call


def _same(name: str) -> Callable[..., Any]:
    """The method takes what the function takes."""

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(a, name)(*args, **kwargs)

    return call


def _cumulative(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        if axis is None:
            return getattr(a.flatten(), name)(0, dtype=dtype)
        return getattr(a, name)(axis, dtype=dtype)

    return call


_REDUCTIONS: dict[Any, str] = {
    np.sum: "sum",
    np.prod: "prod",
    np.mean: "mean",
    np.nansum: "nansum",
    np.nanmean: "nanmean",
    np.max: "amax",
    np.min: "amin",
    np.argmax: "argmax",
    np.argmin: "argmin",
}
_SAME_ARGUMENTS: dict[Any, str] = {
    np.clip: "clamp",
    np.isclose: "isclose",
    np.allclose: "allclose",
    np.round: "round",
    np.moveaxis: "movedim",
    np.swapaxes: "swapaxes",
    np.nan_to_num: "nan_to_num",
    np.rot90: "rot90",
    np.fliplr: "fliplr",
    np.flipud: "flipud",
    np.broadcast_to: "broadcast_to",
    np.tile: "tile",
}
_FORMS: dict[Any, Callable[..., Any]] = {
    **{fn: _reduction(name) for fn, name in _REDUCTIONS.items()},
    **{fn: _same(name) for fn, name in _SAME_ARGUMENTS.items()},
    np.std: _spread("std"),
    np.var: _spread("var"),
    np.all: _truth("all"),
    np.any: _truth("any"),
    np.cumsum: _cumulative("cumsum"),
    np.cumprod: _cumulative("cumprod"),
}
for _function, _form in _FORMS.items():
    implements(_function)(_form)


@implements(np.quantile)
def _quantile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    return a.quantile(q, MISSING if axis is None else axis, keepdims, interpolation=method)


@implements(np.sort)
def _sort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: bool | None = None) -> Any:
    return a.flatten().sort(0).values if axis is None else a.sort(axis).values


@implements(np.argsort)
def _argsort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: bool | None = None) -> Any:
    return a.flatten().argsort(0) if axis is None else a.argsort(axis)


@implements(np.shape)
def _shape(a: Any) -> Any:
    return a.batch_size


@implements(np.ndim)
def _ndim(a: Any) -> Any:
    return a.ndim


@implements(np.size)
def _size(a: Any, axis: int | None = None) -> Any:
    return a.numel() if axis is None else a.batch_size[axis]


@implements(np.copy)
def _copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    return a.clone()


@implements(np.reshape)
def _reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Any:
    if order not in ("C", "A"):
        raise ValueError(f"a TensorDict is reshaped in order 'C', got {order!r}.")
    out = a.view(shape) if copy is False else a.reshape(shape)
    return out.clone() if copy else out


@implements(np.ravel)
def _ravel(a: Any, order: str = "C") -> Any:
    return _reshape(a, -1, order)


@implements(np.transpose)
def _transpose(a: Any, axes: Any = None) -> Any:
    return a.permute(tuple(reversed(range(a.ndim))) if axes is None else axes)


@implements(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Any:
    if axis is None:
        return a.squeeze()
    size = a.batch_size
    dims = sorted({a._dim(d) for d in ([axis] if isinstance(axis, int) else axis)}, reverse=True)
    for dim in dims:
        if size[dim] != 1:
            raise ValueError(f"cannot squeeze axis {dim} of size {size[dim]}; its size must be 1.")
        a = a.squeeze(dim)
    return a


@implements(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Any:
    axes = [axis] if isinstance(axis, int) else list(axis)
    ndim = a.ndim + len(axes)
    if any(not -ndim <= d < ndim for d in axes):
        raise IndexError(f"axis {axis} is out of bounds for {ndim} dimensions.")
    for dim in sorted(d % ndim for d in axes):
        a = a.unsqueeze(dim)
    return a


@implements(np.flip)
def _flip(a: Any, axis: Any = None) -> Any:
    return a.flip(tuple(range(a.ndim)) if axis is None else axis)


@implements(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    return a.roll(shift, axis)


@implements(np.repeat)
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    return a.repeat_interleave(repeats, axis)


@implements(np.array_split)
def _array_split(a: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return list(a.tensor_split(indices_or_sections, axis))


@implements(np.split)
def _split(a: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    pieces = indices_or_sections
    if isinstance(pieces, int) and pieces > 0 and a.batch_size[axis] % pieces:
        raise ValueError(f"cannot split {a.batch_size[axis]} elements into {pieces} equal pieces.")
    return _array_split(a, pieces, axis)


@implements(np.take)
def _take(a: Any, indices: Any, axis: int | None = None) -> Any:
    if axis is None:
        return a.flatten()[np.asarray(indices)]
    return a[(*[slice(None)] * a._dim(axis), np.asarray(indices))]


@implements(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: int = -1) -> Any:
    return arr.gather(axis, indices)


@implements(np.atleast_1d)
def _atleast_1d(*tds: Any) -> Any:
    return tds[0].atleast_1d() if len(tds) == 1 else tuple(td.atleast_1d() for td in tds)


@implements(np.array_equal)
def _array_equal(a1: Any, a2: Any) -> bool:
    """Whether batch size, keys and all values are equal."""
    if np.shape(a1) != np.shape(a2) or set(a1.keys(True)) != set(a2.keys(True)):
        return False
    return bool((a1 == a2).all())
