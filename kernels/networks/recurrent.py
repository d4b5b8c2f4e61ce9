"""Recurrent layers of float32 arrays in compiled code, for `lite.nn`.

A weight may have dimensions in front, those of a `vmap`: states and inputs then have them in front of their
rows, and each weight is that of its rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._arrays import contiguous
from lite.kernels._threads import for_rows
from lite.kernels.cpu import recurrent as kernels

Floats = NDArray[np.float32]

_SERIAL = 1 << 21  # multiplications: below, starting a thread costs more than it saves
_ROWS = 8  # in a chunk for a thread


def lstm(x: Floats, h: Floats, c: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """The states of a long short-term memory.

    Args:
        x: (steps, rows, 4 * size): projected inputs of the gates i, f, g and o. A contiguous array is
            overwritten with the gates.
        h: (rows, size), the initial state; `size` is a multiple of 16.
        c: (rows, size), the initial cell state.
        weight: (size, 4 * size).

    Returns:
        All states h (steps + 1, rows, size), all c, and the gates, of the shape of `x`.
    """
    gates = contiguous(_inside(x), np.float32)
    all_h, all_c = _states(len(x), h), _states(len(x), c)
    _run(kernels.lstm, gates, weight, all_h, all_c)
    return _outside(all_h), _outside(all_c), _outside(gates)


def lstm_gradients(
    gates: Floats, all_c: Floats, weight: Floats, g: Floats, h: Floats, c: Floats
) -> tuple[Floats, Floats, Floats]:
    """The derivatives by x, and by the initial h and c.

    Args:
        gates: of `lstm`.
        all_c: of `lstm`.
        weight: (size, 4 * size).
        g: (steps, rows, size): the derivative by all states h but the initial one.
        h: (rows, size): the derivative by the last h, which is added.
        c: (rows, size): the derivative by the last c.
    """
    dh, dc = (np.array(given, np.float32, order="C") for given in (h, c))
    gates, all_c, g = (contiguous(_inside(a), np.float32) for a in (gates, all_c, g))
    shares = np.empty_like(gates)
    _run(kernels.lstm_back, gates, weight.swapaxes(-1, -2), all_c, g, dh, dc, shares)
    return _outside(shares), dh, dc


def gru(x: Floats, h: Floats, weight: Floats, bias: Floats | None) -> tuple[Floats, Floats]:
    """The states of a gated recurrent unit.

    Args:
        x: (steps, rows, 3 * size): projected inputs of the gates r and z, and of n.
        h: (rows, size), the initial state; `size` is a multiple of 16.
        weight: (size, 3 * size).
        bias: (size,), of the product that r multiplies, or None.

    Returns:
        All states h (steps + 1, rows, size), and (steps, rows, 4 * size): r, z, that product, and n.
    """
    size = h.shape[-1]
    x = _inside(x)
    gates = np.empty((*x.shape[:-1], 4 * size), np.float32)
    gates[..., : 2 * size], gates[..., 3 * size :] = x[..., : 2 * size], x[..., 2 * size :]
    gates[..., 2 * size : 3 * size] = 0 if bias is None else bias[..., None, :, :] if bias.ndim > 1 else bias
    all_h = _states(x.shape[-3], h)
    _run(kernels.gru, gates, weight, all_h)
    return _outside(all_h), _outside(gates)


def gru_gradients(
    gates: Floats, all_h: Floats, weight: Floats, g: Floats, h: Floats
) -> tuple[Floats, Floats, Floats]:
    """The derivatives by x, by the products with the weight (of the shape of x), and by the initial h.

    Args:
        gates: of `gru`.
        all_h: of `gru`.
        weight: (size, 3 * size).
        g: (steps, rows, size): the derivative by all states h but the initial one.
        h: (rows, size): the derivative by the last h, which is added.
    """
    dh = np.array(h, np.float32, order="C")
    gates, all_h, g = (contiguous(_inside(a), np.float32) for a in (gates, all_h, g))
    size, of_n = dh.shape[-1], np.empty_like(g)
    shares = np.empty((*g.shape[:-1], 3 * size), np.float32)
    _run(kernels.gru_back, gates, weight.swapaxes(-1, -2), all_h, g, dh, shares, of_n)
    return _outside(np.concatenate([shares[..., : 2 * size], of_n], -1)), _outside(shares), dh


def _inside(x: Floats) -> Floats:
    """An array with the steps right before the rows, so that those of each weight are together."""
    return np.moveaxis(x, 0, -3) if x.ndim > 3 else x


def _outside(x: Floats) -> Floats:
    """An array with the steps in front."""
    return np.moveaxis(x, -3, 0) if x.ndim > 3 else x


def _states(steps: int, first: Floats) -> Floats:
    """Memory for all states, which begins with the first."""
    states = np.empty((*first.shape[:-2], steps + 1, *first.shape[-2:]), np.float32)
    states[..., 0, :, :] = first
    return states


def _run(kernel: Callable[..., None], gates: Floats, weight: Floats, *arrays: Floats) -> None:
    """Call `kernel(gates, weight, *arrays, rows, size, start, stop)` for all rows of each weight."""
    panels, rows, size = _panels(weight), gates.shape[-2], gates.shape[-1] // 4
    first, *others = (x.reshape(len(panels), -1) for x in (gates, *arrays))
    for i, matrix in enumerate(panels):
        flat = first[i], matrix, *(x[i] for x in others)

        def work(start: int, stop: int, flat: Any = flat) -> None:
            kernel(*flat, rows, size, start, stop)

        for_rows(work, rows, _ROWS if flat[0].size * size > _SERIAL else max(rows, 1))


def _panels(weight: Floats) -> Floats:
    """Matrices as consecutive panels of 32 columns, with one of 16 columns at the end if needed, flat."""
    depth, columns = weight.shape[-2:]
    weight = weight.reshape(-1, depth, columns)
    count, wide = len(weight), columns // 32
    out, inner = np.empty((count, depth * columns), np.float32), wide * 32 * depth
    whole = weight[..., : wide * 32].reshape(count, depth, wide, 32)
    out[:, :inner].reshape(count, wide, depth, 32)[:] = whole.swapaxes(1, 2)
    out[:, inner:].reshape(count, depth, columns - wide * 32)[:] = weight[..., wide * 32 :]
    return out
