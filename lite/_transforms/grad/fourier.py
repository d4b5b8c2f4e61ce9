"""Rules of numpy.fft: shifts change the order; transforms are of complex numbers, which are refused."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy import fft

from lite._transforms.grad.rules import rule, rules_of
from lite._transforms.registry import NoRule


@rules_of(fft.fftshift, fft.ifftshift)
def _shift(function: Any) -> Any:
    def run(x: Any, axes: Any = None) -> Any:
        places = tuple(range(x.ndim)) if axes is None else axes if isinstance(axes, tuple | list) else (axes,)
        sizes = [x.shape[axis] // 2 for axis in places]
        return np.roll(x, sizes if function is fft.fftshift else [-size for size in sizes], tuple(places))

    return run


@rule(
    *(
        fft.fft,
        fft.ifft,
        fft.rfft,
        fft.irfft,
        fft.hfft,
        fft.ihfft,
        fft.fft2,
        fft.ifft2,
        fft.rfft2,
        fft.irfft2,
    ),
    *(fft.fftn, fft.ifftn, fft.rfftn, fft.irfftn, np.linalg.eig, np.linalg.eigvals),
)
def _complex(*args: Any, **kwargs: Any) -> NoReturn:
    raise NoRule(
        "there are no derivatives of complex numbers here; a product with a matrix of cosines has one"
    )
