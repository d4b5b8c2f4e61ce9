"""The product of an adapter, and what is added to a weight."""

import numpy as np

from lite import nn
from lite.nn._lora.linear import Adapter, low_rank


def test_the_sum_of_both_ways(rng: np.random.Generator) -> None:
    """x with the merged matrix is the product with one matrix after the other, also for stacked ones."""
    x, a, b = rng.normal(size=(3, 5, 4)), rng.normal(size=(3, 2, 4)), rng.normal(size=(3, 6, 2))
    np.testing.assert_allclose(low_rank(x, a, b, 3.0), x @ (3 * b @ a).swapaxes(-1, -2))
    one, other = nn.Linear(4, 2, bias=False, rng=0), nn.Linear(2, 6, bias=False, rng=1)
    adapter = Adapter("", "", (one, "weight"), (other, "weight"), 3.0)
    merged = adapter.product()
    assert merged.shape == (6, 4)
    np.testing.assert_allclose(merged, 3 * other.weight.data @ one.weight.data, rtol=1e-5, atol=1e-7)
