"""Rules of functions of single numbers that are no ufuncs, of counts, and refusals of complex numbers."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
from numpy import fft, linalg

from lite._arrays.special import bessel_ratio
from lite._arrays.types import HostArray
from lite._transforms.grad.rules import composed, flat, rule
from lite._transforms.grad.tape import is_traced, record, value_of
from lite._transforms.registry import NoRule

flat(np.isreal, np.iscomplex, np.diag_indices_from, np.tril_indices_from, np.triu_indices_from)


@composed(np.real)
def _real(val: Any) -> Any:
    return val


@rule(np.imag)
def _imag(val: Any) -> Any:
    return np.imag(value_of(val))


@rule(np.nan_to_num)
def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    if is_traced((nan, posinf, neginf)) or not copy:
        raise NoRule
    held = value_of(x)
    value = np.nan_to_num(held, True, nan, posinf, neginf)
    return record(value, (x, lambda g: np.where(np.isfinite(held), g, 0)))


@rule(np.sinc)
def _sinc(x: Any) -> Any:
    held = value_of(x)
    value = np.sinc(held)

    def pull(g: Any) -> Any:
        zero = held == 0
        place = np.where(zero, 1, held)
        return np.where(zero, 0, g * (np.cos(math.pi * place) - value) / place)

    return record(value, (x, pull))


@rule(np.i0)
def _i0(x: Any) -> Any:
    held = value_of(x)
    value = np.i0(held)

    def pull(g: Any) -> Any:
        size = np.abs(held)
        ratio = size.elementwise(bessel_ratio) if isinstance(size, HostArray) else bessel_ratio(size)
        return g * value * np.sign(held) * ratio

    return record(value, (x, pull))


@composed(np.angle)
def _angle(z: Any, deg: bool = False) -> Any:
    return np.angle(value_of(z), deg)  # of real numbers: 0 or pi


@composed(np.astype)
def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return x.astype(dtype, copy=copy)


@rule(np.bincount)
def _bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    if is_traced(x):
        raise NoRule
    counts = np.bincount(x, value_of(weights), minlength)
    return record(counts, (weights, lambda g: np.take(g, x)))


@composed(np.histogram)
def _histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    if density or is_traced((bins, range, weights)) or (range is None and not np.ndim(bins)):
        raise NoRule("where its bins end depends on the numbers, or how they count has a derivative")
    return np.histogram(value_of(a), bins, range, None, weights)


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
    *(fft.fftn, fft.ifftn, fft.rfftn, fft.irfftn),
)
def _complex(*args: Any, **kwargs: Any) -> NoReturn:
    raise NoRule(
        "there are no derivatives of complex numbers here; of a Fourier transform, a product with a matrix "
        "of cosines and one of sines has one"
    )


@rule(linalg.eig, linalg.eigvals)
def _complex_eigenvalues(*args: Any, **kwargs: Any) -> NoReturn:
    raise NoRule(
        "there are no derivatives of complex numbers here; numpy.linalg.eigh and eigvalsh, of symmetric "
        "matrices, have one"
    )
