"""LSTMs and GRUs over a whole sequence and back, compiled for the CPU.

Rows of a batch are independent of each other, so a range of them walks through all steps alone: the product
with the weight goes into the gates, which one pass over a row then turns into the next state. Value and
gradient of 32 steps of 16 rows with 64 states took 1.8 times torch's time in NumPy, and take 1.0 to 1.3 so;
those of a GRU took 0.6 to 0.7 of NumPy's time.
"""

import numpy as np

from lite.kernels._types import Float, Floats
from lite.kernels.backends.jit import jit
from lite.kernels.cpu import plain_recurrent
from lite.kernels.cpu.vectors.products import ROWS, tile
from lite.kernels.cpu.vectors.width import full_width

# tanh(x) / x by x², fitted by least squares for x up to 9, to 9e-8; beyond, it is 1 in float32.
_P = (
    0.9999999953148333,
    0.13407150060730844,
    0.0035264830550523975,
    2.1111805887622316e-05,
    1.4039974366633e-08,
)
_Q = 0.4674047596500087, 0.0259948653043964, 0.00033359196033880056, 8.05946201028722e-07
_P0, _P1, _P2, _P3, _P4 = map(np.float32, _P)
_Q1, _Q2, _Q3, _Q4 = map(np.float32, _Q)
_END, _ONE, _HALF = np.float32(9.0), np.float32(1.0), np.float32(0.5)


@jit
def _tanh(x: Float) -> Float:
    x = _END if x > _END else x
    x = -_END if x < -_END else x
    s = x * x
    y = x * ((((_P4 * s + _P3) * s + _P2) * s + _P1) * s + _P0)
    y /= (((_Q4 * s + _Q3) * s + _Q2) * s + _Q1) * s + _ONE
    y = _ONE if y > _ONE else y
    return -_ONE if y < -_ONE else y


@jit
def _sigmoid(x: Float) -> Float:
    return _HALF * _tanh(_HALF * x) + _HALF


@jit
def _forward(i: Floats, f: Floats, g: Floats, o: Floats, before: Floats, c: Floats, h: Floats) -> None:
    """The next state of one row; the gates are written over what they are of."""
    full_width()
    for j in range(h.size):
        i[j], f[j], g[j], o[j] = _sigmoid(i[j]), _sigmoid(f[j]), _tanh(g[j]), _sigmoid(o[j])
        c[j] = f[j] * before[j] + i[j] * g[j]
        h[j] = o[j] * _tanh(c[j])


@jit
def _back(
    i: Floats, f: Floats, g: Floats, o: Floats, before: Floats, c: Floats, given: Floats, dh: Floats,
    dc: Floats, di: Floats, df: Floats, dg: Floats, do: Floats,
) -> None:  # fmt: skip
    """The derivatives by what the gates are of; `dc` becomes that by the state before."""
    full_width()
    for j in range(dc.size):
        by_h, t = given[j] + dh[j], _tanh(c[j])
        by_c = dc[j] + by_h * o[j] * (_ONE - t * t)
        di[j] = by_c * g[j] * i[j] * (_ONE - i[j])
        df[j] = by_c * before[j] * f[j] * (_ONE - f[j])
        dg[j] = by_c * i[j] * (_ONE - g[j] * g[j])
        do[j] = by_h * t * o[j] * (_ONE - o[j])
        dc[j] = by_c * f[j]


@jit
def _product(
    a: Floats, at_a: int, w: Floats, c: Floats, at_c: int, row_c: int, rows: int, depth: int, columns: int,
    add: bool,
) -> None:  # fmt: skip
    """Rows of a times the weight, which lies in panels of 32 columns (see `networks/recurrent.py`).

    They go to rows of c, `row_c` numbers apart, or are added to them.
    """
    j = 0
    while j < columns:
        wide = columns - j >= 32
        i = 0
        while i < rows:
            many = rows - i >= ROWS
            tile(
                a, at_a + i * depth, depth, 1, w, j * depth, 32 if wide else 16, c, at_c + i * row_c + j,
                row_c, depth, add, many, wide,
            )  # fmt: skip
            i += ROWS if many else 1
        j += 32 if wide else 16


@jit(entry=True, plain=plain_recurrent.lstm)
def lstm(gates: Floats, w: Floats, h: Floats, c: Floats, rows: int, size: int, start: int, stop: int) -> None:
    """The states of rows `start` to `stop` of a batch.

    Args:
        gates: (steps, rows, 4 * size), flat, as are all: the projected inputs of the gates i, f, g and o; the
            gates, afterwards.
        w: weight (size, 4 * size), in panels.
        h: (steps + 1, rows, size), of which the first is given.
        c: likewise.
        rows: number of rows of the batch.
        size: size of a state.
        start: a row.
        stop: the one after the last.
    """
    for t in range(c.size // (rows * size) - 1):
        at = t * rows + start
        _product(h, at * size, w, gates, at * 4 * size, 4 * size, stop - start, size, 4 * size, True)
        for r in range(at, at + stop - start):
            x, after = gates[r * 4 * size : (r + 1) * 4 * size], (r + rows) * size
            _forward(
                x[:size], x[size : 2 * size], x[2 * size : 3 * size], x[3 * size :],
                c[r * size : (r + 1) * size], c[after : after + size], h[after : after + size],
            )  # fmt: skip


@jit(entry=True, plain=plain_recurrent.lstm_back)
def lstm_back(
    gates: Floats, w: Floats, c: Floats, g: Floats, dh: Floats, dc: Floats, shares: Floats, rows: int,
    size: int, start: int, stop: int,
) -> None:  # fmt: skip
    """The derivatives for rows `start` to `stop`, back in time.

    Args:
        gates: as `lstm` leaves them.
        w: weight (4 * size, size), in panels.
        c: as of `lstm`.
        g: (steps, rows, size): the derivatives by h of all steps.
        dh: (rows, size): the derivative by the last h; by the first, afterwards.
        dc: likewise, of c.
        shares: as `gates`: gets the derivatives by what the gates are of.
        rows: number of rows of the batch.
        size: size of a state.
        start: a row.
        stop: the one after the last.
    """
    for t in range(c.size // (rows * size) - 2, -1, -1):
        for row in range(start, stop):
            r = t * rows + row
            x, y = gates[r * 4 * size : (r + 1) * 4 * size], shares[r * 4 * size : (r + 1) * 4 * size]
            after = (r + rows) * size
            _back(
                x[:size], x[size : 2 * size], x[2 * size : 3 * size], x[3 * size :],
                c[r * size : (r + 1) * size], c[after : after + size], g[r * size : (r + 1) * size],
                dh[row * size : (row + 1) * size], dc[row * size : (row + 1) * size],
                y[:size], y[size : 2 * size], y[2 * size : 3 * size], y[3 * size :],
            )  # fmt: skip
        at = (t * rows + start) * 4 * size
        _product(shares, at, w, dh, start * size, size, stop - start, 4 * size, size, False)


@jit
def _gru_forward(r: Floats, z: Floats, inner: Floats, n: Floats, before: Floats, h: Floats) -> None:
    """The next state of one row; the gates are written over what they are of."""
    full_width()
    for j in range(h.size):
        r[j], z[j] = _sigmoid(r[j]), _sigmoid(z[j])
        n[j] = _tanh(n[j] + r[j] * inner[j])
        h[j] = n[j] + z[j] * (before[j] - n[j])


@jit
def _gru_back(
    r: Floats, z: Floats, inner: Floats, n: Floats, before: Floats, given: Floats, dh: Floats, dr: Floats,
    dz: Floats, of_inner: Floats, of_n: Floats,
) -> None:  # fmt: skip
    """The derivatives by what the gates are of; `dh` becomes that by the state before, less the product's."""
    full_width()
    for j in range(dh.size):
        by_h = given[j] + dh[j]
        by_n = by_h * (_ONE - z[j]) * (_ONE - n[j] * n[j])
        dr[j] = by_n * inner[j] * r[j] * (_ONE - r[j])
        dz[j] = by_h * (before[j] - n[j]) * z[j] * (_ONE - z[j])
        of_n[j] = by_n
        of_inner[j] = by_n * r[j]
        dh[j] = by_h * z[j]


@jit(entry=True, plain=plain_recurrent.gru)
def gru(gates: Floats, w: Floats, h: Floats, rows: int, size: int, start: int, stop: int) -> None:
    """The states of rows `start` to `stop` of a batch.

    Args:
        gates: (steps, rows, 4 * size), flat, as are all: the projected inputs of the gates r and z, the bias
            of the product that r multiplies, and the projected input of n. Afterwards r, z, this product, n.
        w: weight (size, 3 * size), in panels.
        h: (steps + 1, rows, size), of which the first is given.
        rows: number of rows of the batch.
        size: size of a state.
        start: a row.
        stop: the one after the last.
    """
    for t in range(h.size // (rows * size) - 1):
        at = t * rows + start
        _product(h, at * size, w, gates, at * 4 * size, 4 * size, stop - start, size, 3 * size, True)
        for r in range(at, at + stop - start):
            x, after = gates[r * 4 * size : (r + 1) * 4 * size], (r + rows) * size
            _gru_forward(
                x[:size], x[size : 2 * size], x[2 * size : 3 * size], x[3 * size :],
                h[r * size : (r + 1) * size], h[after : after + size],
            )  # fmt: skip


@jit(entry=True, plain=plain_recurrent.gru_back)
def gru_back(
    gates: Floats, w: Floats, h: Floats, g: Floats, dh: Floats, shares: Floats, of_n: Floats, rows: int,
    size: int, start: int, stop: int,
) -> None:  # fmt: skip
    """The derivatives for rows `start` to `stop`, back in time.

    Args:
        gates: as `gru` leaves them.
        w: weight (3 * size, size), in panels.
        h: as of `gru`.
        g: (steps, rows, size): the derivatives by h of all steps.
        dh: (rows, size): the derivative by the last h; by the first, afterwards.
        shares: (steps, rows, 3 * size): gets the derivatives by the products with the weight.
        of_n: (steps, rows, size): gets those by the projected input of n.
        rows: number of rows of the batch.
        size: size of a state.
        start: a row.
        stop: the one after the last.
    """
    for t in range(h.size // (rows * size) - 2, -1, -1):
        for row in range(start, stop):
            r = t * rows + row
            x, y = gates[r * 4 * size : (r + 1) * 4 * size], shares[r * 3 * size : (r + 1) * 3 * size]
            _gru_back(
                x[:size], x[size : 2 * size], x[2 * size : 3 * size], x[3 * size :],
                h[r * size : (r + 1) * size], g[r * size : (r + 1) * size], dh[row * size : (row + 1) * size],
                y[:size], y[size : 2 * size], y[2 * size :], of_n[r * size : (r + 1) * size],
            )  # fmt: skip
        at = (t * rows + start) * 3 * size
        _product(shares, at, w, dh, start * size, size, stop - start, 3 * size, size, True)
