"""Layers of networks in compiled code, for `lite.nn`, which imports this file if kernels are compiled."""

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.kernels._arrays import Memory, contiguous
from lite.kernels._threads import for_rows
from lite.kernels.cpu import attention as kernels
from lite.kernels.cpu import layers

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_SERIAL = 500_000  # values: below, starting a thread costs more than it saves
_CHUNK = 1 << 17  # values handed to a thread at a time


def pointwise(name: str, x: Floats) -> Floats:
    """An activation function of x, by name: "gelu", "gelu_by_tanh" or "silu"."""
    kernel = getattr(layers, name)
    out = np.empty(x.shape, np.float32)
    source, target = contiguous(x, np.float32).reshape(-1), out.reshape(-1)
    for_rows(lambda start, stop: kernel(source[start:stop], target[start:stop]), x.size, _chunk(x.size))
    return out


def softmax(x: Floats, empty: float = np.nan, out: Floats | None = None) -> Floats:
    """exp(x) / sum(exp(x)) over the last dimension. A row of -inf alone becomes 0 / `empty`: NaN by default.

    `out` is None, or x itself, contiguous, to be overwritten.
    """

    def run(rows: Floats, target: Floats) -> None:
        layers.softmax(rows, np.float32(empty), np.empty(rows.shape[1], np.float32), target)

    return _of_rows(run, x, out=out)


def log_softmax(x: Floats) -> Floats:
    """x - log(sum(exp(x))) over the last dimension."""
    return _of_rows(layers.log_softmax, x)


def softmax_gradients(out: Floats, g: Floats) -> Floats:
    """The derivative by the input of `softmax`, from its result `out` and `g`, the derivative by it."""
    return _of_rows(layers.softmax_gradients, out, g)


def _of_rows(kernel: Callable[..., None], *arrays: Floats, out: Floats | None = None) -> Floats:
    """Run a kernel over the rows of arrays of one shape; it writes the rows of `out`, of the same shape."""
    shape = arrays[0].shape
    out = np.empty(shape, np.float32) if out is None else out
    flat = [contiguous(a, np.float32).reshape(-1, shape[-1]) for a in (*arrays, out)]
    for_rows(
        lambda start, stop: kernel(*(a[start:stop] for a in flat)),
        len(flat[0]),
        max(1, _chunk(out.size) // shape[-1]),
    )
    return out


def layer_norm(x: Floats, weight: Floats | None, bias: Floats | None, size: int, eps: float) -> Floats:
    """Layer normalisation over rows of `size` numbers; weight and bias have `size` numbers, too."""
    source, scale = _normalized(x, weight, size)
    shift = contiguous(np.zeros(size, np.float32) if bias is None else bias, np.float32).reshape(-1)
    out = np.empty(x.shape, np.float32)
    target = out.reshape(-1, size)

    def rows(start: int, stop: int) -> None:
        layers.layer_norm(source[start:stop], scale, shift, np.float32(eps), target[start:stop])

    for_rows(rows, len(source), max(1, _chunk(x.size) // size))
    return out


def rms_norm(x: Floats, weight: Floats | None, size: int, eps: float) -> Floats:
    """Root-mean-square normalisation over rows of `size` numbers; the weight has `size` numbers, too."""
    source, scale = _normalized(x, weight, size)
    out = np.empty(x.shape, np.float32)
    target = out.reshape(-1, size)

    def rows(start: int, stop: int) -> None:
        layers.rms_norm(source[start:stop], scale, np.float32(eps), target[start:stop])

    for_rows(rows, len(source), max(1, _chunk(x.size) // size))
    return out


def rms_norm_gradients(
    x: Floats, weight: Floats | None, size: int, eps: float, g: Floats, learns: bool
) -> tuple[Floats, Floats | None]:
    """The derivative of `rms_norm` by x, and by the weight if it `learns`, else None."""
    source, scale = _normalized(x, weight, size)
    given, out = contiguous(g, np.float32).reshape(-1, size), np.empty(x.shape, np.float32)
    target, chunk = out.reshape(-1, size), max(1, _chunk(x.size) // size)
    sums = np.zeros((-(-len(source) // chunk), size if learns else 0), np.float32)

    def rows(start: int, stop: int) -> None:
        part = slice(start, stop)
        layers.rms_norm_gradients(
            source[part], scale, np.float32(eps), given[part], target[part], sums[start // chunk]
        )

    for_rows(rows, len(source), chunk)
    return out, sums.sum(0) if learns else None


def _normalized(x: Floats, weight: Floats | None, size: int) -> tuple[Floats, Floats]:
    """x in rows of `size`, and the weight, which is ones if None."""
    scale = np.ones(size, np.float32) if weight is None else weight
    return contiguous(x, np.float32).reshape(-1, size), contiguous(scale, np.float32).reshape(-1)


def swiglu(x: Floats, y: Floats) -> Floats:
    """silu(x) * y; x and y may be the two halves of the rows of one array."""
    width = x.shape[-1]
    out = np.empty(x.shape, np.float32)
    (left, row_x), (right, row_y), target = _in_rows(x), _in_rows(y), out.reshape(-1, width)

    def rows(start: int, stop: int) -> None:
        layers.swiglu(left[start * row_x :], row_x, right[start * row_y :], row_y, target[start:stop])

    for_rows(rows, len(target), max(1, _chunk(x.size) // width))
    return out


def swiglu_gradients(x: Floats, y: Floats, g: Floats) -> tuple[Floats, Floats]:
    """The derivatives of `swiglu` by x and by y."""
    width = x.shape[-1]
    out = np.empty(x.shape, np.float32), np.empty(x.shape, np.float32)
    (left, row_x), (right, row_y) = _in_rows(x), _in_rows(y)
    given, by_x, by_y = (contiguous(a, np.float32).reshape(-1, width) for a in (g, *out))

    def rows(start: int, stop: int) -> None:
        part = slice(start, stop)
        layers.swiglu_gradients(
            left[start * row_x :], row_x, right[start * row_y :], row_y, given[part], by_x[part], by_y[part]
        )

    for_rows(rows, len(given), max(1, _chunk(x.size) // width))
    return out


def _in_rows(x: Floats) -> tuple[Floats, int]:
    """The flat memory from the first number of x to its last, and the distance of rows; a copy if needed."""
    rows = x.reshape(-1, x.shape[-1])
    apart, together = rows.strides
    if together != rows.itemsize or apart < 0 or apart % rows.itemsize or x.dtype != np.float32:
        rows = contiguous(x, np.float32).reshape(rows.shape)
    row = rows.strides[0] // rows.itemsize
    memory = Memory(rows, rows.ctypes.data, ((len(rows) - 1) * row + rows.shape[1],), rows.dtype)
    return np.asarray(memory), row


def rotate(x: Floats, cos: Floats, sin: Floats, heads: int, width: int, back: bool) -> None:
    """Rotate the first `heads` of each row of x in place by the row's angles (RoPE); `back` undoes it."""
    cos, sin = contiguous(cos, np.float32), contiguous(sin, np.float32)

    def rows(start: int, stop: int) -> None:
        part = slice(start, stop)
        layers.rotate(x[part], cos[part], sin[part], heads, width, back)

    for_rows(rows, len(x), max(1, _chunk(x.size) // max(x.shape[1], 1)))


def _chunk(values: int) -> int:
    """The number of values that a thread gets at a time: all of them, if starting threads costs more."""
    return _CHUNK if values > _SERIAL else max(values, 1)


class Rows(NamedTuple):
    """Heads side by side in rows of an array that may hold more.

    Attributes:
        flat: all rows, contiguous.
        at: position of the first head in a row.
        row: distance of rows, in numbers.
    """

    flat: Floats
    at: int
    row: int


def attention(
    q: Rows, k: Rows, v: Rows, first: Ints, last: Ints, scale: float, sizes: tuple[int, int, int, int, int]
) -> tuple[Floats, Floats]:
    """Scaled dot-product attention over a range of keys for each query; see `cpu.attention`.

    Args:
        q: (sequences * queries) rows.
        k: (sequences * keys) rows.
        v: (sequences * keys) rows.
        first: (sequences, queries): the first key that each query attends to.
        last: (sequences, queries): the key after the last one.
        scale: a factor of scores.
        sizes: (queries of a sequence, keys of a sequence, heads of queries, heads of keys, width of a head).

    Returns:
        The result, (sequences, queries, heads * width), and log-sums for `attention_gradients`.
    """
    times, length, heads, groups, width = sizes
    count = first.size // max(times, 1)
    out = np.empty((count, times, heads * width), np.float32)
    logs = np.empty(count * heads * times, np.float32)
    given = _given((q, k, v), (first, last), scale, sizes)

    def units(start: int, stop: int) -> None:
        turned, scores = _scratch(length, width), _scratch(length, kernels.BLOCK)
        kernels.attention(*given, out.reshape(-1), logs, turned, scores, start, stop)

    for_rows(units, count * groups, 1)
    return out, logs


def _given(
    parts: tuple[Rows, ...], seen: tuple[Ints, ...], scale: float, sizes: tuple[int, ...]
) -> tuple[Any, ...]:
    """The arguments that both kernels of attention read."""
    rows = [(contiguous(x.flat, np.float32), x.at, x.row) for x in parts]
    ranges = [contiguous(x, np.int64).reshape(-1) for x in seen]
    return (*chain(*rows), *ranges, float(scale), np.array(sizes, np.int64))


def attention_gradients(
    q: Rows,
    k: Rows,
    v: Rows,
    first: Ints,
    last: Ints,
    scale: float,
    sizes: tuple[int, int, int, int, int],
    out: Floats,
    logs: Floats,
    g: Floats,
    targets: tuple[Floats, Floats, Floats],
) -> None:
    """Write derivatives by queries, keys and values to `targets`, arrays like `q.flat`, `k.flat`, `v.flat`.

    Derivatives by keys and values are added to them. `g` is the derivative by `out`. The other arguments are
    those of `attention`, whose results are `out` and `logs`.
    """
    times, length, _, groups, width = sizes
    given = _given((q, k, v), (first, last), scale, sizes)
    results = (out.reshape(-1), logs, contiguous(g, np.float32).reshape(-1), *targets)

    def units(start: int, stop: int) -> None:
        turned = [_scratch(length, width) for _ in range(2)]
        scores = [_scratch(length, kernels.BLOCK) for _ in range(2)]
        kernels.gradients(*given, *results, *turned, *scores, start, stop)

    for_rows(units, first.size // max(times, 1) * groups, 1)


def _scratch(length: int, rows: int) -> Floats:
    return np.empty(kernels.pitch_of(length) * rows, np.float32)
