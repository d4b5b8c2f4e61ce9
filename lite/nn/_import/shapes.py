"""Operators that move numbers and compute none: reshapes, transpositions, joins, cuts, paddings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite.nn._import.integers import axes_of, checked, integers, of_input_or
from lite.nn._import.operators import Run, Spec, Unsupported, operator, simple


@operator("Reshape")
def _reshape(spec: Spec) -> Run:
    keeps_zeros, given = spec.get("allowzero", 0), spec.ints("shape", 1)

    def run(x: Array, shape: Array | None = None) -> Array:
        sizes = of_input_or(given, shape) or ()
        if not keeps_zeros and 0 in sizes:
            sizes = tuple(x.shape[i] if type(n) is int and n == 0 else n for i, n in enumerate(sizes))
        return x.reshape(sizes)

    return run


@operator("Flatten")
def _flatten(spec: Spec) -> Run:
    axis = spec.get("axis", 1)

    def run(x: Array) -> Array:
        at = axis + x.ndim if axis < 0 else axis
        return x.reshape(_product(x.shape[:at]), _product(x.shape[at:]))

    return run


def _product(sizes: Sequence[int]) -> int:
    """The product, which is a dynamic size if a factor is one."""
    out = 1
    for n in sizes:
        out = n * out
    return out


@operator("Transpose")
def _transpose(spec: Spec) -> Run:
    order = spec.ints("perm")
    return lambda x: np.transpose(x, order)


@operator("Squeeze")
def _squeeze(spec: Spec) -> Run:
    given = spec.ints("axes", 1)

    def run(x: Array, axes: Array | None = None) -> Array:
        found = of_input_or(given, axes)
        return np.squeeze(x, None if found is None else axes_of(found, x.ndim))

    return run


@operator("Unsqueeze")
def _unsqueeze(spec: Spec) -> Run:
    given = spec.ints("axes", 1)

    def run(x: Any, axes: Array | None = None) -> Array:
        found = of_input_or(given, axes) or ()
        places = axes_of(found, np.ndim(x) + len(found))
        if type(x) is not np.ndarray:
            return np.expand_dims(x, places)
        shape = list(x.shape)
        for place in sorted(places):
            shape.insert(place, 1)
        return x.reshape(shape)  # a third of the time

    return run


def broadcast(x: Array, shape: Sequence[int]) -> Array:
    """An array broadcast to a shape, and the shape to the array's."""
    rank = max(x.ndim, len(shape))
    own = (1,) * (rank - x.ndim) + tuple(x.shape)
    other = (1,) * (rank - len(shape)) + tuple(shape)
    whole = tuple(b if a == 1 else a for a, b in zip(own, other, strict=True))
    return np.broadcast_to(x, checked(whole))


simple(lambda x, shape: broadcast(x, integers(shape)), "Expand")


def _tile(x: Array, repeats: Array) -> Array:
    times = integers(repeats)
    checked(n * t for n, t in zip(x.shape, times, strict=True))
    return np.tile(x, times)


simple(_tile, "Tile")


@operator("Concat")
def _concat(spec: Spec) -> Run:
    axis = spec.get("axis", 1)
    return lambda *arrays: np.concatenate(arrays, axis)


@operator("Split")
def _split(spec: Spec) -> Run:
    axis, given = spec.get("axis", 0), spec.ints("split", 1)
    count = spec.get("num_outputs", len(spec.outputs))
    if count != len(spec.outputs):
        raise ValueError(f"Split {spec.name!r}: num_outputs is {count}, and it has {len(spec.outputs)}")

    def run(x: Array, split: Array | None = None) -> tuple[Array, ...]:
        sizes = of_input_or(given, split)
        if sizes is None:
            whole = int(x.shape[axis])
            step = -(-whole // count)
            sizes = tuple(min(step, max(0, whole - i * step)) for i in range(count))
        ends = [*itertools.accumulate(sizes[:-1])]
        if type(x) is not np.ndarray:
            return tuple(np.split(x, ends, axis))
        before = (slice(None),) * (axis + x.ndim if axis < 0 else axis)  # a quarter of the time
        return tuple([x[(*before, slice(a, b))] for a, b in zip((0, *ends), (*ends, None), strict=True)])

    return run


@operator("Pad")
def _pad(spec: Spec) -> Run:
    mode = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}.get(
        spec.get("mode", "constant")
    )
    if mode is None:
        raise Unsupported(f"mode {spec.get('mode')!r}")
    given, fixed = spec.ints("pads", 1), spec.get("value", 0.0)

    def run(x: Array, pads: Array | None = None, value: Any = None, axes: Array | None = None) -> Array:
        amounts = of_input_or(given, pads) or ()
        places = range(x.ndim) if axes is None else axes_of(integers(axes), x.ndim)
        widths = [(0, 0)] * x.ndim
        for i, axis in enumerate(places):
            widths[axis] = amounts[i], amounts[i + len(amounts) // 2]
        return padded(x, widths, mode, fixed if value is None else value)

    return run


def padded(x: Array, widths: Sequence[tuple[int, int]], mode: str, value: Any) -> Array:
    """An array with more numbers on each side of its axes; fewer where a width is negative."""
    if any(n < 0 for pair in widths for n in pair):
        kept = tuple(
            slice(max(0, -a), int(n) - max(0, -b)) for (a, b), n in zip(widths, x.shape, strict=True)
        )
        x = x[kept]
    more = [(max(0, a), max(0, b)) for a, b in widths]
    checked(n + a + b for n, (a, b) in zip(x.shape, more, strict=True))
    if not any(n for pair in more for n in pair):
        return x
    if mode == "constant":
        number = value if isinstance(value, int | float) else np.asarray(value).reshape(()).item()
        return np.pad(x, more, constant_values=number)
    return np.pad(x, more, mode)  # type: ignore[call-overload]


@operator("Trilu")
def _trilu(spec: Spec) -> Run:
    triangle = np.triu if spec.get("upper", 1) else np.tril
    return lambda x, k=None: triangle(x, 0 if k is None else integers(k)[0])


@operator("DepthToSpace")
def _depth_to_space(spec: Spec) -> Run:
    size, columns_first = spec.need("blocksize"), spec.get("mode", "DCR") == "DCR"

    def run(x: Array) -> Array:
        n, c, h, w = x.shape
        if columns_first:
            apart = np.transpose(x.reshape(n, size, size, c // (size * size), h, w), (0, 3, 4, 1, 5, 2))
        else:
            apart = np.transpose(x.reshape(n, c // (size * size), size, size, h, w), (0, 1, 4, 2, 5, 3))
        return apart.reshape(n, c // (size * size), h * size, w * size)

    return run


@operator("SpaceToDepth")
def _space_to_depth(spec: Spec) -> Run:
    size, columns_first = spec.need("blocksize"), spec.get("mode", "DCR") == "DCR"

    def run(x: Array) -> Array:
        n, c, h, w = x.shape
        order = (0, 3, 5, 1, 2, 4) if columns_first else (0, 1, 3, 5, 2, 4)
        apart = np.transpose(x.reshape(n, c, h // size, size, w // size, size), order)
        return apart.reshape(n, c * size * size, h // size, w // size)

    return run


@operator("CenterCropPad")
def _center_crop_pad(spec: Spec) -> Run:
    given = spec.ints("axes")

    def run(x: Array, shape: Array) -> Array:
        widths = [(0, 0)] * x.ndim
        axes = axes_of(range(x.ndim) if given is None else given, x.ndim)
        for axis, size in zip(axes, integers(shape), strict=True):
            more = size - int(x.shape[axis])
            before = more // 2 if more > 0 else -(-more // 2)
            widths[axis] = before, more - before
        return padded(x, widths, "constant", 0)

    return run
