"""Rules of `numpy.fft`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import CHECKS, Case, f

CASES: list[Case] = [
    ("fft", lambda x: np.fft.fft(x), (f(2, 8),)),
    ("rfft, axis", lambda x: np.fft.rfft(x, axis=0), (f(8, 2),)),
    ("fftn", lambda x: np.fft.fftn(x), (f(4, 8),)),
    ("fft2", lambda x: np.fft.fft2(x), (f(2, 4, 8),)),
    ("fftshift", lambda x: np.fft.fftshift(x), (f(4, 5),)),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule_equals_loop(case: Case, check: Any) -> None:
    check(*case)
