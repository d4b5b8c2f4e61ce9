"""Convolutions as products of matrices of patches: Conv1d, Conv2d, their transposes, and lazy forms.

Past 600 lines because it is one family, much of it what each takes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.dtypes import compute_dtype
from lite._arrays.formulas import accumulate
from lite._arrays.public import belong_to
from lite._arrays.types import Array, is_symbolic
from lite._transforms.grad.tape import value_of, with_node
from lite._transforms.grad.transform import vjp
from lite._tree.methods import LazyModule
from lite.nn._modules.initial import Rng, UninitializedParameter, empty_parameter, fill_uniform, reset
from lite.nn._modules.lazy import LazyLayer
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn.layers.large_arrays import convolutions_for
from lite.nn.layers.recorded import is_in_graph, is_recorded
from lite.nn.layers.windows import Sizes, blocks, offset_slices, pad, sizes, span

_graphs = LazyModule("lite._transforms.graphs.convolution")
# Padding modes by their names in torch and in NumPy (None: zeros).
_MODES = {"zeros": None, "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
# Entries of the matrix of patches in a block, which fits a core's cache for every batch size.
_BLOCK = 1 << 18

Fit = tuple[Sizes, Sizes, Sizes]  # the padding before and after, and the padded sizes


class Transposition(NamedTuple):
    """How the windows of a transposed convolution lie.

    Attributes:
        stride, dilation: steps of the window, and distances between its entries.
        before, after: entries of the result that are left out.
        more: entries added at its end.
        groups: groups of channels.
    """

    stride: Sizes
    dilation: Sizes
    before: Sizes
    after: Sizes
    more: Sizes
    groups: int


def _check_groups(groups: int, in_channels: int, out_channels: int) -> None:
    if groups <= 0:
        raise ValueError(f"groups must be positive, got {groups}")
    for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
        if channels % groups:
            raise ValueError(f"{name} must be divisible by groups={groups}, got {channels}")


def _require_channels(input: Array, dims: int, channels: int) -> None:
    if input.ndim not in (dims + 1, dims + 2) or input.shape[-dims - 1] != channels:
        raise RuntimeError(
            f"the input must have {dims + 1} dimensions, or {dims + 2} with a batch, "
            f"with in_channels={channels} before the last {dims}; got {tuple(input.shape)}"
        )


class _Convolution(Module):
    """Base of convolutions over one and two dimensions."""

    _dims: int
    _transposed = False  # whether the first dimension of the weight is that of the input
    output_padding: Sizes = ()

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Iterable[int],
        stride: int | Iterable[int] = 1,
        padding: int | Iterable[int] | str = 0,
        dilation: int | Iterable[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        _check_groups(groups, in_channels, out_channels)
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {sorted(_MODES)}, got {padding_mode!r}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = sizes("kernel_size", kernel_size, self._dims)
        self.stride = sizes("stride", stride, self._dims)
        self.dilation = sizes("dilation", dilation, self._dims)
        self.groups = groups
        self.padding_mode = padding_mode
        self.padding: str | Sizes = (
            padding if isinstance(padding, str) else sizes("padding", padding, self._dims)
        )
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(f"padding must be numbers, 'same' or 'valid', got {self.padding!r}")
            if self.padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError(f"padding='same' needs stride 1, got {self.stride}")
        outer, inner = (in_channels, out_channels) if self._transposed else (out_channels, in_channels)
        self.weight = empty_parameter((outer, inner // groups, *self.kernel_size), device, dtype)
        self.register_parameter("bias", empty_parameter((out_channels,), device, dtype) if bias else None)
        reset(self, rng)

    def reset_parameters(self, rng: Rng = None) -> None:
        """Redraw weight and bias from U(-1/√n, 1/√n), n the entries that an output sees, in place."""
        rng = np.random.default_rng(rng)
        seen = math.prod(self._tensor("weight").shape[1:])
        for name in ("weight", "bias"):
            fill_uniform(self._held(name), 1.0 / math.sqrt(seen) if seen else 0.0, rng)

    def forward(self, input: Array) -> Array:
        """Convolve input (*N, in_channels, *sizes), N one dimension or none."""
        return self._convolved(input, self._tensor("weight"), self._tensor("bias"))

    def _convolved(self, input: Array, weight: Array, bias: Any) -> Array:
        dims = self._dims
        _require_channels(input, dims, weight.shape[1] * self.groups)
        compute, result = compute_dtype(input.dtype, weight.dtype)
        mode = _MODES[self.padding_mode]
        if mode is not None:
            before, after = self._around(input.shape[-dims:], span(tuple(weight.shape[2:]), self.dilation))
            width: Any = [*[(0, 0)] * (input.ndim - dims), *zip(before, after, strict=True)]
            plain = _Windows(dims, self.groups, self.stride, self.dilation)
            padded = np.pad(input.astype(compute, copy=False), width, mode)  # type: ignore[call-overload]
            return plain._convolved(padded, weight, bias).astype(result, copy=False)
        x, weight = input if input.ndim == dims + 2 else input[None], weight.astype(compute, copy=False)
        if is_recorded(x, weight, bias) or (compute == np.float32 and is_in_graph(x, weight, bias)):
            out = self._recorded(x, weight, bias)
        elif (compiled := self._compiled(x, weight, bias, fit := self._fitting(x, weight))) is not None:
            out = compiled.values(x, weight, bias)
        else:
            out = self._convolve(x, weight, fit)
            if bias is not None:
                out = accumulate(out, bias.reshape(-1, *(1,) * dims))
        return (out if input.ndim == dims + 2 else out[0]).astype(result, copy=False)

    def _fitting(self, x: Array, weight: Array) -> Fit:
        """The padding before and after each dimension, and the padded sizes.

        Raises:
            RuntimeError: the window does not fit.
        """
        extents = span(tuple(weight.shape[2:]), self.dilation)
        before, after = self._around(x.shape[2:], extents)
        inner = tuple(b + n + a for b, n, a in zip(before, x.shape[2:], after, strict=True))
        if any(n < e for n, e in zip(inner, extents, strict=True)):
            raise RuntimeError(f"the window, {extents}, must fit into the input, got {inner} with padding")
        return before, after, inner

    def _compiled(self, x: Array, weight: Array, bias: Any, fit: Fit) -> Any:
        """The compiled convolution if it is faster; a kernel of one entry is a matrix product."""
        kernel = weight.shape[2:]
        if len(kernel) > 2 or math.prod(kernel) == 1:
            return None
        before, after, inner = fit
        windows = math.prod(n // s for n, s in zip(inner, self.stride, strict=True))
        # A number of a patch takes as long to copy as eight multiplications: nearly all, with many groups.
        of_window = weight.size + 8 * x.shape[1] * math.prod(kernel)
        kernels = convolutions_for(x.shape[0] * windows * of_window, x, weight, bias)
        how = self.stride, self.dilation, before, after, self.groups
        return None if kernels is None else kernels.Convolution(*how)

    def _convolve(self, x: Array, weight: Array, fit: Fit) -> Array:
        """The convolution of x, (N, channels, *size), as a product of `weight` with the matrix of patches.

        Blocks of samples are computed one after the other, in one buffer for patches.
        """
        kernel, stride = tuple(weight.shape[2:]), self.stride
        extents = span(kernel, self.dilation)
        before, after, inner = fit
        out = tuple((n - e) // s + 1 for n, e, s in zip(inner, extents, stride, strict=True))
        reach = tuple(slice((n - 1) * s + e) for n, s, e in zip(out, stride, extents, strict=True))
        channels, count = x.shape[1], x.shape[0]
        # A window of some strides is one of step 1 over blocks, whose rows are read without gaps.
        by_blocks = max(stride) > 1 and extents == kernel and not any(map(operator.mod, kernel, stride))
        if by_blocks:
            channels *= math.prod(stride)
            weight, stride = blocks(weight, stride), (1,) * self._dims
            kernel = tuple(weight.shape[2:])
        slices = offset_slices(out, kernel, stride, self.dilation)
        groups, rows, columns = self.groups, channels * len(slices) // self.groups, math.prod(out)
        matrix = weight.reshape(groups, weight.shape[0] // groups, rows)

        def product(part: Array, patches: Array | None = None, result: Array | None = None) -> Array:
            part = pad(part.astype(weight.dtype, copy=False), before, after)
            if by_blocks:
                part = blocks(part[(..., *reach)], self.stride)  # type: ignore[arg-type]
            # (N, channels, offsets, *out) in memory is the matrix of patches of each group already
            if len(slices) > 1:
                patches = np.stack([part[index] for index in slices], axis=2, out=patches)
            else:
                patches = part[slices[0]]
            return np.matmul(matrix, patches.reshape(part.shape[0], groups, rows, columns), out=result)

        block = max(1, _BLOCK // max(groups * rows * columns, 1))
        if not isinstance(x, np.ndarray) or not isinstance(matrix, np.ndarray) or count <= block:
            y = product(x)
        else:
            y = np.empty((count, *matrix.shape[:2], columns), matrix.dtype)
            buffer = np.empty((block, channels, len(slices), *out), matrix.dtype)
            for i in range(0, count, block):
                part = x[i : i + block]
                product(part, buffer[: part.shape[0]], y[i : i + block])
        return y.reshape(count, weight.shape[0], *out)

    def _recorded(self, x: Array, weight: Array, bias: Array) -> Array:
        """The convolution as one node; the gradient computes the patches again."""
        a, w = value_of(x), value_of(weight)
        if is_in_graph(a, w, bias):
            return self._operator(x, weight, bias)
        fit = self._fitting(a, w)
        compiled = self._compiled(a, w, value_of(bias), fit)
        if compiled is not None:
            result = compiled.values(a, w, value_of(bias))
        else:
            result = self._convolve(a, w, fit)
            if bias is not None:
                result += value_of(bias).reshape(-1, *(1,) * self._dims)
        count, out, kernel, groups = a.shape[0], result.shape[2:], tuple(w.shape[2:]), self.groups
        before, after, sizes = fit
        inside: Any = (..., *(slice(b, n - e) for b, n, e in zip(before, sizes, after, strict=True)))
        slices = offset_slices(out, kernel, self.stride, self.dilation)
        matrix = w.reshape(groups, w.shape[0] // groups, -1)
        block = max(1, _BLOCK // max(a.shape[1] * len(slices) * math.prod(out), 1))
        parts = [slice(i, i + block) for i in range(0, count, block)]

        def by_group(g: Array) -> Array:
            return g.reshape(len(g), groups, w.shape[0] // groups, math.prod(out))

        def for_input(g: Array) -> Array:
            if compiled is not None and type(g) is np.ndarray:
                return compiled.by_input(g, w, a.shape)
            shares = np.empty_like(g, w.dtype, shape=a.shape)
            for part in parts:
                of_patches = np.matmul(matrix.swapaxes(-1, -2), by_group(g[part]))
                of_patches = of_patches.reshape(-1, a.shape[1], len(slices), *out)
                padded = np.zeros_like(of_patches, shape=(*of_patches.shape[:2], *sizes))
                for i, index in enumerate(slices):
                    padded[index] += of_patches[:, :, i]
                shares[part] = padded[inside]
            return shares

        def for_weight(g: Array) -> Array:
            if compiled is not None and type(g) is np.ndarray:
                return compiled.by_weight(g, a, w.shape)
            total = np.zeros_like(g, w.dtype, shape=matrix.shape)
            for part in parts:
                padded = pad(a[part].astype(w.dtype, copy=False), before, after)
                patches = np.stack([padded[index] for index in slices], axis=2)
                patches = patches.reshape(len(padded), groups, matrix.shape[2], math.prod(out))
                total += np.matmul(by_group(g[part]), patches.swapaxes(-1, -2)).sum(0)
            return total.reshape(w.shape)

        return with_node(result, (x, for_input), (weight, for_weight), (bias, self._for_bias))

    def _operator(self, x: Array, weight: Array, bias: Array) -> Array:
        """The convolution as one operator of a graph."""
        before, after, _ = fit = self._fitting(x, weight)
        graph = next(found.graph for found in map(value_of, (x, weight, bias)) if is_symbolic(found))
        how = _graphs.Geometry(self.stride, self.dilation, before, after, self.groups)
        a, w = (graph.operand(value_of(array), np.float32) for array in (x, weight))
        b = None if bias is None else graph.operand(value_of(bias), np.float32)

        def vjp_by_steps(g: Array) -> Any:
            """The vjp for mapped derivatives of an outer `vmap`."""
            return vjp(lambda a, w: self._convolve(a, w, fit), a, w)[1](g)

        return with_node(
            _graphs.convolve(a, w, b, how),
            (x, lambda g: _graphs.for_input(g, w, a.shape, how) if is_in_graph(g) else vjp_by_steps(g)[0]),
            (
                weight,
                lambda g: _graphs.for_weight(g, a, w.shape, how) if is_in_graph(g) else vjp_by_steps(g)[1],
            ),
            (bias, self._for_bias),
        )

    @staticmethod
    def _for_bias(g: Array) -> Array:
        return g.sum((0, *range(2, g.ndim)))

    def _around(self, inner: Sizes, extents: Sizes) -> tuple[Sizes, Sizes]:
        """How much to pad before and after each dimension, checked."""
        if min(*self.stride, *self.dilation) <= 0:
            raise RuntimeError(f"stride and dilation must be positive, got {self.stride} and {self.dilation}")
        if isinstance(self.padding, str):
            total = [e - 1 if self.padding == "same" else 0 for e in extents]
            before = tuple(n // 2 for n in total)
            after = tuple(n - n // 2 for n in total)
        else:
            before = after = self.padding
        if min(before) < 0:
            raise RuntimeError(f"padding must not be negative, got {before}")
        mode = _MODES[self.padding_mode]
        if mode is None:
            return before, after
        for size, b, a in zip(inner, before, after, strict=True):
            limit = {"reflect": size - 1, "wrap": size}.get(mode, max(a, b) if size else 0)
            if max(a, b) > limit:
                raise RuntimeError(
                    f"padding_mode={self.padding_mode!r} pads a dimension of {size} by at most {limit}, "
                    f"got {max(a, b)}"
                )
        return before, after

    def extra_repr(self) -> str:
        """Channels and kernel, and options that are not the default."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        if self.padding != (0,) * self._dims:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._dims:
            text += f", dilation={self.dilation}"
        if any(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")


class Conv1d(_Convolution):
    """Products of a window that slides over the last dimension with a weight (cross-correlation).

    Args:
        in_channels: size of the input's channel dimension.
        out_channels: size of the output's channel dimension.
        kernel_size: length of the window.
        stride: step of the window.
        padding: entries added on both sides, "same" to keep the length (stride 1 only) or "valid" for none.
        dilation: distance between the window's entries.
        groups: groups of channels, each with filters of its own.
        bias: whether there is a bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular": what lies outside the input.
        device, dtype: as for `Linear`.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; initial values are drawn from
            U(-1/√n, 1/√n) with n = in_channels / groups · kernel_size.

    Shapes:
        input (N, in_channels, L) or (in_channels, L), `weight` (out_channels, in_channels / groups,
        kernel_size), `bias` (out_channels,), output (N, out_channels, L') or (out_channels, L') with
        L' = (L + padding - dilation (kernel_size - 1) - 1) // stride + 1, both sides' padding counted.

    Dtypes:
        the promoted dtype of input and weight; integers take the weight's, float16 and bfloat16
        compute in float32.

    Raises:
        ValueError: channels that groups do not divide, an unknown padding or padding_mode.
        RuntimeError: an input of another shape, or shorter than the window; a padding, stride or dilation
            out of range.

    Source:
        torch.nn.Conv1d; products of patches: Chellapilla et al. (2006).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.Conv1d(2, 4, 3, padding="same", rng=0)
        >>> layer, layer(np.zeros((5, 2, 7), np.float32)).shape
        (Conv1d(2, 4, kernel_size=(3,), stride=(1,), padding=same), (5, 4, 7))
    """

    _dims = 1


class Conv2d(_Convolution):
    """Products of a window that slides over the last two dimensions with a weight (cross-correlation).

    Args:
        in_channels: size of the input's channel dimension.
        out_channels: size of the output's channel dimension.
        kernel_size: height and width of the window, or one number for both; so for all that follow.
        stride: steps of the window.
        padding: entries added on both sides, "same" to keep the size (stride 1 only) or "valid" for none.
        dilation: distances between the window's entries.
        groups: groups of channels, each with filters of its own.
        bias: whether there is a bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular": what lies outside the input.
        device, dtype: as for `Linear`.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; initial values are drawn from
            U(-1/√n, 1/√n) with n = in_channels / groups · height · width of the window.

    Shapes:
        input (N, in_channels, H, W) or (in_channels, H, W), `weight` (out_channels, in_channels / groups,
        *kernel_size), `bias` (out_channels,), output (N, out_channels, H', W') or (out_channels, H', W')
        with sizes as for `Conv1d`.

    Dtypes:
        the promoted dtype of input and weight; integers take the weight's, float16 and bfloat16
        compute in float32.

    Raises:
        ValueError: channels that groups do not divide, an unknown padding or padding_mode.
        RuntimeError: an input of another shape, or smaller than the window; a padding, stride or dilation
            out of range.

    Source:
        torch.nn.Conv2d; products of patches: Chellapilla et al. (2006).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.Conv2d(3, 4, 3, stride=2, padding=1, rng=0)
        >>> layer(np.zeros((5, 3, 8, 8), np.float32)).shape
        (5, 4, 4, 4)
    """

    _dims = 2


class _Windows(_Convolution):
    """A convolution without padding, by a weight that is given."""

    def __init__(self, dims: int, groups: int, stride: Sizes = (), dilation: Sizes = ()) -> None:
        Module.__init__(self)
        self._dims, self.groups = dims, groups
        self.stride, self.dilation = stride or (1,) * dims, dilation or (1,) * dims
        self.padding, self.padding_mode = (0,) * dims, "zeros"


def transposed(x: Array, weight: Array, bias: Any, how: Transposition) -> Array:
    """The transpose of a convolution: x (N, C, *sizes), weight (C, O / groups, *kernel).

    A step of s makes s results of each window, which are channels of a convolution of step 1 until they are
    put side by side: so no product is with a zero between the entries of x.

    Raises:
        RuntimeError: the result would have a size below 0.
    """
    stride, dilation, before, after, more, groups = how
    dims, each = len(stride), range(len(stride))
    kernel, inner = span(tuple(map(int, weight.shape[2:])), dilation), tuple(map(int, x.shape[2:]))
    out = [(inner[d] - 1) * stride[d] - before[d] - after[d] + kernel[d] + more[d] for d in each]
    if min(out) < 0:
        raise RuntimeError(f"the result must have sizes of at least 0, got {tuple(out)} from {inner}")
    found = _compiled_transpose(x, weight, bias, how, out)
    if found is not None:
        return found
    weight = _apart(weight, dilation)
    steps = [-(-kernel[d] // stride[d]) for d in each]  # entries of x in a window
    rest = tuple(steps[d] * stride[d] - kernel[d] for d in each)
    channels, rows = int(weight.shape[0]) // groups, int(weight.shape[1]) * math.prod(stride)
    windows = blocks(pad(weight, (0,) * dims, rest), stride)
    windows = windows.reshape(groups, channels, rows, *steps).swapaxes(1, 2)
    windows = np.flip(windows, tuple(range(3, 3 + dims))).reshape(groups * rows, channels, *steps)
    first = [before[d] // stride[d] for d in each]
    last = [(before[d] + max(out[d], 1) - 1) // stride[d] for d in each]
    left = [steps[d] - 1 - first[d] for d in each]
    right = [last[d] - inner[d] + 1 for d in each]
    kept: Any = (..., *(slice(max(0, -left[d]), inner[d] + min(0, right[d])) for d in each))
    x = pad(x[kept], tuple(max(0, n) for n in left), tuple(max(0, n) for n in right))
    bias = None if bias is None else np.repeat(bias, math.prod(stride))
    y = _Windows(dims, groups)._convolved(x, windows, bias)
    sizes_of = [last[d] - first[d] + 1 for d in each]
    y = y.reshape(x.shape[0], groups * rows // math.prod(stride), *stride, *sizes_of)
    y = y.transpose((0, 1, *(axis for d in each for axis in (2 + dims + d, 2 + d))))
    y = y.reshape(*y.shape[:2], *(n * s for n, s in zip(sizes_of, stride, strict=True)))
    starts = [before[d] - first[d] * stride[d] for d in each]
    asked: Any = (..., *(slice(starts[d], starts[d] + out[d]) for d in each))
    return y[asked]


def _compiled_transpose(x: Array, weight: Array, bias: Any, how: Transposition, out: list[int]) -> Any:
    """The derivative of the compiled convolution by its input, if that is faster."""
    a, w, stride = value_of(x), value_of(weight), how.stride
    work = math.prod(a.shape) * math.prod(w.shape[1:]) if type(a) is type(w) is np.ndarray else 0
    kernels = convolutions_for(work, a, w, value_of(bias)) if min(how.before + how.after) >= 0 else None
    if (
        kernels is None
        or len(stride) > 2
        or 0 in out
        or any(m >= s for m, s in zip(how.more, stride, strict=True))
    ):
        return None
    run = kernels.Convolution(stride, how.dilation, how.before, how.after, how.groups)
    value = run.by_input(a, w, (len(a), w.shape[1] * how.groups, *out))
    if bias is not None:
        value += value_of(bias).reshape(-1, *(1,) * len(stride))

    def by_steps(g: Array) -> Any:
        """The vjp for derivatives that are differentiated."""
        return vjp(lambda x, weight: transposed(x, weight, None, how), a, w)[1](g)

    return with_node(
        value,
        (x, lambda g: run.values(g, w, None) if type(g) is np.ndarray else by_steps(g)[0]),
        (weight, lambda g: run.by_weight(a, g, w.shape) if type(g) is np.ndarray else by_steps(g)[1]),
        (bias, _Convolution._for_bias),
    )


def _apart(x: Array, steps: Sizes) -> Array:
    """The last dimensions with zeros between their entries, so that they are `steps` apart."""
    for axis, step in enumerate(steps, 2):
        if step > 1:
            size = x.shape[axis]
            zeros = np.zeros_like(x, shape=(*x.shape[: axis + 1], step - 1, *x.shape[axis + 1 :]))
            joined = np.concatenate([np.expand_dims(x, axis + 1), zeros], axis + 1)
            joined = joined.reshape(*x.shape[:axis], size * step, *x.shape[axis + 1 :])
            x = joined[(slice(None),) * axis + (slice((size - 1) * step + 1),)]
    return x


class _ConvTranspose(_Convolution):
    """Base of transposed convolutions."""

    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Iterable[int],
        stride: int | Iterable[int] = 1,
        padding: int | Iterable[int] = 0,
        output_padding: int | Iterable[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Iterable[int] = 1,
        padding_mode: str = "zeros",
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f"padding_mode must be 'zeros', got {padding_mode!r}")
        padding = sizes("padding", padding, self._dims)
        options = (stride, padding, dilation, groups, bias, padding_mode, device, dtype)
        super().__init__(in_channels, out_channels, kernel_size, *options, rng=rng)
        self.output_padding = sizes("output_padding", output_padding, self._dims)

    def forward(self, input: Array, output_size: Iterable[int] | None = None) -> Array:
        """Convolve input (*N, in_channels, *sizes), N one dimension or none.

        Args:
            input: the array.
            output_size: the last dimensions of the result, in place of `output_padding`.

        Raises:
            ValueError: a size that no `output_padding` gives.
        """
        dims, weight = self._dims, self._tensor("weight")
        _require_channels(input, dims, weight.shape[0])
        pads = cast(Sizes, self.padding)
        if min(*self.stride, *self.dilation) <= 0 or min(pads) < 0:
            raise RuntimeError(
                "stride and dilation must be positive and padding not negative, got "
                f"{self.stride}, {self.dilation} and {pads}"
            )
        x = input if input.ndim == dims + 2 else input[None]
        more = self.output_padding if output_size is None else self._left_over(x, tuple(output_size))
        for extra, step, apart in zip(more, self.stride, self.dilation, strict=True):
            if not 0 <= extra < max(step, apart):
                raise RuntimeError(
                    f"output_padding must not be negative, and below stride or dilation, got {more} "
                    f"for {self.stride} and {self.dilation}"
                )
        how = Transposition(self.stride, self.dilation, pads, pads, more, self.groups)
        out = transposed(x, weight, self._tensor("bias"), how)
        return out if input.ndim == dims + 2 else out[0]

    def _left_over(self, x: Array, wanted: Sizes) -> Sizes:
        """The `output_padding` with which the result has the sizes."""
        extents = span(self.kernel_size, self.dilation)
        pads = cast(Sizes, self.padding)
        least = [
            (int(n) - 1) * s - 2 * p + e
            for n, s, p, e in zip(x.shape[2:], self.stride, pads, extents, strict=True)
        ]
        wanted = wanted[-self._dims :]
        more = tuple(w - n for w, n in zip(wanted, least, strict=True))
        if any(not 0 <= m < s for m, s in zip(more, self.stride, strict=True)):
            most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
            raise ValueError(f"output_size must be from {least} to {most}, got {wanted}")
        return more


class ConvTranspose1d(_ConvTranspose):
    """The transpose of `Conv1d`: each entry adds a weighted window to the result, one step further on.

    Args:
        in_channels: size of the input's channel dimension.
        out_channels: size of the output's channel dimension.
        kernel_size: length of the window.
        stride: step of the window: how many times longer the result is.
        padding: entries left out at both ends of the result.
        output_padding: entries added at its end, fewer than `stride` or `dilation`.
        groups: groups of channels, each with filters of its own.
        bias: whether there is a bias.
        dilation: distance between the window's entries.
        padding_mode: "zeros".
        device, dtype: as for `Linear`.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; initial values are drawn from
            U(-1/√n, 1/√n) with n = out_channels / groups · kernel_size.

    Shapes:
        input (N, in_channels, L) or (in_channels, L), `weight` (in_channels, out_channels / groups,
        kernel_size), `bias` (out_channels,), output (N, out_channels, L') or (out_channels, L') with
        L' = (L - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1.

    Dtypes:
        as of `Conv1d`.

    Raises:
        ValueError: channels that groups do not divide, another padding_mode.
        RuntimeError: an input of another shape; a padding, output_padding, stride or dilation out of range.

    Source:
        torch.nn.ConvTranspose1d; results of a step as channels: Shi et al. (2016), Is the deconvolution layer
        the same as a convolutional layer? (arXiv:1609.07009).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.ConvTranspose1d(2, 4, 4, stride=2, padding=1, rng=0)
        >>> layer(np.zeros((5, 2, 7), np.float32)).shape
        (5, 4, 14)
    """

    _dims = 1


class ConvTranspose2d(_ConvTranspose):
    """The transpose of `Conv2d`: each entry adds a weighted window to the result, one step further on.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
            padding_mode, device, dtype, rng: as of `ConvTranspose1d`; sizes are one number, or two.

    Shapes:
        input (N, in_channels, H, W) or (in_channels, H, W), `weight` (in_channels, out_channels / groups,
        *kernel_size), `bias` (out_channels,), output (N, out_channels, H', W') or (out_channels, H', W')
        with sizes as for `ConvTranspose1d`.

    Dtypes:
        as of `Conv1d`.

    Raises:
        ValueError, RuntimeError: as of `ConvTranspose1d`.

    Source:
        torch.nn.ConvTranspose2d.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.ConvTranspose2d(3, 4, 3, stride=2, rng=0)
        >>> layer(np.zeros((5, 3, 4, 4), np.float32)).shape
        (5, 4, 9, 9)
        >>> layer(np.zeros((5, 3, 4, 4), np.float32), output_size=(10, 10)).shape
        (5, 4, 10, 10)
    """

    _dims = 2


class _LazyConvolution(LazyLayer, _Convolution):
    """Base of lazy convolutions."""

    _size_name = "in_channels"

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Iterable[int],
        stride: int | Iterable[int] = 1,
        padding: int | Iterable[int] | str = 0,
        dilation: int | Iterable[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        # The channels of both sides are checked when the input has told one of them.
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._rng = rng
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def _size_of(self, input: Array) -> int:
        dims = self._dims
        if input.ndim not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"the input must have {dims + 1} dimensions, or {dims + 2} with a batch; got "
                f"{tuple(input.shape)}"
            )
        return int(input.shape[-dims - 1])

    def _shapes(self, size: int) -> dict[str, tuple[int, ...]]:
        _check_groups(self.groups, size, self.out_channels)
        return {
            "weight": (self.out_channels, size // self.groups, *self.kernel_size),
            "bias": (self.out_channels,),
        }

    def _known_size(self) -> int:
        return int(self._tensor("weight").shape[1]) * self.groups


class LazyConv1d(_LazyConvolution):
    """A `Conv1d` that infers `in_channels` from its first input, and then becomes a `Conv1d`.

    Args:
        out_channels: size of the output's channel dimension.
        kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as of `Conv1d`.
        rng: as of `Conv1d`, used at the first call.

    Shapes:
        as of `Conv1d`; `weight` and `bias` are `UninitializedParameter`s before the first call.

    Dtypes:
        as of `Conv1d`.

    Raises:
        ValueError: as of `Conv1d`, for channels at the first call.
        RuntimeError: an input of other dimensions.

    Source:
        torch.nn.LazyConv1d.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.LazyConv1d(4, 3)
        >>> layer(np.zeros((5, 2, 7), np.float32)).shape, layer
        ((5, 4, 5), Conv1d(2, 4, kernel_size=(3,), stride=(1,)))
    """

    _dims = 1
    cls_to_become = Conv1d


class LazyConv2d(_LazyConvolution):
    """A `Conv2d` that infers `in_channels` from its first input, and then becomes a `Conv2d`.

    Args:
        out_channels: size of the output's channel dimension.
        kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as of `Conv2d`.
        rng: as of `Conv2d`, used at the first call.

    Shapes:
        as of `Conv2d`; `weight` and `bias` are `UninitializedParameter`s before the first call.

    Dtypes:
        as of `Conv2d`.

    Raises:
        ValueError: as of `Conv2d`, for channels at the first call.
        RuntimeError: an input of other dimensions.

    Source:
        torch.nn.LazyConv2d.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.LazyConv2d(4, 3)
        >>> layer(np.zeros((5, 2, 7, 7), np.float32)).shape, layer
        ((5, 4, 5, 5), Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1)))
    """

    _dims = 2
    cls_to_become = Conv2d


belong_to("lite.nn", Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, LazyConv1d, LazyConv2d)
