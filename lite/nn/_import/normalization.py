"""Operators that normalise: over a batch, a layer, groups, roots of means of squares."""

from __future__ import annotations

import functools
import operator as op
from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite.nn._import.operators import MICROSOFT, ML, Run, Spec, Unsupported, operator
from lite.nn._import.selecting import table_of
from lite.nn.layers.normalization import layer_norm, rms_norm


def _channels(x: Array, ndim: int) -> Array:
    """Numbers of the channels, (C,), in the shape in which they broadcast with (N, C, ...)."""
    return x.reshape(-1, *(1,) * (ndim - 2))


@operator("BatchNormalization")
def _batch_normalization(spec: Spec) -> Run:
    eps, momentum = spec.get("epsilon", 1e-5), spec.get("momentum", 0.9)
    trains = bool(spec.get("training_mode", 0))
    if not trains and spec.opset < 14 and any(spec.uses_output(i) for i in range(1, 5)):
        raise Unsupported("training before version 14")

    def run(x: Array, scale: Array, bias: Array, mean: Array, var: Array) -> tuple[Array, ...]:
        new: tuple[Array, ...] = ()
        if trains:
            axes = (0, *range(2, x.ndim))
            of_batch = x.mean(axes), x.var(axes)
            new = (
                mean * momentum + of_batch[0] * (1 - momentum),
                var * momentum + of_batch[1] * (1 - momentum),
            )
            mean, var = of_batch
        factor = scale / np.sqrt(var + np.asarray(eps, var.dtype))
        shift = bias - mean * factor
        out = x * _channels(factor, x.ndim) + _channels(shift, x.ndim)
        return out.astype(x.dtype, copy=False), *new

    return run


def _standardized(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axes, keepdims=True) + np.asarray(eps, x.dtype))


@operator("InstanceNormalization")
def _instance_normalization(spec: Spec) -> Run:
    eps = spec.get("epsilon", 1e-5)

    def run(x: Array, scale: Array, bias: Array) -> Array:
        normal = _standardized(x, tuple(range(2, x.ndim)), eps)
        return normal * _channels(scale, x.ndim) + _channels(bias, x.ndim)

    return run


@operator("GroupNormalization", "GroupNorm")
def _group_normalization(spec: Spec) -> Run:
    eps, groups = spec.get("epsilon", 1e-5), spec.need("num_groups")

    def run(x: Array, scale: Array, bias: Array) -> Array:
        n, channels = x.shape[:2]
        apart = x.reshape(n, groups, channels // groups, *x.shape[2:])
        normal = _standardized(apart, tuple(range(2, apart.ndim)), eps)
        if spec.opset < 21:  # a number for each group
            shape = (1, groups, *(1,) * (apart.ndim - 2))
            return (normal * scale.reshape(shape) + bias.reshape(shape)).reshape(x.shape)
        return normal.reshape(x.shape) * _channels(scale, x.ndim) + _channels(bias, x.ndim)

    return run


def _statistics(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array]:
    """Mean and 1 / deviation, in float32."""
    wide = x.astype(np.float32, copy=False)
    mean = wide.mean(axes, keepdims=True)
    var = ((wide - mean) ** 2).mean(axes, keepdims=True)
    return mean, 1 / np.sqrt(var + np.float32(eps))


def _last(x: Array, axis: int) -> tuple[int, ...]:
    return tuple(x.shape[axis + x.ndim if axis < 0 else axis :])


@operator("LayerNormalization")
def _layer_normalization(spec: Spec) -> Run:
    axis, eps = spec.get("axis", -1), spec.get("epsilon", 1e-5)
    more = spec.uses_output(1) or spec.uses_output(2)

    def run(x: Array, scale: Array, bias: Array | None = None) -> Any:
        shape = _last(x, axis)
        out = layer_norm(x, shape, scale, bias, eps)
        return (out, *_statistics(x, tuple(range(-len(shape), 0)), eps)) if more else out

    return run


@operator("RMSNormalization", "SimplifiedLayerNormalization")
def _rms_normalization(spec: Spec) -> Run:
    axis, eps = spec.get("axis", -1), spec.get("epsilon", 1e-5)
    more = spec.uses_output(1)

    def run(x: Array, scale: Array) -> Any:
        shape = _last(x, axis)
        out = rms_norm(x, shape, scale, eps)
        if not more:
            return out
        wide = x.astype(np.float32, copy=False)
        mean = (wide * wide).mean(tuple(range(-len(shape), 0)), keepdims=True)
        return out, 1 / np.sqrt(mean + np.float32(eps))

    return run


@operator("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_normalization(spec: Spec) -> Run:
    simplified, eps = spec.op == "SkipSimplifiedLayerNormalization", spec.get("epsilon", 1e-5)
    if spec.uses_output(1) or spec.uses_output(2):
        raise Unsupported("mean and deviation of a skip")
    asks_sum = spec.uses_output(3)

    def run(x: Array, skip: Array, gamma: Array, *rest: Array) -> Any:
        beta = None if simplified or not rest else rest[0]
        bias = rest[0] if simplified and rest else rest[1] if len(rest) > 1 else None
        whole = x + skip if bias is None else x + skip + bias
        shape = tuple(x.shape[-1:])
        out = rms_norm(whole, shape, gamma, eps) if simplified else layer_norm(whole, shape, gamma, beta, eps)
        return (out, None, None, whole) if asks_sum else out

    return run


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def _embeddings(spec: Spec) -> Run:
    eps, asks_sum = spec.get("epsilon", 1e-12), spec.uses_output(2)

    def run(
        ids: Array, segments: Array | None, words: Array, positions: Array, kinds: Array | None,
        gamma: Array, beta: Array, mask: Array | None = None, position_ids: Array | None = None,
    ) -> Any:  # fmt: skip
        at = np.arange(ids.shape[1])[None] if position_ids is None else position_ids
        whole = np.take(table_of(words, ids), ids, 0) + np.take(table_of(positions, at), at, 0)
        if segments is not None and kinds is not None:
            whole = whole + np.take(table_of(kinds, segments), segments, 0)
        count = np.zeros(ids.shape[0], np.int32) if mask is None else np.sum(mask == 1, 1).astype(np.int32)
        out = layer_norm(whole, tuple(whole.shape[-1:]), gamma, beta, eps)
        return out, count, (whole if asks_sum else None)

    return run


@operator("SimplifiedLayerNormalization", domain=MICROSOFT)
def _simplified(spec: Spec) -> Run:
    return _rms_normalization(spec)


@operator("MeanVarianceNormalization")
def _mean_variance(spec: Spec) -> Run:
    axes = spec.ints("axes") or (0, 2, 3)
    return lambda x: _standardized(x, axes, 1e-9)


@operator("LRN")
def _local_response(spec: Spec) -> Run:
    size, alpha = spec.get("size"), spec.get("alpha", 1e-4)
    beta, bias = spec.get("beta", 0.75), spec.get("bias", 1.0)

    def run(x: Array) -> Array:
        before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
        widths = [(0, 0), (before, after), *[(0, 0)] * (x.ndim - 2)]
        squares, channels = np.pad(x * x, widths), x.shape[1]
        total = functools.reduce(op.add, [squares[:, i : i + channels] for i in range(size)])
        return x / (bias + alpha / size * total) ** beta

    return run


@operator("Scaler", domain=ML)
def _scaler(spec: Spec) -> Run:
    """What skl2onnx writes of a StandardScaler before a network."""
    offset, scale = np.float32(spec.get("offset", [0.0])), np.float32(spec.get("scale", [1.0]))
    return lambda x: ((x if x.dtype.kind == "f" else x.astype(np.float32)) - offset) * scale


@operator("Binarizer", domain=ML)
def _binarizer(spec: Spec) -> Run:
    threshold = spec.get("threshold", 0.0)
    return lambda x: np.greater(x, np.asarray(threshold, x.dtype)).astype(x.dtype)


@operator("Imputer", domain=ML)
def _imputer(spec: Spec) -> Run:
    """Numbers in place of those that are missing: NaN, or another that says so."""
    floats, ints = spec.get("imputed_value_floats"), spec.get("imputed_value_int64s")
    if not floats and not ints:
        raise Unsupported("an Imputer without values")
    missing = spec.get("replaced_value_float", 0.0) if floats else spec.get("replaced_value_int64", 0)

    def run(x: Array) -> Array:
        gone = np.isnan(x) if missing != missing else np.equal(x, missing)
        return np.where(gone, np.asarray(floats or ints, x.dtype), x)

    return run


@operator("Normalizer", domain=ML)
def _normalizer(spec: Spec) -> Run:
    """Rows of one norm; those of which it is 0 stay."""
    norm = spec.get("norm", "MAX")
    if norm not in _NORMS:
        raise Unsupported(f"norm={norm!r}")

    def run(x: Array) -> Array:
        x = x if x.dtype.kind == "f" else x.astype(np.float32)
        size = _NORMS[norm](x)
        return x / np.where(size == 0, np.float32(1), size)

    return run


_NORMS: dict[str, Run] = {
    "MAX": lambda x: np.max(x, -1, keepdims=True),
    "L1": lambda x: np.sum(np.abs(x), -1, keepdims=True),
    "L2": lambda x: np.sqrt(np.sum(x * x, -1, keepdims=True)),
}
