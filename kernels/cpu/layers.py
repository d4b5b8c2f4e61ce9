"""Network layers with long formulas, each in one pass over float32 arrays, compiled for the CPU."""

import numpy as np

from lite.kernels._types import Float, Floats
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.vectors.blocks import exp, maximum
from lite.kernels.cpu.vectors.gelu import BY_TANH, END, EXACT
from lite.kernels.cpu.vectors.width import full_width

_END = np.float32(END)
_E6, _E5, _E4, _E3, _E2, _E1, _E0 = map(np.float32, EXACT)
_T1, _T0 = map(np.float32, BY_TANH)
_TOP = np.float32(80.0)  # beyond it 1 / (1 + exp(u)) counts as 0, so that x may be any number
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_COLDEST = np.float32(-86.0)  # exp of what is below is not a normal number, and counts as 0


@jit
def _gated(x: Float, u: Float) -> Float:
    """x / (1 + exp(u))."""
    _, e = exp(_TOP if u > _TOP else u)
    return x * (_ZERO if u > _TOP else _ONE / (_ONE + e))


@jit(entry=True)
def gelu(x: Floats, out: Floats) -> None:
    """x times the probability that a standard normal number is below x; see `vectors/gelu.py`."""
    full_width()
    for i in range(x.size):
        s = x[i] * x[i]
        s = _END if s > _END else s
        u = ((((((_E6 * s + _E5) * s + _E4) * s + _E3) * s + _E2) * s + _E1) * s + _E0) * x[i]
        out[i] = _gated(x[i], u)


@jit(entry=True)
def gelu_by_tanh(x: Floats, out: Floats) -> None:
    """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2; see `vectors/gelu.py`."""
    full_width()
    for i in range(x.size):
        u = (_T1 * (x[i] * x[i]) + _T0) * x[i]
        out[i] = _gated(x[i], u)


@jit(entry=True)
def silu(x: Floats, out: Floats) -> None:
    """x / (1 + exp(-x))."""
    full_width()
    for i in range(x.size):
        out[i] = _gated(x[i], -x[i])


@jit
def _powers(row: Floats, top: Float, out: Floats) -> None:
    for i in range(row.size):
        x = row[i] - top
        _, e = exp(x)
        out[i] = _ZERO if x < _COLDEST else e


@jit(reassociate=True)
def _sum(row: Floats) -> Float:
    total = 0.0
    for i in range(row.size):
        total += row[i]
    return total


@jit(entry=True)
def softmax(x: Floats, empty: float, row: Floats, out: Floats) -> None:
    """exp(x) / sum(exp(x)) of each row; of -inf alone, 0 / `empty`.

    `out` may be x: what a loop reads and writes is apart all the same, in memory for a `row`. With vectors
    that overlap LLVM takes a loop without any, of three times the time.
    """
    full_width()
    for r in range(x.shape[0]):
        target = out[r]
        top = maximum(x[r])
        _powers(x[r], top if top > -np.inf else _ZERO, row)
        total = np.float32(_sum(row))
        scale = _ONE / (empty if total == _ZERO else total)
        for i in range(row.size):
            target[i] = row[i] * scale


@jit(entry=True)
def log_softmax(x: Floats, out: Floats) -> None:
    """x - log(sum(exp(x))) of each row."""
    full_width()
    for r in range(x.shape[0]):
        row, target = x[r], out[r]
        top = maximum(row)
        _powers(row, top, target)
        total = np.float32(np.log(_sum(target)))
        for i in range(target.size):
            target[i] = (row[i] - top) - total


@jit(entry=True, reassociate=True)
def softmax_gradients(out: Floats, g: Floats, by_x: Floats) -> None:
    """The derivative of `softmax` by x, from its result."""
    full_width()
    for r in range(out.shape[0]):
        row, given, target = out[r], g[r], by_x[r]
        mean = _ZERO
        for i in range(row.size):
            mean += row[i] * given[i]
        for i in range(row.size):
            target[i] = row[i] * (given[i] - mean)


@jit(entry=True, reassociate=True)
def layer_norm(x: Floats, weight: Floats, bias: Floats, eps: float, out: Floats) -> None:
    """(x - mean) / √(variance + eps) over each row, times weight plus bias."""
    full_width()
    size = x.shape[1]
    for r in range(x.shape[0]):
        row, target = x[r], out[r]
        total = _ZERO
        for i in range(size):
            total += row[i]
        mean = np.float32(total / np.float32(size))
        total = _ZERO
        for i in range(size):
            total += (row[i] - mean) * (row[i] - mean)
        scale = _ONE / np.sqrt(np.float32(total / np.float32(size)) + eps)
        for i in range(size):
            target[i] = ((row[i] - mean) * scale) * weight[i] + bias[i]


@jit(entry=True, reassociate=True)
def rms_norm(x: Floats, weight: Floats, eps: float, out: Floats) -> None:
    """x / √(mean of x² + eps) over each row, times weight."""
    full_width()
    size = x.shape[1]
    for r in range(x.shape[0]):
        row, target = x[r], out[r]
        total = _ZERO
        for i in range(size):
            total += row[i] * row[i]
        scale = _ONE / np.sqrt(np.float32(total / np.float32(size)) + eps)
        for i in range(size):
            target[i] = (row[i] * scale) * weight[i]


@jit(entry=True, reassociate=True)
def rms_norm_gradients(
    x: Floats, weight: Floats, eps: float, g: Floats, by_x: Floats, by_weight: Floats
) -> None:
    """Derivatives of `rms_norm`: by x, and the one by the weight added to `by_weight` unless it is empty."""
    full_width()
    size = x.shape[1]
    for r in range(x.shape[0]):
        row, given, target = x[r], g[r], by_x[r]
        total = mixed = _ZERO
        for i in range(size):
            total += row[i] * row[i]
            mixed += row[i] * (given[i] * weight[i])
        scale = np.float32(_ONE / np.sqrt(np.float32(total / np.float32(size)) + eps))
        rest = np.float32(mixed / np.float32(size)) * scale * scale
        for i in range(size):
            target[i] = (given[i] * weight[i] - row[i] * rest) * scale
        for i in range(by_weight.size):
            by_weight[i] += given[i] * (row[i] * scale)


@jit(entry=True)
def swiglu(x: Floats, row_x: int, y: Floats, row_y: int, out: Floats) -> None:
    """x / (1 + exp(-x)) * y; row r of x begins at r * row_x, and likewise of y."""
    full_width()
    for r in range(out.shape[0]):
        target = out[r]
        left, right = x[r * row_x : r * row_x + target.size], y[r * row_y : r * row_y + target.size]
        for i in range(target.size):
            target[i] = _gated(left[i], -left[i]) * right[i]


@jit(entry=True)
def swiglu_gradients(
    x: Floats, row_x: int, y: Floats, row_y: int, g: Floats, by_x: Floats, by_y: Floats
) -> None:
    """Derivatives of `swiglu` by x and by y."""
    full_width()
    for r in range(g.shape[0]):
        given, into_x, into_y = g[r], by_x[r], by_y[r]
        left, right = x[r * row_x : r * row_x + given.size], y[r * row_y : r * row_y + given.size]
        for i in range(given.size):
            share = _gated(_ONE, -left[i])
            silu = left[i] * share
            into_x[i] = given[i] * right[i] * (share + silu * (_ONE - share))
            into_y[i] = given[i] * silu


@jit(entry=True)
def rotate(x: Floats, cos: Floats, sin: Floats, heads: int, width: int, back: bool) -> None:
    """Turn the pairs of the first `heads` of each row in place, a half of what turns apart.

    Row r of `cos` and `sin` has the angles of row r of x; `back` turns the other way.
    """
    full_width()
    half = cos.shape[1]
    sign = -_ONE if back else _ONE
    for r in range(x.shape[0]):
        c, s = cos[r], sin[r]
        for head in range(heads):
            left = x[r, head * width : head * width + half]
            right = x[r, head * width + half : head * width + 2 * half]
            for i in range(half):
                a, b = left[i], right[i]
                t = s[i] * sign
                left[i] = a * c[i] - b * t
                right[i] = b * c[i] + a * t
