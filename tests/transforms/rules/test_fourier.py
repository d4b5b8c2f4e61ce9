"""Rules of `numpy.fft`."""

import numpy as np
import pytest
from helpers.vmap_cases import Case, check_mapped, f, for_each

import lite

VMAP_CASES: list[Case] = [
    ("fft", lambda x: np.fft.fft(x), (f(2, 8),)),
    ("rfft, axis", lambda x: np.fft.rfft(x, axis=0), (f(8, 2),)),
    ("fftn", lambda x: np.fft.fftn(x), (f(4, 8),)),
    ("fft2", lambda x: np.fft.fft2(x), (f(2, 4, 8),)),
    ("fftshift", lambda x: np.fft.fftshift(x), (f(4, 5),)),
]


def test_maps_equal_loops() -> None:
    for_each(check_mapped, VMAP_CASES)


def test_fourier_transforms_are_refused_by_name() -> None:
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "irfft2", "fftn", "rfftn"):
        message = rf"numpy\.fft\.{name}: there are no derivatives of complex numbers"
        with pytest.raises(NotImplementedError, match=message):
            lite.grad(getattr(np.fft, name))(np.array([[1.0, 2.0]]))
