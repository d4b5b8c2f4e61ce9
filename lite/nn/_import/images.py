"""Operators of images: Resize, Upsample, GridSample, AffineGrid and Col2Im."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite.nn._import.integers import axes_of, checked, integers
from lite.nn._import.operators import Run, Spec, Unsupported, operator

Weights = tuple[Array, Array]
"""For each position of the output, indices into the input and their weights, both (size, entries)."""


@operator("Upsample")
def _upsample(spec: Spec) -> Run:
    plain = Spec("Resize", "", spec.name, 10, {"mode": spec.get("mode", "nearest")}, (), (True,))
    resize, fixed = _resize(plain), spec.get("scales")

    def run(x: Array, scales: Array | None = None) -> Array:
        return resize(x, np.asarray(fixed, np.float32) if scales is None else scales)

    return run


@operator("Resize")
def _resize(spec: Spec) -> Run:
    mode = spec.get("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic"):
        raise Unsupported(f"mode {mode!r}")
    before_11 = spec.opset < 11  # without these modes
    transformation = spec.get("coordinate_transformation_mode", "asymmetric" if before_11 else "half_pixel")
    crops = transformation == "tf_crop_and_resize"
    policy, given = spec.get("keep_aspect_ratio_policy", "stretch"), spec.ints("axes")
    # A runtime decides in float32 which entry is the nearest.
    number = np.float32 if mode == "nearest" else np.float64

    def run(x: Array, roi: Any = None, scales: Any = None, sizes: Any = None) -> Array:
        if before_11:
            roi, scales = None, roi if scales is None else scales
        axes = axes_of(range(x.ndim) if given is None else given, x.ndim)
        inner = [int(x.shape[axis]) for axis in axes]
        if sizes is not None and np.size(sizes):
            wanted = integers(sizes)
            factors = [n / m for n, m in zip(wanted, inner, strict=True)]
            if policy != "stretch":
                factor = min(factors) if policy == "not_larger" else max(factors)
                factors = [factor] * len(factors)
                wanted = tuple(math.floor(factor * m + 0.5) for m in inner)
        else:
            factors = [float(n) for n in np.asarray(scales).reshape(-1)]
            wanted = tuple(math.floor(m * n) for m, n in zip(inner, factors, strict=True))
        checked(wanted)
        region = None if roi is None or not np.size(roi) else np.asarray(roi, np.float64).reshape(2, -1)
        outside = np.zeros((), np.bool_)
        for i, axis in enumerate(axes):
            if not crops and factors[i] == 1.0 and wanted[i] == inner[i]:
                continue
            ends = (0.0, 1.0) if region is None else (region[0, i], region[1, i])
            places = _positions(transformation, wanted[i], inner[i], number(factors[i]), ends)
            if crops:
                beyond = (places < 0) | (places > inner[i] - 1)
                outside = outside | beyond.reshape([-1 if j == axis else 1 for j in range(x.ndim)])
            x = _along(x, axis, _FILTERS[mode](spec, places, inner[i], factors[i]))
        if crops and outside.any():
            x = np.where(outside, np.asarray(spec.get("extrapolation_value", 0.0), x.dtype), x)
        return x

    return run


def _positions(transformation: str, size: int, inner: int, scale: Any, region: tuple[float, float]) -> Any:
    """The position in the input of each position of the output, in the dtype of the scale."""
    i = np.arange(size, dtype=scale.dtype)
    if transformation == "half_pixel":
        return (i + 0.5) / scale - 0.5
    if transformation == "half_pixel_symmetric":
        adjusted = size / (scale * inner)
        return inner / 2 * (1 - adjusted) + (i + 0.5) / scale - 0.5
    if transformation == "pytorch_half_pixel":
        return (i + 0.5) / scale - 0.5 if size > 1 else np.zeros(size)
    if transformation == "align_corners":
        return i * (inner - 1) / (size - 1) if size != 1 else np.zeros(size)
    if transformation == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    if transformation == "tf_crop_and_resize":
        start, end = region
        if size > 1:
            return start * (inner - 1) + i * (end - start) * (inner - 1) / (size - 1)
        return np.full(size, 0.5 * (start + end) * (inner - 1))
    if transformation == "asymmetric":
        return i / scale
    raise NotImplementedError(f"Resize with coordinate_transformation_mode={transformation!r}")


def _nearest(spec: Spec, places: Any, inner: int, scale: float) -> Weights:
    before_11 = "ceil" if scale < 1 else "floor"  # as onnxruntime decides where ONNX does not
    rule = before_11 if spec.opset < 11 else spec.get("nearest_mode", "round_prefer_floor")
    roundings: dict[str, Callable[[Any], Any]] = {
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    at = np.clip(roundings[rule](places.astype(np.float64)), 0, inner - 1).astype(np.int64)[:, None]
    return at, np.ones(at.shape)


def _filtered(
    kernel: Callable[[Any], Any], radius: int, spec: Spec, places: Any, inner: int, scale: float, edge: bool
) -> Weights:
    """Entries around each position, weighted by a kernel of the distance."""
    shrink = min(scale, 1.0) if spec.get("antialias", 0) else 1.0
    reach = radius / shrink
    entries = 2 * math.ceil(reach)
    first = np.floor(places).astype(np.int64) - math.ceil(reach) + 1
    at = first[:, None] + np.arange(entries)
    weights = kernel((at - places[:, None]) * shrink)
    if edge:
        weights = np.where((at < 0) | (at >= inner), 0.0, weights)
    total = weights.sum(1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return np.clip(at, 0, inner - 1), weights


def _linear(spec: Spec, places: Any, inner: int, scale: float) -> Weights:
    edge = bool(spec.get("exclude_outside", 0))
    return _filtered(lambda d: np.maximum(0, 1 - np.abs(d)), 1, spec, places, inner, scale, edge)


def _cubic(spec: Spec, places: Any, inner: int, scale: float) -> Weights:
    a = spec.get("cubic_coeff_a", -0.75)

    def kernel(distance: Any) -> Any:
        d = np.abs(distance)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0))

    edge = bool(spec.get("exclude_outside", 0))
    return _filtered(kernel, 2, spec, places, inner, scale, edge)


_FILTERS: dict[str, Callable[[Spec, Any, int, float], Weights]] = {
    "nearest": _nearest,
    "linear": _linear,
    "cubic": _cubic,
}


def _along(x: Array, axis: int, at_and_weights: Weights) -> Array:
    """Weighted sums of entries along an axis."""
    at, weights = at_and_weights
    if at.shape[1] == 1:
        return np.take(x, at[:, 0], axis)
    floats = x.dtype if x.dtype.kind == "f" else np.dtype(np.float32)
    moved = np.moveaxis(x.astype(floats, copy=False), axis, -1)
    matrix = np.zeros((at.shape[0], int(moved.shape[-1])))
    np.add.at(matrix, (np.arange(at.shape[0])[:, None], at), weights)
    out = np.moveaxis(np.matmul(moved, matrix.T.astype(floats)), -1, axis)
    return out if x.dtype == floats else np.round(out).astype(x.dtype)


@operator("GridSample")
def _grid_sample(spec: Spec) -> Run:
    mode = spec.get("mode", "linear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    padding, aligned = spec.get("padding_mode", "zeros"), bool(spec.get("align_corners", 0))
    if mode not in ("nearest", "linear"):
        raise Unsupported(f"mode {mode!r}")

    def run(x: Array, grid: Array) -> Array:
        dims = x.ndim - 2
        sizes = x.shape[2:]
        at = []
        for i in range(dims):  # the grid has the last dimension of the image first
            size = int(sizes[i])
            g = grid[..., dims - 1 - i]
            place = (g + 1) / 2 * (size - 1) if aligned else ((g + 1) * size - 1) / 2
            at.append(_inside(place, size, padding, aligned))
        corners: list[tuple[list[Any], Any]] = [([], 1)]
        for place in at:
            if mode == "nearest":
                options = [(np.round(place), 1)]
            else:
                low = np.floor(place)
                options = [(low, low + 1 - place), (low + 1, place - low)]
            corners = [([*found, p], weight * w) for found, weight in corners for p, w in options]
        total: Any = 0
        for found, weight in corners:
            shown: Any = True
            index = []
            for p, n in zip(found, sizes, strict=True):
                shown = shown & (p >= 0) & (p <= int(n) - 1)
                index.append(np.clip(p, 0, int(n) - 1).astype(np.int64))
            rows = np.arange(x.shape[0]).reshape(-1, *(1,) * dims)
            picked = np.moveaxis(np.moveaxis(x, 1, -1)[(rows, *index)], -1, 1)
            total = total + picked * (shown * weight)[:, None].astype(x.dtype)
        return total.astype(x.dtype, copy=False)

    return run


def _inside(place: Any, size: int, padding: str, aligned: bool) -> Any:
    if padding == "border":
        return np.clip(place, 0, size - 1)
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
        width = max(high - low, 1e-12)
        apart = np.abs(place - low) % (2 * width)
        folded = np.where(apart > width, 2 * width - apart, apart) + low
        return np.clip(folded, 0, size - 1) if not aligned else folded
    return place


@operator("AffineGrid")
def _affine_grid(spec: Spec) -> Run:
    aligned = bool(spec.get("align_corners", 0))

    def run(theta: Array, size: Array) -> Array:
        inner = integers(size)[2:]
        axes = []
        for n in inner:
            line = np.linspace(-1, 1, n) if aligned else (np.arange(n) * 2 + 1) / n - 1
            axes.append(line)
        mesh = np.meshgrid(*axes, indexing="ij")
        points = np.stack([*mesh[::-1], np.ones(inner)], -1).astype(theta.dtype)
        flat = points.reshape(-1, len(inner) + 1)
        return np.matmul(flat, theta.swapaxes(-1, -2)).reshape(theta.shape[0], *inner, len(inner))

    return run


@operator("Col2Im")
def _col2im(spec: Spec) -> Run:
    def run(x: Array, image: Array, block: Array) -> Array:
        inner, kernel = integers(image), integers(block)
        if any(n < 1 for n in kernel):
            raise ValueError(f"block_shape must be at least 1, got {kernel}")
        dims = len(inner)
        strides = spec.ints("strides") or (1,) * dims
        dilations = spec.ints("dilations") or (1,) * dims
        pads = spec.ints("pads") or (0,) * 2 * dims
        whole = [n + pads[i] + pads[i + dims] for i, n in enumerate(inner)]
        windows = zip(whole, kernel, strides, dilations, strict=True)
        count = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in windows]
        channels = int(x.shape[1]) // math.prod(kernel)
        checked((x.shape[0], channels, *whole))
        parts = x.reshape(x.shape[0], channels, *kernel, *count)
        out = np.zeros_like(parts, shape=(x.shape[0], channels, *whole))
        for offset in np.ndindex(*kernel):
            at = tuple(
                slice(o * d, o * d + (n - 1) * s + 1, s)
                for o, d, n, s in zip(offset, dilations, count, strides, strict=True)
            )
            out[(slice(None), slice(None), *at)] += parts[(slice(None), slice(None), *offset)]
        inside = tuple(slice(pads[i], pads[i] + n) for i, n in enumerate(inner))
        return out[(slice(None), slice(None), *inside)]

    return run
