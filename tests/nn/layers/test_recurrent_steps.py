"""What recurrent networks do in a step."""

import numpy as np

from lite.nn.layers.recurrent_steps import gru_step, lstm_step, split_bias

RNG = np.random.default_rng(0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_gru_step_with_the_bias_that_is_left() -> None:
    x, h, weight = RNG.normal(size=(2, 9)), RNG.normal(size=(2, 3)), RNG.normal(size=(3, 9))
    b_ih, b_hh = RNG.normal(size=9), RNG.normal(size=9)
    joint, rest = split_bias(gru_step, b_ih, b_hh)
    [got] = gru_step(x + joint, (h,), weight, rest, None)
    a, b = x + b_ih, h @ weight + b_hh
    r, z = sigmoid(a[:, :3] + b[:, :3]), sigmoid(a[:, 3:6] + b[:, 3:6])
    n = np.tanh(a[:, 6:] + r * b[:, 6:])
    np.testing.assert_allclose(got, (1 - z) * n + z * h)


def test_lstm_step_with_a_projection() -> None:
    x, weight, projection = RNG.normal(size=(2, 12)), RNG.normal(size=(2, 12)), RNG.normal(size=(3, 2))
    h, c = RNG.normal(size=(2, 2)), RNG.normal(size=(2, 3))
    got = lstm_step(x, (h, c), weight, None, projection)
    i, f, g, o = np.split(x + h @ weight, 4, axis=1)
    new = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    np.testing.assert_allclose(got[1], new)
    np.testing.assert_allclose(got[0], (sigmoid(o) * np.tanh(new)) @ projection)
    assert split_bias(lstm_step, 1.0, 2.0) == (3.0, None)
    assert split_bias(lstm_step, 1.0, None) == (1.0, None)
