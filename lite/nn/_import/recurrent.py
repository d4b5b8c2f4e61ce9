"""RNN, GRU and LSTM, forwards, backwards and both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.dtypes import compute_dtype
from lite._arrays.types import Array
from lite._transforms.grad.tape import is_traced, value_of, with_node
from lite.nn._import.elementwise import activation
from lite.nn._import.operators import Run, Spec, Unsupported, operator
from lite.nn.layers.recurrent import walk
from lite.nn.layers.recurrent_steps import gru_step, lstm_step, rnn_relu_step, rnn_tanh_step

Activation = Callable[[Any], Any]
# ONNX's gates in torch's order.
_ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
# How many numbers an activation takes of the lists for all directions; the others take none.
_NUMBERS = {"elu": 1, "leakyrelu": 1, "affine": 2, "hardsigmoid": 2}
_DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}


class _Layer:
    """One direction of a layer.

    Args:
        spec: the node.
        direction: which of its directions.
        reverse: whether it walks from the last time to the first.
    """

    def __init__(self, spec: Spec, direction: int, reverse: bool) -> None:
        self.kind, self.reverse = spec.op, reverse
        defaults = _DEFAULTS[spec.op]
        names = (*(name.lower() for name in spec.get("activations") or ()), *defaults, *defaults)
        numbers = [iter(spec.get(f"activation_{x}") or ()) for x in ("alpha", "beta")]
        given = [[next(x, None) for x in numbers[: _NUMBERS.get(name, 0)]] for name in names]
        part = slice(direction * len(defaults), (direction + 1) * len(defaults))
        mine = names[part]
        self.activations = [activation(name, *own) for name, own in zip(mine, given[part], strict=True)]
        self.clip = spec.get("clip")
        self.reset_first = not spec.get("linear_before_reset", 0)
        self.coupled = spec.get("input_forget", 0)
        usual = tuple(mine) == defaults and self.clip is None and not self.coupled
        step = {"LSTM": lstm_step, "GRU": gru_step, "RNN": rnn_tanh_step}[spec.op]
        if spec.op == "RNN" and mine == ("relu",) and self.clip is None:
            usual, step = True, rnn_relu_step
        self.step = step if usual and not (spec.op == "GRU" and self.reset_first) else None

    def __call__(
        self, x: Array, w: Array, r: Array, b: Array | None, lengths: Any, state: list[Any], p: Array | None
    ) -> tuple[Array, list[Any]]:
        """Outputs (T, N, size) and last states."""
        biases = () if b is None else (b[: b.shape[0] // 2], b[b.shape[0] // 2 :])  # of x @ w.T, of h @ r.T
        if self.step is not None and lengths is None and p is None:
            weights = [_in_torch_order(part, self.kind) for part in (w, r, *biases)]
            compute, _ = compute_dtype(x.dtype, w.dtype)
            out, last = walk(self.step, x, tuple(state), weights, b is not None, self.reverse, compute)
            return out, list(last)
        biases = biases or (np.zeros(int(w.shape[0]), x.dtype),) * 2
        times, outputs = range(int(x.shape[0])), []
        for t in reversed(times) if self.reverse else times:
            new = self._next(x[t], state, w, r, *biases, p)
            if lengths is not None:
                alive = (t < lengths)[:, None]
                outputs.append(np.where(alive, new[0], 0).astype(new[0].dtype, copy=False))
                state = [np.where(alive, a, b) for a, b in zip(new, state, strict=True)]
            else:
                outputs.append(new[0])
                state = new
        return np.stack(outputs[::-1] if self.reverse else outputs), state

    def _clipped(self, x: Array) -> Array:
        return x if self.clip is None else np.clip(x, -self.clip, self.clip)

    def _next(
        self, x: Array, state: list[Any], w: Array, r: Array, wb: Array, rb: Array, p: Array | None
    ) -> list[Any]:
        """The states after one step, by ONNX's formulas; its gates are in the order z r h, and i o f c."""
        h, size = state[0], int(r.shape[-1])
        from_x, from_h = x @ w.T + wb, h @ r.T
        first, *rest = self.activations
        if self.kind == "RNN":
            return [first(self._clipped(from_x + from_h + rb))]
        cut = [slice(i * size, (i + 1) * size) for i in range(4)]
        if self.kind == "GRU":
            z, reset = (first(self._clipped(from_x[:, at] + from_h[:, at] + rb[at])) for at in cut[:2])
            at = cut[2]
            if self.reset_first:
                inner = (reset * h) @ r[at].T + rb[at]
            else:
                inner = reset * (from_h[:, at] + rb[at])
            n = rest[0](self._clipped(from_x[:, at] + inner))
            return [(1 - z) * n + z * h]
        gates = from_x + from_h + rb
        c = state[1]
        pi, po, pf = (0, 0, 0) if p is None else (p[:size], p[size : 2 * size], p[2 * size :])
        i = first(self._clipped(gates[:, cut[0]] + pi * c))
        f = 1 - i if self.coupled else first(self._clipped(gates[:, cut[2]] + pf * c))
        c = f * c + i * rest[0](self._clipped(gates[:, cut[3]]))
        o = first(self._clipped(gates[:, cut[1]] + po * c))
        return [o * rest[1](c), c]


def _in_torch_order(x: Array, kind: str) -> Array:
    """Rows of gates in torch's order."""
    order = _ORDER[kind]
    if order == tuple(range(len(order))):
        return x
    if is_traced(x):  # as one node of the backward pass
        back = tuple(map(order.index, range(len(order))))
        return with_node(_taken(value_of(x), order), (x, lambda g: _taken(g, back)))
    return _taken(x, order)


def _taken(x: Array, order: tuple[int, ...]) -> Array:
    """Parts of the rows, as many as the order has, in that order."""
    return np.take(x.reshape(len(order), -1), order, 0).reshape(x.shape)


@operator("RNN", "GRU", "LSTM")
def _recurrent(spec: Spec) -> Run:
    direction = spec.get("direction", "forward")
    turns = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
    if turns is None:
        raise Unsupported(f"direction {direction!r}")
    layers = [_Layer(spec, i, turn) for i, turn in enumerate(turns)]
    count = 2 if spec.op == "LSTM" else 1
    batch_first = spec.get("layout", 0)

    def run(
        x: Array, w: Array, r: Array, b: Array | None = None, lengths: Array | None = None,
        *given: Array | None,
    ) -> tuple[Array, ...]:  # fmt: skip
        if batch_first:
            x = x.swapaxes(0, 1)
        given = (*given, *[None] * (3 - len(given)))
        size = r.shape[-1]
        outputs, ends = [], []
        for i, layer in enumerate(layers):
            state = []
            for start in given[:count]:
                if start is None:
                    state.append(np.zeros((x.shape[1], size), x.dtype))
                else:
                    state.append(start[:, i] if batch_first else start[i])
            peephole = given[2] if spec.op == "LSTM" else None
            out, end = layer(
                x,
                w[i],
                r[i],
                None if b is None else b[i],
                lengths,
                state,
                None if peephole is None else peephole[i],
            )
            outputs.append(out)
            ends.append(end)
        whole = np.stack(outputs, 1)  # (T, directions, N, size)
        if batch_first:
            whole = np.transpose(whole, (2, 0, 1, 3))
        if not any(spec.outputs[1:]):
            return (whole,)
        return whole, *(np.stack(column, 1 if batch_first else 0) for column in zip(*ends, strict=True))

    return run
