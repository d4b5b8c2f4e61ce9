"""Rules of products: matmul, dot, einsum and their relatives.

Where only one factor is mapped, its mapped dimension is one more row of a single product of matrices.
"""

from __future__ import annotations

import functools
import math
import string
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lite._transforms.registry import NoRule
from lite._transforms.vmap.level import Level, ndim_of
from lite._transforms.vmap.rules import composed, rule

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


@composed(np.inner)
def _inner(a: Any, b: Any, /) -> Any:
    if not ndim_of(a) or not ndim_of(b):
        return np.multiply(a, b)
    return np.tensordot(a, b, axes=([-1], [-1]))


@composed(np.vdot)
def _vdot(a: Any, b: Any, /) -> Any:
    return np.matmul(np.conjugate(np.ravel(a)), np.ravel(b))


@composed(np.outer)
def _outer(a: Any, b: Any) -> Any:
    return np.ravel(a)[:, None] * np.ravel(b)


@composed(np.linalg.outer)
def _linalg_outer(x1: Any, x2: Any, /) -> Any:
    return np.outer(x1, x2)


@composed(np.linalg.matmul)
def _linalg_matmul(x1: Any, x2: Any, /) -> Any:
    return np.matmul(x1, x2)


@composed(np.linalg.vecdot)
def _linalg_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    if axis != -1:
        x1, x2 = np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)
    return np.vecdot(x1, x2)


@composed(np.linalg.multi_dot)
def _multi_dot(arrays: Any) -> Any:
    return functools.reduce(np.dot, arrays)


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


@composed(np.kron)
def _kron(a: Any, b: Any) -> Any:
    a, b = (x if hasattr(x, "ndim") else np.asarray(x) for x in (a, b))
    ndim = max(a.ndim, b.ndim)
    a = a.reshape(*[1] * (ndim - a.ndim), *a.shape)
    b = b.reshape(*[1] * (ndim - b.ndim), *b.shape)
    sizes = [n * m for n, m in zip(a.shape, b.shape, strict=True)]
    wide = a.reshape([n for size in a.shape for n in (size, 1)])
    return (wide * b.reshape([n for size in b.shape for n in (1, size)])).reshape(sizes)


@composed(np.cross)
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if np.shape(a)[-1] != 3 or np.shape(b)[-1] != 3:
        raise NoRule
    out = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.stack(out, axisc)


@composed(np.linalg.cross)
def _linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return np.cross(x1, x2, axis=axis)


@composed(np.correlate)
def _correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    if np.shape(v)[0] > np.shape(a)[0]:
        raise NoRule  # reverses the result
    return np.convolve(a, np.conjugate(v[::-1]), mode)


@composed(np.convolve)
def _convolve(a: Any, v: Any, mode: str = "full") -> Any:
    if np.shape(v)[0] > np.shape(a)[0]:
        a, v = v, a
    long, short = np.shape(a)[0], np.shape(v)[0]
    ends = {"full": short - 1, "same": short // 2, "valid": 0}
    padded = np.pad(a, (short - 1, short - 1))
    terms = [padded[short - 1 - i : long + 2 * (short - 1) - i] * v[i] for i in range(short)]
    out = functools.reduce(np.add, terms)
    if mode == "full":
        return out
    if mode not in ends:
        raise ValueError(f"mode must be 'full', 'same' or 'valid', got {mode!r}")
    start = (short - 1) // 2 if mode == "same" else short - 1
    return out[start : start + (long if mode == "same" else long - short + 1)]
