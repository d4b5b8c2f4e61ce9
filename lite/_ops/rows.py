"""Rows of one TensorDict among those of another, by the values of one entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite._tree.keys import NestedKey


def isin(input: Any, reference: Any, key: NestedKey, dim: int = 0) -> Array:
    """Tell for every index of a batch dimension whether its values of `key` are in `reference`, too.

    Args:
        input: the TensorDict to test.
        reference: a TensorDict of as many batch dimensions.
        key: an array in both, of shapes that differ in `dim` only.
        dim: the batch dimension.

    Returns:
        A bool array with one element per index of `dim`.

    Raises:
        KeyError: one of the two has no array at `key`.
        ValueError: numbers of batch dimensions differ, `dim` is no batch dimension, or the shapes of the
            arrays differ elsewhere.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, isin
        >>> rows = TensorDict({"a": np.array([[1, 2], [3, 4], [1, 2]])}, [3])
        >>> isin(rows, TensorDict({"a": np.array([[1, 2], [9, 9]])}, [2]), "a")
        array([ True, False,  True])
    """
    if input.ndim != reference.ndim:
        raise ValueError(
            f"input and reference must have as many batch dims, got {input.batch_size} and "
            f"{reference.batch_size}."
        )
    mine, theirs = (_rows(td, key, dim, name) for td, name in ((input, "input"), (reference, "reference")))
    if mine.shape[1:] != theirs.shape[1:]:
        raise ValueError(f"the arrays at {key!r} differ in shape: rows {mine.shape[1:]}, {theirs.shape[1:]}.")
    numbers = _numbers(np.concatenate([theirs, mine]))
    return np.isin(numbers[len(theirs) :], numbers[: len(theirs)])


def remove_duplicates(input: Any, key: NestedKey, dim: int = 0, *, return_indices: bool = False) -> Any:
    """The first of every group of indices whose values of `key` are equal, in the order of these values.

    Args:
        input: a TensorDict.
        key: an array in it.
        dim: the batch dimension.
        return_indices: also return, for every index of `input`, where its values are in the result.

    Raises:
        KeyError: there is no array at `key`.
        ValueError: `dim` is no batch dimension.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, remove_duplicates
        >>> td = TensorDict({"a": np.array([1, 3, 1]), "b": np.arange(3)}, [3])
        >>> remove_duplicates(td, "a")["b"]
        array([0, 1])
    """
    numbers = _numbers(_rows(input, key, dim, "input"))
    first = np.unique(numbers, return_index=True)[1]
    out = input[(*[slice(None)] * (dim % input.ndim), first)]
    return (out, numbers) if return_indices else out


def _rows(td: Any, key: NestedKey, dim: int, name: str) -> Array:
    """The array at `key` with `dim` in front."""
    array = td.get(key, None)
    if not isinstance(array, np.ndarray):
        raise KeyError(f"{name} has no array at {key!r}.")
    if not -td.ndim <= dim < td.ndim:
        raise ValueError(f"dim {dim} is no batch dimension of {name}, whose batch size is {td.batch_size}.")
    return np.moveaxis(array, dim % td.ndim, 0)


def _numbers(rows: Array) -> Array:
    """One number per row, the same for equal rows."""
    if not len(rows):
        return np.zeros(0, np.int64)
    return np.unique(rows.reshape(len(rows), -1), axis=0, return_inverse=True)[1].reshape(-1)
