"""Rules of numpy.fft."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy import fft
from numpy.lib.array_utils import normalize_axis_index

from lite._arrays.types import Array, Axes, Function
from lite._transforms.grad.tape import value_of, with_node
from lite._transforms.registry import GRAD, VMAP, NoRule, default, parameters
from lite._transforms.vmap.along import along, bound_to, shifted_axes
from lite._transforms.vmap.level import Level

_OF_ONE_AXIS = (fft.fft, fft.ifft, fft.rfft, fft.irfft, fft.hfft, fft.ihfft)
_OF_AXES = (fft.fft2, fft.ifft2, fft.rfft2, fft.irfft2, fft.fftn, fft.ifftn, fft.rfftn, fft.irfftn)


_OTHER: dict[Any, Any] = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


@GRAD.rule(fft.hfft, fft.ihfft)
def _grad_refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise NoRule("fft, ifft, rfft and irfft have rules")


@GRAD.rule_of_each(fft.fft, fft.ifft, fft.rfft, fft.irfft)
def _grad_transform(function: Any, a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Array:
    held = value_of(a)
    value = function(held, n, axis, norm)
    axis = normalize_axis_index(axis, held.ndim)
    size, length = held.shape[axis], value.shape[axis]

    def vjp(g: Array) -> Array:
        if function is fft.irfft:  # whose frequencies but for 0 and the last of an even number stand for two
            g = np.conjugate(fft.rfft(g, None, axis, _OTHER[norm]))
            twice = np.where(np.arange(g.shape[axis]) * 2 % length == 0, 1, 2)
            g = g * twice.reshape(-1, *[1] * (held.ndim - axis - 1))
        elif function is fft.rfft:
            g = fft.fft(g, n or size, axis, norm)
        else:
            g = function(g, None, axis, norm)
        missing = size - g.shape[axis]
        before = [(0, 0)] * axis
        return (
            np.pad(g, [*before, (0, missing), *[(0, 0)] * (held.ndim - axis - 1)])
            if missing > 0
            else g[(*[slice(None)] * axis, slice(size))]
        )

    return with_node(value, (a, vjp))


@GRAD.rule_of_each(*_OF_AXES)
def _grad_transforms(function: Any, *args: Any, **kwargs: Any) -> Array:
    bound = bound_to(function, args, kwargs)
    a, sizes, axes = bound["a"], bound.get("s"), bound.get("axes", default(function, "axes"))
    if axes is None:
        axes = range(a.ndim) if sizes is None else range(-len(sizes), 0)
    sizes = [None] * len(axes) if sizes is None else sizes
    steps = [(None if n == -1 else n, axis) for n, axis in zip(sizes, axes, strict=True)]
    name, norm = function.__name__, bound.get("norm")
    if name.startswith("rfft"):
        a = fft.rfft(a, *steps.pop(), norm)
    last = [steps.pop()] if name.startswith("irfft") else []
    for n, axis in reversed(steps):
        a = (fft.ifft if "ifft" in name or last else fft.fft)(a, n, axis, norm)
    return fft.irfft(a, *last[0], norm) if last else a


@VMAP.rule_of_each(*_OF_ONE_AXIS)
def _vmap_transform(function: Function, level: Level, *args: Any, **kwargs: Any) -> Array:
    bound = bound_to(function, args, kwargs)
    return along(level, function, bound.pop("a"), bound.pop("axis", -1), bound)


@VMAP.rule_of_each(*_OF_AXES, fft.fftshift, fft.ifftshift)
def _vmap_transforms(function: Function, level: Level, *args: Any, **kwargs: Any) -> Array:
    name, start = parameters(function)[0], default(function, "axes")
    bound = bound_to(function, args, kwargs)
    array, axes = bound.pop(name), bound.pop("axes", start)
    if not level.on(array):
        raise NoRule
    if axes is None:
        sizes = bound.get("s")
        axes = range(array.ndim) if sizes is None else range(-len(sizes), 0)
    return level.wrap(function(array.value, axes=shifted_axes(axes, array.ndim), **bound))


@GRAD.rule_of_each(fft.fftshift, fft.ifftshift)
def _grad_shift(function: Function, x: Array, axes: Axes = None) -> Array:
    sign = 1 if function is fft.fftshift else -1
    places = tuple(range(x.ndim)) if axes is None else axes if isinstance(axes, tuple | list) else (axes,)
    return np.roll(x, [sign * (x.shape[axis] // 2) for axis in places], tuple(places))
