"""Rules of functions that make arrays like others; mapped arrays are shown and not saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import CHECKS, Case, f, rows, written

from lite import vmap

CASES: list[Case] = [
    ("tril, triu", lambda x: (np.tril(x, -1), np.triu(x)), (f(3, 4),)),
    ("diag", lambda x: (np.diag(x), np.diag(np.diag(x, 1))), (f(3),)),
    ("zeros_like", lambda x: (np.zeros_like(x), np.ones_like(x, shape=(2, 1))), (f(3),)),
    ("full_like", lambda x, y: np.full_like(x, y), (f(2, 3), f(3))),
    ("copy", lambda x: np.copy(x), (f(3),)),
    ("linspace", lambda x, y: np.linspace(x, y, 5, axis=-1), (f(2, 1), f(3))),
    ("linspace with steps", lambda x: np.linspace(0, x, 4, endpoint=False, retstep=True), (f(3),)),
    ("indices of triangles", lambda x: x[np.triu_indices_from(x)], (f(3, 3),)),
    ("indices of the diagonal", lambda x: x[np.diag_indices_from(x)], (f(3, 3),)),
    ("vander", lambda x: np.vander(x, 3), (f(4),)),
    ("sliding windows", lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0), (f(4, 3),)),
    ("resize", lambda x: np.resize(x, (2, 4)), (f(3),)),
    ("fill_diagonal", written(lambda x, y: np.fill_diagonal(x, y)), (f(3, 4), f())),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule_equals_loop(case: Case, check: Any) -> None:
    check(*case)


def test_mapped_arrays_are_shown_and_not_saved(tmp_path: Any) -> None:
    seen: list[str] = []

    def fn(v: Any) -> Any:
        seen.extend([np.array_repr(v), f"{v}"])
        np.save(tmp_path / "x.npy", v)
        return v

    with pytest.raises(TypeError, match="save the result"):
        vmap(fn)(rows())
    assert all(text.startswith("BatchedArray(shape=(2,)") for text in seen)
    assert not list(tmp_path.iterdir())
