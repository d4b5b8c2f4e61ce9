"""Rules of numpy.fft."""

from __future__ import annotations

from typing import Any

from numpy import fft

from lite._transforms.registry import NoRule, default, parameters
from lite._transforms.vmap.along import all_further, along
from lite._transforms.vmap.level import Level
from lite._transforms.vmap.reductions import bound_to
from lite._transforms.vmap.rules import rules_of


@rules_of(fft.fft, fft.ifft, fft.rfft, fft.irfft, fft.hfft, fft.ihfft)
def _transform(function: Any) -> Any:
    def run(level: Level, *args: Any, **kwargs: Any) -> Any:
        bound = bound_to(function, args, kwargs)
        return along(level, function, bound.pop("a"), bound.pop("axis", -1), bound)

    return run


@rules_of(
    fft.fft2,
    fft.ifft2,
    fft.rfft2,
    fft.irfft2,
    fft.fftn,
    fft.ifftn,
    fft.rfftn,
    fft.irfftn,
    fft.fftshift,
    fft.ifftshift,
)
def _transforms(function: Any) -> Any:
    name, start = parameters(function)[0], default(function, "axes")

    def run(level: Level, *args: Any, **kwargs: Any) -> Any:
        bound = bound_to(function, args, kwargs)
        array, axes = bound.pop(name), bound.pop("axes", start)
        if not level.on(array):
            raise NoRule
        if axes is None:
            sizes = bound.get("s")
            ndim = array.ndim
            axes = range(ndim) if sizes is None else range(-len(sizes), 0)
        return level.wrap(function(array.value, axes=all_further(axes, array.ndim), **bound))

    return run
