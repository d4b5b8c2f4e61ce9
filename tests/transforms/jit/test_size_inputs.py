"""Inputs of which a graph reads sizes alone."""

from typing import Any

import numpy as np

import lite
from lite import TensorDict


def test_sizes_are_read_off_inputs_that_are_needed_anyway() -> None:
    def mean(td: Any) -> Any:
        return td["x"].sum() / td["first"].size + td["x"].reshape(td["first"].shape[0], 3, 1).sum()

    td = TensorDict(first=np.zeros((4, 3)), x=np.ones((4, 3)), batch_size=4)
    lowered = lite.jit(mean).lower(td)
    assert [x.shape for x in lowered._runner.program.traced.inputs] == [("n1", 3)]
    step = lite.jit(mean)
    for n in (4, 7):
        td = TensorDict(first=np.zeros((n, 3)), x=np.ones((n, 3)), batch_size=n)
        np.testing.assert_allclose(step(td), 1 + 3 * n)


def test_a_size_that_no_other_input_has_is_read_where_it_is() -> None:
    step = lite.jit(
        lambda rows, x: np.broadcast_to(x, (rows.shape[0], 2)).sum(), dynamic_axes={"rows": {0: "n"}}
    )
    for n in (3, 5):
        np.testing.assert_allclose(step(np.zeros((n, 4)), np.ones(2)), 2 * n)
