"""The steps of recurrent networks, given an input that is already multiplied by `weight_ih`.

The layers of `lite.nn.layers.recurrent` do that for all time steps at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.types import Array

State = tuple[Any, ...]
# (projected input, state, weight_hh transposed, bias of the step, weight_hr transposed) -> state
Step = Callable[[Any, State, Any, Any, Any], State]


def rnn_tanh_step(x: Array, state: State, weight: Array, bias: Array, projection: Array) -> State:
    """h' = tanh(x + W h)."""
    return (np.tanh(x + np.matmul(state[0], weight)),)


def rnn_relu_step(x: Array, state: State, weight: Array, bias: Array, projection: Array) -> State:
    """h' = max(x + W h, 0)."""
    return (np.maximum(x + np.matmul(state[0], weight), 0),)


def gru_step(x: Array, state: State, weight: Array, bias: Array, projection: Array) -> State:
    """h' = (1 - z) n + z h with the gates r, z and n, in this order in `x`; only n has a bias left."""
    h = state[0]
    size = h.shape[-1]
    y = np.matmul(h, weight)
    gates = _sigmoid(x[..., : 2 * size] + y[..., : 2 * size])
    inner = y[..., 2 * size :]
    n = np.tanh(x[..., 2 * size :] + gates[..., :size] * (inner if bias is None else inner + bias))
    return (n + gates[..., size:] * (h - n),)


def lstm_step(x: Array, state: State, weight: Array, bias: Array, projection: Array) -> State:
    """c' = f c + i g and h' = P (o tanh(c')) with the gates i, f, g and o, in this order in `x`."""
    h, c = state
    size = c.shape[-1]
    y = x + np.matmul(h, weight)
    gates = _sigmoid(y)
    g = np.tanh(y[..., 2 * size : 3 * size])
    c = gates[..., size : 2 * size] * c + gates[..., :size] * g
    h = gates[..., 3 * size :] * np.tanh(c)
    return (h if projection is None else np.matmul(h, projection)), c


def split_bias(step: Step, b_ih: Array | None, b_hh: Array | None) -> tuple[Any, Any]:
    """Split the biases into the part added to the projected input and the part added in the step."""
    if b_ih is None or b_hh is None:
        return b_ih, None
    if step is not gru_step:
        return b_ih + b_hh, None
    gates = b_hh.shape[-1] // 3 * 2
    return np.concatenate([b_ih[:gates] + b_hh[:gates], b_ih[gates:]]), b_hh[gates:]


def _sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), by a function that cannot overflow; small results are exact to 1e-7 or so."""
    out = np.tanh(0.5 * x)
    out *= 0.5
    out += 0.5
    return out


RNN_STEPS: dict[str, Step] = {"tanh": rnn_tanh_step, "relu": rnn_relu_step}
