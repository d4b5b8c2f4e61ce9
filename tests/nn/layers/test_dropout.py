"""Dropout: how many zeros, the scale of the others, and seeds."""

import numpy as np
import pytest

from lite import nn


def test_share_and_scale() -> None:
    x = np.ones(10_000, np.float32)
    out = nn.Dropout(0.25, rng=0)(x)
    assert set(np.unique(out)) == {np.float32(0), np.float32(1 / 0.75)}
    np.testing.assert_allclose((out == 0).mean(), 0.25, atol=0.02)
    assert nn.Dropout(0.25).eval()(x) is x
    np.testing.assert_array_equal(nn.Dropout(1.0)(x), 0)


def test_calls_differ_and_seeds_repeat() -> None:
    x = np.ones(50, np.float32)
    one, two = nn.Dropout(rng=3), nn.Dropout(rng=3)
    first = one(x)
    np.testing.assert_array_equal(first, two(x))
    assert np.any(one(x) != first)


def test_in_place_and_errors() -> None:
    x = np.ones(50, np.float32)
    assert nn.Dropout(inplace=True, rng=0)(x) is x
    assert 0 in x
    with pytest.raises(ValueError, match=r"a probability in \[0, 1\], got 1.5"):
        nn.Dropout(1.5)
