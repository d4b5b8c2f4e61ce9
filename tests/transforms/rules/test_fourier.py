"""Rules of `numpy.fft`."""

from typing import Any

import numpy as np
from helpers.cases import raises
from helpers.central_differences import check_gradients
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


def parts(z: Any) -> Any:
    return [np.real(z) ** 2, np.imag(z) ** 3, np.abs(z), np.angle(z * (1 + np.conjugate(z)))]


def of_complex(name: str, **options: Any) -> Any:
    """A Fourier transform of complex numbers that are computed from real ones, as real results."""
    function = getattr(np.fft, name)
    return lambda x: (
        function(x + 1j * x**2, **options) ** 2 if "ir" in name else parts(function(x, **options))
    )


def written_between(x: Any) -> Any:
    z = np.zeros_like(x, dtype=complex)
    z[1:] = x[1:]
    z[0] = x[0] * 1j
    return parts(np.fft.fft(z))


CASES: list[Case] = [
    *(
        (f"{name} {n} {norm}", of_complex(name, n=n, norm=norm, axis=0), (f(6, 2),))
        for name in ("fft", "ifft", "rfft", "irfft")
        for n, norm in ((None, None), (5, "ortho"), (8, "forward"), (7, "backward"))
    ),
    *((name, of_complex(name), (f(3, 4),)) for name in ("fft2", "ifftn", "rfftn", "irfft2")),
    ("a write", written_between, (f(4),)),
    ("fftn, sizes", of_complex("fftn", s=(2, 5), axes=(1, 0)), (f(3, 4),)),
    ("filter", lambda x: np.fft.irfft(np.fft.rfft(x) * np.exp(-0.3j * np.arange(4)), 6), (f(6),)),
]


def test_derivatives() -> None:
    for_each(check_gradients, CASES)


def test_what_is_real_alone_is_refused_by_name() -> None:
    x = np.array([[1.0, 2.0]])
    for name, call in {
        r"fft\.hfft": np.fft.hfft,
        "var": lambda x: np.var(x * 1j),
        "max": lambda x: np.max(np.fft.fft(x)),
        r"linalg\.solve": lambda x: np.linalg.solve(np.eye(2), np.fft.fft(x).T),
        "multiply": lambda x: np.abs(np.multiply.accumulate(x * 1j)),
    }.items():
        raises(NotImplementedError, rf"numpy\.{name}", lite.grad(call), x)
    raises(NotImplementedError, "copy", lite.grad(lambda x: (x * 1j).real.fill(1.0)), x)
    raises(TypeError, "must be real", lite.grad(lambda x: np.fft.fft(x).sum()), x)


def test_what_has_no_gradient_takes_complex_numbers() -> None:
    """Also when rules are asked whether they are for them: once a gradient has met complex numbers."""
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(lite.grad(lambda x: (np.abs(x * 1j) ** 2).sum())(x), 2 * x)
    for call in (np.isclose, np.allclose, np.array_equal):
        np.testing.assert_array_equal(lite.grad(lambda x, call=call: (x * call(x, x * 1j)).sum())(x), 0)
    alike = lite.grad(lambda x: (x * np.iscomplex(x * 1j) * np.full_like(x * 1j, 3).real).sum())
    np.testing.assert_array_equal(alike(x), 3)


def test_sizes_may_be_an_array() -> None:
    x = np.ones((2, 3))
    loss = lite.grad(lambda x, s: (np.abs(np.fft.fft2(x, s)) ** 2).sum())
    np.testing.assert_allclose(loss(x, np.array([4, 4])), 32)
