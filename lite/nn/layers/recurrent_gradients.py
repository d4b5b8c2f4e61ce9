"""Gradients of recurrent layers: a walk through a sequence as one node, and back in time.

All that does not depend on the step after is computed for all steps at once, before the walk back; the
gradients of weights are one product of matrices each, after it (Werbos 1990, Backpropagation through time).
What a walk keeps are the gates, states and outputs of all steps. Memory for the backward pass is made like
the gradient that comes, which a `vmap` may have mapped.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.dtypes import Dtype
from lite._arrays.types import Array
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import is_traced, value_of, with_vjp, with_vjp_of_all
from lite._transforms.levels import innermost
from lite._tree.methods import LazyModule
from lite.nn.layers.large_arrays import layers_for
from lite.nn.layers.linear import linear
from lite.nn.layers.recorded import are_plain
from lite.nn.layers.recurrent_steps import (
    State,
    Step,
    gru_step,
    lstm_step,
    rnn_relu_step,
    rnn_tanh_step,
    split_bias,
)

_levels = LazyModule("lite._transforms.vmap.level")
_LANES = 16  # what the compiled code takes sizes of multiples of
_MUCH = 1 << 14  # numbers of the gates of an element of a `vmap`, beyond which it walks alone

# The gradients of the projected input, of the products with W_hh, of the first states, of projected outputs.
Shares = tuple[Any, Any, State, Any]


class Kept(NamedTuple):
    """The intermediate results of a forward pass that the backward pass needs.

    Attributes:
        outputs: (T, N, size).
        before: the state h at the beginning of each step, (T, N, size).
        last: the last states.
        back: the backward pass, from the gradients of outputs and last states.
        unprojected: outputs before they are projected, if they are.
    """

    outputs: Any
    before: Any
    last: State
    back: Callable[[Any, State], Shares]
    unprojected: Any = None


def _sigmoid(x: Array) -> None:
    """As that of the steps, in place."""
    x *= 0.5
    np.tanh(x, out=x)
    x *= 0.5
    x += 0.5


def walk_simple(
    x: Array, state: State, weight: Array, bias: Array, projection: Array, *, relu: bool = False
) -> Kept:
    """h' = tanh(x + W h), or max(x + W h, 0); `weight` is W transposed, as in the steps."""
    times = len(x)
    weight = weight.copy()  # BLAS takes half the time for rows in order
    all_h = np.empty((times + 1, *state[0].shape), x.dtype)
    all_h[0] = state[0]
    for t in range(times):
        out = all_h[t + 1]
        np.matmul(all_h[t], weight, out=out)
        out += x[t]
        np.maximum(out, 0, out=out) if relu else np.tanh(out, out=out)
    h = all_h[1:]

    def back(g: Array, last: State) -> Shares:
        derivative = (h > 0).astype(x.dtype) if relu else 1 - h * h
        shares = np.empty_like(g, x.dtype)
        dh = last[0]
        transposed = weight.swapaxes(-1, -2)
        for t in range(times - 1, -1, -1):
            share = shares[t]
            np.multiply(g[t] + dh, derivative[t], out=share)
            dh = np.matmul(share, transposed)
        return shares, shares, (dh,), None

    return Kept(h, all_h[:-1], (all_h[-1],), back)


def walk_gru(x: Array, state: State, weight: Array, bias: Array, projection: Array) -> Kept:
    """See `gru_step`."""
    times, size = x.shape[0], state[0].shape[-1]
    fits = size % _LANES == 0
    kernels = layers_for(x, *state, weight, bias, family="networks.recurrent") if fits else None
    if kernels is not None:
        all_h, kept = kernels.gru(x, state[0], weight, bias)
        gates, inner, n = (kept[..., a * size : b * size] for a, b in ((0, 2), (2, 3), (3, 4)))
    else:
        all_h, gates, inner, n = _gru_states(x, state[0], weight, bias)

    def back(g: Array, last: State) -> Shares:
        if kernels is not None and all(type(a) is np.ndarray for a in (g, *last)):
            *found, first = kernels.gru_gradients(kept, all_h, weight, g, *last)
            return *found, (first,), None
        before, r, z = all_h[:-1], gates[..., :size], gates[..., size:]
        of_z = (before - n) * z * (1 - z)
        to_n = (1 - z) * (1 - n * n)
        of_r = inner * r * (1 - r)
        # of r, z and n, as in x
        shares, shares_of_h = (np.empty_like(g, x.dtype, shape=x.shape) for _ in range(2))
        dh = last[0]
        transposed = weight.swapaxes(-1, -2)
        for t in range(times - 1, -1, -1):
            share, share_of_h = shares[t], shares_of_h[t]
            dh = g[t] + dh
            dn = share[..., 2 * size :]
            np.multiply(dh, to_n[t], out=dn)
            np.multiply(dn, of_r[t], out=share_of_h[..., :size])
            np.multiply(dh, of_z[t], out=share_of_h[..., size : 2 * size])
            np.multiply(dn, r[t], out=share_of_h[..., 2 * size :])
            dh *= z[t]
            dh += np.matmul(share_of_h, transposed)
        shares[..., : 2 * size] = shares_of_h[..., : 2 * size]
        return shares, shares_of_h, (dh,), None

    return Kept(all_h[1:], all_h[:-1], (all_h[-1],), back)


def _gru_states(x: Array, first: Array, weight: Array, bias: Array) -> tuple[Any, ...]:
    """All states, the gates r and z (T, N, 2 * size), the product that r multiplies, and n."""
    times, rows, size = len(x), first.shape[:-1], first.shape[-1]
    weight = weight.copy()
    all_h = np.empty((times + 1, *first.shape), x.dtype)
    all_h[0] = first
    gates = np.empty((times, *rows, 2 * size), x.dtype)
    inner, n = (np.empty((times, *first.shape), x.dtype) for _ in range(2))
    for t in range(times):
        h = all_h[t]
        y = np.matmul(h, weight)
        gate, of_n = gates[t], n[t]
        np.add(x[t, ..., : 2 * size], y[..., : 2 * size], out=gate)
        _sigmoid(gate)
        inner[t] = y[..., 2 * size :] if bias is None else y[..., 2 * size :] + bias
        np.multiply(gate[..., :size], inner[t], out=of_n)
        of_n += x[t, ..., 2 * size :]
        np.tanh(of_n, out=of_n)
        out = all_h[t + 1]
        np.subtract(h, of_n, out=out)
        out *= gate[..., size:]
        out += of_n
    return all_h, gates, inner, n


def walk_lstm(x: Array, state: State, weight: Array, bias: Array, projection: Array) -> Kept:
    """See `lstm_step`."""
    times, rows, size = len(x), x.shape[1:-1], x.shape[-1] // 4
    fits = projection is None and size % _LANES == 0
    kernels = layers_for(x, *state, weight, family="networks.recurrent") if fits else None
    if kernels is not None:
        all_h, all_c, gates = kernels.lstm(x, *state, weight)
        y, whole = gates.reshape(times, *rows, 4, size), all_h[1:]
    else:
        all_h, all_c, y, whole = _lstm_states(x, state, weight, projection)

    def back(g: Array, last: State) -> Shares:
        if kernels is not None and all(type(a) is np.ndarray for a in (g, *last)):
            found, *firsts = kernels.lstm_gradients(y.reshape(x.shape), all_c, weight, g, *last)
            return found, found, tuple(firsts), None
        i, f, new, o = (y[..., k, :] for k in range(4))
        squashed = np.tanh(all_c[1:])
        to_c = o * (1 - squashed * squashed)
        shares = np.empty_like(g, y.dtype, shape=y.shape)  # first what dc, or dh for o, is multiplied by
        np.multiply(new, i * (1 - i), out=shares[..., 0, :])
        np.multiply(all_c[:-1], f * (1 - f), out=shares[..., 1, :])
        np.multiply(i, 1 - new * new, out=shares[..., 2, :])
        np.multiply(squashed, o * (1 - o), out=shares[..., 3, :])
        dh, dc = last
        transposed = weight.swapaxes(-1, -2)
        through: Any = None if projection is None else projection.swapaxes(-1, -2)
        total = None if through is None else np.empty_like(g, x.dtype)
        for t in range(times - 1, -1, -1):
            dh = g[t] + dh
            if total is not None:
                total[t] = dh
                dh = np.matmul(dh, through)
            dc = dc + dh * to_c[t]
            share = shares[t]
            share[..., :3, :] *= dc[..., None, :]
            share[..., 3, :] *= dh
            dh = np.matmul(share.reshape(*rows, 4 * size), transposed)
            dc = dc * f[t]
        flat = shares.reshape(x.shape)
        return flat, flat, (dh, dc), total

    return Kept(all_h[1:], all_h[:-1], (all_h[-1], all_c[-1]), back, whole)


def _lstm_states(x: Array, state: State, weight: Array, projection: Array) -> tuple[Any, ...]:
    """All states h and c, the gates (T, N, 4, size), and h before it is projected."""
    times, rows, size = len(x), x.shape[1:-1], x.shape[-1] // 4
    weight = weight.copy()
    all_h, all_c = (np.empty((times + 1, *h.shape), x.dtype) for h in state)
    all_h[0], all_c[0] = state
    y = np.empty((times, *rows, 4, size), x.dtype)  # the gates i, f, g and o
    whole = all_h[1:] if projection is None else np.empty((times, *rows, size), x.dtype)
    half = np.array([0.5, 0.5, 1, 0.5], x.dtype)[:, None]  # a sigmoid is half a tanh, of half its argument
    shift = np.array([0.5, 0.5, 0, 0.5], x.dtype)[:, None]
    for t in range(times):
        gates = y[t]
        flat = gates.reshape(*rows, 4 * size)
        np.matmul(all_h[t], weight, out=flat)
        flat += x[t]
        gates *= half
        np.tanh(gates, out=gates)
        gates *= half
        gates += shift
        c = all_c[t + 1]
        np.multiply(gates[..., 1, :], all_c[t], out=c)
        c += gates[..., 0, :] * gates[..., 2, :]
        np.tanh(c, out=whole[t])
        whole[t] *= gates[..., 3, :]
        if projection is not None:
            np.matmul(whole[t], projection, out=all_h[t + 1])
    return all_h, all_c, y, whole


# Of x, which the compiled code writes over, the first states, W_hh transposed, what is left of the bias, and
# W_hr transposed.
WALKS: dict[Any, Callable[..., Kept]] = {
    rnn_tanh_step: walk_simple,
    rnn_relu_step: functools.partial(walk_simple, relu=True),
    gru_step: walk_gru,
    lstm_step: walk_lstm,
}


def walked(step: Step, x: Any, state: State, weight: Any, bias: Any, projection: Any) -> Kept:
    """`WALKS`, also for arrays of a `vmap`, which becomes a dimension of the arrays in front of the rows.

    16 LSTMs of 32 states over 10 steps of 4 rows take 0.4 of the time of a loop, their gradients 0.3.
    """
    mapped = _levels.batched_in((x, *state, weight, bias, projection), [])
    if not mapped:
        return WALKS[step](x, state, weight, bias, projection)
    level = _levels.level_of(mapped)
    weights: Any = (weight, bias if bias is None or bias.ndim > 1 else bias[None], projection)
    shape = (level.size, *x.shape[1:-1])  # of rows
    rows: tuple[int, ...] = (math.prod(shape),)
    if weight.ndim > 2 or any(map(level.on, weights)):
        rows, weights = shape, tuple(None if w is None else level.full(w) for w in weights)
    else:
        weights = weight, bias, projection

    def inside(a: Any) -> Any:
        """Arrays at all times."""
        a = level.full(a).swapaxes(0, 1)
        return a.reshape(a.shape[0], *rows, a.shape[-1])

    def outside(a: Any) -> Any:
        return level.wrap(a.reshape(a.shape[0], *shape, a.shape[-1]).swapaxes(0, 1))

    def states_inside(states: State) -> State:
        return tuple(level.full(h).reshape(*rows, h.shape[-1]) for h in states)

    def states_outside(states: State) -> State:
        return tuple(level.wrap(h.reshape(*shape, h.shape[-1])) for h in states)

    kept = walked(step, inside(x), states_inside(state), *weights)

    def back(g: Any, last: State) -> Shares:
        shares, shares_of_h, firsts, total = kept.back(inside(g), states_inside(last))
        of_outputs = None if total is None else outside(total)
        return outside(shares), outside(shares_of_h), states_outside(firsts), of_outputs

    unprojected = None if kept.unprojected is None else outside(kept.unprojected)
    return Kept(outside(kept.outputs), outside(kept.before), states_outside(kept.last), back, unprojected)


def plain_arrays(operands: Sequence[Any]) -> list[Any]:
    """Arrays of subclasses of NumPy's, as a `vmap` makes of those that it shares, as NumPy's."""
    return [np.asarray(a) if isinstance(a, np.ndarray) else a for a in operands]


def recorder(operands: Sequence[Any]) -> Callable[..., tuple[Any, State]] | None:
    """What makes one node of a walk with these arrays: `recorded_walk`, `recorded_in_map`, or nothing."""
    top = innermost(operands)
    if type(top) is TracedArray:
        return recorded_walk if is_traced(*operands) and are_plain(map(value_of, operands)) else None
    if top is None or not top.layered:
        return None
    level = _levels.level_of(_levels.batched_in(operands, []))
    inside = [level.value(a) for a in operands]
    return recorded_in_map if is_traced(*inside) and are_plain(map(value_of, inside)) else None


def recorded_walk(
    step: Step, x: Array, state: State, weights: Sequence[Any], bias: bool, reverse: bool, compute: Dtype
) -> tuple[Any, State]:
    """Outputs (T, N, size) and last states, as one node.

    Args:
        step: what happens at each time.
        x: input (T, N, size).
        state: the first states, (N, size) each.
        weights: W_ih, W_hh, with `bias` both biases, then W_hr if there is a projection.
        bias: whether there are biases.
        reverse: whether to walk from the last time to the first.
        compute: dtype of all that is computed.
    """
    parents = (x, *state, *weights)
    values = plain_arrays([value_of(a).astype(compute, copy=False) for a in parents])
    outputs, last, vjp = with_back(step, values, len(state), bias, reverse, isinstance(x, TracedArray), True)
    return _noted(outputs, last, parents, vjp, reverse)


def recorded_in_map(
    step: Step, x: Array, state: State, weights: Sequence[Any], bias: bool, reverse: bool, compute: Dtype
) -> tuple[Any, State]:
    """As `recorded_walk`, for a `vmap` inside of `grad`: its arrays hold traced ones."""
    operands = (x, *state, *weights)
    level = _levels.level_of(_levels.batched_in(operands, []))
    parents = [level.value(a) for a in operands]
    numbers = plain_arrays([value_of(a).astype(compute, copy=False) for a in parents])
    mapped = list(map(level.on, operands))
    values = [level.wrap(a) if on else a for a, on in zip(numbers, mapped, strict=True)]
    outputs, last, vjp = with_back(
        step, values, len(state), bias, reverse, isinstance(parents[0], TracedArray), True
    )

    def vjp_of_all(g: Any, ends: State) -> tuple[Any, ...]:
        found = vjp(level.wrap(g), tuple(map(level.wrap, ends)))
        whole = (None if share is None else level.full(share) for share in found)
        return tuple(
            share if share is None or on else share.sum(0) for share, on in zip(whole, mapped, strict=True)
        )

    out, ends = _noted(level.full(outputs), tuple(map(level.full, last)), parents, vjp_of_all, reverse, 1)
    return level.wrap(out), tuple(map(level.wrap, ends))


def with_back(
    step: Step, values: Sequence[Any], states: int, bias: bool, reverse: bool, of_input: bool, of_others: bool
) -> tuple[Any, State, Callable[[Any, State], tuple[Any, ...]]]:
    """Outputs, last states, and the derivatives by all values from those by both.

    Args:
        values: input, first states and weights, of the dtype to compute in.
        states: how many there are.
        bias: as for `recorded_walk`.
        reverse: likewise.
        of_input: whether the derivative by the input is wanted.
        of_others: whether any is.
    """
    mapped = _levels.batched_in(values, []) if any(type(a) is not np.ndarray for a in values) else ()
    level = _levels.level_of(mapped) if mapped else None
    if level and level.size and math.prod(values[0].shape[:-1]) * values[1 + states].shape[0] > _MUCH:
        return _with_back_of_each(level, step, values, states, bias, reverse, of_input, of_others)
    inputs, first, arrays = values[0], tuple(values[1 : 1 + states]), values[1 + states :]
    if reverse:
        inputs = inputs[::-1]
    b_ih, b_hh = arrays[2:4] if bias else (None, None)
    projection = arrays[-1].T if len(arrays) > (4 if bias else 2) else None
    input_bias, rest = split_bias(step, b_ih, b_hh)
    kept = walked(step, linear(inputs, arrays[0], input_bias), first, arrays[1].T, rest, projection)

    def vjp(g: Array, last: State) -> tuple[Any, ...]:
        shares, shares_of_h, firsts, of_outputs = kept.back(g[::-1] if reverse else g, last)
        shares, shares_of_h = (_rows(share) for share in (shares, shares_of_h))
        by_input = None
        if of_input:
            by_input = np.matmul(shares, arrays[0]).reshape(inputs.shape)
            by_input = by_input[::-1] if reverse else by_input
        found = [shares.T @ _rows(inputs), shares_of_h.T @ _rows(kept.before)]
        if bias:
            found += [shares.sum(0), shares_of_h.sum(0)]
        if projection is not None:
            found.append(_rows(of_outputs).T @ _rows(kept.unprojected))
        return by_input, *firsts, *found

    return kept.outputs[::-1] if reverse else kept.outputs, kept.last, vjp


def _with_back_of_each(
    level: Any, step: Step, values: Sequence[Any], states: int, *options: bool
) -> tuple[Any, State, Callable[[Any, State], tuple[Any, ...]]]:
    """`with_back` of one element of a `vmap` after the other."""
    runs: list[Any] = []
    for i in range(level.size):
        outputs, last, vjp = with_back(step, level.part(list(values), i), states, *options)
        # The vjp holds all gates: kept for nothing, their memory is new for each element, at twice the time.
        runs.append((outputs, last, vjp if options[-1] else None))

    def joined(arrays: Sequence[Any]) -> Any:
        return None if arrays[0] is None else level.wrap(np.stack(arrays))

    def vjp_of_each(g: Array, last: State) -> tuple[Any, ...]:
        found = (run[2](level.part(g, i), level.part(last, i)) for i, run in enumerate(runs))
        return tuple(map(joined, zip(*found, strict=True)))

    ends = map(joined, zip(*(run[1] for run in runs), strict=True))
    return joined([run[0] for run in runs]), tuple(ends), vjp_of_each


def _noted(
    outputs: Any, last: State, parents: Sequence[Any], vjp: Callable[[Any, State], tuple[Any, ...]],
    reverse: bool, axis: int = 0,
) -> tuple[Any, State]:  # fmt: skip
    """Traced outputs and last states; `axis` is that of time."""
    end = (slice(None),) * axis + (0 if reverse else -1,)
    none = np.zeros_like(last[0])
    if len(last) == 1:
        out = with_vjp(outputs, parents, lambda g: vjp(g, (none,)))
        return out, (out[end],)
    cells = last[1]

    def vjp_of_both(shares: tuple[Any, ...]) -> tuple[Any, ...]:
        known = next(share for share in shares if share is not None)
        g, of_cells = (
            np.zeros_like(known, x.dtype, shape=x.shape) if share is None else share
            for x, share in zip((outputs, cells), shares, strict=True)
        )
        return vjp(g, (none, of_cells))

    out, after = with_vjp_of_all([outputs, cells], parents, vjp_of_both)
    return out, (out[end], after)


def _rows(x: Array) -> Array:
    """All but the last dimension as one."""
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])
