"""Pooling over windows and over all of a picture."""

from __future__ import annotations

import functools
import itertools
import math
import operator as op
from typing import Any

import numpy as np

from lite._arrays.dtypes import is_floating
from lite._arrays.types import Array
from lite.nn._import.convolution import ends_of
from lite.nn._import.operators import Run, Spec, operator, simple
from lite.nn.layers.pooling import MaxPool2d
from lite.nn.layers.windows import Sizes, offset_slices, pad, span


class _Windows:
    """The windows of one input: their number, and the entries at each offset in all of them."""

    def __init__(self, spec: Spec, x: Array) -> None:
        self.kernel = spec.ints("kernel_shape") or ()
        dims = len(self.kernel)
        self.strides = spec.ints("strides") or (1,) * dims
        self.dilations = spec.ints("dilations") or (1,) * dims
        self.inner = tuple(map(int, x.shape[2:]))
        extents = span(self.kernel, self.dilations)
        auto, pads = spec.get("auto_pad", "NOTSET"), spec.ints("pads")
        self.before, self.after = ends_of(auto, pads, self.inner, extents, self.strides)
        up = spec.get("ceil_mode", 0)
        out = []
        for n, b, a, e, s in zip(self.inner, self.before, self.after, extents, self.strides, strict=True):
            room = n + b + a - e
            count = (-(-room // s) if up else room // s) + 1
            if up and (count - 1) * s >= n + b:  # a window that would begin behind the input
                count -= 1
            out.append(count)
        if any(count < 1 for count in out):
            raise ValueError(f"no window of {extents} fits into an input of {self.inner} with its padding")
        self.out: Sizes = tuple(out)
        reach = [(n - 1) * s + e for n, s, e in zip(self.out, self.strides, extents, strict=True)]
        self.ends = tuple(max(0, r - n - b) for r, n, b in zip(reach, self.inner, self.before, strict=True))
        self.slices = offset_slices(self.out, self.kernel, self.strides, self.dilations)

    def padded(self, x: Array, value: float) -> Array:
        return pad(x, self.before, self.ends, value)

    def entries(self, include_padding: bool) -> Array:
        """How many entries each window counts."""
        counts = []
        for axis in range(len(self.kernel)):
            starts = np.arange(self.out[axis]) * self.strides[axis] - self.before[axis]
            places = starts[:, None] + np.arange(self.kernel[axis]) * self.dilations[axis]
            low, high = 0, self.inner[axis]
            if include_padding:
                low, high = -self.before[axis], high + self.after[axis]
            counts.append(((places >= low) & (places < high)).sum(1))
        return functools.reduce(np.multiply.outer, counts)


@operator("MaxPool")
def _max_pool(spec: Spec) -> Run:
    places, by_column = spec.uses_output(1), spec.get("storage_order", 0)
    layer = _as_layer(spec)

    def run(x: Array) -> Any:
        if layer is not None and not places and x.ndim == 4:
            return layer.forward(x)
        windows = _Windows(spec, x)
        padded = windows.padded(x, (-np.inf if is_floating(x.dtype) else int(np.iinfo(x.dtype).min)))
        best = functools.reduce(np.maximum, [padded[index] for index in windows.slices])
        if not places:
            return best
        return best, _positions(windows, padded, by_column)

    return run


def _as_layer(spec: Spec) -> MaxPool2d | None:
    """The layer that computes the same in one step, if there is one."""
    kernel, pads = spec.ints("kernel_shape") or (), spec.ints("pads") or (0, 0, 0, 0)
    plain = spec.get("auto_pad", "NOTSET") == "NOTSET" and not spec.get("ceil_mode", 0)
    if (
        len(kernel) != 2
        or not plain
        or pads[:2] != pads[2:]
        or any(2 * p > k for p, k in zip(pads, kernel, strict=False))
    ):
        return None
    dilations = spec.ints("dilations") or (1, 1)
    return MaxPool2d(kernel, spec.ints("strides") or (1, 1), pads[:2], dilations)


def _positions(windows: _Windows, padded: Array, by_column: int) -> Array:
    """Where the largest entries are, counted over the whole input."""
    stacked = np.stack([padded[index] for index in windows.slices])
    chosen = np.argmax(stacked, 0)
    offsets = np.array(list(itertools.product(*map(range, windows.kernel))))
    inner = windows.inner
    steps = [math.prod(inner[:i] if by_column else inner[i + 1 :]) for i in range(len(inner))]
    place: Any = 0
    for axis in range(len(inner)):
        starts = np.arange(windows.out[axis]) * windows.strides[axis] - windows.before[axis]
        shape = [1] * chosen.ndim
        shape[axis + 2] = -1
        at = starts.reshape(shape) + offsets[chosen, axis] * windows.dilations[axis]
        place = place + at * steps[axis]
    rows = np.arange(math.prod(chosen.shape[:2])).reshape(*chosen.shape[:2], *(1,) * len(inner))
    return (place + rows * math.prod(inner)).astype(np.int64)


@operator("AveragePool")
def _average_pool(spec: Spec) -> Run:
    whole = bool(spec.get("count_include_pad", 0))

    def run(x: Array) -> Array:
        windows = _Windows(spec, x)
        padded = windows.padded(x, 0)
        total = functools.reduce(op.add, [padded[index] for index in windows.slices])
        return total / windows.entries(whole).astype(x.dtype)

    return run


@operator("LpPool")
def _lp_pool(spec: Spec) -> Run:
    p = spec.get("p", 2)

    def run(x: Array) -> Array:
        windows = _Windows(spec, x)
        padded = windows.padded(np.abs(x) ** p, 0)
        total = functools.reduce(op.add, [padded[index] for index in windows.slices])
        return total ** (1 / p)

    return run


def _picture(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


simple(lambda x: x.mean(_picture(x), keepdims=True), "GlobalAveragePool")
simple(lambda x: x.max(_picture(x), keepdims=True), "GlobalMaxPool")


@operator("GlobalLpPool")
def _global_lp_pool(spec: Spec) -> Run:
    p = spec.get("p", 2)
    return lambda x: (np.abs(x) ** p).sum(_picture(x), keepdims=True) ** (1 / p)


@operator("MaxUnpool")
def _max_unpool(spec: Spec) -> Run:
    kernel = spec.ints("kernel_shape") or ()
    strides = spec.ints("strides") or (1,) * len(kernel)
    pads = spec.ints("pads") or (0,) * 2 * len(kernel)

    def run(x: Array, places: Array, shape: Array | None = None) -> Array:
        sizes = [
            (int(n) - 1) * s + k - pads[i] - pads[i + len(kernel)]
            for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
        ]
        inner = tuple(x.shape[:2]) + tuple(sizes)
        flat = np.zeros(math.prod(inner), x.dtype)
        if shape is None:
            flat[places.reshape(-1)] = x.reshape(-1)
            return flat.reshape(inner)
        whole = tuple(map(int, shape))
        out = np.zeros(whole, x.dtype)
        index = np.unravel_index(places.reshape(-1), inner)
        out[index] = x.reshape(-1)
        return out

    return run
