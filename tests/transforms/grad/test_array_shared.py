"""Arrays that a map shares, in computations that are noted."""

from typing import Any

import numpy as np

import lite
from lite import vmap


def test_writes_through_views_of_what_a_map_shares() -> None:
    shared = np.arange(6.0).reshape(2, 3)

    def loss(w: Any) -> Any:
        def each(i: Any, shared: Any) -> Any:
            y = shared * w
            first = y[0]
            first[...] = np.tanh(first)
            return y.sum()

        return vmap(each, (0, None))(np.arange(2.0), shared).sum()

    value, grad = lite.value_and_grad(loss)(np.ones((2, 3)))
    np.testing.assert_allclose(value, 2 * (np.tanh(shared[0]).sum() + shared[1].sum()))
    np.testing.assert_allclose(grad, 2 * np.stack([shared[0] / np.cosh(shared[0]) ** 2, shared[1]]))
