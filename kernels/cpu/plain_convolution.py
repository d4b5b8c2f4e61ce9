"""The kernels of `convolution` in NumPy, used if nothing is compiled."""

from typing import Any

import numpy as np

from lite.kernels._types import Floats, Ints

_ROWS = 8  # as in `products`


def convolve(
    x: Floats, w: Floats, bias: Floats, table: Ints, starts: Ints, sizes: Ints, out: Floats, _: Any, __: Any,
    start: int, stop: int,
) -> None:  # fmt: skip
    """As `convolution.convolve`, with the same arguments."""
    groups, rows, lines, across, band, bands = map(int, sizes[9:15])
    step_h, step_w, out_h, out_w, cut_h, cut_w = map(int, sizes[15:])
    eight = _ROWS if rows > 1 else 1
    tiles = -(-rows // eight)
    result = out.reshape(-1, rows, out_h, out_w)
    for unit in range(start, stop):
        image, begin = unit // bands, unit % bands * band
        many = min(band, lines - begin)
        places = _places(sizes, many)
        planes = _planes(x, image, begin, sizes)
        for residue in range(len(starts) - 1):
            first, last = int(starts[residue]), int(starts[residue + 1])
            at = tiles * eight * (image % groups * len(table) + first)
            matrix = w[at : at + tiles * eight * (last - first)].reshape(tiles, last - first, eight)
            matrix = matrix.swapaxes(1, 2).reshape(tiles * eight, last - first)[:rows]
            found = np.matmul(matrix, planes[table[first:last, None] + places])
            if bias.size:
                found += bias.reshape(groups, rows, 1)[image % groups]
            y = (begin + np.arange(many)) * step_h + residue // step_w - cut_h
            at_x = np.arange(across) * step_w + residue % step_w - cut_w
            inside = (y >= 0) & (y < out_h), (at_x >= 0) & (at_x < out_w)
            found = found.reshape(rows, many, across)[:, inside[0]][:, :, inside[1]]
            result[image][:, y[inside[0]][:, None], at_x[inside[1]]] = found


def by_weight(
    x: Floats, g: Floats, table: Ints, sizes: Ints, out: Floats, _: Any, __: Any, start: int, stop: int
) -> None:
    """As `convolution.by_weight`, with the same arguments."""
    groups, rows, lines, across, band, bands = map(int, sizes[9:15])
    result = out.reshape(groups, len(table), -1)
    given = g.reshape(-1, rows, lines, across)
    for unit in range(start, stop):
        image, begin = unit // bands, unit % bands * band
        many = min(band, lines - begin)
        patches = _planes(x, image, begin, sizes)[table[:, None] + _places(sizes, many)]
        shares = given[image, :, begin : begin + many].reshape(rows, -1)
        result[image % groups, :, :rows] += np.matmul(patches, shares.T)


def _places(sizes: Ints, many: int) -> Ints:
    """Of the windows of a band, in a plane."""
    return (np.arange(many)[:, None] * sizes[8] + np.arange(sizes[12])).reshape(-1)


def _planes(x: Floats, image: int, begin: int, sizes: Ints) -> Floats:
    channels, height, width, above, before, stride_h, stride_w, tall, pitch = map(int, sizes[:9])
    padded = np.zeros((channels, tall * stride_h, pitch * stride_w), x.dtype)
    top = begin * stride_h - above
    first, last = min(max(0, top), height), max(0, min(height, top + tall * stride_h))
    source = x.reshape(-1, channels, height, width)[image, :, first:last]
    wide = min(width, pitch * stride_w - before)
    padded[:, first - top : last - top, before : before + wide] = source[..., :wide]
    apart = padded.reshape(channels, tall, stride_h, pitch, stride_w)
    return apart.transpose(0, 2, 4, 1, 3).reshape(-1)
