"""Convolutions as products of matrices whose one side is never written out, compiled for the CPU.

The padded input of a unit (an image, a band of output rows, a group of channels) is laid out in planes, one
for each channel and each residue of positions by the stride. There the entry that any window sees at one of
its offsets lies at a fixed distance from the window's place, so a row of the matrix of patches is a part of
a plane, and a table of distances is all that the product needs. Places at the ends of rows, where windows
would reach into the next row, are computed and left out: fewer than patches would cost to copy. Value and
gradient of an Atari network took 1.9 times torch's time with patches and BLAS, and take 1.0 so.

The derivative by the input is a convolution, too: of the gradient, once for each residue. In its planes there
is one residue, in its result there are several.
"""

import numpy as np

from lite.kernels._types import Float, Floats, Ints
from lite.kernels.backends.jit import jit
from lite.kernels.cpu import plain_convolution
from lite.kernels.cpu.vectors.products import ROWS, parted, shifted, tile
from lite.kernels.cpu.vectors.width import full_width

_DEPTH = 128  # places whose gradients stay in the first-level cache
_ZERO = np.float32(0.0)


@jit
def _move(
    x: Floats, at_x: int, step_x: int, y: Floats, at_y: int, step_y: int, count: int, shift: Float
) -> None:
    """Every `step_x`th number of x, plus `shift`, as every `step_y`th of y.

    Indices without a sign save Numba's look whether they count from the end, two thirds of the time.
    """
    if step_x == 1 and step_y == 1:
        shifted(x, at_x, y, at_y, count, shift)
    else:
        source, target = np.uint64(at_x), np.uint64(at_y)
        for j in range(count):
            y[target + np.uint64(j * step_y)] = x[source + np.uint64(j * step_x)] + shift


@jit
def _planes(sizes: Ints) -> tuple[int, int, int, int, int, int, int, int]:
    """Of the sizes, those of the input and of the planes that it is laid out in."""
    return sizes[0], sizes[1], sizes[2], sizes[4], sizes[5], sizes[6], sizes[7], sizes[8]


@jit
def _part(x: Floats, at: int, top: int, sizes: Ints, planes: Floats) -> None:
    """The same for whole groups of `stride_w` numbers, whose residues are laid out at once."""
    channels, height, width, before, stride_h, stride_w, tall, pitch = _planes(sizes)
    for c in range(channels):
        for down in range(stride_h):
            place = (c * stride_h + down) * stride_w * tall * pitch
            for u in range(tall):
                y = top + u * stride_h + down
                if y >= 0 and y < height:
                    line, row = at + (c * height + y) * width, place + u * pitch
                    parted(x, line, planes, row, stride_w, before, tall * pitch, width // stride_w)


@jit
def _fill(x: Floats, at: int, top: int, sizes: Ints, planes: Floats) -> None:
    """Lay out the rows of the padded input from `top` on; what is beside them is 0 already."""
    channels, height, width, before, stride_h, stride_w, tall, pitch = _planes(sizes)
    done = 0
    if stride_w == 2 or stride_w == 4:  # half the time of a residue after the other
        _part(x, at, top, sizes, planes)
        done = width // stride_w
        if done * stride_w == width and top >= 0 and top + tall * stride_h <= height:
            return
    for residue in range(stride_h * stride_w):
        down, right = residue // stride_w, residue % stride_w
        first = (before - right + stride_w - 1) // stride_w  # not below 0, as the padding is not
        count = (width + before - right + stride_w - 1) // stride_w - first
        shift = first * stride_w + right - before
        for c in range(channels):
            place = (c * stride_h * stride_w + residue) * tall * pitch + first
            for u in range(tall):
                y = top + u * stride_h + down
                if y < 0 or y >= height:
                    planes[place + u * pitch : place + u * pitch + count] = _ZERO
                else:
                    line = at + (c * height + y) * width + shift + done * stride_w
                    _move(x, line, stride_w, planes, place + u * pitch + done, 1, count - done, _ZERO)


@jit
def _products(w: Floats, at: int, rows: int, table: Ints, planes: Floats, sums: Floats, columns: int) -> None:
    depth = table.size
    if depth == 0:
        sums[: rows * columns] = _ZERO
        return
    step = ROWS if rows > 1 else 1
    j = 0
    while j < columns:
        wide = columns - j >= 32
        for i in range(0, rows, step):
            tile(
                w, at + i * depth, 1, step, planes, j, table, sums, i * columns + j, columns, depth, False,
                step > 1, wide,
            )  # fmt: skip
        j += 32 if wide else 16


@jit(entry=True, plain=plain_convolution.convolve)
def convolve(
    x: Floats, w: Floats, bias: Floats, table: Ints, starts: Ints, sizes: Ints, out: Floats, planes: Floats,
    sums: Floats, start: int, stop: int,
) -> None:  # fmt: skip
    """The convolution of units `start` to `stop`.

    Args:
        x: (N, groups, channels, height, width).
        w: for each group and residue of the result (tiles, taps, 8): the weights of eight rows side by side,
            zeros beyond the last; of one row alone (1, taps, 1).
        bias: (groups, rows), or empty.
        table: for all taps, of the residues one after the other, their distances in the planes.
        starts: where those of a residue begin, and the end.
        sizes: see `Plan` in `networks/convolution.py`.
        out: (N, groups, rows, height, width) of the result.
        planes: memory of zeros.
        sums: memory.
        start: a unit is a band of rows of a group of an image.
        stop: see `start`.
    """
    full_width()
    channels, height, width, groups = sizes[0], sizes[1], sizes[2], sizes[9]
    rows, lines, across, band, bands = sizes[10], sizes[11], sizes[12], sizes[13], sizes[14]
    step_h, step_w, out_h, out_w, cut_h, cut_w = (
        sizes[15],
        sizes[16],
        sizes[17],
        sizes[18],
        sizes[19],
        sizes[20],
    )
    pitch, whole = sizes[8], (rows + ROWS - 1) // ROWS * ROWS if rows > 1 else np.int64(1)
    for unit in range(start, stop):
        image, begin = unit // bands, unit % bands * band  # of all groups
        group, many = image % groups, min(band, lines - begin)
        _fill(x, image * channels * height * width, begin * sizes[5] - sizes[3], sizes, planes)
        columns = ((many - 1) * pitch + across + 15) // 16 * 16
        for residue in range(starts.size - 1):
            taps = table[starts[residue] : starts[residue + 1]]
            at = whole * (group * table.size + starts[residue])
            _products(w, at, whole, taps, planes, sums, columns)
            above, left = residue // step_w - cut_h, residue % step_w - cut_w
            first = max(0, (step_w - 1 - left) // step_w)
            last = min(across, (out_w - left + step_w - 1) // step_w)
            for r in range(rows):
                shift = bias[group * rows + r] if bias.size > 0 else _ZERO
                for u in range(many):
                    y = (begin + u) * step_h + above
                    if y < 0 or y >= out_h:
                        continue
                    place = ((image * rows + r) * out_h + y) * out_w + first * step_w + left
                    _move(sums, r * columns + u * pitch + first, 1, out, place, step_w, last - first, shift)


@jit(entry=True, plain=plain_convolution.by_weight)
def by_weight(
    x: Floats,
    g: Floats,
    table: Ints,
    sizes: Ints,
    out: Floats,
    planes: Floats,
    turned: Floats,
    start: int,
    stop: int,
) -> None:
    """What units `start` to `stop` share to the derivative by the weight, added to `out`.

    Args:
        x: as of `convolve`.
        g: (N, groups, rows, height, width): the derivative by the result.
        table: as of `convolve`.
        sizes: as of `convolve`.
        out: (groups, taps, rows), the rows rounded up to a multiple of 16.
        planes: memory of zeros.
        turned: memory of zeros.
        start: as of `convolve`.
        stop: as of `convolve`.
    """
    full_width()
    channels, height, width, groups = sizes[0], sizes[1], sizes[2], sizes[9]
    rows, lines, across, band, bands = sizes[10], sizes[11], sizes[12], sizes[13], sizes[14]
    pitch, whole, taps = sizes[8], (rows + 15) // 16 * 16, table.size
    for unit in range(start, stop):
        image, begin = unit // bands, unit % bands * band
        group, many = image % groups, min(band, lines - begin)
        _fill(x, image * channels * height * width, begin * sizes[5] - sizes[3], sizes, planes)
        for r in range(rows):
            for u in range(many):
                line = g[((image * rows + r) * lines + begin + u) * across :]
                for v in range(across):
                    turned[(u * pitch + v) * whole + r] = line[v]
        places, q = (many - 1) * pitch + across, 0
        while q < places:
            depth = min(_DEPTH, places - q)
            j = 0
            while j < whole:
                wide = whole - j >= 32
                i = 0
                while i < taps:
                    eight = taps - i >= ROWS
                    tile(
                        planes, q, table[i:], 1, turned, q * whole + j, whole, out,
                        (group * taps + i) * whole + j, whole, depth, True, eight, wide,
                    )  # fmt: skip
                    i += ROWS if eight else 1
                j += 32 if wide else 16
            q += depth
