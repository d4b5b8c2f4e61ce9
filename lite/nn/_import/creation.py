"""Operators that make arrays: constants, ranges, and the shapes of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite.nn._import.integers import array_of, checked, integers
from lite.nn._import.operators import ML, Run, Spec, Unsupported, operator, simple


@operator("Constant")
def _constant(spec: Spec) -> Run:
    for name, dtype in _KINDS.items():
        if name in spec.attributes:
            value = np.asarray(spec.attributes[name], dtype)
            return lambda: value
    if "value" not in spec.attributes:
        raise Unsupported(f"a constant given as {sorted(spec.attributes)}")
    array = np.asarray(spec.attributes["value"])
    array = array.astype(spec.computed_in(array.dtype), copy=False)
    return lambda: array


_KINDS: dict[str, Any] = {
    "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64,
    "value_string": object, "value_strings": object,
}  # fmt: skip


@operator("ConstantOfShape")
def _constant_of_shape(spec: Spec) -> Run:
    value = np.asarray(spec.get("value", np.zeros(1, np.float32)))
    value = value.astype(spec.computed_in(value.dtype), copy=False).reshape(())
    return lambda shape: np.full(checked(integers(shape)), value, value.dtype)


def _range(start: Array, limit: Array, delta: Array) -> Any:
    a, b, step = (np.asarray(x).reshape(()) for x in (start, limit, delta))
    if b.dtype == object and int(a) == 0 and int(step) == 1:
        return np.arange(b.item())
    if a.dtype.kind == b.dtype.kind == step.dtype.kind == "i" and step:  # a quarter of the time
        first, end, by = int(a), int(b), int(step)
        checked((max(0, -((first - end) // by)),))
        return np.arange(first, end, by, dtype=a.dtype)
    with np.errstate(all="ignore"):
        steps = np.ceil((b - a) / step)
    if not np.isfinite(steps):
        raise ValueError(f"no range leads from {a} to {b} in steps of {step}")
    count = int(max(0, steps))
    checked((count,))
    return a + np.arange(count, dtype=a.dtype) * step


simple(_range, "Range")


@operator("Shape")
def _shape(spec: Spec) -> Run:
    start, end = spec.get("start", 0), spec.get("end")
    return lambda x: array_of(x.shape[start:end])


def _size(x: Array) -> Any:
    count: Any = 1
    for n in x.shape:
        count = count * n
    return array_of((count,)).reshape(())


simple(_size, "Size")


@operator("EyeLike")
def _eye_like(spec: Spec) -> Run:
    offset, kind = spec.get("k", 0), spec.get("dtype")

    def run(x: Array) -> Array:
        rows, columns = x.shape
        return np.eye(int(rows), int(columns), offset, x.dtype if kind is None else spec.dtype(kind))

    return run


@operator("OneHotEncoder", domain=ML)
def _one_hot_encoder(spec: Spec) -> Run:
    """What skl2onnx writes of categories before a network: zeros for one that is not known."""
    known = spec.get("cats_int64s")
    if not known or not spec.get("zeros", 1):
        raise Unsupported("texts as categories" if not known else "zeros=0")
    return lambda x: np.equal(x[..., None], np.asarray(known, x.dtype)).astype(np.float32)


@operator("OneHot")
def _one_hot(spec: Spec) -> Run:
    axis = spec.get("axis", -1)

    def run(indices: Array, depth: Array, values: Array) -> Array:
        (count,) = checked(integers(depth))
        places = np.where(indices < 0, indices + count, indices)
        hot = np.expand_dims(places, -1) == np.arange(count)
        chosen = np.where(hot, values[1], values[0])
        return np.moveaxis(chosen, -1, axis)

    return run
