"""Rules of functions that join arrays, and take them apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import CHECKS, Case, f

CASES: list[Case] = [
    ("concatenate", lambda x, y: np.concatenate([x, y], 1), (f(2, 3), f(2, 4))),
    ("concatenate of all", lambda x, y: np.concatenate([x, y], None), (f(2, 3), f(4))),
    ("stack", lambda x, y: np.stack([x, y], -1), (f(2, 3), f(2, 3))),
    ("vstack, hstack", lambda x, y: (np.vstack([x, y]), np.hstack([x, y])), (f(3), f(3))),
    ("block", lambda x, y: np.block([[x, y], [y, x]]), (f(3, 4), f(3, 4))),
    ("block of one", lambda x, y: np.block([x, y, 2.0]), (f(4), f(2))),
    ("block of many", lambda x, y: np.block([[x[0], 1.0], [y]]), (f(3, 4), f(1, 5))),
    ("dstack, column_stack", lambda x, y: (np.dstack([x, y]), np.column_stack([x, y])), (f(3), f(3))),
    ("append", lambda x, y: (np.append(x, y), np.append(x, y, 0)), (f(2, 3), f(1, 3))),
    ("split", lambda x: tuple(np.split(x, 2, 1)), (f(3, 4),)),
    ("split at", lambda x: tuple(np.array_split(x, [1, 3])), (f(4, 2),)),
    ("hsplit, vsplit", lambda x: (*np.hsplit(x, 2), *np.vsplit(x, 3)), (f(3, 4),)),
    ("unstack", lambda x: np.unstack(x, axis=1), (f(3, 2),)),
    ("meshgrid", lambda x, y: tuple(np.meshgrid(x, y)), (f(3), f(2))),
    ("meshgrid, sparse", lambda x, y: tuple(np.meshgrid(x, y, sparse=True, indexing="ij")), (f(3), f(2))),
    ("insert many", lambda x, y: np.insert(x, [0, 3, 3], y, -1), (f(2, 4), f(2, 3))),
    ("insert rows in one place", lambda x, y: np.insert(x, 1, y, 1), (f(2, 3), f(4, 2))),
    ("insert", lambda x, y: np.insert(x, 1, y, 1), (f(2, 3), f(2))[:1] + (f(),)),
    ("delete", lambda x: np.delete(x, 1, 0), (f(3, 2),)),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule_equals_loop(case: Case, check: Any) -> None:
    check(*case)
