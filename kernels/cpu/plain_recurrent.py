"""The kernels of `recurrent` in NumPy, used if nothing is compiled."""

import numpy as np

from lite.kernels._types import Floats


def _from_panels(w: Floats, depth: int) -> Floats:
    """The matrix of panels of 32 columns, and a last one of 16."""
    columns = w.size // depth
    wide = columns // 32 * 32
    parts = [w[: wide * depth].reshape(-1, depth, 32).swapaxes(0, 1).reshape(depth, -1)]
    return np.concatenate([*parts, w[wide * depth :].reshape(depth, columns - wide)], -1)


def lstm(gates: Floats, w: Floats, h: Floats, c: Floats, rows: int, size: int, start: int, stop: int) -> None:
    """As `recurrent.lstm`, with the same arguments."""
    gates, h, c = gates.reshape(-1, rows, 4 * size), h.reshape(-1, rows, size), c.reshape(-1, rows, size)
    matrix = _from_panels(w, size)
    for t in range(len(gates)):
        x = gates[t, start:stop].reshape(-1, 4, size)
        x += np.matmul(h[t, start:stop], matrix).reshape(x.shape)
        x[:, [0, 1, 3]] = 0.5 * np.tanh(0.5 * x[:, [0, 1, 3]]) + 0.5
        x[:, 2] = np.tanh(x[:, 2])
        c[t + 1, start:stop] = x[:, 1] * c[t, start:stop] + x[:, 0] * x[:, 2]
        h[t + 1, start:stop] = x[:, 3] * np.tanh(c[t + 1, start:stop])


def lstm_back(
    gates: Floats, w: Floats, c: Floats, g: Floats, dh: Floats, dc: Floats, shares: Floats, rows: int,
    size: int, start: int, stop: int,
) -> None:  # fmt: skip
    """As `recurrent.lstm_back`, with the same arguments."""
    gates, shares = (x.reshape(-1, rows, 4 * size) for x in (gates, shares))
    c, g = (x.reshape(-1, rows, size) for x in (c, g))
    dh, dc = dh.reshape(rows, size), dc.reshape(rows, size)
    matrix = _from_panels(w, 4 * size)
    for t in range(len(gates) - 1, -1, -1):
        i, f, new, o = (gates[t, start:stop].reshape(-1, 4, size)[:, k] for k in range(4))
        by_h, squashed = g[t, start:stop] + dh[start:stop], np.tanh(c[t + 1, start:stop])
        by_c = dc[start:stop] + by_h * o * (1 - squashed * squashed)
        of_i, of_f = by_c * new * i * (1 - i), by_c * c[t, start:stop] * f * (1 - f)
        of_new, of_o = by_c * i * (1 - new * new), by_h * squashed * o * (1 - o)
        shares[t, start:stop] = np.concatenate([of_i, of_f, of_new, of_o], -1)
        dc[start:stop] = by_c * f
        dh[start:stop] = np.matmul(shares[t, start:stop], matrix)


def gru(gates: Floats, w: Floats, h: Floats, rows: int, size: int, start: int, stop: int) -> None:
    """As `recurrent.gru`, with the same arguments."""
    gates, h = gates.reshape(-1, rows, 4 * size), h.reshape(-1, rows, size)
    matrix = _from_panels(w, size)
    for t in range(len(gates)):
        x = gates[t, start:stop]
        x[:, : 3 * size] += np.matmul(h[t, start:stop], matrix)
        x[:, : 2 * size] = 0.5 * np.tanh(0.5 * x[:, : 2 * size]) + 0.5
        r, z, inner, n = (x.reshape(-1, 4, size)[:, k] for k in range(4))
        n[:] = np.tanh(n + r * inner)
        h[t + 1, start:stop] = n + z * (h[t, start:stop] - n)


def gru_back(
    gates: Floats, w: Floats, h: Floats, g: Floats, dh: Floats, shares: Floats, of_n: Floats, rows: int,
    size: int, start: int, stop: int,
) -> None:  # fmt: skip
    """As `recurrent.gru_back`, with the same arguments."""
    gates, shares = gates.reshape(-1, rows, 4 * size), shares.reshape(-1, rows, 3 * size)
    h, g, of_n = (x.reshape(-1, rows, size) for x in (h, g, of_n))
    dh = dh.reshape(rows, size)
    matrix = _from_panels(w, 3 * size)
    for t in range(len(gates) - 1, -1, -1):
        r, z, inner, n = (gates[t, start:stop].reshape(-1, 4, size)[:, k] for k in range(4))
        by_h = g[t, start:stop] + dh[start:stop]
        by_n = by_h * (1 - z) * (1 - n * n)
        of_r, of_z = by_n * inner * r * (1 - r), by_h * (h[t, start:stop] - n) * z * (1 - z)
        shares[t, start:stop] = np.concatenate([of_r, of_z, by_n * r], -1)
        of_n[t, start:stop] = by_n
        dh[start:stop] = by_h * z + np.matmul(shares[t, start:stop], matrix)
