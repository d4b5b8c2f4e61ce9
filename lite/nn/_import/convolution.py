"""Convolutions over any number of dimensions, and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite.nn._import.elementwise import activation
from lite.nn._import.integers import checked
from lite.nn._import.operators import MICROSOFT, Run, Spec, operator
from lite.nn._import.quantized import as_integers
from lite.nn._modules.module import Module
from lite.nn.layers.convolution import Transposition, _Convolution, transposed
from lite.nn.layers.windows import Sizes, span


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
