"""Rules of products of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import CHECKS, Case, c, f

CASES: list[Case] = [
    ("matmul 2, 2", lambda x, y: x @ y, (f(3, 4), f(4, 2))),
    ("matmul 2, 2, many rows", lambda x, y: x @ y, (f(9, 4), f(4, 2))),
    ("matmul 2, 2, of a transpose", lambda x, y: x @ y.T, (f(9, 4), f(2, 4))),
    ("matmul 2, 2, twice", lambda x, y: np.tanh(x @ y.T) @ y, (f(9, 4), f(2, 4))),
    ("matmul 1, 2", lambda x, y: x @ y, (f(4), f(4, 2))),
    ("matmul 2, 1", lambda x, y: x @ y, (f(3, 4), f(4))),
    ("matmul 1, 1", lambda x, y: x @ y, (f(4), f(4))),
    ("matmul 3, 2", lambda x, y: x @ y, (f(5, 3, 4), f(4, 2))),
    ("matmul 2, 3", lambda x, y: x @ y, (f(3, 4), f(5, 4, 2))),
    ("matmul 1, 3", lambda x, y: x @ y, (f(4), f(5, 4, 2))),
    ("matmul 3, 1", lambda x, y: x @ y, (f(5, 3, 4), f(4))),
    ("matmul 4, 3", lambda x, y: x @ y, (f(2, 5, 3, 4), f(5, 4, 2))),
    ("dot 2, 2", lambda x, y: np.dot(x, y), (f(3, 4), f(4, 2))),
    ("dot 1, 1", lambda x, y: np.dot(x, y), (f(4), f(4))),
    ("dot 3, 3", lambda x, y: np.dot(x, y), (f(2, 3, 4), f(5, 4, 2))),
    ("dot 0, 2", lambda x, y: np.dot(x, y), (f(), f(4, 2))),
    ("inner", lambda x, y: np.inner(x, y), (f(2, 4), f(3, 4))),
    ("vdot", lambda x, y: np.vdot(x, y), (c(2, 4), c(2, 4))),
    ("outer", lambda x, y: np.outer(x, y), (f(2), f(3, 2))),
    ("tensordot", lambda x, y: np.tensordot(x, y), (f(2, 3, 4), f(3, 4, 5))),
    ("tensordot, axes", lambda x, y: np.tensordot(x, y, ([0, 2], [1, 0])), (f(2, 3, 4), f(4, 2, 5))),
    ("tensordot of none", lambda x, y: np.tensordot(x, y, 0), (f(2), f(3))),
    ("einsum", lambda x, y: np.einsum("ij,jk->ik", x, y), (f(2, 3), f(3, 4))),
    ("einsum, no output", lambda x, y: np.einsum("ij,jk", x, y), (f(2, 3), f(3, 4))),
    ("einsum, ellipsis", lambda x, y: np.einsum("...j,jk->...k", x, y), (f(5, 2, 3), f(3, 4))),
    ("einsum, diagonal", lambda x: np.einsum("ii->i", x), (f(3, 3),)),
    ("einsum, lists", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]), (f(2, 3), f(3, 4))),
    ("kron", lambda x, y: np.kron(x, y), (f(2, 3), f(2))),
    ("cross", lambda x, y: np.cross(x, y), (f(2, 3), f(3))),
    ("convolve", lambda x, y: np.convolve(x, y), (f(5), f(3))),
    ("convolve, same", lambda x, y: np.convolve(x, y, "same"), (f(6), f(4))),
    ("convolve, valid", lambda x, y: np.convolve(x, y, "valid"), (f(5), f(3))),
    ("correlate", lambda x, y: np.correlate(x, y), (f(5), f(3))),
    ("correlate with a longer one", lambda x, y: np.correlate(x, y), (f(3), f(5))),
    ("correlate, full", lambda x, y: np.correlate(x, y, "full"), (f(5), f(3))),
    ("multi_dot", lambda x, y: np.linalg.multi_dot([x, y, y]), (f(2, 3), f(3, 3))),
    ("trace", lambda x: np.trace(x), (f(3, 3, 2),)),
    ("linalg.trace", lambda x: np.linalg.trace(x), (f(2, 3, 3),)),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule_equals_loop(case: Case, check: Any) -> None:
    check(*case)
