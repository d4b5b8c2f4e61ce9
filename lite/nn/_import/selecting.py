"""Operators that read or write numbers at places: gathers, scatters, slices, the largest of a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Array, ArrayHolder, HostArray
from lite.nn._import.elementwise import is_sizes
from lite.nn._import.integers import integers, of_input_or
from lite.nn._import.operators import ML, Run, Spec, Unsupported, operator, simple


def table_of(x: Any, indices: Any) -> Any:
    """A table of the model as an array that a transformation follows, as it follows the indices.

    NumPy asks the table alone who answers, such as that of the actions that a policy chooses from.
    """
    if isinstance(indices, HostArray) and not isinstance(x, HostArray | ArrayHolder):
        places: Any = indices
        return np.where(np.sum(places) < 0, x, x)
    return x


@operator("Gather")
def _gather(spec: Spec) -> Run:
    axis = spec.get("axis", 0)

    def run(x: Array, indices: Array) -> Array:
        if is_sizes(x):
            return x[np.asarray(indices)]
        return np.take(table_of(x, indices), indices, axis)

    return run


@operator("GatherElements")
def _gather_elements(spec: Spec) -> Run:
    axis = spec.get("axis", 0)
    return lambda x, indices: _at(x, axis, indices)


def _at(x: Array, axis: int, indices: Array) -> Array:
    """Numbers at places along an axis; the places may be fewer along the others, too."""
    axis = axis + x.ndim if axis < 0 else axis
    kept = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))
    return np.take_along_axis(x[kept], _positive(indices, x.shape[axis]), axis)


def _positive(indices: Array, size: int) -> Array:
    return np.where(indices < 0, indices + size, indices)


def _places(indices: Array, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """An index of arrays for places that are the last dimension of an array."""
    return tuple(_positive(indices[..., i], shape[i]) for i in range(int(indices.shape[-1])))


@operator("GatherND")
def _gather_nd(spec: Spec) -> Run:
    batch = spec.get("batch_dims", 0)

    def run(x: Array, indices: Array) -> Array:
        rows: Any = np.indices(indices.shape[:batch], sparse=True) if batch else ()
        more = indices.ndim - 1 - batch
        lead = tuple(row.reshape(*row.shape, *(1,) * more) for row in rows)
        return table_of(x, indices)[(*lead, *_places(indices, tuple(x.shape[batch:])))]

    return run


@operator("Slice")
def _slice(spec: Spec) -> Run:
    fixed = spec.ints("starts", 1), spec.ints("ends", 2), spec.ints("axes", 3)

    def run(
        x: Array,
        starts: Array | None = None,
        ends: Array | None = None,
        axes: Array | None = None,
        steps: Array | None = None,
    ) -> Array:
        begin, end, places = map(of_input_or, fixed, (starts, ends, axes))
        begin, end = begin or (), end or ()
        stride = (1,) * len(begin) if steps is None else integers(steps)
        index: list[Any] = [slice(None)] * x.ndim
        for axis, a, b, step in zip(places or range(len(begin)), begin, end, stride, strict=True):
            if step < 0 and a < -1 and type(size := x.shape[axis]) is int:
                a = max(a, -size)  # a place before the first is the first
            index[axis] = slice(a, None if step < 0 and b in _FAR else b, step)
        return x[tuple(index)]

    return run


_FAR = (2**31 - 1, 2**63 - 1)  # which onnxruntime takes for the end in both directions


# -- writing -----------------------------------------------------------------------------------------------


def _write(x: Array, index: Any, updates: Array, reduction: str) -> Array:
    out = np.array(x, like=updates) if isinstance(updates, HostArray) else x.copy()
    if reduction == "none":
        out[index] = updates
    elif reduction in _UPDATES:
        _UPDATES[reduction].at(out, index, updates)
    else:
        raise ValueError(f"reduction {reduction!r}")
    return out


_UPDATES = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@operator("ScatterElements", "Scatter")
def _scatter_elements(spec: Spec) -> Run:
    given, reduction = spec.get("axis", 0), spec.get("reduction", "none")

    def run(x: Array, indices: Array, updates: Array) -> Array:
        axis = given + x.ndim if given < 0 else given
        index: list[Any] = list(np.indices(indices.shape, sparse=True))
        index[axis] = _positive(indices, x.shape[axis])
        return _write(x, tuple(index), updates, reduction)

    return run


@operator("ScatterND")
def _scatter_nd(spec: Spec) -> Run:
    reduction = spec.get("reduction", "none")

    def run(x: Array, indices: Array, updates: Array) -> Array:
        return _write(x, _places(indices, tuple(x.shape)), updates, reduction)

    return run


@operator("TensorScatter")
def _tensor_scatter(spec: Spec) -> Run:
    axis, around = spec.get("axis", -2), spec.get("mode", "linear") == "circular"

    def run(cache: Array, update: Array, starts: Array | None = None) -> Array:
        count = update.shape[axis]
        first = np.zeros(cache.shape[0], np.int64) if starts is None else starts
        places = first[:, None] + np.arange(count)
        if around:
            places = places % cache.shape[axis]
        index: list[Any] = list(np.indices(update.shape, sparse=True))
        shape = [1] * cache.ndim
        shape[0], shape[axis] = cache.shape[0], count
        index[axis] = places.reshape(shape)
        return _write(cache, tuple(index), update, "none")

    return run


# -- by value ----------------------------------------------------------------------------------------------


@operator("TopK")
def _top_k(spec: Spec) -> Run:
    axis, largest, fixed = spec.get("axis", -1), spec.get("largest", 1), spec.get("k")

    def run(x: Array, k: Array | None = None) -> tuple[Array, Array]:
        count = fixed if k is None else integers(k)[0]
        if largest:  # of equal numbers the first comes first
            last = x.shape[axis] - 1
            order = np.flip(last - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
        else:
            order = np.argsort(x, axis, kind="stable")
        places = np.moveaxis(np.moveaxis(order, axis, -1)[..., :count], -1, axis)
        return np.take_along_axis(x, places, axis), places.astype(np.int64)

    return run


simple(lambda x: np.stack(np.nonzero(x)).astype(np.int64), "NonZero")


@operator("Compress")
def _compress(spec: Spec) -> Run:
    axis = spec.get("axis")
    return lambda x, condition: np.compress(condition, x, axis)


@operator("Unique")
def _unique(spec: Spec) -> Run:
    axis, in_order = spec.get("axis"), spec.get("sorted", 1)

    def run(x: Array) -> tuple[Array, ...]:
        values, firsts, inverse, counts = np.unique(x, True, True, True, axis)
        inverse = inverse.reshape(-1)
        if not in_order:
            order = np.argsort(firsts)
            values = np.take(values, order, axis or 0)
            firsts, counts, inverse = firsts[order], counts[order], np.argsort(order)[inverse]
        return values, *(found.astype(np.int64) for found in (firsts, inverse, counts))

    return run


@operator("ReverseSequence")
def _reverse_sequence(spec: Spec) -> Run:
    rows, times = spec.get("batch_axis", 1), spec.get("time_axis", 0)
    if {rows, times} != {0, 1}:
        raise Unsupported("axes other than the first two")

    def run(x: Array, lengths: Array) -> Array:
        steps = np.arange(x.shape[times])[:, None]
        places = np.where(steps < lengths, lengths - 1 - steps, steps)  # (time, batch)
        places = places if times == 0 else places.T
        return np.take_along_axis(x, places.reshape(*places.shape, *(1,) * (x.ndim - 2)), times)

    return run


def _array_feature_extractor(x: Array, indices: Array) -> Array:
    """Columns; skl2onnx takes classes so by their number."""
    found = np.take(table_of(x, indices), indices.reshape(-1), -1)
    return found[None] if x.ndim == 1 else found


simple(_array_feature_extractor, "ArrayFeatureExtractor", domain=ML)
