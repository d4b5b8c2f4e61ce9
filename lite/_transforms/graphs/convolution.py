"""Convolutions as operators of a graph, and their derivatives, which are convolutions themselves.

Source:
    Dumoulin and Visin (2016), A guide to convolution arithmetic for deep learning (arXiv:1603.07285).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lite._arrays.types import Shape
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.sizes import Size

FLOAT32 = np.dtype(np.float32)  # of the operands: onnxruntime convolves no others
_CHANNELS = 16  # of an input whose pixels are copied to patches: fewer make copies that are too small


class Geometry(NamedTuple):
    """The geometry of a window: its steps and the padding.

    Attributes:
        strides: steps of the window.
        dilations: distances between its entries.
        before, after: zeros on both sides of each dimension.
        groups: groups of channels.
    """

    strides: Shape
    dilations: Shape
    before: Shape
    after: Shape
    groups: int


def convolve(x: GraphArray, weight: GraphArray, bias: GraphArray | None, how: Geometry) -> GraphArray:
    """The convolution of x (N, C, *sizes) by weight (O, C / groups, *kernel)."""
    kernel = tuple(map(int, weight.shape[2:]))
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, how.dilations, strict=True)]
    moves = zip(x.shape[2:], spans, how.strides, how.before, how.after, strict=True)
    out = [(b + n + a - e) // s + 1 for n, e, s, b, a in moves]
    shape = (x.shape[0], weight.shape[0], *out)
    inputs = [x, weight] if bias is None else [x, weight, bias]
    return _emit(x.graph, "Conv", inputs, shape, kernel, how)


def for_input(g: GraphArray, weight: GraphArray, shape: Shape, how: Geometry) -> GraphArray:
    """The derivative by the input, of a shape, from g, the derivative by the result."""
    kernel = tuple(map(int, weight.shape[2:]))
    rest = []
    for n, out, k, s, d, b, a in zip(shape[2:], g.shape[2:], kernel, *how[:4], strict=True):
        rest.append(int(n) - ((int(out) - 1) * s + d * (k - 1) + 1 - b - a))
    return _emit(g.graph, "ConvTranspose", [g, weight], shape, kernel, how, output_padding=rest)


def for_weight(g: GraphArray, x: GraphArray, shape: Shape, how: Geometry) -> GraphArray:
    """The derivative by the weight, of a shape, from g, the derivative by the result.

    It is the convolution of the input by g with batch and channels exchanged, and strides and dilations
    exchanged. Where there are many channels, a product with the matrix of patches is faster.
    """
    graph, groups = x.graph, how.groups
    order = range(2, x.ndim)
    if not x.shape[0] > 0:  # as channels, of which there are none: onnxruntime would not end
        return graph.expand(graph.constant(0, x.dtype), shape)
    fixed = not any(type(n) is Size for n in (*x.shape[1:], *g.shape[1:]))
    if fixed and groups == 1 and x.shape[1] >= _CHANNELS:
        return _by_patches(g, x, shape, how)
    if groups == 1:
        inputs = graph.transpose(x, (1, 0, *order))
    else:  # (C / groups, groups N, *sizes), so that each group convolves its own rows
        count, channels, *sizes = x.shape
        apart = graph.reshape(x, (count, groups, channels // groups, *sizes))
        turned = graph.transpose(apart, (2, 1, 0, *(axis + 1 for axis in order)))
        inputs = graph.reshape(turned, (channels // groups, groups * count, *sizes))
    windows = graph.transpose(g, (1, 0, *order))
    back = Geometry(how.dilations, how.strides, how.before, how.after, groups)
    found = convolve(inputs, windows, None, back)
    for axis, size in enumerate(shape[2:], 2):
        if int(found.shape[axis]) != size:  # entries that the last step left out
            found = graph.slice(found, axis, 0, int(size), 1, int(size))
    return graph.transpose(found, (1, 0, *order))


def _by_patches(g: GraphArray, x: GraphArray, shape: Shape, how: Geometry) -> GraphArray:
    """`for_weight` as a product of g and the patches, whose pixels are copied with all their channels."""
    graph = x.graph
    count, channels, *sizes = x.shape
    out, kernel = [int(n) for n in g.shape[2:]], [int(n) for n in shape[2:]]
    widths = [(0, 0), *zip(how.before, how.after, strict=True), (0, 0)]
    pixels = graph.pad(graph.transpose(x, (0, *range(2, x.ndim), 1)), widths, "constant")
    inner = [int(n) + b + a for n, b, a in zip(sizes, how.before, how.after, strict=True)]
    places = np.zeros((1,) * 2 * len(out), np.int64)  # of the pixels of each patch, among all in a row
    for axis, (n, k) in enumerate(zip(out, kernel, strict=True)):
        along = np.arange(n)[:, None] * how.strides[axis] + np.arange(k) * how.dilations[axis]
        ones = [1] * 2 * len(out)
        ones[axis], ones[axis + len(out)] = n, k
        places = places * inner[axis] + along.reshape(ones)
    flat = graph.reshape(pixels, (count, math.prod(inner), channels))
    patches = graph.gather(flat, graph.constant(places.reshape(-1)), axis=1)
    rows = graph.reshape(patches, (count * math.prod(out), math.prod(kernel) * channels))
    of_result = graph.reshape(
        graph.transpose(g, (1, 0, *range(2, g.ndim))), (g.shape[1], count * math.prod(out))
    )
    found = graph.emit("MatMul", [of_result, rows], (g.shape[1], rows.shape[1]), x.dtype)
    apart = graph.reshape(found, (g.shape[1], math.prod(kernel), channels))
    return graph.reshape(graph.transpose(apart, (0, 2, 1)), shape)


def _emit(
    graph: Graph, op: str, inputs: Sequence[GraphArray], shape: Sequence[int], kernel: Shape, how: Geometry,
    **attributes: Sequence[int],
) -> GraphArray:  # fmt: skip
    if math.prod(map(int, kernel)) == 0:
        graph.fail("convolves with an empty window")
    # A kernel whose size is dynamic (the rows of a batch) is known to the operator from its operand.
    return graph.emit(
        op,
        inputs,
        shape,
        inputs[0].dtype,
        kernel_shape=[int(n) for n in kernel],
        strides=list(how.strides),
        dilations=list(how.dilations),
        group=how.groups,
        pads=[*how.before, *how.after],
        **{name: list(value) for name, value in attributes.items()},
    )
