"""Recurrent layers of float32 arrays in compiled code, for `lite.nn`."""

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
    times, rows, size = x.shape[0], *h.shape
    gates = contiguous(x, np.float32)
    all_h, all_c = (np.empty((times + 1, rows, size), np.float32) for _ in range(2))
    all_h[0], all_c[0] = h, c
    flat = gates.reshape(-1), _panels(weight), all_h.reshape(-1), all_c.reshape(-1)
    for_rows(lambda start, stop: kernels.lstm(*flat, rows, size, start, stop), rows, _chunk(gates, size))
    return all_h, all_c, gates


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
    shares = np.empty_like(gates)
    dh, dc = (np.array(given, np.float32, order="C") for given in (h, c))
    rows, size = dh.shape
    arrays = gates, _panels(weight.T), all_c, contiguous(g, np.float32), dh, dc, shares
    flat = [x.reshape(-1) for x in arrays]
    for_rows(lambda start, stop: kernels.lstm_back(*flat, rows, size, start, stop), rows, _chunk(gates, size))
    return shares, dh, dc


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
    times, rows, size = x.shape[0], *h.shape
    gates = np.empty((times, rows, 4 * size), np.float32)
    gates[..., : 2 * size], gates[..., 3 * size :] = x[..., : 2 * size], x[..., 2 * size :]
    gates[..., 2 * size : 3 * size] = 0 if bias is None else bias
    all_h = np.empty((times + 1, rows, size), np.float32)
    all_h[0] = h
    flat = gates.reshape(-1), _panels(weight), all_h.reshape(-1)
    for_rows(lambda start, stop: kernels.gru(*flat, rows, size, start, stop), rows, _chunk(gates, size))
    return all_h, gates


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
    rows, size = dh.shape
    shares, of_n = np.empty((len(gates), rows, 3 * size), np.float32), np.empty(g.shape, np.float32)
    arrays = gates, _panels(weight.T), all_h, contiguous(g, np.float32), dh, shares, of_n
    flat = [x.reshape(-1) for x in arrays]
    for_rows(lambda start, stop: kernels.gru_back(*flat, rows, size, start, stop), rows, _chunk(gates, size))
    return np.concatenate([shares[..., : 2 * size], of_n], -1), shares, dh


def _chunk(gates: Floats, size: int) -> int:
    return _ROWS if gates.size * size > _SERIAL else max(gates.shape[1], 1)


def _panels(weight: Floats) -> Floats:
    """A matrix as consecutive panels of 32 columns, with one of 16 columns at the end if needed."""
    depth, columns = weight.shape
    out, wide = np.empty(weight.size, np.float32), columns // 32 * 32
    out[: wide * depth].reshape(-1, depth, 32)[:] = weight[:, :wide].reshape(depth, -1, 32).swapaxes(0, 1)
    out[wide * depth :].reshape(depth, columns - wide)[:] = weight[:, wide:]
    return out
