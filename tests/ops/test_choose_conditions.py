"""`where`: which rows a condition with fewer dims than the batch is about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lite
from lite import TensorDict, lazy_stack


def square() -> TensorDict:
    return TensorDict({"a": np.arange(9.0).reshape(3, 3), "b": np.ones((3, 3, 2))}, [3, 3])


@pytest.mark.parametrize("other", [0, "td"])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_condition_is_over_the_leading_dims(other: Any, lazy: bool) -> None:
    td: Any = square()
    rows = np.array([True, False, True])
    expected = td["a"] * rows[:, None]
    td = lazy_stack(list(td.unbind(1)), 1) if lazy else td
    zeros = td * 0 if other == "td" else 0
    for result in (
        td.where(rows, zeros),
        lite.where(rows, td, zeros),
        np.where(rows, td, zeros),
        lite.where(~rows, zeros, td),
        td.where(rows[:, None], zeros),
    ):
        np.testing.assert_array_equal(result["a"], expected)
        np.testing.assert_array_equal(result["b"][1], np.zeros((3, 2)))
    np.testing.assert_array_equal(td.where(rows[None], zeros)["a"], square()["a"] * rows)
    np.testing.assert_array_equal(td.where(np.True_, zeros)["a"], square()["a"])


@pytest.mark.parametrize("shape", [(2,), (1, 2), (3, 3, 1)])
def test_a_condition_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError):
        square().where(np.ones(shape, bool), 0)
