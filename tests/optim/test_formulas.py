"""One step of each formula, in numbers worked out by hand."""

import numpy as np

from lite.optim import formulas

NONE = np.empty(0)


def test_adam():
    p, m, v = np.array([1.0]), np.zeros(1), np.zeros(1)
    formulas.adam(p, np.array([2.0]), m, v, NONE, (1, 0, 1, 0.5, 0.75, 0.25, 0.1, 0.0))
    np.testing.assert_allclose([p[0], m[0], v[0]], [0.9, 1.0, 1.0])


def test_amsgrad_keeps_the_largest():
    p, m, v, top = np.array([1.0]), np.zeros(1), np.zeros(1), np.array([4.0])
    formulas.adam(p, np.array([2.0]), m, v, top, (1, 0, 1, 0.5, 0.75, 0.25, 0.1, 0.0))
    np.testing.assert_allclose([p[0], v[0], top[0]], [0.95, 1.0, 4.0])


def test_decoupled_decay_shrinks_first():
    p, m, v = np.array([2.0]), np.zeros(1), np.ones(1)
    formulas.adam(p, np.zeros(1), m, v, NONE, (1, 0, 0.5, 0.1, 0.9, 0.1, 0.1, 0.0))
    np.testing.assert_allclose(p, [1.0])


def test_sgd():
    p = np.array([1.0])
    formulas.sgd(p, np.array([2.0]), NONE, (-1, 1, 0.5, 0, 1, 0))
    np.testing.assert_allclose(p, [1.5])  # up by 2, down by 1, each times 0.5


def test_rmsprop():
    p, v = np.array([1.0]), np.array([0.0])
    formulas.rmsprop(p, np.array([2.0]), v, NONE, NONE, (1, 0, 0.5, 0.75, 0.25, 0.0, 0))
    np.testing.assert_allclose([p[0], v[0]], [0.0, 1.0])


def test_lerp():
    target = np.array([1.0, 3.0])
    formulas.lerp(target, np.array([3.0, 3.0]), (0.25,))
    np.testing.assert_allclose(target, [1.5, 3.0])
