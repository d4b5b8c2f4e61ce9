"""Rules of numpy.fft."""

from __future__ import annotations

from typing import Any, NoReturn

from numpy import fft, roll

from lite._arrays.types import Array, Axes, Function
from lite._transforms.registry import GRAD, VMAP, NoRule, default, parameters
from lite._transforms.vmap.along import along, bound_to, shifted_axes
from lite._transforms.vmap.level import Level

_OF_ONE_AXIS = (fft.fft, fft.ifft, fft.rfft, fft.irfft, fft.hfft, fft.ihfft)
_OF_AXES = (fft.fft2, fft.ifft2, fft.rfft2, fft.irfft2, fft.fftn, fft.ifftn, fft.rfftn, fft.irfftn)


@GRAD.rule(*_OF_ONE_AXIS, *_OF_AXES)
def _grad_transform(*args: Any, **kwargs: Any) -> NoReturn:
    raise NoRule(
        "there are no derivatives of complex numbers here; of a Fourier transform, a product with a matrix "
        "of cosines and one of sines has one"
    )


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
    return roll(x, [sign * (x.shape[axis] // 2) for axis in places], tuple(places))
