"""Quantised weights: integers with a scale and a zero for each tensor, channel or block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lite._arrays.types import Array, stored
from lite.nn import functional
from lite.nn._import.operators import MICROSOFT, Run, Spec, Unsupported, operator, rule_of, simple
from lite.nn._import.products import matmul
from lite.nn._import.selecting import table_of

BLOCK_ROWS = 1 << 22  # numbers of a quantised weight that are made floats at once


def _spread(x: Any, like: Array, axis: int, block: int) -> Any:
    """Scales or zeros in a shape that broadcasts with what they are for."""
    if x.ndim == 0 or (x.size == 1 and x.ndim < 2):
        return x.reshape(())
    if block:
        repeated = np.repeat(x, block, axis)
        return repeated[(slice(None),) * (axis % like.ndim) + (slice(like.shape[axis]),)]
    shape = [1] * like.ndim
    shape[axis] = -1
    return x.reshape(shape) if x.ndim == 1 else x


@operator("DequantizeLinear", domain=MICROSOFT)
@operator("DequantizeLinear")
def _dequantize(spec: Spec) -> Run:
    axis, block, kind = spec.get("axis", 1), spec.get("block_size", 0), spec.get("output_dtype", 0)

    def run(x: Array, scale: Array, zero: Array | None = None) -> Array:
        dtype = spec.dtype(kind) if kind else scale.dtype
        wide = np.float32 if dtype.itemsize < 4 else dtype
        out = x.astype(wide)
        if zero is not None:
            out = out - _spread(zero, x, axis, block).astype(wide)
        return (out * _spread(scale, x, axis, block).astype(wide)).astype(dtype, copy=False)

    return run


_RANGES: dict[str, tuple[int, int]] = {
    "uint8": (0, 255),
    "int8": (-128, 127),
    "uint16": (0, 65535),
    "int16": (-32768, 32767),
}


@operator("QuantizeLinear", domain=MICROSOFT)
@operator("QuantizeLinear")
def _quantize(spec: Spec) -> Run:
    axis, block, kind = spec.get("axis", 1), spec.get("block_size", 0), spec.get("output_dtype", 0)

    def run(x: Array, scale: Array, zero: Array | None = None) -> Array:
        dtype = spec.dtype(kind) if kind else np.dtype(np.uint8) if zero is None else zero.dtype
        if dtype.name not in _RANGES or kind in (21, 22, 25, 26):
            raise NotImplementedError(f"QuantizeLinear to {dtype}")
        wide = x.astype(np.float32, copy=False)
        scaled = wide / _spread(scale, x, axis, block).astype(np.float32)
        return as_integers(scaled, None if zero is None else _spread(zero, x, axis, block), dtype)

    return run


@operator("DynamicQuantizeLinear")
def _dynamic_quantize(spec: Spec) -> Run:
    def run(x: Array) -> tuple[Array, Array, Array]:
        plain = stored(x).reshape(-1)
        low, high = (np.minimum(plain.min(keepdims=True), 0), np.maximum(plain.max(keepdims=True), 0))
        scale = np.where(high == low, 1, (high - low) / 255).astype(np.float32).reshape(())  # zeros alone
        zero = np.clip(np.round(-low / scale), 0, 255).astype(np.uint8).reshape(())
        return as_integers(x / scale, zero, zero.dtype), scale, zero

    return run


def as_integers(x: Array, zero: Any, dtype: np.dtype[Any]) -> Array:
    """The nearest integers behind a zero, of those that a type has.

    Where a derivative is computed they stay floats, and it is that of the numbers: one of 0, as rounding has,
    would end all learning below.
    """
    plain = stored(x)
    nearest = np.round(x) if plain is x else x + (np.round(plain) - plain)
    out = np.clip(nearest + (0 if zero is None else zero.astype(x.dtype)), *_RANGES[dtype.name])
    return out.astype(dtype) if plain is x else out


def nibbles(packed: Array) -> Array:
    """Two integers of 4 bits in each byte, the first in the lower half, along the last axis."""
    both = np.stack([packed & 0x0F, packed >> 4], -1)
    return both.reshape(*packed.shape[:-1], packed.shape[-1] * 2)


def dequantized_rows(
    weight: Array, scales: Array, zeros: Array | None, bits: int, block: int, rows: slice
) -> Array:
    """Rows of a matrix of MatMulNBits as floats, (rows, K rounded up to blocks).

    Args:
        weight: (N, blocks, bytes of a block), uint8.
        scales: (N, blocks), or flat.
        zeros: as many, packed as the weight is, or of the scales' dtype; None for the middle of the range.
        bits: 4 or 8.
        block: numbers that share a scale.
        rows: the number of rows, N.
    """
    count, blocks = weight.shape[:2]
    part = weight[rows]
    whole = part if bits == 8 else nibbles(part)
    scale = scales.reshape(count, blocks)[rows].astype(np.float32)
    if zeros is None:
        zero: Any = np.float32(1 << (bits - 1))
    elif zeros.dtype == np.uint8:
        flat = zeros.reshape(count, -1)[rows]
        zero = (flat if bits == 8 else nibbles(flat)[:, :blocks]).astype(np.float32)[..., None]
    else:
        zero = zeros.reshape(count, blocks)[rows].astype(np.float32)[..., None]
    out = (whole.astype(np.float32) - zero) * scale[..., None]
    return out.reshape(out.shape[0], blocks * block)


@dataclass(frozen=True, eq=False)
class QuantizedRows:
    """The matrix of MatMulNBits, whose rows are made floats where they are needed.

    Attributes:
        weight, scales, zeros, bits, block: see `dequantized_rows`.
        shape: (N, K) of the matrix.
    """

    weight: Array
    scales: Array
    zeros: Array | None
    bits: int
    block: int
    shape: tuple[int, int]

    def rows(self, start: int, stop: int) -> Array:
        """Rows as floats, float32 (stop - start, K)."""
        packed = self.weight.reshape(self.shape[0], -1, self.block * self.bits // 8)
        found = dequantized_rows(packed, self.scales, self.zeros, self.bits, self.block, slice(start, stop))
        return found[:, : self.shape[1]]


def _in_bytes(x: Array, block: int) -> Array:
    """Numbers as a runtime may round them: blocks along the last axis to integers of 8 bits with a scale."""
    width = x.shape[-1]
    blocks = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -width % block)]).reshape(*x.shape[:-1], -1, block)
    most = np.abs(blocks).max(-1, keepdims=True)
    scale = most / np.float32(127)
    whole = np.round(blocks * np.divide(np.float32(127), most, out=np.zeros_like(most), where=most > 0))
    return (whole * scale).reshape(*x.shape[:-1], -1)[..., :width]


@operator("MatMulNBits", domain=MICROSOFT)
def _matmul_bits(spec: Spec) -> Run:
    bits, block = spec.get("bits", 4), spec.get("block_size", 32)
    wide, count = spec.need("K"), spec.need("N")
    if bits not in (4, 8):
        raise Unsupported(f"{bits} bits")
    if block < 1:
        raise ValueError(f"MatMulNBits {spec.name!r}: block_size must be at least 1, got {block}")
    size = count * -(-wide // block) * (block * bits // 8)
    step = max(1, BLOCK_ROWS // max(1, wide))
    rounds = spec.as_runtime and spec.get("accuracy_level", 0) == 4
    held: list[Any] = [None, None]  # a weight that does not change, and its floats

    def whole(weight: Array, scales: Array, zeros: Array | None) -> Any:
        """The floats of a weight, if there is memory to hold them; else None."""
        if weight is held[0]:
            return held[1]
        if spec.memory is None or weight.flags.writeable or not spec.memory.take(4 * count * wide):
            return None
        packed = weight.reshape(count, -1, block * bits // 8)
        floats = dequantized_rows(packed, scales, zeros, bits, block, slice(0, count))[:, :wide]
        held[:] = weight, floats
        return floats

    def run(
        x: Array, weight: Array, scales: Array, zeros: Array | None = None, order: Array | None = None,
        bias: Array | None = None,
    ) -> Array:  # fmt: skip
        if order is not None:
            raise NotImplementedError("MatMulNBits with g_idx")
        if weight.size != size:
            raise ValueError(
                f"a weight of {count} by {wide} has {size} bytes of {bits} bits in blocks of {block}, "
                f"got {weight.size}"
            )
        if rounds:
            x = _in_bytes(x, block)
        if (floats := whole(weight, scales, zeros)) is not None:
            out = matmul(x, floats.astype(x.dtype, copy=False).T)
            return out if bias is None else out + bias
        if weight.ndim == 2:
            weight = weight.reshape(count, -1, block * bits // 8)
        parts = []
        for i in range(0, count, step):
            rows = dequantized_rows(weight, scales, zeros, bits, block, slice(i, i + step))[:, :wide]
            parts.append(matmul(x, rows.astype(x.dtype, copy=False).T))
        out = np.concatenate(parts, -1)
        return out if bias is None else out + bias

    return run


@operator("GatherBlockQuantized", domain=MICROSOFT)
def _gather_quantized(spec: Spec) -> Run:
    block, bits = spec.get("block_size", 128), spec.get("bits", 4)
    gathered, quantized = spec.get("gather_axis", 0), spec.get("quantize_axis", 1)

    def rows_at(x: Array, indices: Array) -> Array:
        return np.take(table_of(x, indices), indices, 0)

    def run(data: Array, indices: Array, scales: Array, zeros: Array | None = None) -> Array:
        if gathered != 0 or quantized not in (-1, data.ndim - 1):
            raise NotImplementedError("GatherBlockQuantized along other axes than rows")
        rows, scale = rows_at(data, indices), rows_at(scales, indices)
        zero = None if zeros is None else rows_at(zeros, indices)
        packed = data.dtype == np.uint8 and data.shape[-1] < scales.shape[-1] * block
        if packed and bits == 4:
            rows = nibbles(rows)
            zero = None if zero is None else nibbles(zero)[..., : scale.shape[-1]]
        if zero is None:
            middle = (1 << (bits - 1)) if data.dtype == np.uint8 and (packed or bits == 8) else 0
            zero = np.full(scale.shape, middle, np.float32)
        size = rows.shape[-1]
        spread = [np.repeat(x.astype(np.float32), block, -1)[..., :size] for x in (zero, scale)]
        out = (rows.astype(np.float32) - spread[0]) * spread[1]
        return out.astype(spec.computed_in(scales.dtype), copy=False)

    return run


def _floats(x: Array, scale: Array, zero: Array | None, axis: int = -1) -> Array:
    """The numbers that integers stand for."""
    whole = x.astype(np.float32)
    whole = whole if zero is None else whole - _spread(zero, x, axis, 0).astype(np.float32)
    return whole * _spread(scale, x, axis, 0)


def _scaled(x: Array, scale: Array, zero: Array | None) -> Array:
    """Integers that stand for numbers."""
    return as_integers(x / scale, zero, np.dtype(np.uint8) if zero is None else zero.dtype)


@operator("QLinearMatMul")
def _quantized_matmul(spec: Spec) -> Run:
    def run(a: Array, sa: Array, za: Array, b: Array, sb: Array, zb: Array, sy: Array, zy: Array) -> Array:
        return _scaled(np.matmul(_floats(a, sa, za, -2), _floats(b, sb, zb)), sy, zy)

    return run


# -- operators that onnxruntime puts in the place of others between rounded numbers ------------------------


@operator("QGemm", domain=MICROSOFT)
def _quantized_gemm(spec: Spec) -> Run:
    alpha, turns = spec.get("alpha", 1.0), (spec.get("transA", 0), spec.get("transB", 0))

    def run(
        a: Array, sa: Array, za: Array | None, b: Array, sb: Array, zb: Array | None, c: Array | None = None,
        sy: Array | None = None, zy: Array | None = None,
    ) -> Array:  # fmt: skip
        columns = 0 if turns[1] else -1  # which have scales of their own
        pair = _floats(a, sa, za), _floats(b, sb, zb, columns)
        out = np.matmul(*(x.swapaxes(0, 1) if turn else x for x, turn in zip(pair, turns, strict=True)))
        out = out if c is None else out + c.astype(np.float32) * (sa * sb)
        out = out if alpha == 1.0 else out * alpha
        return out if sy is None else _scaled(out, sy, zy)

    return run


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def _rounded_matmul(spec: Spec) -> Run:
    rounds = _dynamic_quantize(spec)

    def run(a: Array, b: Array, sb: Array, zb: Array | None = None, bias: Array | None = None) -> Array:
        out = np.matmul(_floats(*rounds(a)), _floats(b, sb, zb))
        return out if bias is None else out + bias

    return run


def _matmul_to_float(
    a: Array, b: Array, sa: Array, sb: Array, za: Array | None = None, zb: Array | None = None,
    bias: Array | None = None,
) -> Array:  # fmt: skip
    out = np.matmul(_floats(a, sa, za), _floats(b, sb, zb))
    return out if bias is None else out + bias


simple(_matmul_to_float, "MatMulIntegerToFloat", domain=MICROSOFT)


def _global_average(spec: Spec, x: Array) -> Array:
    last = bool(spec.get("channels_last", 0))
    return x.mean(tuple(range(1, x.ndim - 1) if last else range(2, x.ndim)), keepdims=True)


_BETWEEN: dict[str, Callable[..., Array]] = {
    "QLinearAdd": lambda spec, a, b: a + b,
    "QLinearGlobalAveragePool": _global_average,
    "QLinearLeakyRelu": lambda spec, x: functional.leaky_relu(x, spec.get("alpha", 0.01)),
    "QLinearMul": lambda spec, a, b: a * b,
    "QLinearSigmoid": lambda spec, x: functional.sigmoid(x),
}


@operator(*_BETWEEN, domain=MICROSOFT)
def _between_integers(spec: Spec) -> Run:
    """An operator of the numbers that integers stand for."""
    compute = _BETWEEN[spec.op]

    def run(*given: Any) -> Array:
        *inputs, scale, zero = given if len(given) % 3 == 2 else (*given, None)
        if zero is None and inputs[2] is not None:
            zero = np.zeros_like(inputs[2])  # of the type of the first
        parts = (_floats(*inputs[i : i + 3]) for i in range(0, len(inputs), 3))
        return _scaled(compute(spec, *parts), scale, zero)

    return run


@operator("QLinearConcat", domain=MICROSOFT)
def _joined_integers(spec: Spec) -> Run:
    axis = spec.need("axis")

    def run(scale: Array, zero: Array, *given: Any) -> Array:
        parts = [_floats(*given[i : i + 3]) for i in range(0, len(given), 3)]
        return _scaled(np.concatenate(parts, axis), scale, zero)

    return run


@operator("QLinearAveragePool", "QLinearSoftmax", domain=MICROSOFT)
def _of_one_array(spec: Spec) -> Run:
    op = spec.op.removeprefix("QLinear")
    build = rule_of("", op)
    if build is None or spec.get("channels_last", 0):
        raise Unsupported("channels_last")
    compute = build(replace(spec, op=op, opset=spec.get("opset", 1)))  # of Softmax, which others do not have

    def run(x: Array, sx: Array, zx: Array | None, sy: Array, zy: Array | None = None) -> Array:
        return _scaled(compute(_floats(x, sx, zx)), sy, zy)

    return run


def _matmul_integers(a: Array, b: Array, zero_a: Any = None, zero_b: Any = None) -> Array:
    # Of a derivative floats are the integers, in a type that holds each sum of products.
    kind = np.dtype(np.float64 if "f" in (a.dtype.kind, b.dtype.kind) else np.int32)
    whole = a.astype(kind), b.astype(kind)
    if zero_a is not None:
        zero = zero_a.astype(kind)
        whole = whole[0] - (zero[..., None] if zero.ndim == 1 and zero.size > 1 else zero), whole[1]
    if zero_b is not None:
        whole = whole[0], whole[1] - zero_b.astype(kind)
    return np.matmul(*whole)


simple(_matmul_integers, "MatMulInteger")
