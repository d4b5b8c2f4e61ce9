"""Rules of functions that change shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import CHECKS, Case, f

CASES: list[Case] = [
    ("reshape", lambda x: x.reshape(2, -1), (f(4, 3),)),
    ("reshape of a tuple", lambda x: np.reshape(x, (3, 4)), (f(4, 3),)),
    ("reshape to one", lambda x: x.reshape(()), (f(1),)),
    ("ravel", lambda x: x.ravel(), (f(4, 3),)),
    ("flatten", lambda x: x.flatten(), (f(4, 3),)),
    ("T", lambda x: x.T, (f(4, 3, 2),)),
    ("mT", lambda x: x.mT, (f(4, 3, 2),)),
    ("transpose", lambda x: x.transpose(2, 0, 1), (f(4, 3, 2),)),
    ("transpose, negative", lambda x: np.transpose(x, (-1, 0, 1)), (f(4, 3, 2),)),
    ("swapaxes", lambda x: x.swapaxes(0, -1), (f(4, 3, 2),)),
    ("moveaxis", lambda x: np.moveaxis(x, [0, 1], [-1, 0]), (f(4, 3, 2),)),
    ("rollaxis", lambda x: np.rollaxis(x, 2), (f(4, 3, 2),)),
    ("expand_dims", lambda x: np.expand_dims(x, (0, -1)), (f(4, 3),)),
    ("sizes", lambda x: x * np.size(x) + np.size(x, 0) * np.ndim(x) + np.shape(x)[1], (f(4, 3),)),
    ("squeeze", lambda x: x.squeeze(), (f(1, 3, 1),)),
    ("squeeze, axis", lambda x: np.squeeze(x, -1), (f(1, 3, 1),)),
    ("broadcast_to", lambda x: np.broadcast_to(x, (2, 4, 3)), (f(4, 1),)),
    ("broadcast_arrays", lambda x, y: tuple(np.broadcast_arrays(x, y)), (f(4, 1), f(3))),
    ("tile", lambda x: np.tile(x, (2, 1, 3)), (f(4, 3),)),
    ("tile, few", lambda x: np.tile(x, 2), (f(4, 3),)),
    ("repeat", lambda x: np.repeat(x, 2, 1), (f(4, 3),)),
    ("repeat of all", lambda x: x.repeat(2), (f(4, 3),)),
    ("repeat, counts", lambda x: np.repeat(x, [1, 0, 2], 1), (f(4, 3),)),
    ("roll", lambda x: np.roll(x, 2), (f(4, 3),)),
    ("roll, axes", lambda x: np.roll(x, (1, 2), (0, -1)), (f(4, 3),)),
    ("flip", lambda x: np.flip(x), (f(4, 3),)),
    ("flip, axis", lambda x: np.flip(x, 1), (f(4, 3),)),
    ("fliplr, flipud", lambda x: (np.fliplr(x), np.flipud(x)), (f(4, 3),)),
    ("rot90", lambda x: np.rot90(x, 3), (f(4, 3),)),
    ("diagonal", lambda x: x.diagonal(1), (f(4, 3, 2),)),
    ("linalg.diagonal", lambda x: np.linalg.diagonal(x, offset=1), (f(4, 3, 2),)),
    ("reshape, order", lambda x: np.reshape(x, (4, -1), order="F"), (f(2, 3, 4),)),
    ("flatten, order", lambda x: x.flatten("F"), (f(2, 3, 4),)),
    ("atleast", lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), (f(),)),
    ("atleast of one", lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), (f(3),)),
    ("atleast of two", lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), (f(2, 3),)),
    ("pad", lambda x: np.pad(x, ((1, 2), (0, 1)), constant_values=7), (f(4, 3),)),
    ("pad, edge", lambda x: np.pad(x, 2, "edge"), (f(4, 3),)),
    ("pad, reflect", lambda x: np.pad(x, (1, 0), "reflect"), (f(4, 3),)),
    ("pad, mean", lambda x: np.pad(x, 1, "mean", stat_length=2), (f(4, 3),)),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule_equals_loop(case: Case, check: Any) -> None:
    check(*case)
