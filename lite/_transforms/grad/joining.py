"""Rules of functions that join arrays, and that take them apart."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from lite._transforms.grad.along import operand
from lite._transforms.grad.rules import composed, rule
from lite._transforms.grad.tape import record, value_of


@rule(np.concatenate)
def _concatenate(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    parts = [operand(part) for part in arrays]
    if axis is None:
        parts, axis = [part.reshape(-1) for part in parts], 0
    value = np.concatenate([value_of(part) for part in parts], axis, dtype=dtype, casting=casting)
    head = (slice(None),) * normalize_axis_index(axis, value.ndim)
    links, start = [], 0
    for part in parts:
        end = start + part.shape[axis]
        links.append((part, _at((*head, slice(start, end)))))
        start = end
    return record(value, *links)


@rule(np.stack)
def _stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    parts = [operand(part) for part in arrays]
    value = np.stack([value_of(part) for part in parts], axis, dtype=dtype, casting=casting)
    head = (slice(None),) * normalize_axis_index(axis, value.ndim)
    return record(value, *[(part, _at((*head, i))) for i, part in enumerate(parts)])


def _at(index: Any) -> Any:
    return lambda g: g[index]


@composed(np.array_split)
def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    size = ary.shape[axis]
    if np.ndim(indices_or_sections):
        ends = [operator.index(i) for i in indices_or_sections]
    else:
        count = operator.index(indices_or_sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, longer = divmod(size, count)
        ends = [i * each + min(i, longer) for i in range(1, count)]
    head = (slice(None),) * normalize_axis_index(axis, ary.ndim)
    return [ary[(*head, slice(*pair))] for pair in zip([0, *ends], [*ends, size], strict=True)]


@composed(np.split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    if not np.ndim(indices_or_sections) and ary.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return np.array_split(ary, indices_or_sections, axis)


@composed(np.unstack)
def _unstack(x: Any, /, *, axis: int = 0) -> Any:
    head = (slice(None),) * normalize_axis_index(axis, x.ndim)
    return tuple([x[(*head, i)] for i in range(x.shape[axis])])


@composed(np.delete)
def _delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    return np.take(arr, np.delete(np.arange(arr.shape[axis]), obj), axis)
