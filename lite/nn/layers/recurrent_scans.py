"""Recurrent layers in a graph: a sequence of any length is one loop, and its derivative another.

As in `recurrent_gradients`, all that does not depend on the step after is computed for all steps at once,
before the walk back, and the derivatives of weights are one product of matrices each, after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.types import Array, is_symbolic
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import value_of, with_vjp_of_all
from lite._transforms.grad.transform import vjp
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.scan import scan
from lite.nn.layers.recurrent_steps import State, Step, gru_step, lstm_step, rnn_relu_step, rnn_tanh_step


class Cell(NamedTuple):
    """How a step is computed in a graph, and how a derivative goes back through it.

    Attributes:
        forward: from the input, the state, and weight, bias and projection to the next state and what the
            backward pass needs: values of this step.
        prepare: from these, for all steps, to the columns of the backward pass.
        backward: from the derivatives by the state and by the output, a row of these columns, and the
            transposed weight and projection, to those by the state before, and those by the products with
            the weight, by the input where it is another, and by the projected output.
    """

    forward: Callable[..., tuple[State, State]]
    prepare: Callable[..., State]
    backward: Callable[..., tuple[State, State]]


def _simple(activation: Callable[[Any], Any]) -> Callable[..., tuple[State, State]]:
    def forward(x: Any, state: State, w: Any, b: Any, p: Any) -> tuple[State, State]:
        h = activation(x + np.matmul(state[0], w))
        return (h,), (h,)

    return forward


def _simple_backward(state: State, g: Any, row: State, w: Any, p: Any) -> tuple[State, State]:
    share = (state[0] + g) * row[0]
    return (np.matmul(share, w),), (share,)


def _gru_forward(x: Any, state: State, w: Any, b: Any, p: Any) -> tuple[State, State]:
    """See `gru_step`."""
    h = state[0]
    ends = [2 * h.shape[-1]]
    of_gates, of_n = _split(np.matmul(h, w), ends)
    x_gates, x_n = _split(x, ends)
    r, z = _split(_sigmoid(x_gates + of_gates), 2)
    inner = of_n if b is None else of_n + b
    n = np.tanh(x_n + r * inner)
    return (n + z * (h - n),), (h, r, z, inner, n)


def _gru_prepare(h: Any, r: Any, z: Any, inner: Any, n: Any) -> State:
    return (1 - z) * (1 - n * n), inner * r * (1 - r), (h - n) * z * (1 - z), r, z


def _gru_backward(state: State, g: Any, row: State, w: Any, p: Any) -> tuple[State, State]:
    to_n, of_r, of_z, r, z = row
    dh = state[0] + g
    dn = dh * to_n
    share = np.concatenate([dn * of_r, dh * of_z, dn * r], -1)
    return (np.matmul(share, w) + dh * z,), (share, dn)


def _lstm_forward(x: Any, state: State, w: Any, b: Any, p: Any) -> tuple[State, State]:
    """See `lstm_step`."""
    h, c = state
    i, f, new, o = _split(x + np.matmul(h, w), 4)
    i, f, new, o = _sigmoid(i), _sigmoid(f), np.tanh(new), _sigmoid(o)
    after = f * c + i * new
    squashed = np.tanh(after)
    whole = o * squashed
    return (whole if p is None else np.matmul(whole, p), after), (c, i, f, new, o, squashed)


def _lstm_prepare(c: Any, i: Any, f: Any, new: Any, o: Any, squashed: Any) -> State:
    factors = new * i * (1 - i), c * f * (1 - f), i * (1 - new * new), squashed * o * (1 - o)
    return o * (1 - squashed * squashed), np.concatenate(factors, -1), f


def _lstm_backward(state: State, g: Any, row: State, w: Any, p: Any) -> tuple[State, State]:
    to_c, factors, f = row
    total = dh = state[0] + g
    if p is not None:
        dh = np.matmul(dh, p)
    dc = state[1] + dh * to_c
    share = np.concatenate([dc, dc, dc, dh], -1) * factors
    return (np.matmul(share, w), dc * f), (share,) if p is None else (share, total)


def _split(x: Any, sections: Any) -> Any:
    return np.split(x, sections, -1)


def _sigmoid(x: Any) -> Any:
    return x.graph.emit("Sigmoid", [x], x.shape, x.dtype)


CELLS: dict[Step, Cell] = {
    rnn_tanh_step: Cell(_simple(np.tanh), lambda h: (1 - h * h,), _simple_backward),
    rnn_relu_step: Cell(
        _simple(lambda y: np.maximum(y, 0)), lambda h: ((h > 0).astype(h.dtype),), _simple_backward
    ),
    gru_step: Cell(_gru_forward, _gru_prepare, _gru_backward),
    lstm_step: Cell(_lstm_forward, _lstm_prepare, _lstm_backward),
}


def scanned_walk(
    step: Step, x: Array, state: State, weight: Array, bias: Any, projection: Any, reverse: bool,
    restarts: State = (),
) -> tuple[tuple[Any, ...], State]:  # fmt: skip
    """Outputs (T, N, size) and last states, as one operator with its derivative.

    Args:
        step: what happens at each time.
        x: input (T, N, width), multiplied by `weight_ih` and with its biases.
        state: the first states, (N, size) each.
        weight: `weight_hh` transposed.
        bias: what is left to the step, or None.
        projection: `weight_hr` transposed, or None.
        reverse: whether to walk from the last time to the first.
        restarts: (T, N, 1), True where a row goes on from another state than that of the step before, and
            these other states, (T, N, size) each, zeros if they are left out.

    Returns:
        The outputs, with `restarts` all states at all times, and the last states.
    """
    parents = (x, *state, weight, bias, projection, *restarts)
    graph: Graph = next(found.graph for found in map(value_of, parents) if is_symbolic(found))
    operands: list[Any] = [None if a is None else graph.operand(value_of(a)) for a in parents]
    inputs, *first, w, b, p = operands[: 4 + len(state)]
    again = operands[4 + len(state) :]
    shown = len(state) if restarts else 1
    learns = any(type(a) is TracedArray for a in parents)
    cell = CELLS[step]

    def forward(before: Any, rows: Any) -> Any:
        entered = _entered(before, rows[1:])
        after, kept = cell.forward(rows[0], entered, w, b, p)
        return after, [*after[:shown], entered[0], *kept] if learns else after[:shown]

    last, found = scan(graph, forward, first, [inputs, *again], reverse)
    outputs, columns = found[:shown], found[shown:]

    def vjp(shares: tuple[Any, ...]) -> tuple[Any, ...]:
        known = next(share for share in shares if share is not None)
        given = [
            np.zeros_like(known, like.dtype, shape=like.shape) if share is None else share
            for like, share in zip((*outputs, *last), shares, strict=True)
        ]
        if not is_symbolic(given[0]):  # of an outer `vmap`
            return _vjp_by_steps(step, inputs, first, (w, b, p), reverse, again, tuple(given))
        given = [graph.operand(share) for share in given]
        return _back(graph, cell, columns, (w, b, p), reverse, again, (given[:shown], given[shown:]))

    made = with_vjp_of_all([*outputs, *last], parents, vjp)
    return tuple(made[:shown]), tuple(made[shown:])


def _entered(before: Any, restart: Any) -> tuple[Any, ...]:
    """The states that a step begins with."""
    if not restart:
        return tuple(before)
    flag, *others = restart
    return tuple(
        np.where(flag, other, h)
        for h, other in zip(before, others or [h.dtype.type(0) for h in before], strict=True)
    )


def _back(
    graph: Graph, cell: Cell, columns: Any, constants: Any, reverse: bool, again: Any, shares: Any
) -> tuple[Any, ...]:
    """The derivatives by input, first states, weight, bias and projection, and by `again`."""
    w, b, p = constants
    h, *kept = columns
    (g, *of_shown), of_last = shares
    turned_w, turned_p = w.T, None if p is None else p.T
    flags, others = again[:1], len(again[1:])

    def backward(state: Any, row: Any) -> Any:
        """The row: the share of the output, of other states that are shown, a flag, the prepared columns."""
        more, row = row[: len(of_shown)], row[len(of_shown) :]
        state = (state[0], *(a + b for a, b in zip(state[1:], more, strict=True))) if more else tuple(state)
        flag, row = row[1 : 1 + len(flags)], [row[0], *row[1 + len(flags) :]]
        before, kept = cell.backward(state, row[0], tuple(row[1:]), turned_w, turned_p)
        if not flag:
            return before, kept
        of_others = [np.where(flag[0], d, d.dtype.type(0)) for d in before[:others]]
        return [np.where(flag[0], d.dtype.type(0), d) for d in before], [*kept, *of_others]

    first, (share, *more) = scan(
        graph, backward, of_last, [*of_shown, g, *flags, *cell.prepare(*kept)], not reverse
    )
    of_others = more[len(more) - others :]
    of_w = _rows(h).T @ _rows(share)
    of_x: Any = share
    of_b = of_p = None
    if cell.forward is _gru_forward:
        gates, of_inner = _split(share, [2 * h.shape[-1]])
        of_x = np.concatenate([gates, more[0]], -1)
        of_b = None if b is None else _rows(of_inner).sum(0)
    elif p is not None:
        _, _, _, _, o, squashed = kept
        of_p = _rows(o * squashed).T @ _rows(more[0])
    return of_x, *first, of_w, of_b, of_p, *(None for _ in flags), *of_others


def _vjp_by_steps(
    step: Step, x: Any, state: Any, constants: Any, reverse: bool, again: Any, shares: Any
) -> tuple[Any, ...]:
    """The same, step by step: for derivatives of an outer `vmap`, of which there are several."""
    w, b, p = constants
    kept = [array for array in (b, p) if array is not None]
    flags, others = again[:1], again[1:]

    def run(x: Any, state: State, w: Any, *rest: Any) -> Any:
        left = list(rest)
        bias = None if b is None else left.pop(0)
        projection = None if p is None else left.pop(0)
        times = range(x.shape[0])
        outputs = []
        for t in reversed(times) if reverse else times:
            state = step(x[t], _entered(state, [a[t] for a in (*flags, *left)]), w, bias, projection)
            outputs.append(state if flags else state[:1])
        columns = zip(*(outputs[::-1] if reverse else outputs), strict=True)
        return *(np.stack(column) for column in columns), *state

    of_x, of_state, of_w, *of_rest = vjp(run, x, tuple(state), w, *kept, *others)[1](shares)
    of_b = None if b is None else of_rest.pop(0)
    of_p = None if p is None else of_rest.pop(0)
    return of_x, *of_state, of_w, of_b, of_p, *(None for _ in flags), *of_rest


def _rows(x: Any) -> Any:
    """All but the last dimension as one."""
    return x.reshape(-1, x.shape[-1])
