"""Convolutions over any number of dimensions, their transposes, and pooling."""

from __future__ import annotations

import functools
import itertools
import math
import operator as op
from collections.abc import Sequence
from typing import Any

import numpy as np

from lite._arrays.dtypes import is_floating
from lite._arrays.types import Array
from lite.nn._import.elementwise import activation
from lite.nn._import.integers import checked
from lite.nn._import.operators import MICROSOFT, Run, Spec, operator, simple
from lite.nn._import.quantized import as_integers
from lite.nn._modules.module import Module
from lite.nn.layers.convolution import Transposition, _Convolution, transposed
from lite.nn.layers.pooling import MaxPool2d
from lite.nn.layers.windows import Sizes, offset_slices, pad, span


def ends_of(
    auto_pad: str, pads: Sequence[int] | None, inner: Sequence[int], extents: Sizes, strides: Sizes
) -> tuple[Sizes, Sizes]:
    """How much is padded before and after each dimension.

    Args:
        auto_pad: "NOTSET" for `pads`, "VALID" for none, "SAME_UPPER" or "SAME_LOWER" for as many windows as
            there are steps in the input, where the odd one is at the end or the beginning.
        pads: all beginnings, then all ends.
        inner: sizes of the input.
        extents: extents of the window.
        strides: strides of the window.
    """
    dims = len(extents)
    if auto_pad in ("", "NOTSET"):
        both = tuple(pads) if pads is not None else (0,) * 2 * dims
        return both[:dims], both[dims:]
    if auto_pad == "VALID":
        return (0,) * dims, (0,) * dims
    total = [
        max(0, (-(-int(n) // s) - 1) * s + e - int(n))
        for n, e, s in zip(inner, extents, strides, strict=True)
    ]
    small, large = tuple(n // 2 for n in total), tuple(n - n // 2 for n in total)
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)


class _Kernel(_Convolution):
    """A convolution whose weight is an input, and whose paddings may differ before and after."""

    def __init__(self, spec: Spec, dims: int) -> None:
        Module.__init__(self)
        self._dims = dims
        self.stride = spec.ints("strides") or (1,) * dims
        self.dilation = spec.ints("dilations") or (1,) * dims
        self.groups = spec.get("group", 1)
        self.padding_mode, self.padding = "zeros", (0,) * dims
        self.auto_pad, self.pads = spec.get("auto_pad", "NOTSET"), spec.ints("pads")

    def _around(self, inner: Sizes, extents: Sizes) -> tuple[Sizes, Sizes]:
        return ends_of(self.auto_pad, self.pads, inner, extents, self.stride)

    def forward(self, input: Array, weight: Array, bias: Any = None) -> Array:  # type: ignore[override]
        """Convolve input (N, C, *sizes) by weight (O, C / groups, *kernel)."""
        return self._convolved(input, weight, bias)


@operator("Conv")
def _conv(spec: Spec) -> Run:
    kernels: dict[int, _Kernel] = {}

    def run(x: Array, weight: Array, bias: Array | None = None) -> Array:
        dims = weight.ndim - 2
        kernel = kernels.get(dims) or kernels.setdefault(dims, _Kernel(spec, dims))
        return kernel.forward(x, weight, bias)

    return run


@operator("FusedConv", domain=MICROSOFT)
def _fused_conv(spec: Spec) -> Run:
    convolved = _conv(spec)
    after = activation(spec.need("activation"), *spec.get("activation_params", ()))

    def run(x: Array, weight: Array, bias: Array | None = None, added: Array | None = None) -> Array:
        out = convolved(x, weight, bias)
        return after(out if added is None else out + added)

    return run


@operator("ConvTranspose")
def _conv_transpose(spec: Spec) -> Run:
    groups, auto_pad = spec.get("group", 1), spec.get("auto_pad", "NOTSET")

    def run(x: Array, weight: Array, bias: Array | None = None) -> Array:
        dims = weight.ndim - 2
        strides = spec.ints("strides") or (1,) * dims
        dilations = spec.ints("dilations") or (1,) * dims
        more = spec.ints("output_padding") or (0,) * dims
        extents = span(tuple(map(int, weight.shape[2:])), dilations)
        inner = x.shape[2:]
        wanted = spec.ints("output_shape")
        full = [(int(n) - 1) * s + e + m for n, s, e, m in zip(inner, strides, extents, more, strict=True)]
        if wanted is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            out = (
                wanted[-dims:]
                if wanted is not None
                else tuple(int(n) * s for n, s in zip(inner, strides, strict=True))
            )
            total = [f - n for f, n in zip(full, out, strict=True)]
            small, large = [n // 2 for n in total], [n - n // 2 for n in total]
            before, after = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
        else:
            ends = spec.ints("pads") or (0,) * 2 * dims
            before, after = list(ends[:dims]), list(ends[dims:])
            if auto_pad == "VALID":
                before = after = [0] * dims
        checked((*x.shape[:2], *full))
        how = Transposition(strides, dilations, tuple(before), tuple(after), more, groups)
        return transposed(x, weight, bias, how)

    return run


def _of_integers(spec: Spec, x: Array, weight: Array, zero_x: Any, zero_w: Any) -> Array:
    """The convolution of integers less their zeros, exact in float64."""
    kernel = weight.astype(np.float64)
    if zero_w is not None:
        zeros = zero_w.astype(np.float64)
        kernel = kernel - (zeros.reshape(-1, *(1,) * (weight.ndim - 1)) if zeros.ndim else zeros)
    shifted = x.astype(np.float64) - (0 if zero_x is None else zero_x.astype(np.float64))
    return _Kernel(spec, weight.ndim - 2).forward(shifted, kernel)


@operator("ConvInteger")
def _conv_integer(spec: Spec) -> Run:
    def run(x: Array, weight: Array, zero_x: Array | None = None, zero_w: Array | None = None) -> Array:
        out = _of_integers(spec, x, weight, zero_x, zero_w)
        # Floats where a derivative goes on.
        return out if "f" in (x.dtype.kind, weight.dtype.kind) else out.astype(np.int32)

    return run


@operator("QLinearConv")
def _quantized_conv(spec: Spec) -> Run:
    def run(
        x: Array, sx: Array, zx: Array, weight: Array, sw: Array, zw: Array, sy: Array, zy: Array,
        bias: Array | None = None,
    ) -> Array:  # fmt: skip
        out, each = _of_integers(spec, x, weight, zx, zw), (-1, *(1,) * (weight.ndim - 2))
        out = out if bias is None else out + bias.reshape(each)
        return as_integers(out * (sx * sw / sy).reshape(each), zy, zy.dtype)

    return run


# -- pooling ------------------------------------------------------------------------------------------------


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
