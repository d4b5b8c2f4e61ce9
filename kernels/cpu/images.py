"""Transforms of images, each in one pass over flat memory of bytes or float32, compiled for the CPU."""

import numpy as np

from lite.kernels._types import Array, Bool, Float, Floats, Int, Ints
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.vectors.width import full_width

_ZERO, _MOST = np.float32(0), np.float32(255)


@jit(entry=True, fuse=False)
def affine(x: Array, loc: Float, scale: Float, divide: Bool, out: Floats) -> None:
    """(x - loc) / scale where `divide`, else x * scale + loc."""
    full_width()
    if divide:
        for i in range(out.size):
            out[i] = (np.float32(x[i]) - loc) / scale
    else:
        for i in range(out.size):
            out[i] = np.float32(x[i]) * scale + loc


@jit(entry=True, fuse=False)
def grey(x: Array, apart: Int, parts: Floats, out: Array) -> None:
    """Sums of red, green and blue by their parts; the colours of a pixel lie `apart` from each other."""
    full_width()
    r, g, b = parts[0], parts[1], parts[2]
    if apart == 1:  # with a step that LLVM knows it shuffles vectors, and does not fetch number by number
        for i in range(out.size):
            out[i] = (np.float32(x[3 * i]) * r + np.float32(x[3 * i + 1]) * g) + np.float32(x[3 * i + 2]) * b
        return
    for first in range(0, out.size, apart):
        image, target = x[3 * first : 3 * (first + apart)], out[first : first + apart]
        red, green, blue = image[:apart], image[apart : 2 * apart], image[2 * apart :]
        for i in range(apart):
            target[i] = (np.float32(red[i]) * r + np.float32(green[i]) * g) + np.float32(blue[i]) * b


@jit(entry=True)
def resize(
    x: Array, rows: Int, columns: Int, at_row: Ints, of_rows: Floats, at_column: Ints, of_columns: Floats,
    whole: Bool, line: Floats, sums: Floats, out: Array,
) -> None:  # fmt: skip
    """Images of `rows` and `columns` in another size, by weighted sums of rows and then of columns.

    Row i of the result is made of those from `at_row[i]` on, by the weights `of_rows[i]`; column j of those
    from `at_column[j]` on, by `of_columns[:, j]`. With `whole` it is rounded to bytes. `line` has room for a
    row, `sums` for one of the result.
    """
    full_width()
    wide, tall = sums.size, at_row.size
    for i in range(out.size // wide):
        row = i % tall
        start = (i // tall * rows + at_row[row]) * columns
        for k in range(of_rows.shape[1]):
            source, weight = x[start + k * columns : start + (k + 1) * columns], of_rows[row, k]
            for j in range(columns):
                line[j] = np.float32(source[j]) * weight + (line[j] if k else _ZERO)
        for k in range(of_columns.shape[0]):
            weights = of_columns[k]
            for j in range(wide):
                sums[j] = line[at_column[j] + k] * weights[j] + (sums[j] if k else _ZERO)
        target = out[i * wide : (i + 1) * wide]
        for j in range(wide):
            total = sums[j]
            if whole:
                total = np.rint(total)
                total = _ZERO if total < _ZERO else _MOST if total > _MOST else total
            target[j] = total
