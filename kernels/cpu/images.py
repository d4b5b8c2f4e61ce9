"""Transforms of images, each in one pass over flat memory of bytes or float32, compiled for the CPU."""

import numpy as np

from lite.kernels._types import Array, Bool, Float, Floats, Int
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.vectors.width import full_width


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
