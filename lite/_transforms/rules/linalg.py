"""Rules of numpy.linalg, whose functions take stacks of matrices already; derivatives are of real numbers.

`cholesky` and `eigh` take their argument as symmetric, whichever half they read, and its share is symmetric:
as in torch. Eigenvectors and singular vectors have no derivative where values are equal: it is not finite.

Sources:
    M. Giles: An extended collection of matrix derivative results for forward and reverse mode algorithmic
    differentiation (2008); for the pseudoinverse G. Golub, V. Pereyra: The differentiation of pseudo-inverses
    and nonlinear least squares problems whose variables separate (1973); for QR M. Seeger et al.:
    Auto-differentiating linear algebra (2017).
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
from numpy import linalg
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import ArrayLike

from lite._arrays.types import Array, Axes, Function, HostArray
from lite._transforms.grad.along import spread
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import holds_traced, unbroadcast, value_of, with_node
from lite._transforms.grad.views import memory
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.scan import scan
from lite._transforms.registry import (
    FORMULAS,
    GRAD,
    ONNX,
    VMAP,
    ZERO_GRADIENT,
    NoRule,
    as_array,
    as_arrays,
    formula,
    ndim_of,
)
from lite._transforms.rules.reductions import others
from lite._transforms.vmap.along import along, shifted_axes, shifted_axis
from lite._transforms.vmap.array import BatchedArray
from lite._transforms.vmap.level import Level

ZERO_GRADIENT.add(linalg.matrix_rank)


@VMAP.rule_of_each(
    *(linalg.inv, linalg.pinv, linalg.det, linalg.slogdet, linalg.cholesky, linalg.qr, linalg.svd),
    *(linalg.svdvals, linalg.eig, linalg.eigh, linalg.eigvals, linalg.eigvalsh, linalg.cond),
    *(linalg.matrix_power, linalg.matrix_norm),
)
def _vmap_of_matrices(function: Function, level: Level, a: BatchedArray, *args: Any, **kwargs: Any) -> Array:
    if not level.on(a) or any(hasattr(value, "level") for value in (*args, *kwargs.values())):
        raise NoRule
    if a.ndim < 2:
        raise linalg.LinAlgError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    result = function(a.value, *args, **kwargs)
    return level.wrap_all(result) if isinstance(result, tuple) else level.wrap(result)


@VMAP.rule(linalg.matrix_rank)
def _vmap_matrix_rank(level: Level, A: BatchedArray, *args: Any, **kwargs: Any) -> Any:
    if args or kwargs:
        raise NoRule
    if A.ndim < 2:
        return np.any(A != 0).astype(np.int64)
    return level.wrap(linalg.matrix_rank(A.value))


@VMAP.rule(linalg.solve)
def _vmap_solve(level: Level, a: Array, b: Any) -> Array:
    a_ndim, b_ndim = ndim_of(a), ndim_of(b)
    if a_ndim < 2:
        raise linalg.LinAlgError(f"{a_ndim}-dimensional array given. Array must be at least two-dimensional")
    if not level.on(a) and b_ndim == 1 and a_ndim == 2:
        return level.wrap(np.swapaxes(linalg.solve(a, np.swapaxes(b.value, 0, 1)), 0, 1))
    if b_ndim == 1:
        b = b[..., None]
    ndim = max(a_ndim, ndim_of(b))
    out = level.wrap(linalg.solve(level.align(a, ndim), level.align(b, ndim)))
    return out[..., 0] if b_ndim == 1 else out


def _t(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def _scaled(matrix: Array, columns: Array) -> Array:
    """A matrix with its columns multiplied by the elements of a vector."""
    return matrix * columns[..., None, :]


def _symmetric(x: Array) -> Array:
    return (x + _t(x)) / 2


@GRAD.rule(linalg.inv)
def _grad_inv(a: ArrayLike) -> Array:
    value = linalg.inv(value_of(a))
    return with_node(value, (a, lambda g: -np.matmul(_t(value), np.matmul(g, _t(value)))))


@GRAD.rule(linalg.solve)
def _grad_solve(a: Array, b: Any) -> Array:
    a, b = as_arrays((a, b))
    if b.ndim == 1:
        return linalg.solve(a, b[:, None])[..., 0]
    matrix, right = value_of(a), value_of(b)
    value = linalg.solve(matrix, right)

    def by_matrix(g: Array) -> Array:
        return unbroadcast(-np.matmul(linalg.solve(_t(matrix), g), _t(value)), matrix.shape)

    def by_right(g: Array) -> Array:
        return unbroadcast(linalg.solve(_t(matrix), g), right.shape)

    return with_node(value, (a, by_matrix), (b, by_right))


def _eliminated(graph: Graph, a: Any, b: Any = None) -> tuple[Any, Any]:
    """`solve(a, b)` for matrices, and the pivots, whose product is the determinant.

    Gauss and Jordan's elimination with the largest pivot of each column, one column after the other. Of a
    matrix without inverse it gives numbers that are not finite, where NumPy raises; without `b`, pivots of 0.
    """
    size = a.shape[-1]
    if graph.size(size) is not None or size != a.shape[-2]:
        raise NoRule("a dynamic size" if size == a.shape[-2] else "a matrix that is not square")
    rows = np.arange(size)

    def step(state: Any, given: Any) -> Any:
        (whole,), (k,) = state, given
        best = np.argmax(np.where(rows >= k, np.abs(whole[..., k]), -1), -1, keepdims=True)
        order = np.where(rows == k, best, np.where(rows == best, k, rows))
        whole = np.take_along_axis(whole, order[..., None], -2)
        pivot = whole[..., k, :][..., k]
        divisor = pivot if b is not None else np.where(pivot == 0, 1.0, pivot)  # the column is 0, too
        row = (whole[..., k, :] / divisor[..., None])[..., None, :]
        whole = np.where((rows == k)[:, None], row, whole - whole[..., k][..., None] * row)
        return [whole], [np.where(best[..., 0] == k, pivot, -pivot)]

    both: Any = a if b is None else np.concatenate([a, b], -1)
    (whole,), (pivots,) = scan(graph, step, [both], [graph.constant(rows)])
    return whole[..., size:], pivots


def _matrices(graph: Graph, *arrays: Any) -> list[Any]:
    """Arrays in the one type that NumPy computes in."""
    found = [graph.operand(x) for x in arrays]
    dtype = np.result_type(*[x.dtype if x.dtype.kind == "f" else np.float64 for x in found])
    return [graph.cast(x, dtype) for x in found]


@ONNX.rule(linalg.solve)
def _onnx_solve(graph: Graph, a: Array, b: Any) -> Any:
    matrix, right = _matrices(graph, a, b)
    is_vector = right.ndim == 1
    right = right[:, None] if is_vector else right
    outer = graph.broadcast([matrix.shape[:-2], right.shape[:-2]])
    both = [graph.expand(x, (*outer, *x.shape[-2:])) for x in (matrix, right)]
    out = _eliminated(graph, *both)[0]
    return out[..., 0] if is_vector else out


@ONNX.rule(linalg.inv)
def _onnx_inv(graph: Graph, a: Array) -> Any:
    (matrix,) = _matrices(graph, a)
    size = matrix.shape[-1]
    unit = graph.constant(np.eye(1 if graph.size(size) is not None else size), matrix.dtype)
    return _onnx_solve(graph, matrix, unit)


@ONNX.rule(linalg.det)
def _onnx_det(graph: Graph, a: Array) -> Any:
    (matrix,) = _matrices(graph, a)
    return np.prod(_eliminated(graph, matrix)[1], 0)


@ONNX.rule(linalg.slogdet)
def _onnx_slogdet(graph: Graph, a: Array) -> Any:
    (matrix,) = _matrices(graph, a)
    pivots = _eliminated(graph, matrix)[1]
    kind: Any = type(linalg.slogdet(np.eye(1)))
    return kind(np.prod(np.sign(pivots), 0), np.sum(np.log(np.abs(pivots)), 0))


@ONNX.rule(linalg.cholesky)
def _onnx_cholesky(graph: Graph, a: Array, /, *, upper: bool = False) -> Any:
    (matrix,) = _matrices(graph, a)
    size = matrix.shape[-1]
    if graph.size(size) is not None:
        raise NoRule("a dynamic size")
    rows = np.arange(size)

    def step(state: Any, given: Any) -> Any:
        (rest,), (k,) = state, given
        column = rest[..., k]
        column = np.where(rows >= k, column / np.sqrt(column[..., k])[..., None], 0)
        return [rest - column[..., :, None] * column[..., None, :]], [column]

    lower: Any = _t(matrix) if upper else matrix
    columns: Any = scan(graph, step, [lower], [graph.constant(rows)])[1][0]
    found = np.moveaxis(columns, 0, -1)
    return _t(found) if upper else found


@GRAD.rule(linalg.det)
def _grad_det(a: ArrayLike) -> Array:
    held = value_of(a)
    again = isinstance(held, HostArray)

    def vjp(g: Array) -> Array:
        numbers = memory(value)
        if again and (isinstance(numbers, HostArray) or np.all(numbers)):
            return (g * value)[..., None, None] * _t(linalg.inv(held))
        # The cofactors, also of a matrix without inverse; equal singular values have no second derivatives.
        u, s, vh = linalg.svd(held)
        sign = linalg.det(np.matmul(u, vh))
        return (g * sign)[..., None, None] * np.matmul(_scaled(u, others(s)), vh)

    value = linalg.det(held)
    return with_node(value, (a, vjp))


@GRAD.rule(linalg.slogdet)
def _grad_slogdet(a: ArrayLike) -> Any:
    held = value_of(a)
    value = linalg.slogdet(held)
    logabsdet = with_node(value.logabsdet, (a, lambda g: g[..., None, None] * _t(linalg.inv(held))))
    return type(value)(value.sign, logabsdet)


@GRAD.rule(linalg.cholesky)
def _grad_cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    value = linalg.cholesky(value_of(a), upper=upper)
    lower = _t(value) if upper else value

    def vjp(g: Array) -> Array:
        inner = np.tril(np.matmul(_t(lower), _t(g) if upper else g))
        inner = inner - np.tril(np.triu(inner)) / 2
        inner = linalg.solve(_t(lower), inner)
        return _symmetric(_t(linalg.solve(_t(lower), _t(inner))))

    return with_node(value, (a, vjp))


@GRAD.rule(linalg.eigh)
def _grad_eigh(a: ArrayLike, UPLO: str = "L") -> Array:
    value = linalg.eigh(value_of(a), UPLO)  # type: ignore[call-overload]
    w, v = value

    def by_values(g: Array) -> Array:
        return np.matmul(_scaled(v, g), _t(v))

    def by_vectors(g: Array) -> Array:
        inner = np.matmul(_t(v), g) * _one_by_gaps(w)
        return _symmetric(np.matmul(v, np.matmul(inner, _t(v))))

    return type(value)(with_node(w, (a, by_values)), with_node(v, (a, by_vectors)))


def _one_by_gaps(w: Array) -> Array:
    """1 / (w_j - w_i), and 0 on the diagonal."""
    unit = np.eye(w.shape[-1], dtype=w.dtype)
    with np.errstate(divide="ignore"):
        return (1 - unit) / (w[..., None, :] - w[..., :, None] + unit)


@GRAD.rule(linalg.eigvalsh)
def _grad_eigvalsh(a: ArrayLike, UPLO: str = "L") -> Array:
    return linalg.eigh(a, UPLO)[0]  # type: ignore[call-overload]


@GRAD.rule(linalg.svd)
def _grad_svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    held = value_of(a)
    if hermitian or (compute_uv and full_matrices and held.shape[-1] != held.shape[-2]):
        raise NoRule  # some vectors are arbitrary but orthogonal
    value = linalg.svd(held, full_matrices=False)
    u, s, vh = value
    v = _t(vh)

    def by_values(g: Array) -> Array:
        return np.matmul(_scaled(u, g), vh)

    def by_left(g: Array) -> Array:
        skew = np.matmul(_t(u), g)
        inner = _scaled((skew - _t(skew)) * _one_by_gaps(s * s), s)
        return np.matmul(np.matmul(u, inner) + _scaled(g - np.matmul(u, skew), 1 / s), vh)

    def by_right(g: Array) -> Array:
        g = _t(g)
        skew = np.matmul(vh, g)
        inner = (skew - _t(skew)) * _one_by_gaps(s * s) * s[..., :, None]
        return np.matmul(u, np.matmul(inner, vh) + _t(_scaled(g - np.matmul(v, skew), 1 / s)))

    values = with_node(s, (a, by_values))
    if not compute_uv:
        return values
    return type(value)(with_node(u, (a, by_left)), values, with_node(vh, (a, by_right)))


@GRAD.rule(linalg.svdvals)
def _grad_svdvals(x: Array, /) -> Array:
    return linalg.svd(x, compute_uv=False)


@GRAD.rule(linalg.qr)
def _grad_qr(a: ArrayLike, mode: str = "reduced") -> Any:
    held = value_of(a)
    if mode != "reduced" or held.shape[-2] < held.shape[-1]:
        raise NoRule
    value = linalg.qr(held)
    q, r = value

    def vjp(g: Array, m: ArrayLike) -> Array:
        below = np.tril(m, -1)
        inner = below + _t(below) + np.tril(np.triu(m))
        return _t(linalg.solve(r, _t(g + np.matmul(q, inner))))

    by_q = (a, lambda g: vjp(g, -np.matmul(_t(g), q)))
    by_r = (a, lambda g: vjp(np.zeros_like(q), np.matmul(r, _t(g))))
    return type(value)(with_node(q, by_q), with_node(r, by_r))


@GRAD.rule(linalg.pinv)
def _grad_pinv(a: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    if holds_traced((args, kwargs)):
        raise NoRule
    held = value_of(a)
    p = linalg.pinv(held, *args, **kwargs)

    def vjp(g: Array) -> Array:
        left = g - np.matmul(p, np.matmul(held, g))  # the part outside of the column space of p
        right = _t(g) - np.matmul(held, np.matmul(p, _t(g)))
        share = -np.matmul(_t(p), np.matmul(g, _t(p)))
        share = share + np.matmul(right, np.matmul(p, _t(p)))
        return share + np.matmul(_t(p), np.matmul(p, _t(left)))

    return with_node(p, (a, vjp))


@GRAD.rule(linalg.lstsq)
def _grad_lstsq(a: Array, b: Any, rcond: Any = None) -> tuple[Array, ...]:
    matrix, right = value_of(a), value_of(b)
    while isinstance(matrix, TracedArray) or isinstance(right, TracedArray):
        matrix, right = value_of(matrix), value_of(right)
    if isinstance(matrix, HostArray) or isinstance(right, HostArray):
        raise NoRule("the shape of its residuals depends on the rank, but np.linalg.pinv(a) @ b has one")
    _, residuals, rank, _ = linalg.lstsq(matrix, right, rcond)
    if rcond is None:
        rcond = np.finfo(np.result_type(matrix, right)).eps * max(matrix.shape)
    x = np.matmul(linalg.pinv(a, rcond), b)
    if residuals.size:
        residuals = np.sum(np.square(b - np.matmul(a, x)), 0).reshape(residuals.shape)
    return x, residuals, rank, linalg.svdvals(a)


@GRAD.rule(linalg.matrix_power)
@ONNX.composed(linalg.matrix_power)
def _matrix_power(a: Array, n: int) -> Any:
    if n < 0:
        a, n = linalg.inv(a), -n
    if n == 0:
        return np.zeros_like(a) + np.eye(a.shape[-1], dtype=a.dtype)
    result = None
    while True:
        if n & 1:
            result = a if result is None else np.matmul(result, a)
        n >>= 1
        if not n:
            return result
        a = np.matmul(a, a)


@VMAP.rule(linalg.lstsq)
def _vmap_lstsq(*args: Any, **kwargs: Any) -> NoReturn:
    raise NoRule  # its residuals have a shape that depends on the rank


@VMAP.rule(linalg.norm)
def _vmap_norm(
    level: Level, x: BatchedArray, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Array:
    if not level.on(x):
        raise NoRule
    ndim = x.ndim
    if axis is None:
        if ord is None:
            out = linalg.norm(x.value.reshape(level.size, math.prod(x.shape)), axis=1)
            return level.wrap(out.reshape(level.size, *[1] * ndim) if keepdims else out)
        if ndim not in (1, 2):
            raise ValueError("Improper number of dimensions to norm.")
        axes: Any = tuple(range(1, ndim + 1)) if ndim == 2 else 1
    else:
        axes = shifted_axes(axis, ndim) if isinstance(axis, tuple | list) else shifted_axis(axis, ndim)
    return level.wrap(linalg.norm(x.value, ord, axes, keepdims))


@VMAP.rule(linalg.vector_norm)
def _vmap_vector_norm(
    level: Level, x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: Any = 2
) -> Array:
    return along(level, linalg.vector_norm, x, axis, {"ord": ord, "keepdims": keepdims})


@GRAD.rule(linalg.vector_norm)
def _grad_vector_norm(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: Any = 2) -> Array:
    if isinstance(ord, str) or holds_traced(ord):
        raise NoRule
    if ord != 2:
        return FORMULAS[linalg.vector_norm](x, axis=axis, keepdims=keepdims, ord=ord)
    held = value_of(x)
    value = np.sqrt(np.sum(held * held, axis, keepdims=keepdims))

    def vjp(g: Array) -> Array:
        # As in torch, the derivative by a zero vector is 0.
        scale = np.where(value == 0, 0, g / np.where(value == 0, 1, value))
        return held * spread(scale, held.shape, axis)

    return with_node(value, (x, vjp))


@GRAD.rule(linalg.eig, linalg.eigvals)
def _grad_complex(*args: Any, **kwargs: Any) -> NoReturn:
    raise NoRule(
        "there are no derivatives of complex numbers here; numpy.linalg.eigh and eigvalsh, of symmetric "
        "matrices, have one"
    )


# -- formulas ----------------------------------------------------------------------------------------------


@formula(linalg.norm)
def _norm(x: Array, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    ndim = ndim_of(x)
    if ord is None and (axis is None or np.ndim(axis) == 0 or len(axis) == 2):
        return linalg.vector_norm(x, axis=axis, keepdims=keepdims)
    axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)
    if len(axes) not in (1, 2):
        raise ValueError("Improper number of dimensions to norm.")
    if len(axes) == 1:
        return linalg.vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    found = linalg.matrix_norm(np.moveaxis(x, axes, (-2, -1)), ord="fro" if ord is None else ord)
    return np.expand_dims(found, axes) if keepdims else found


@formula(linalg.vector_norm)
def _vector_norm(x: Array, /, *, axis: Axes = None, keepdims: bool = False, ord: Any = 2) -> Array:
    if x.dtype.kind in "iub":
        x = x.astype(np.float64)
    if ord == 2:
        return np.sqrt(np.sum(x * x, axis, keepdims=keepdims))
    if ord == 0:
        return np.sum((x != 0).astype(x.dtype), axis, keepdims=keepdims)
    size = np.abs(x)
    if ord in (math.inf, -math.inf):
        return (np.max if ord > 0 else np.min)(size, axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axis, keepdims=keepdims)
    if ord < 1:  # the derivative of the power at zero is infinite; as in torch, zeros have a zero gradient
        size = np.where(size == 0, 0, size)
    total = np.sum(np.power(size, ord), axis, keepdims=keepdims)
    return np.where(
        total == 0, 0, np.power(np.where(total == 0, 1, total), 1 / ord)
    )  # a zero gradient, as in torch


@formula(linalg.matrix_norm)
def _matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    if ord in ("fro", "f"):
        return linalg.vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        s = linalg.svdvals(x)
        found = np.sum(s, -1) if ord == "nuc" else s[..., 0] if ord == 2 else s[..., -1]
    elif ord in (1, -1, math.inf, -math.inf):
        sums = np.sum(np.abs(x), -2 if abs(ord) == 1 else -1)
        found = np.max(sums, -1) if ord > 0 else np.min(sums, -1)
    else:
        raise ValueError("Invalid norm order for matrices.")
    return np.expand_dims(found, (-2, -1)) if keepdims else found


@formula(linalg.cond)
def _cond(x: Array, p: Any = None) -> Array:
    if p in (None, 2, -2):
        s = linalg.svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return linalg.norm(x, p, (-2, -1)) * linalg.norm(linalg.inv(x), p, (-2, -1))


@formula(linalg.tensorinv)
def _tensorinv(a: Array, ind: int = 2) -> Array:
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    front, back = a.shape[:ind], a.shape[ind:]
    return linalg.inv(a.reshape(math.prod(front), math.prod(back))).reshape((*back, *front))


@formula(linalg.tensorsolve)
def _tensorsolve(a: Array, b: Array, axes: Axes = None) -> Array:
    a, b = as_array(a), as_array(b)
    if axes is not None:
        last = normalize_axis_tuple(axes, a.ndim)
        a = np.transpose(a, [d for d in range(a.ndim) if d not in last] + list(last))
    shape = a.shape[b.ndim :]
    return linalg.solve(a.reshape(b.size, math.prod(shape)), b.reshape(-1)).reshape(shape)
