"""Steps of optimisers over many arrays: on threads as on one, and what is only read stays as it is."""

import numpy as np
import pytest

from lite.kernels import _optimizers, get_num_threads, set_num_threads
from lite.kernels._optimizers import advance

ARRAYS = {"adam": 5, "sgd": 3, "rmsprop": 5, "lerp": 2}
NUMBERS = np.array([1, 0.1, 0.9, 0.1, 0.9, 0.1, 0.5, 1e-3], np.float32)


def leaves(name, sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [[rng.random(size).astype(np.float32) for _ in range(ARRAYS[name])] for size in sizes]


@pytest.mark.parametrize("name", ARRAYS)
def test_threads_change_nothing(name, monkeypatch):
    monkeypatch.setattr(_optimizers, "_SERIAL", 1000)
    monkeypatch.setattr(_optimizers, "_CHUNK", 700)
    sizes = (1, 1500, 5, 0, 2000)
    one, many = leaves(name, sizes), leaves(name, sizes)
    before = get_num_threads()
    try:
        set_num_threads(1)
        for leaf in one:
            advance(name, [leaf], NUMBERS)
        set_num_threads(3)
        advance(name, many, NUMBERS)
    finally:
        set_num_threads(before)
    start = leaves(name, sizes)
    for ours, expected, first in zip(many, one, start, strict=True):
        np.testing.assert_array_equal(ours, expected)
        np.testing.assert_array_equal(ours[1], first[1])
        assert not ours[0].size or not np.array_equal(ours[0], first[0])
