"""Operators on lists of arrays, and on values that may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite.nn._import.integers import integers
from lite.nn._import.operators import Run, Spec, operator, simple

simple(lambda *arrays: list(arrays), "SequenceConstruct")
simple(lambda items: np.asarray(len(items), np.int64), "SequenceLength")
simple(lambda items, at: items[integers(at)[0]], "SequenceAt")


@operator("SequenceEmpty")
def _empty(spec: Spec) -> Run:
    return list


def _inserted(items: list[Any], value: Any, at: Array | None = None) -> list[Any]:
    place = len(items) if at is None else integers(at)[0]
    out = list(items)
    out.insert(place, value)
    return out


def _erased(items: list[Any], at: Array | None = None) -> list[Any]:
    place = -1 if at is None else integers(at)[0]
    return [item for i, item in enumerate(items) if i != place % len(items)]


simple(_inserted, "SequenceInsert")
simple(_erased, "SequenceErase")


@operator("ConcatFromSequence")
def _joined(spec: Spec) -> Run:
    axis = spec.get("axis")
    join = np.stack if spec.get("new_axis", 0) else np.concatenate
    return lambda items: join(items, axis)


@operator("SplitToSequence")
def _split(spec: Spec) -> Run:
    axis, keepdims = spec.get("axis", 0), spec.get("keepdims", 1)

    def run(x: Array, split: Array | None = None) -> list[Any]:
        whole = int(x.shape[axis])
        sizes = integers(split) if split is not None else (1,) * whole
        if split is not None and not np.ndim(split):
            (step,) = sizes
            sizes = tuple(min(step, whole - i) for i in range(0, whole, step))
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
        parts = np.split(x, ends, axis)
        if split is None and not keepdims:
            return [np.squeeze(part, axis) for part in parts]
        return list(parts)

    return run


@operator("SequenceMap")
def _map(spec: Spec) -> Run:
    body = spec.bodies["body"]
    given = len(spec.given)

    def run(items: list[Any], *rest: Any) -> Any:
        more, captured = rest[: given - 1], rest[given - 1 :]
        rows = []
        for i, item in enumerate(items):
            inputs = [item, *(other[i] if isinstance(other, list) else other for other in more)]
            rows.append(body([*inputs, *captured]))
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in body.outputs]
        return columns if len(columns) > 1 else columns[0]

    return run


@operator("Optional")
def _optional(spec: Spec) -> Run:
    return lambda value=None: value


def _get(value: Any) -> Any:
    if value is None:
        raise ValueError("OptionalGetElement of a value that is missing")
    return value


simple(_get, "OptionalGetElement")
simple(lambda value=None: np.asarray(value is not None), "OptionalHasElement")
