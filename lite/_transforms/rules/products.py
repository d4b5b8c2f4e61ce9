"""Rules of products: matmul, dot, einsum and their relatives.

Where `vmap` maps one factor only, its batch dimension is one more row of a single product of matrices.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import linalg
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import ArrayLike

from lite._arrays.types import Array, Axes, DtypeLike, Shape
from lite._transforms.grad.along import wide
from lite._transforms.grad.tape import Vjp, unbroadcast, value_of, with_node
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.registry import (
    FORMULAS,
    GRAD,
    ONNX,
    VMAP,
    NoRule,
    as_array,
    as_arrays,
    formula,
    ndim_of,
)
from lite._transforms.vmap.array import BatchedArray
from lite._transforms.vmap.level import Level

_LARGE = 1 << 14  # elements of an einsum from which a good order of its products pays
_NARROW = 64  # columns up to which rows are too short for fast loops


@GRAD.rule(np.matmul)
def _grad_matmul(a: ArrayLike, b: ArrayLike, **kwargs: Any) -> Array:
    if kwargs:
        raise NoRule
    a, b = as_array(a), as_array(b)
    x, y = value_of(a), value_of(b)
    return with_node(np.matmul(x, y), (a, lambda g: _by_left(g, x, y)), (b, lambda g: _by_right(g, x, y)))


def _by_left(g: Array, x: Array, y: Array) -> Array:
    """The derivative by x of the product x y."""
    g = wide(g)
    if y.ndim == 1:
        return g[..., None] * y
    turned = y.swapaxes(-1, -2)
    if x.ndim > 1:
        share = np.matmul(g, turned)
        return share if share.shape == x.shape else unbroadcast(share, x.shape)
    if y.ndim == 2:
        return np.matmul(g, turned)
    return unbroadcast(np.matmul(g[..., None, :], turned)[..., 0, :], x.shape)


def _by_right(g: Array, x: Array, y: Array) -> Array:
    """The derivative by y of the product x y."""
    g = wide(g)
    if x.ndim == 1:
        if y.ndim == 1:
            return g * x
        return g[..., None, :] * x[:, None]
    if y.ndim == 1:
        return np.matmul(g.reshape(-1), x.reshape(-1, x.shape[-1]))
    if y.ndim == 2:  # all rows that one matrix was multiplied with, in one product
        if x.ndim > 2:
            x, g = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
        return np.matmul(x.T, g)
    share = np.matmul(x.swapaxes(-1, -2), g)
    return share if share.shape == y.shape else unbroadcast(share, y.shape)


@VMAP.rule(np.matmul)
def _vmap_matmul(level: Level, a: ArrayLike, b: ArrayLike, **kwargs: Any) -> Array:
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
        x = as_array(x)[..., None, :]
    if b_ndim == 1:
        y = as_array(y)[..., :, None]
    loops = max(a_ndim, b_ndim, 2) + 1
    x = _spread(x, loops) if level.on(a) else x
    y = _spread(y, loops) if level.on(b) else y
    out = np.matmul(x, y)
    if b_ndim == 1:
        out = out[..., 0]
    if a_ndim == 1:
        out = out[..., 0] if b_ndim == 1 else out[..., 0, :]
    return level.wrap(out)


def _rows_times(x: Array, b: Array) -> Array:
    """A mapped factor times one that is not: its leading dimensions as the rows of one matrix."""
    if type(x) is type(b) is np.ndarray and b.ndim == 2 and x.flags.c_contiguous:
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        return np.matmul(rows, b).reshape(*x.shape[:-1], b.shape[-1])
    return np.matmul(x, b)


def _is_narrow(x: Array, y: Array) -> bool:
    """Whether the products have so few columns that each should lie as a row in memory.

    What follows (adding a bias, an activation) then goes through long rows in place of many short ones.
    """
    return type(x) is type(y) is np.ndarray and y.shape[-1] <= _NARROW and x.shape[-2] >= 2 * y.shape[-1]


def _transposed(x: Array, y: Array) -> Array:
    """Products of matrices, of which the second is mapped, computed and stored as their transposes."""
    left, right = y.swapaxes(1, 2), x.swapaxes(-1, -2)
    if right.ndim == 2 and left.flags.c_contiguous and left.shape[2] == right.shape[0]:
        # The rows of all matrices are those of one.
        rows = left.reshape(left.shape[0] * left.shape[1], left.shape[2])
        out = np.matmul(rows, right).reshape(*left.shape[:2], right.shape[1])
    else:
        out = np.matmul(left, right)
    return out.swapaxes(1, 2)


def _spread(value: Array, ndim: int) -> Array:
    """New dimensions after the first."""
    missing = ndim - value.ndim
    return value[(slice(None),) + (None,) * missing] if missing else value


@ONNX.rule(np.matmul)
def _onnx_matmul(graph: Graph, a: ArrayLike, b: ArrayLike, dtype: DtypeLike = None) -> GraphArray:
    x, y = graph.operand(a), graph.operand(b)
    wanted = np.result_type(x.dtype, y.dtype) if dtype is None else np.dtype(dtype)
    x, y = graph.cast(x, wanted), graph.cast(y, wanted)
    if not x.ndim or not y.ndim:
        raise ValueError("matmul: Input operand does not have enough dimensions")
    inner = y.shape[-2:][0]
    if x.shape[-1] != inner:
        raise ValueError(f"matmul: the sizes {x.shape[-1]} and {inner} of the dimensions summed over differ")
    lead = graph.broadcast([x.shape[:-2], y.shape[:-2]])
    shape = (*lead, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ()))
    # Of such products onnxruntime writes the first alone; without rows or matrices it may end the process.
    empty = any(graph.size(n) is None and n == 0 for n in shape)
    many = any(n != 1 for n in lead)
    if empty or (many and not inner > 0) or (y.ndim > 2 and x.ndim > 2 and not x.shape[-2] > 0):
        return graph.expand(graph.constant(0, wanted), shape)
    if x.ndim > 1 and y.ndim == 1:  # onnxruntime would fuse a transposition of x with it, and lose it
        column = graph.emit("MatMul", [x, graph.unsqueeze(y, 1)], (*shape, 1), x.dtype)
        return graph.squeeze(column, -1)
    return graph.emit("MatMul", [x, y], shape, x.dtype)


@GRAD.rule(np.vecdot)
@ONNX.composed(np.vecdot)
def _vecdot(a: Array, b: Array, /, *, axis: int = -1) -> Array:
    if axis != -1:
        a, b = np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)
    product = np.multiply(a, b)
    return np.sum(product, -1).astype(product.dtype)


if hasattr(np, "matvec"):  # NumPy 2.2

    @GRAD.rule(np.matvec)
    @ONNX.composed(np.matvec)
    def _matvec(a: ArrayLike, b: ArrayLike, /) -> Array:
        return np.matmul(a, as_array(b)[..., None])[..., 0]

    @GRAD.rule(np.vecmat)
    @ONNX.composed(np.vecmat)
    def _vecmat(a: ArrayLike, b: ArrayLike, /) -> Array:
        return np.matmul(as_array(a)[..., None, :], b)[..., 0, :]


@VMAP.rule(np.tensordot, linalg.tensordot)
def _vmap_tensordot(level: Level, a: BatchedArray, b: BatchedArray, axes: Axes = 2) -> Array:
    if level.on(a) and level.on(b):
        return FORMULAS[np.tensordot](a, b, axes)
    first, second = summed_axes(ndim_of(a), ndim_of(b), axes)
    if level.on(a):
        return level.wrap(np.tensordot(a.value, b, (tuple(d + 1 for d in first), second)))
    out = np.tensordot(a, b.value, (first, tuple(d + 1 for d in second)))
    return level.wrap(np.moveaxis(out, ndim_of(a) - len(first), 0))


@GRAD.rule(np.einsum)
def _grad_einsum(*operands: Any, optimize: Any = False, **kwargs: Any) -> Array:
    given, output, arrays = _subscripts(operands)
    values = [value_of(a) for a in arrays]
    terms, output = _without_dots(given, output, values)
    value = np.einsum(f"{','.join(terms)}->{output}", *values, optimize=optimize, **kwargs)
    return with_node(value, *[(a, _by_operand(i, terms, output, values)) for i, a in enumerate(arrays)])


def _by_operand(i: int, terms: Sequence[str], output: str, values: list[Any]) -> Vjp:
    """The vjp of an einsum for operand `i`: an einsum of the other operands and the derivative."""

    def vjp(g: Array) -> Array:
        own, shape = terms[i], values[i].shape
        inputs = [output, *terms[:i], *terms[i + 1 :]]
        others = [wide(g), *values[:i], *values[i + 1 :]]
        unique = "".join(dict.fromkeys(own))
        known = set("".join(inputs))
        for letter in unique:
            if letter not in known:  # summed over in this operand alone
                inputs.append(letter)
                others.append(np.ones(shape[own.index(letter)], g.dtype))
        fast = len(others) > 2 or sum(x.size for x in others) > _LARGE
        share = np.einsum(f"{','.join(inputs)}->{unique}", *others, optimize=fast)
        sizes = tuple([shape[own.index(letter)] for letter in unique])
        if share.shape != sizes:  # the others have size 1 there, which was repeated, or this operand has
            share = np.broadcast_to(share, np.broadcast_shapes(share.shape, sizes))
        if len(unique) < len(own):
            share = _on_diagonals(share, own, unique, shape)
        return unbroadcast(share, shape)

    return vjp


def _on_diagonals(share: Array, own: str, unique: str, shape: Shape) -> Array:
    """Zeros where the indices that one letter stands for differ."""
    free = iter([letter for letter in string.ascii_letters if letter not in own])
    target, inputs, units, seen = "", [unique], [], set()
    for letter, size in zip(own, shape, strict=True):
        if letter in seen:
            again = next(free)
            inputs.append(letter + again)
            units.append(np.eye(size, dtype=share.dtype))
            letter = again
        seen.add(letter)
        target += letter
    return np.einsum(f"{','.join(inputs)}->{target}", share, *units)


@VMAP.rule(np.einsum)
def _vmap_einsum(level: Level, *operands: Any, **kwargs: Any) -> Array:
    terms, output, arrays = _subscripts(operands)
    text = _with_batch_dim(terms, output, tuple(map(level.on, arrays)))
    return level.wrap(np.einsum(text, *map(level.value, arrays), **kwargs))


@functools.lru_cache
def _with_batch_dim(terms: tuple[str, ...], output: str, on: tuple[bool, ...]) -> str:
    """Subscripts with a letter for the batch dimension, which some of the operands have."""
    used = {*"".join(terms)}
    free = next(letter for letter in string.ascii_letters[::-1] if letter not in used)
    inputs = [free + term if mapped else term for term, mapped in zip(terms, on, strict=True)]
    return f"{','.join(inputs)}->{free}{output}"


@ONNX.rule(np.einsum)
def _onnx_einsum(graph: Graph, *operands: Any, optimize: Any = False, **kwargs: Any) -> GraphArray:
    if not isinstance(operands[0], str) or kwargs:
        raise NoRule
    given, output, items = _subscripts(operands)
    arrays = [graph.operand(x) for x in items]
    dtype = np.result_type(*[x.dtype for x in arrays])
    arrays = [graph.cast(x, dtype) for x in arrays]
    terms, output = _without_dots(given, output, arrays)
    sizes: dict[str, int] = {}
    for term, x in zip(terms, arrays, strict=True):
        if len(term) != x.ndim:
            raise ValueError(f"einsum: {term!r} does not fit an array of {x.ndim} dimensions")
        for name, size in zip(term, x.shape, strict=True):
            if sizes.setdefault(name, size) == 1:
                sizes[name] = size
            if size not in (1, sizes[name]):
                raise ValueError(f"einsum: the dimension {name!r} has the sizes {sizes[name]} and {size}")
    for i, (term, x) in enumerate(zip(terms, arrays, strict=True)):
        # onnxruntime plans the memory of a result by the first size of a letter, also where that is a 1.
        ones = [at for at, name in enumerate(term) if x.shape[at] == 1 and sizes[name] != 1]
        if ones:
            arrays[i] = graph.operand(np.squeeze(x, tuple(ones)))
            terms[i] = "".join(name for at, name in enumerate(term) if at not in ones)
    shape = [sizes[name] for name in output]
    if math.prod(sizes.values()) < 1:  # onnxruntime 1.31 divides by a size, which ends the process
        return graph.expand(graph.constant(np.zeros((), dtype)), shape).copy()
    return graph.emit("Einsum", arrays, shape, dtype, equation=f"{','.join(terms)}->{output}")


def _subscripts(operands: tuple[Any, ...]) -> tuple[tuple[str, ...], str, list[Array]]:
    """The terms of an einsum, that of its result, and its operands as arrays."""
    if isinstance(operands[0], str):
        text, arrays = operands[0], as_arrays(operands[1:])
    else:  # lists of numbers after the operands, and perhaps after the last one that of the result
        text = ",".join(map(_term, operands[1::2]))
        arrays = as_arrays(operands[: len(operands) - len(operands) % 2 : 2])
        if len(operands) % 2:
            text = f"{text}->{_term(operands[-1])}"
    terms, output = _parsed(text)
    if len(terms) != len(arrays):
        raise ValueError(f"einsum got {len(terms)} terms for {len(arrays)} operands")
    return terms, output, arrays


@functools.lru_cache
def _parsed(text: str) -> tuple[tuple[str, ...], str]:
    """The terms of the operands and of the result; without an arrow, letters that occur once are kept."""
    inputs, arrow, output = text.replace(" ", "").partition("->")
    if not arrow:
        letters = inputs.replace(",", "")
        once = sorted(letter for letter in {*letters} - {"."} if letters.count(letter) == 1)
        output = ("..." if "." in letters else "") + "".join(once)
    return tuple(inputs.split(",")), output


def _term(axes: Any) -> str:
    """The letters for a list of numbers."""
    return "".join(["..." if axis is Ellipsis else string.ascii_letters[axis] for axis in axes])


def _without_dots(terms: Sequence[str], output: str, values: Sequence[Any]) -> tuple[list[str], str]:
    """Terms of the operands and of the result, with letters in place of dots."""
    used = {*"".join(terms)}
    free = [letter for letter in string.ascii_letters if letter not in used]
    counts = [x.ndim - len(term.replace(".", "")) for term, x in zip(terms, values, strict=True)]
    most = max((n for n, term in zip(counts, terms, strict=True) if "." in term), default=0)
    dots = "".join(free[:most])
    terms = [term.replace("...", dots[most - n :]) for n, term in zip(counts, terms, strict=True)]
    return terms, output.replace("...", dots)


@GRAD.rule(np.convolve)
def _grad_convolve(a: Array, v: Array, mode: Any = "full") -> Array:
    a, v = np.atleast_1d(as_array(a)), np.atleast_1d(as_array(v))
    x, y = value_of(a), value_of(v)
    value = np.convolve(x, y, mode)
    long, short = max(x.shape[0], y.shape[0]), min(x.shape[0], y.shape[0])
    # Where the result starts in the full one.
    start = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    width = (start, long + short - 1 - start - value.shape[0])

    def by(other: Array) -> Vjp:
        return lambda g: np.correlate(np.pad(g, width), other, "valid")

    return with_node(value, (a, by(y)), (v, by(x)))


# -- formulas ----------------------------------------------------------------------------------------------


@formula(np.polyval)
def _polyval(p: ArrayLike, x: Array) -> Array:
    out = np.zeros_like(x)
    for coefficient in as_arrays(p):
        out = out * x + coefficient
    return out


@VMAP.rule(np.dot)
def _vmap_dot(level: Level, a: Array, b: Array) -> Array:
    # As the formula, which takes half as long again for small arrays.
    return _vmap_matmul(level, a, b) if ndim_of(a) and 0 < ndim_of(b) <= 2 else _dot(a, b)


@formula(np.dot)
def _dot(a: Array, b: Array) -> Array:
    a, b = as_arrays((a, b))
    if not a.ndim or not b.ndim:
        return np.multiply(a, b)
    return np.matmul(a, b) if b.ndim <= 2 else np.tensordot(a, b, axes=([-1], [-2]))


@formula(np.tensordot, linalg.tensordot)
def _tensordot(a: Array, b: Array, axes: Any = 2) -> Array:
    a, b = as_arrays((a, b))
    first, second = summed_axes(a.ndim, b.ndim, axes)
    rows = [d for d in range(a.ndim) if d not in first]
    columns = [d for d in range(b.ndim) if d not in second]
    if [a.shape[d] for d in first] != [b.shape[d] for d in second]:
        raise ValueError("shape-mismatch for sum")
    size = math.prod([a.shape[d] for d in first])
    sizes = [a.shape[d] for d in rows], [b.shape[d] for d in columns]
    x = np.transpose(a, (*rows, *first)).reshape(math.prod(sizes[0]), size)
    y = np.transpose(b, (*second, *columns)).reshape(size, math.prod(sizes[1]))
    return np.matmul(x, y).reshape((*sizes[0], *sizes[1]))


def summed_axes(a_ndim: int, b_ndim: int, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of two arrays that `numpy.tensordot` sums over."""
    if isinstance(axes, int | np.integer):
        return tuple(range(a_ndim - axes, a_ndim)), tuple(range(axes))
    return normalize_axis_tuple(axes[0], a_ndim), normalize_axis_tuple(axes[1], b_ndim)


@formula(np.inner)
def _inner(a: Array, b: Array, /) -> Array:
    if not ndim_of(a) or not ndim_of(b):
        return np.multiply(a, b)
    return np.tensordot(a, b, axes=([-1], [-1]))


@formula(np.vdot)
def _vdot(a: ArrayLike, b: ArrayLike, /) -> Array:
    return np.matmul(np.conjugate(np.ravel(a)), np.ravel(b))


@formula(np.outer, linalg.outer)
def _outer(a: ArrayLike, b: ArrayLike) -> Array:
    return np.ravel(a)[:, None] * np.ravel(b)


@formula(linalg.matmul)
def _linalg_matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    return np.matmul(x1, x2)


@formula(linalg.vecdot)
def _linalg_vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    if axis != -1:
        x1, x2 = np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)
    return np.vecdot(x1, x2)


@formula(linalg.multi_dot)
def _multi_dot(arrays: Any) -> Array:
    return functools.reduce(np.dot, arrays)


@formula(np.kron)
def _kron(a: Array, b: Array) -> Array:
    a, b = as_arrays((a, b))
    ndim = max(a.ndim, b.ndim)
    a = a.reshape(*[1] * (ndim - a.ndim), *a.shape)
    b = b.reshape(*[1] * (ndim - b.ndim), *b.shape)
    sizes = [n * m for n, m in zip(a.shape, b.shape, strict=True)]
    wide = a.reshape([n for size in a.shape for n in (size, 1)])
    return (wide * b.reshape([n for size in b.shape for n in (1, size)])).reshape(sizes)


@formula(np.cross, linalg.cross)
def _cross(
    a: Array, b: Array, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if np.shape(a)[-1] != 3 or np.shape(b)[-1] != 3:
        raise NoRule
    out = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.stack(out, axisc)


@formula(np.correlate)
def _correlate(a: Array, v: Any, mode: Any = "valid") -> Array:
    if np.shape(v)[0] > np.shape(a)[0]:  # which "same" centres in another way
        return np.conjugate(_correlate(v, a, mode)[::-1])
    return np.convolve(a, np.conjugate(v[::-1]), mode)


@formula(np.convolve)
def _convolve(a: ArrayLike, v: Array, mode: str = "full") -> Array:
    a, v = np.atleast_1d(a), np.atleast_1d(v)
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
