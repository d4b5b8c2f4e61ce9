"""Rules of products: matmul, dot, einsum and their relatives.

Where only one factor is mapped, its mapped dimension is one more row of a single product of matrices.
"""

from __future__ import annotations

import math
import string
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lite._transforms.formulas import ndim_of
from lite._transforms.registry import NoRule
from lite._transforms.vmap.level import Level
from lite._transforms.vmap.rules import rule

_NARROW = 64  # columns, beyond which short rows take no longer than long ones


@rule(np.matmul)
def _matmul(level: Level, a: Any, b: Any, **kwargs: Any) -> Any:
    if kwargs:
        raise NoRule
    a_ndim, b_ndim = ndim_of(a), ndim_of(b)
    if not a_ndim or not b_ndim:
        raise ValueError("matmul: an argument does not have enough dimensions")
    x, y = level.value(a), level.value(b)
    if not level.on(b) and b_ndim <= 2:
        return level.wrap(_rows_times(x, y))
    if not level.on(a) and a_ndim == 1 and b_ndim == 2:
        return level.wrap(np.matmul(x, y))  # a vector and a stack of matrices
    if not level.on(a) and a_ndim == 2 and b_ndim == 1:
        return level.wrap(np.matmul(y, np.swapaxes(x, 0, 1)))
    if a_ndim == b_ndim == 2 and _is_narrow(x, y):
        return level.wrap(_transposed(x, y))
    # Vectors become matrices, so that what is in front of them is a stack for both factors.
    if a_ndim == 1:
        x = x[..., None, :]
    if b_ndim == 1:
        y = y[..., :, None]
    loops = max(a_ndim, b_ndim, 2) + 1
    x = _spread(x, loops) if level.on(a) else x
    y = _spread(y, loops) if level.on(b) else y
    out = np.matmul(x, y)
    if b_ndim == 1:
        out = out[..., 0]
    if a_ndim == 1:
        out = out[..., 0] if b_ndim == 1 else out[..., 0, :]
    return level.wrap(out)


def _rows_times(x: Any, b: Any) -> Any:
    """A mapped factor times one that is not: its leading dimensions as the rows of one matrix."""
    if x.ndim > 2 and b.ndim == 2 and type(x) is np.ndarray and x.flags.c_contiguous:
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        return np.matmul(rows, b).reshape(*x.shape[:-1], b.shape[-1])
    return np.matmul(x, b)


def _is_narrow(x: Any, y: Any) -> bool:
    """Whether the products have so few columns that each should lie as a row in memory.

    What follows (adding a bias, an activation) then goes through long rows in place of many short ones.
    """
    return type(x) is type(y) is np.ndarray and y.shape[-1] <= _NARROW and x.shape[-2] >= 2 * y.shape[-1]


def _transposed(x: Any, y: Any) -> Any:
    """Products of matrices, of which the second is mapped, computed and stored as their transposes."""
    left, right = y.swapaxes(1, 2), x.swapaxes(-1, -2)
    if right.ndim == 2 and left.flags.c_contiguous and left.shape[2] == right.shape[0]:
        # The rows of all matrices are those of one.
        rows = left.reshape(left.shape[0] * left.shape[1], left.shape[2])
        out = np.matmul(rows, right).reshape(*left.shape[:2], right.shape[1])
    else:
        out = np.matmul(left, right)
    return out.swapaxes(1, 2)


def _spread(value: Any, ndim: int) -> Any:
    """New dimensions after the first."""
    missing = ndim - value.ndim
    return value[(slice(None),) + (None,) * missing] if missing else value


@rule(np.dot)
def _dot(level: Level, a: Any, b: Any) -> Any:
    a_ndim, b_ndim = ndim_of(a), ndim_of(b)
    if not a_ndim or not b_ndim:
        return np.multiply(a, b)
    if b_ndim == 1 or (a_ndim <= 2 and b_ndim == 2):
        return _matmul(level, a, b)
    return np.tensordot(a, b, axes=([-1], [-2]))


@rule(np.tensordot, np.linalg.tensordot)
def _tensordot(level: Level, a: Any, b: Any, axes: Any = 2) -> Any:
    a_ndim, b_ndim = ndim_of(a), ndim_of(b)
    if isinstance(axes, int | np.integer):
        first, second = tuple(range(a_ndim - axes, a_ndim)), tuple(range(axes))
    else:
        first = normalize_axis_tuple(axes[0], a_ndim)
        second = normalize_axis_tuple(axes[1], b_ndim)
    if not level.on(b):
        return level.wrap(np.tensordot(a.value, b, (tuple(d + 1 for d in first), second)))
    if not level.on(a):
        out = np.tensordot(a, b.value, (first, tuple(d + 1 for d in second)))
        return level.wrap(np.moveaxis(out, a_ndim - len(first), 0))
    kept_a = [d for d in range(a_ndim) if d not in first]
    kept_b = [d for d in range(b_ndim) if d not in second]
    rows = [a.shape[d] for d in kept_a]
    columns = [b.shape[d] for d in kept_b]
    summed = [a.shape[d] for d in first]
    if summed != [b.shape[d] for d in second]:
        raise ValueError("shape-mismatch for sum")
    size = math.prod(summed)
    x = np.transpose(a, (*kept_a, *first)).reshape(math.prod(rows), size)
    y = np.transpose(b, (*second, *kept_b)).reshape(size, math.prod(columns))
    return np.matmul(x, y).reshape(*rows, *columns)


@rule(np.einsum)
def _einsum(level: Level, *operands: Any, out: Any = None, **kwargs: Any) -> Any:
    if isinstance(operands[0], str):
        subscripts, arrays = operands[0].replace(" ", ""), list(operands[1:])
    else:
        subscripts, arrays = _as_letters(operands)
    inputs, arrow, output = subscripts.partition("->")
    if not arrow:
        letters = inputs.replace(",", "").replace(".", "")
        once = sorted({letter for letter in letters if letters.count(letter) == 1})
        output = ("..." if "." in inputs else "") + "".join(once)
    free = next(letter for letter in string.ascii_letters[::-1] if letter not in subscripts)
    terms = inputs.split(",")
    if len(terms) != len(arrays):
        raise ValueError(f"einsum got {len(terms)} terms for {len(arrays)} operands")
    terms = [free + term if level.on(a) else term for term, a in zip(terms, arrays, strict=True)]
    values = [level.value(a) for a in arrays]
    return level.wrap(np.einsum(f"{','.join(terms)}->{free}{output}", *values, **kwargs))


def _as_letters(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """The form with a list of numbers after each operand, as a string of letters."""
    arrays, lists = list(operands[0::2]), list(operands[1::2])
    output = arrays.pop() if len(operands) % 2 else None

    def term(axes: Any) -> str:
        return "".join(["..." if axis is Ellipsis else string.ascii_letters[axis] for axis in axes])

    inputs = ",".join(map(term, lists))
    return (inputs if output is None else f"{inputs}->{term(output)}"), arrays
