"""Layers of networks in compiled code, for `lite.nn`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._arrays import contiguous
from lite.kernels._threads import for_rows

Floats = NDArray[np.float32]

_SERIAL = 500_000  # values: below, starting a thread costs more than it saves
_CHUNK = 1 << 17


def pointwise(name: str, x: Floats) -> Floats:
    """A function of float32 numbers: "gelu", "gelu_by_tanh" or "silu"."""
    from lite.kernels.cpu import layers

    kernel = getattr(layers, name)
    out = np.empty(x.shape, np.float32)
    source, target = contiguous(x, np.float32).reshape(-1), out.reshape(-1)
    for_rows(lambda start, stop: kernel(source[start:stop], target[start:stop]), x.size, _chunk(x.size))
    return out


def layer_norm(x: Floats, weight: Floats | None, bias: Floats | None, size: int, eps: float) -> Floats:
    """Layer normalisation of float32 numbers over rows of `size`, which weight and bias have, too."""
    from lite.kernels.cpu import layers

    scale = contiguous(np.ones(size, np.float32) if weight is None else weight, np.float32).reshape(-1)
    shift = contiguous(np.zeros(size, np.float32) if bias is None else bias, np.float32).reshape(-1)
    out = np.empty(x.shape, np.float32)
    source, target = contiguous(x, np.float32).reshape(-1, size), out.reshape(-1, size)

    def rows(start: int, stop: int) -> None:
        layers.layer_norm(source[start:stop], scale, shift, np.float32(eps), target[start:stop])

    for_rows(rows, len(source), max(1, _chunk(x.size) // size))
    return out


def _chunk(values: int) -> Any:
    return _CHUNK if values > _SERIAL else max(values, 1)
