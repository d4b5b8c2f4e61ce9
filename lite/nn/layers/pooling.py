"""Pooling: the largest entry, or the mean, of windows over the last two dimensions."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lite._arrays.dtypes import floats, is_floating
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._transforms.grad.tape import value_of, with_node
from lite.nn._modules.module import Module
from lite.nn.layers.recorded import is_recorded
from lite.nn.layers.windows import Sizes, offset_slices, pad, sizes, span

_One = int | Iterable[int]


class _Pool2d(Module):
    """Base of both poolings: the geometry of the windows."""

    def __init__(self, kernel_size: _One, stride: _One | None, padding: _One, ceil_mode: bool) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode

    def _geometry(self, x: Array, dilation: _One = 1) -> tuple[Sizes, Sizes, Sizes, Sizes, Sizes]:
        """Output sizes, kernel, stride, padding and dilation, checked."""
        kernel, stride, padding, dilation = (
            _two(name, value)
            for name, value in (
                ("kernel_size", self.kernel_size),
                ("stride", self.stride),
                ("padding", self.padding),
                ("dilation", dilation),
            )
        )
        for name, value in (("kernel_size", kernel), ("stride", stride), ("dilation", dilation)):
            if min(value) <= 0:
                raise RuntimeError(f"{name} must be positive, got {value}")
        if x.ndim not in (3, 4) or 0 in x.shape[-3:]:
            raise RuntimeError(f"the input must be (*N, C, H, W), none but N empty, got {tuple(x.shape)}")
        extents = span(kernel, dilation)
        if any(not 0 <= p <= k // 2 for p, k in zip(padding, kernel, strict=True)):
            raise RuntimeError(f"padding must be in [0, kernel_size / 2], got {padding} for {kernel}")
        out = tuple(map(self._count, x.shape[-2:], extents, stride, padding))
        if min(out) < 1:
            raise RuntimeError(f"the window {extents} exceeds the input and {padding=}, got {tuple(x.shape)}")
        return out, kernel, stride, padding, dilation

    def _count(self, size: int, extent: int, stride: int, padding: int) -> int:
        room = size + 2 * padding - extent
        if not self.ceil_mode:
            return room // stride + 1
        count = -(-room // stride) + 1
        # The last window must start inside the input or the padding before it.
        return count - 1 if (count - 1) * stride >= size + padding else count

    def extra_repr(self) -> str:
        """Kernel, stride and padding."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(_Pool2d):
    """The largest entry of each window; NaN if there is one.

    Args:
        kernel_size: height and width of the window, or one number for both; so for all that follow.
        stride: steps of the window; its size if not given.
        padding: entries below all others, added on both sides.
        dilation: distances between the window's entries.
        return_indices: whether to return the positions, too.
        ceil_mode: whether a window may reach over the end, so that no entry is left out.

    Shapes:
        input (N, C, H, W) or (C, H, W); output the same with
        H' = (H + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1, rounded up with `ceil_mode`;
        positions, int64, count the entries of one (H, W) plane.

    Dtypes:
        the input's, of any numbers.

    Raises:
        RuntimeError: an input of another shape, or smaller than the window; options out of range.

    Source:
        torch.nn.MaxPool2d.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.MaxPool2d(2)(np.arange(16.0).reshape(1, 4, 4))
        array([[[ 5.,  7.],
                [13., 15.]]])
    """

    def __init__(
        self,
        kernel_size: _One,
        stride: _One | None = None,
        padding: _One = 0,
        dilation: _One = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = dilation
        self.return_indices = return_indices

    def forward(self, input: Array) -> Array | tuple[Array, Array]:
        """Pool (*N, C, H, W); with `return_indices`, a tuple of values and positions."""
        out, kernel, stride, padding, dilation = self._geometry(input, self.dilation)
        recorded = is_recorded(input)
        values = value_of(input) if recorded else input
        lowest = -np.inf if is_floating(input.dtype) else np.iinfo(input.dtype).min
        x = _surround(values, out, kernel, stride, padding, dilation, lowest)
        if not recorded and not self.return_indices:
            return _reduce(np.maximum, x, out, kernel, stride, dilation)
        best, places = _largest_with_positions(x, input.shape[-2:], out, kernel, stride, padding, dilation)
        if recorded:
            best = with_node(best, (input, lambda g: _at(places, g, values.shape)))
        return (best, places) if self.return_indices else best

    def extra_repr(self) -> str:
        """All options but `return_indices`."""
        return f"{super().extra_repr()}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class AvgPool2d(_Pool2d):
    """The mean of each window.

    Args:
        kernel_size: height and width of the window, or one number for both; so for all that follow.
        stride: steps of the window; its size if not given.
        padding: zeros added on both sides.
        ceil_mode: whether a window may reach over the end, so that no entry is left out.
        count_include_pad: whether the zeros count as entries.
        divisor_override: what to divide the sum by, instead of the number of entries.

    Shapes:
        input (N, C, H, W) or (C, H, W); output the same with
        H' = (H + 2 padding - kernel_size) // stride + 1, rounded up with `ceil_mode`. Integers become the
        default float dtype.

    Raises:
        RuntimeError: an input of another shape, or smaller than the window; options out of range.

    Source:
        torch.nn.AvgPool2d.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.AvgPool2d(2)(np.arange(16.0).reshape(1, 4, 4))
        array([[[ 2.5,  4.5],
                [10.5, 12.5]]])
    """

    def __init__(
        self,
        kernel_size: _One,
        stride: _One | None = None,
        padding: _One = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Array) -> Array:
        """Pool (*N, C, H, W)."""
        if self.divisor_override == 0:
            raise RuntimeError("divisor_override must not be zero")
        out, kernel, stride, padding, dilation = self._geometry(input)
        recorded = is_recorded(input)
        x, dtype = floats(value_of(input) if recorded else input)
        padded = _surround(x, out, kernel, stride, padding, dilation, 0)
        total = _reduce(operator.add, padded, out, kernel, stride, dilation)
        divisor: Any = self.divisor_override
        if divisor is None:
            rows, columns = map(self._entries, input.shape[-2:], out, kernel, stride, padding)
            divisor = (rows[:, None] * columns).astype(x.dtype)
        result = (total / divisor).astype(dtype, copy=False)
        if not recorded:
            return result

        def vjp(g: Array) -> Array:
            share = g.astype(x.dtype, copy=False) / divisor
            shares = np.zeros_like(share, shape=padded.shape)
            for index in offset_slices(out, kernel, stride, dilation):
                shares[index] += share
            inside: Any = (slice(p, p + n) for p, n in zip(padding, x.shape[-2:], strict=True))
            return shares[..., *inside]

        return with_node(result, (input, vjp))

    def _entries(self, size: int, out: int, kernel: int, stride: int, padding: int) -> Array:
        """How many entries of one dimension each window counts."""
        start = np.arange(out) * stride - padding
        # Entries beyond the padding, which a window of ceil_mode may reach, are never counted.
        end = np.minimum(start + kernel, size + padding)
        if not self.count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, size)
        return end - start


class AdaptiveAvgPool2d(Module):
    """The means of windows that divide the last two dimensions into a given number.

    Args:
        output_size: height and width of the output, or one number for both; None keeps that of the input.

    Shapes:
        input (N, C, H, W) or (C, H, W), output the same with H' and W' of `output_size`. Window i of n
        reaches from floor(i H / n) to ceil((i + 1) H / n). Integers become the default float dtype.

    Raises:
        RuntimeError: an input of another shape; a size that is negative.
        ValueError: an input of fewer than 3 dimensions.

    Source:
        torch.nn.AdaptiveAvgPool2d.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.AdaptiveAvgPool2d(2)(np.arange(16.0).reshape(1, 4, 4))
        array([[[ 2.5,  4.5],
                [10.5, 12.5]]])
    """

    def __init__(self, output_size: int | Iterable[int | None] | None) -> None:
        super().__init__()
        self.output_size = output_size if isinstance(output_size, int | None) else tuple(output_size)

    def forward(self, input: Array) -> Array:
        """Pool (*N, C, H, W)."""
        if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
            error = ValueError if input.ndim < 3 else RuntimeError
            raise error(f"the input must be (*N, C, H, W), none but N empty, got {tuple(input.shape)}")
        given = self.output_size if isinstance(self.output_size, tuple) else (self.output_size,) * 2
        if len(given) != 2 or any(size is not None and size < 0 for size in given):
            raise RuntimeError(f"output_size must be two sizes that are not negative, got {self.output_size}")
        out: list[Any] = [
            old if new is None else new for old, new in zip(input.shape[-2:], given, strict=True)
        ]
        x, dtype = floats(input)
        rows, columns = (_means(size, n, x.dtype) for size, n in zip(input.shape[-2:], out, strict=True))
        # Each dimension by a product of matrices, as its windows are the same for all of the other.
        return np.matmul(np.matmul(rows, x), columns.T).astype(dtype, copy=False)

    def extra_repr(self) -> str:
        """The output size."""
        return f"output_size={self.output_size}"


def _means(size: int, out: int, dtype: Any) -> Any:
    """The matrix (out, size) that takes the mean of each window of one dimension."""
    i, at = np.arange(out)[:, None], np.arange(size)
    inside = (at >= i * size // out) & (at < -(-(i + 1) * size // out))
    return (inside / inside.sum(1, keepdims=True)).astype(dtype)


def _at(places: Array, g: Array, shape: Sizes) -> Array:
    """Numbers added up at places in the planes (H, W) of an array of zeros."""
    planes = math.prod(shape[:-2])
    out = np.zeros_like(g, shape=(planes, math.prod(shape[-2:])))
    rows = planes, math.prod(places.shape[-2:])
    np.add.at(out, (np.arange(planes)[:, None], places.reshape(rows)), g.reshape(rows))
    return out.reshape(shape)


def _two(name: str, value: _One) -> Sizes:
    """A number, or a sequence of one or two, as two."""
    if isinstance(value, Iterable):
        value = tuple(value)
        value = value[0] if len(value) == 1 else value
    try:
        return sizes(name, value, 2)
    except ValueError as err:
        raise RuntimeError(str(err)) from None


def _surround(
    x: Array, out: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, value: float
) -> Array:
    """Pad by `padding` before, and after as far as the last window reaches."""
    needed = ((n - 1) * s + e for n, s, e in zip(out, stride, span(kernel, dilation), strict=True))
    after = tuple(max(0, n - size - p) for n, size, p in zip(needed, x.shape[-2:], padding, strict=True))
    return pad(x, padding, after, value)


def _reduce(
    function: Callable[[Any, Any], Any], x: Array, out: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes
) -> Array:
    """Reduce windows along the height, then along the width, as each is the same for all of the other."""
    rows = offset_slices(out[:1], kernel[:1], stride[:1], dilation[:1])
    x = functools.reduce(function, [x[(*index, slice(None))] for index in rows])
    return functools.reduce(
        function, [x[index] for index in offset_slices(out[1:], kernel[1:], stride[1:], dilation[1:])]
    )


def _largest_with_positions(
    x: Array, size: Sizes, out: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> tuple[Any, Any]:
    """The first largest entry of each window (the last NaN if there is one), and its place in the plane."""
    starts = [np.arange(n) * s - p for n, s, p in zip(out, stride, padding, strict=True)]
    first = [np.where(a < 0, a + -(a // d) * d, a) for a, d in zip(starts, dilation, strict=True)]
    best: Any = None
    place: Any = first[0][:, None] * size[1] + first[1]
    slices = offset_slices(out, kernel, stride, dilation)
    for index, offset in zip(slices, itertools.product(*map(range, kernel)), strict=True):
        rows, columns = (a + i * d for a, i, d in zip(starts, offset, dilation, strict=True))
        entry = x[index]
        best = entry if best is None else best
        better = (entry > best) | (entry != entry)  # never of the padding, whose numbers are the lowest
        best = np.where(better, entry, best)
        place = np.where(better, rows[:, None] * size[1] + columns, place)
    return best, place


belong_to("lite.nn", AdaptiveAvgPool2d, AvgPool2d, MaxPool2d)
