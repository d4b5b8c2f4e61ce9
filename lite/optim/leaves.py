"""One optimiser step over the arrays of many parameters, by a compiled kernel or by NumPy.

A step works on flat arrays of float32 or float64. Parameters of 16 bits and non-contiguous ones are copied
before the step, and back after it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from lite._arrays.dtypes import Dtype
from lite._arrays.types import Array, is_interpreted
from lite.kernels import _optimizers
from lite.kernels.backends.choice import backend
from lite.optim import formulas

Leaf: TypeAlias = Sequence[Any]  # arrays, or None

LARGE = 1 << 14  # elements; steps over fewer are too short to be worth loading Numba
_BLOCK = 1 << 16  # elements that NumPy computes at once, so that they stay in the cache
_READ = 1  # the position of the gradient in a leaf, which is never written
_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)


def compute_dtype(dtype: Dtype) -> Dtype:
    """The dtype that a step computes in; the result has the parameter's dtype."""
    return _FLOAT64 if dtype == _FLOAT64 else _FLOAT32


def by_dtype(leaves: Sequence[Leaf]) -> dict[Dtype, list[Leaf]]:
    """Leaves by the dtype that a step computes them in."""
    out: dict[Dtype, list[Leaf]] = {}
    for leaf in leaves:
        out.setdefault(compute_dtype(leaf[0].dtype), []).append(leaf)
    return out


def advance(name: str, leaves: Sequence[Leaf], numbers: tuple[float, ...], dtype: Dtype) -> None:
    """One step for all leaves, in place.

    The number of elements alone chooses kernel or NumPy, so results do not depend on earlier calls.

    Args:
        name: name of the function in `formulas`, and of the kernel.
        leaves: for each the parameter, the gradient (only read) and the arrays of the state, of one shape;
            None for an array that the options do not need.
        numbers: numbers of the step.
        dtype: the dtype of the computation.
    """
    if is_interpreted(leaves[0][0]):
        _written(getattr(formulas, name), leaves, numbers, dtype)
        return
    if sum([leaf[0].size for leaf in leaves]) >= LARGE and backend() != "numpy":
        copied: list[tuple[Array, Array]] = []
        flat = [_flat(leaf, dtype, copied) for leaf in leaves]
        _optimizers.advance(name, flat, np.array(numbers, dtype))
        _write_back(copied)
        return
    formula = getattr(formulas, name)
    with np.errstate(all="ignore"):  # as compiled code
        for block in _blocks(leaves):
            copied = []
            formula(
                *(_flat(block[0], dtype, copied) if len(block) == 1 else _joined(block, dtype, copied)),
                numbers,
            )
            _write_back(copied)


def is_writeable(array: Array) -> bool:
    """Whether a step can be made in place."""
    return is_interpreted(array) or bool(array.flags.writeable)


def _written(formula: Any, leaves: Sequence[Leaf], numbers: tuple[Any, ...], dtype: Dtype) -> None:
    """A step in a graph: one leaf after the other, as joining them would gain nothing."""
    cast = tuple([x.astype(dtype) if is_interpreted(x) else x for x in numbers])
    for leaf in leaves:
        work = [_nothing(dtype) if array is None else array.astype(dtype, copy=False) for array in leaf]
        formula(*work, cast)
        for k, (array, new) in enumerate(zip(leaf, work, strict=True)):
            if array is not None and array is not new and k != _READ:
                array[...] = new


def _blocks(leaves: Sequence[Leaf]) -> Iterator[list[Leaf]]:
    """Groups of leaves, each of about `_BLOCK` elements, that are computed at once."""
    block: list[Leaf] = []
    size = 0
    for leaf in leaves:
        if block and size + leaf[0].size > _BLOCK:
            yield block
            block, size = [], 0
        block.append(leaf)
        size += leaf[0].size
    if block:
        yield block


def _flat(leaf: Leaf, dtype: Dtype, copied: list[tuple[Array, Array]]) -> list[Array]:
    """The arrays of one leaf, flat: views of contiguous arrays of this dtype, copies of others.

    Copies go to `copied` as (array, copy) pairs, to be written back after the step.
    """
    out = []
    for k, array in enumerate(leaf):
        if array is None:
            out.append(_nothing(dtype))
        elif array.dtype == dtype and array.flags.carray:
            out.append(array.reshape(-1))
        else:
            work = array.astype(dtype).reshape(-1)
            out.append(work)
            if k != _READ:
                copied.append((array, work))
    return out


@functools.cache
def _nothing(dtype: Dtype) -> Array:
    return np.empty(0, dtype)


def _joined(block: Sequence[Leaf], dtype: Dtype, copied: list[tuple[Array, Array]]) -> list[Array]:
    """The arrays of several leaves one after the other; see `_flat`."""
    out = []
    size = sum([leaf[0].size for leaf in block])
    for k, column in enumerate(zip(*block, strict=True)):
        if column[0] is None:
            out.append(_nothing(dtype))
            continue
        work = np.empty(size, dtype)
        np.concatenate([array.reshape(-1) for array in column], out=work, casting="unsafe")
        out.append(work)
        start = 0
        for array in column if k != _READ else ():
            copied.append((array, work[start : start + array.size]))
            start += array.size
    return out


def _write_back(copied: Sequence[tuple[Array, Array]]) -> None:
    for array, work in copied:
        array[...] = work.reshape(array.shape)
