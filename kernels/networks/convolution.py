"""Convolutions of float32 arrays in compiled code, for `lite.nn`: how windows lie, worked out once."""

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.kernels._arrays import contiguous
from lite.kernels._threads import for_rows
from lite.kernels.cpu import convolution as kernels

Floats = NDArray[np.float32]
Sizes = tuple[int, ...]

_PLANES = 1 << 16  # numbers of planes, and of sums, that a unit works on: they stay in the second-level cache
_PARTS = 8  # sums of derivatives by the weight, which threads add up each by itself
_SLACK = 64  # numbers that are read beyond the last plane, and left out


class Convolution(NamedTuple):
    """A convolution over one dimension or two, of float32 arrays.

    Attributes:
        stride: steps between windows.
        dilation: steps between entries of a window.
        before: zeros before the input.
        after: zeros behind it.
        groups: number of groups of channels.
    """

    stride: Sizes
    dilation: Sizes
    before: Sizes
    after: Sizes
    groups: int

    def values(self, x: Floats, weight: Floats, bias: Floats | None) -> Floats:
        """The convolution of x (N, C, *sizes) with a weight (O, C / groups, *kernel), plus a bias (O,)."""
        plan = _plan(*self._flat(x.shape, weight.shape))
        lines = tuple(map(int, plan.sizes[11:13]))
        out = np.empty((x.shape[0], weight.shape[0], *lines[2 - len(self.stride) :]), np.float32)
        matrix = weight.reshape(self.groups, weight.shape[0] // self.groups, -1)
        _run(plan, x, matrix, np.empty(0, np.float32) if bias is None else contiguous(bias, np.float32), out)
        return out

    def by_input(self, g: Floats, weight: Floats, shape: Sizes) -> Floats:
        """The derivative by x, of this shape, of the derivative by the result."""
        groups = self.groups
        plan = _back_plan(*self._flat(shape, weight.shape))
        out = np.empty(shape, np.float32)
        # (groups, channels of the input, channels of the result and offsets)
        turned = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1).swapaxes(1, 2)
        matrix = turned.reshape(groups, weight.shape[1], -1)
        if len(plan.starts) > 2:
            matrix = matrix[:, :, plan.order]
        _run(plan, g, matrix, np.empty(0, np.float32), out)
        return out

    def by_weight(self, g: Floats, x: Floats, shape: Sizes) -> Floats:
        """The derivative by the weight, of this shape, of the derivative by the result."""
        plan = _plan(*self._flat(x.shape, shape))
        groups, taps, rows = self.groups, plan.table.size, shape[0] // self.groups
        whole = -(-rows // 16) * 16
        chunk = max(1, -(-plan.units // _PARTS))
        parts = np.zeros((-(-plan.units // chunk), groups * taps * whole), np.float32)
        source, given = (contiguous(a, np.float32).reshape(-1) for a in (x, g))

        def units(start: int, stop: int) -> None:
            memory = np.zeros(plan.planes, np.float32), np.zeros(plan.sums * whole, np.float32)
            for first in range(start, stop, chunk):
                part, last = parts[first // chunk], min(first + chunk, stop)
                kernels.by_weight(source, given, plan.table, plan.sizes, part, *memory, first, last)

        for_rows(units, plan.units, chunk)
        total = parts.sum(0).reshape(groups, taps, whole)[..., :rows]
        return np.ascontiguousarray(total.swapaxes(1, 2)).reshape(shape)

    def _flat(self, shape: Sizes, weight: Sizes) -> "tuple[Sizes, Sizes, Convolution]":
        """Shapes of input and weight, and this, in two dimensions."""
        if len(self.stride) == 2:
            return tuple(shape), tuple(weight), self
        stride, dilation = (1, *self.stride), (1, *self.dilation)
        flat = Convolution(stride, dilation, (0, *self.before), (0, *self.after), self.groups)
        return (*shape[:2], 1, shape[2]), (*weight[:2], 1, weight[2]), flat


class Plan(NamedTuple):
    """A convolution as `cpu/convolution.py` runs it.

    Attributes:
        sizes: channels of a group; height and width of the input; zeros before both; residues of both; rows
            of a plane and their pitch; groups; rows of the result in a group; its lines and their places, for
            each residue; lines of a band, bands; residues of the result's height and width; these sizes; what
            is cut off before both.
        table: distances in the planes.
        starts: starts of the residues of the result in the table.
        order: all (channel, offset) pairs, which taps the table has, one after the other.
        planes: numbers of them, with the slack.
        sums: numbers of the sums, likewise.
        units: number of units of work.
    """

    sizes: NDArray[np.int64]
    table: NDArray[np.int64]
    starts: NDArray[np.int64]
    order: NDArray[np.int64]
    planes: int
    sums: int
    units: int


@functools.lru_cache(256)
def _plan(shape: Sizes, weight: Sizes, how: Convolution) -> Plan:
    """The plan of the result for an input (N, C, height, width)."""
    count, channels, height, width = shape
    stride, dilation, kernel, groups = how.stride, how.dilation, weight[2:], how.groups
    inner = [n + b + a for n, b, a in zip(shape[2:], how.before, how.after, strict=True)]
    out = [_windows(*each) for each in zip(inner, kernel, stride, dilation, strict=True)]
    reach = [(k - 1) * d // s for k, s, d in zip(kernel, stride, dilation, strict=True)]
    pitch = max(-(-inner[1] // stride[1]), out[1] + reach[1])
    channels //= groups
    rows = weight[0] // groups
    band = _band(out[0], reach[0], channels * math.prod(stride) * pitch, rows * pitch)
    tall = band + reach[0]
    offsets = [
        ((i * dilation[0] % stride[0]) * stride[1] + j * dilation[1] % stride[1]) * tall * pitch
        + i * dilation[0] // stride[0] * pitch
        + j * dilation[1] // stride[1]
        for i, j in itertools.product(*map(range, kernel))
    ]
    table = (np.arange(channels)[:, None] * (math.prod(stride) * tall * pitch) + offsets).reshape(-1)
    bands = -(-out[0] // band)
    sizes = [
        channels, height, width, *how.before, *stride, tall, pitch, groups, rows, *out, band, bands, 1, 1,
        *out, 0, 0,
    ]  # fmt: skip
    return Plan(
        np.array(sizes, np.int64), table.astype(np.int64), np.array([0, table.size], np.int64),
        np.arange(table.size), channels * math.prod(stride) * tall * pitch + _SLACK, band * pitch + _SLACK,
        count * groups * bands,
    )  # fmt: skip


@functools.lru_cache(256)
def _back_plan(shape: Sizes, weight: Sizes, how: Convolution) -> Plan:
    """The plan of the derivative by an input (N, C, height, width)."""
    count, channels, height, width = shape
    stride, dilation, kernel, groups = how.stride, how.dilation, weight[2:], how.groups
    inner = [n + b + a for n, b, a in zip(shape[2:], how.before, how.after, strict=True)]
    windows = [_windows(*each) for each in zip(inner, kernel, stride, dilation, strict=True)]
    reach = [(k - 1) * d // s for k, s, d in zip(kernel, stride, dilation, strict=True)]
    across = [-(-n // s) for n, s in zip(inner, stride, strict=True)]  # places of each residue
    pitch = across[1] + reach[1]
    rows, channels = channels // groups, weight[0] // groups  # of the result, which has the input's channels
    band = _band(across[0], reach[0], channels * pitch, rows * pitch)
    tall = band + reach[0]
    taps: list[list[tuple[int, int]]] = [[] for _ in range(math.prod(stride))]
    for number, (i, j) in enumerate(itertools.product(*map(range, kernel))):
        y, x = i * dilation[0], j * dilation[1]
        distance = (reach[0] - y // stride[0]) * pitch + reach[1] - x // stride[1]
        taps[y % stride[0] * stride[1] + x % stride[1]].append((number, distance))
    entries = math.prod(kernel)
    table = [c * tall * pitch + at for each in taps for c in range(channels) for _, at in each]
    order = [c * entries + number for each in taps for c in range(channels) for number, _ in each]
    starts = np.cumsum([0, *(channels * len(each) for each in taps)])
    bands = -(-across[0] // band)
    sizes = [
        channels, *windows, *reach, 1, 1, tall, pitch, groups, rows, *across, band, bands, *stride, height,
        width, *how.before,
    ]  # fmt: skip
    return Plan(
        np.array(sizes, np.int64), np.array(table, np.int64), starts.astype(np.int64),
        np.array(order, np.int64), channels * tall * pitch + _SLACK, band * pitch + _SLACK,
        count * groups * bands,
    )  # fmt: skip


def _windows(size: int, kernel: int, stride: int, dilation: int) -> int:
    return (size - dilation * (kernel - 1) - 1) // stride + 1


def _band(lines: int, more: int, plane: int, sums: int) -> int:
    """Lines that a unit computes, of `lines`: its planes have some more."""
    most = max(1, min(_PLANES // max(plane, 1) - more, _PLANES // max(sums, 1)))
    return -(-lines // -(-lines // most)) if lines else 1


def _run(plan: Plan, x: Floats, matrix: Floats, bias: Floats, out: Floats) -> None:
    groups, rows, taps = matrix.shape
    eight = 8 if rows > 1 else 1
    tiles = -(-rows // eight)
    packed = np.zeros((groups, tiles * eight * taps), np.float32)
    for first, last in itertools.pairwise(map(int, plan.starts)):
        target = packed[:, tiles * eight * first : tiles * eight * last]
        target = target.reshape(groups, tiles, last - first, eight).swapaxes(2, 3)
        for i in range(tiles):
            part = matrix[:, i * eight : (i + 1) * eight, first:last]
            target[:, i, : part.shape[1]] = part
    source, result = contiguous(x, np.float32).reshape(-1), out.reshape(-1)

    def units(start: int, stop: int) -> None:
        memory = np.zeros(plan.planes, np.float32), np.empty(plan.sums * tiles * eight, np.float32)
        kernels.convolve(
            source, packed.reshape(-1), bias, plan.table, plan.starts, plan.sizes, result, *memory, start,
            stop,
        )  # fmt: skip

    for_rows(units, plan.units, max(1, -(-plan.units // 16)))
