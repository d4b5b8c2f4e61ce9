"""Rules of numpy.fft."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.central_differences import CHECKS, Case
from helpers.vmap_cases import f

import lite

CASES: list[Case] = [
    (
        "fftshift",
        lambda x: [np.fft.fftshift(x), np.fft.fftshift(x, 1), np.fft.fftshift(x, (-1,))],
        (f(2, 5),),
    ),
    ("ifftshift", lambda x: [np.fft.ifftshift(x), np.fft.ifftshift(x, 1)], (f(2, 5),)),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule(case: Case, check: Any) -> None:
    check(*case)


def grad_of(fn: Any, *args: Any) -> Any:
    return lite.grad(lambda x: np.sum(fn(x)))(*map(np.asarray, args))


def test_shifts_are_those_of_numpy() -> None:
    x = np.arange(10.0).reshape(2, 5)
    np.testing.assert_array_equal(
        grad_of(lambda x: np.fft.fftshift(x, 1) * x, x), np.fft.fftshift(x, 1) + np.fft.ifftshift(x, 1)
    )


@pytest.mark.parametrize(
    "name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "irfft2", "fftn", "rfftn"]
)
def test_transforms_are_refused_by_name(name: str) -> None:
    with pytest.raises(
        NotImplementedError, match=rf"numpy\.fft\.{name}: there are no derivatives of complex numbers"
    ):
        grad_of(getattr(np.fft, name), [[1.0, 2.0]])
