"""Conversions between N rows in order and lists nested to a batch shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lite import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorClass, TensorDict

C = TypeVar("C", bound=TensorClass)


def nest(items: Sequence[Any], shape: tuple[int, ...], join: Callable[[list[Any]], Any] = list) -> Any:
    """Items in row-major order as lists nested to ``shape``, each level made by ``join``.

    Example:
        >>> nest([1, 2, 3, 4], (2, 2))
        [[1, 2], [3, 4]]
    """
    if not shape:
        return items[0]
    if len(shape) == 1:
        return join(list(items))
    step = len(items) // shape[0] if shape[0] else 0
    return join([nest(items[i * step : (i + 1) * step], shape[1:], join) for i in range(shape[0])])


def flatten(nested: Any, ndim: int) -> list[Any]:
    """The items of lists nested ``ndim`` deep, in order; the inverse of `nest`.

    Example:
        >>> flatten([[1, 2], [3, 4]], 2)
        [1, 2, 3, 4]
    """
    items: list[Any] = [nested]
    for _ in range(ndim):
        items = [inner for item in items for inner in item]
    return items


def list_shape(nested: Any) -> tuple[int, ...]:
    """The lengths of nested lists, one for each level, by the first items; () if not a list.

    Example:
        >>> list_shape([["a", "b"]])
        (1, 2)
    """
    shape: tuple[int, ...] = ()
    while isinstance(nested, list):
        shape = (*shape, len(nested))
        nested = nested[0] if nested else None
    return shape


def objects(items: Sequence[Any], shape: tuple[int, ...]) -> NonTensorStack | Any:
    """N objects, which may be lists, as the value of a field with one object per batch element."""
    if not shape:
        return items[0]
    return NonTensorStack._wrap(np.fromiter(items, object, len(items)).reshape(shape))


def ragged(cls: type[C], columns: Mapping[str, Sequence[NDArray[Any]]], shape: tuple[int, ...]) -> C:
    """An instance of a data class whose fields hold N rows of any lengths, not padded, in a lazy stack."""
    if 0 in shape:  # no rows: a dense instance
        dense = {name: np.zeros((*shape, 0), np.int64) for name in columns}
        return cls(**dense, padded=False, batch_size=shape)
    rows = zip(*columns.values(), strict=True)
    # `_make` skips the checks: arrays and flags are valid entries, and all parts have the same keys.
    parts = [
        TensorDict._make(dict(zip(columns, row, strict=True), padded=NonTensorData(False)), ())
        for row in rows
    ]
    return cls._wrap_tensordict(nest(parts, shape, lambda rows: LazyStackedTensorDict._make(rows, 0)))


def rows_of(value: Any, ndim: int) -> list[NDArray[Any]]:
    """The rows of a field read with ``as_list``, which is an array (*batch, L) or nested lists."""
    if isinstance(value, list) and ndim:
        return [np.asarray(row) for row in flatten(value, ndim)]
    array = np.asarray(value)
    return list(array.reshape(math.prod(array.shape[:ndim]), *array.shape[ndim:]))
