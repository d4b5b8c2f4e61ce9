"""Rules of `numpy.linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import CHECKS, Case, f, spd

CASES: list[Case] = [
    ("inv", lambda x: np.linalg.inv(x), (spd(3, 3),)),
    ("pinv", lambda x: np.linalg.pinv(x), (f(3, 2),)),
    ("det", lambda x: np.linalg.det(x), (f(2, 3, 3),)),
    ("slogdet", lambda x: tuple(np.linalg.slogdet(x)), (f(3, 3),)),
    ("cholesky", lambda x: np.linalg.cholesky(x), (spd(3, 3),)),
    ("qr", lambda x: tuple(np.linalg.qr(x)), (f(4, 3),)),
    ("svd", lambda x: np.linalg.svd(x).S, (f(4, 3),)),
    ("svdvals", lambda x: np.linalg.svdvals(x), (f(4, 3),)),
    ("eigh", lambda x: np.linalg.eigh(x).eigenvalues, (spd(3, 3),)),
    ("eigvalsh", lambda x: np.linalg.eigvalsh(x), (spd(3, 3),)),
    ("eigvals", lambda x: np.sort(np.linalg.eigvals(x).real), (spd(3, 3),)),
    ("solve, vector", lambda a, x: np.linalg.solve(a, x), (spd(3, 3), f(3))),
    ("solve, matrix", lambda a, x: np.linalg.solve(a, x), (spd(3, 3), f(3, 2))),
    ("solve, stack", lambda a, x: np.linalg.solve(a, x), (spd(3, 3), f(5, 3, 2))),
    ("norm", lambda x: np.linalg.norm(x), (f(2, 3, 4),)),
    ("norm, axis", lambda x: np.linalg.norm(x, axis=0), (f(2, 3),)),
    ("norm, ord", lambda x: np.linalg.norm(x, 1, keepdims=True), (f(2, 3),)),
    ("norm of a vector, ord", lambda x: np.linalg.norm(x, np.inf), (f(3),)),
    ("norm, keepdims", lambda x: np.linalg.norm(x, keepdims=True), (f(2, 3),)),
    ("norm, axes", lambda x: np.linalg.norm(x, "nuc", (0, 1)), (f(2, 3, 4),)),
    ("vector_norm", lambda x: np.linalg.vector_norm(x, ord=1), (f(2, 3),)),
    ("matrix_norm", lambda x: np.linalg.matrix_norm(x), (f(2, 3),)),
    ("tensorinv", lambda x: np.linalg.tensorinv(x), (f(2, 3, 6),)),
    ("tensorsolve", lambda x, y: np.linalg.tensorsolve(x, y, (0,)), (f(6, 2, 3), f(2, 3))),
    ("matrix_power", lambda x: np.linalg.matrix_power(x, 3), (f(3, 3),)),
    ("matrix_rank", lambda x: np.linalg.matrix_rank(x), (f(3, 3),)),
    ("cond", lambda x: np.linalg.cond(x), (spd(3, 3),)),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule_equals_loop(case: Case, check: Any) -> None:
    check(*case)
