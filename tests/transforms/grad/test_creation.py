"""Rules of functions that make an array like another, copy one, or save it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from helpers.central_differences import CHECKS, Case
from helpers.vmap_cases import f

import lite


def _written(out: Any, x: Any) -> Any:
    out[..., 1:] = x[..., 1:] ** 2
    out[..., 0] = 1.0
    return out


CASES: list[Case] = [
    ("copy", lambda x: np.copy(x) * x.copy(), (f(2, 3),)),
    ("copy module", lambda x: copy.copy(x) * copy.deepcopy(x), (f(2, 3),)),
    *(
        (f"{name}, written", lambda x, name=name: _written(getattr(np, name)(x), x), (f(2, 3),))
        for name in ("zeros_like", "ones_like", "empty_like")
    ),
    ("zeros_like, shape", lambda x: _written(np.zeros_like(x, shape=(4, 2, 3)), x), (f(2, 3),)),
    ("full_like", lambda x, y: np.full_like(x, y) * x, (f(2, 3), f())),
    ("full_like, number", lambda x: np.full_like(x, 3.0) * x, (f(2, 3),)),
    ("linspace", lambda x, y: np.linspace(x, y, 5), (f(), f())),
    ("linspace, axis", lambda x, y: np.linspace(x, y, 4, False, axis=-1), (f(2), f(2))),
    ("linspace, one", lambda x: np.linspace(x, 3.0, 1), (f(2),)),
    ("linspace and step", lambda x, y: np.linspace(x, y, 4, retstep=True), (f(2), f())),
    ("logspace", lambda x, y: np.logspace(x, y, 4, base=2.0), (f(2), f(2))),
    ("geomspace", lambda x, y: np.geomspace(x * x + 0.5, y * y + 1, 4), (f(2), f(2))),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule(case: Case, check: Any) -> None:
    check(*case)


def grad_of(fn: Any, *args: Any) -> Any:
    return lite.grad(lambda x: np.sum(fn(x)))(*map(np.asarray, args))


def test_new_arrays_like_a_traced_one_have_no_derivative() -> None:
    np.testing.assert_array_equal(
        grad_of(lambda x: np.zeros_like(x) + np.ones_like(x) + x, [1.0, 2.0]), [1, 1]
    )


def test_new_arrays_of_integers_are_plain() -> None:
    def fn(x: Any) -> Any:
        assert type(np.zeros_like(x, dtype=np.int64)) is np.ndarray
        return x

    grad_of(fn, [1.0])


def test_saving_is_refused(tmp_path: Any) -> None:
    for save in (np.save, np.savetxt, np.savez):
        with pytest.raises(TypeError, match="detach"):
            grad_of(lambda x, save=save: save(tmp_path / "x", x), [1.0])
    assert list(tmp_path.iterdir()) == []
