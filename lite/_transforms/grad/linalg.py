"""Rules of numpy.linalg, for matrices of real numbers and stacks of them.

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
from typing import Any

import numpy as np
from numpy import linalg
from numpy.lib.array_utils import normalize_axis_tuple

from lite._arrays.types import HostArray
from lite._transforms.grad.along import operand, spread
from lite._transforms.grad.reductions import others
from lite._transforms.grad.rules import composed, flat, rule
from lite._transforms.grad.tape import is_traced, record, unbroadcast, value_of
from lite._transforms.registry import NoRule

flat(linalg.matrix_rank)


def _t(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def _scaled(matrix: Any, columns: Any) -> Any:
    """A matrix with its columns multiplied by the elements of a vector."""
    return matrix * columns[..., None, :]


def _symmetric(x: Any) -> Any:
    return (x + _t(x)) / 2


@rule(linalg.inv)
def _inv(a: Any) -> Any:
    value = linalg.inv(value_of(a))
    return record(value, (a, lambda g: -np.matmul(_t(value), np.matmul(g, _t(value)))))


@rule(linalg.solve)
def _solve(a: Any, b: Any) -> Any:
    a, b = operand(a), operand(b)
    if b.ndim == 1:
        return linalg.solve(a, b[:, None])[..., 0]
    matrix, right = value_of(a), value_of(b)
    value = linalg.solve(matrix, right)

    def by_matrix(g: Any) -> Any:
        return unbroadcast(-np.matmul(linalg.solve(_t(matrix), g), _t(value)), matrix.shape)

    def by_right(g: Any) -> Any:
        return unbroadcast(linalg.solve(_t(matrix), g), right.shape)

    return record(value, (a, by_matrix), (b, by_right))


@rule(linalg.det)
def _det(a: Any) -> Any:
    held = value_of(a)

    def pull(g: Any) -> Any:
        # The cofactors, also of a matrix without inverse.
        u, s, vh = linalg.svd(held)
        sign = linalg.det(np.matmul(u, vh))
        return (g * sign)[..., None, None] * np.matmul(_scaled(u, others(s)), vh)

    return record(linalg.det(held), (a, pull))


@rule(linalg.slogdet)
def _slogdet(a: Any) -> Any:
    held = value_of(a)
    value = linalg.slogdet(held)
    logabsdet = record(value.logabsdet, (a, lambda g: g[..., None, None] * _t(linalg.inv(held))))
    return type(value)(value.sign, logabsdet)


@rule(linalg.cholesky)
def _cholesky(a: Any, /, *, upper: bool = False) -> Any:
    value = linalg.cholesky(value_of(a), upper=upper)
    lower = _t(value) if upper else value

    def pull(g: Any) -> Any:
        inner = np.tril(np.matmul(_t(lower), _t(g) if upper else g))
        inner = inner - np.tril(np.triu(inner)) / 2
        inner = linalg.solve(_t(lower), inner)
        return _symmetric(_t(linalg.solve(_t(lower), _t(inner))))

    return record(value, (a, pull))


@rule(linalg.eigh)
def _eigh(a: Any, UPLO: str = "L") -> Any:
    value = linalg.eigh(value_of(a), UPLO)  # type: ignore[call-overload]
    w, v = value

    def by_values(g: Any) -> Any:
        return np.matmul(_scaled(v, g), _t(v))

    def by_vectors(g: Any) -> Any:
        inner = np.matmul(_t(v), g) * _one_by_gaps(w)
        return _symmetric(np.matmul(v, np.matmul(inner, _t(v))))

    return type(value)(record(w, (a, by_values)), record(v, (a, by_vectors)))


def _one_by_gaps(w: Any) -> Any:
    """1 / (w_j - w_i), and 0 on the diagonal."""
    unit = np.eye(w.shape[-1], dtype=w.dtype)
    with np.errstate(divide="ignore"):
        return (1 - unit) / (w[..., None, :] - w[..., :, None] + unit)


@composed(linalg.eigvalsh)
def _eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return linalg.eigh(a, UPLO)[0]  # type: ignore[call-overload]


@rule(linalg.svd)
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    held = value_of(a)
    if hermitian or (compute_uv and full_matrices and held.shape[-1] != held.shape[-2]):
        raise NoRule  # of vectors that nothing but being orthogonal determines
    value = linalg.svd(held, full_matrices=False)
    u, s, vh = value
    v = _t(vh)

    def by_values(g: Any) -> Any:
        return np.matmul(_scaled(u, g), vh)

    def by_left(g: Any) -> Any:
        skew = np.matmul(_t(u), g)
        inner = _scaled((skew - _t(skew)) * _one_by_gaps(s * s), s)
        return np.matmul(np.matmul(u, inner) + _scaled(g - np.matmul(u, skew), 1 / s), vh)

    def by_right(g: Any) -> Any:
        g = _t(g)
        skew = np.matmul(vh, g)
        inner = (skew - _t(skew)) * _one_by_gaps(s * s) * s[..., :, None]
        return np.matmul(u, np.matmul(inner, vh) + _t(_scaled(g - np.matmul(v, skew), 1 / s)))

    values = record(s, (a, by_values))
    if not compute_uv:
        return values
    return type(value)(record(u, (a, by_left)), values, record(vh, (a, by_right)))


@composed(linalg.svdvals)
def _svdvals(x: Any, /) -> Any:
    return linalg.svd(x, compute_uv=False)


@rule(linalg.qr)
def _qr(a: Any, mode: str = "reduced") -> Any:
    held = value_of(a)
    if mode != "reduced" or held.shape[-2] < held.shape[-1]:
        raise NoRule
    value = linalg.qr(held)
    q, r = value

    def pull(g: Any, m: Any) -> Any:
        below = np.tril(m, -1)
        inner = below + _t(below) + np.tril(np.triu(m))
        return _t(linalg.solve(r, _t(g + np.matmul(q, inner))))

    by_q = (a, lambda g: pull(g, -np.matmul(_t(g), q)))
    by_r = (a, lambda g: pull(np.zeros_like(q), np.matmul(r, _t(g))))
    return type(value)(record(q, by_q), record(r, by_r))


@rule(linalg.pinv)
def _pinv(a: Any, *args: Any, **kwargs: Any) -> Any:
    if is_traced((args, kwargs)):
        raise NoRule
    held = value_of(a)
    p = linalg.pinv(held, *args, **kwargs)

    def pull(g: Any) -> Any:
        left = g - np.matmul(p, np.matmul(held, g))  # what is not among the columns of p
        right = _t(g) - np.matmul(held, np.matmul(p, _t(g)))
        share = -np.matmul(_t(p), np.matmul(g, _t(p)))
        share = share + np.matmul(right, np.matmul(p, _t(p)))
        return share + np.matmul(_t(p), np.matmul(p, _t(left)))

    return record(p, (a, pull))


@composed(linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    matrix, right = value_of(a), value_of(b)
    if isinstance(matrix, HostArray) or isinstance(right, HostArray):
        raise NoRule  # the shape of its residuals depends on the rank
    _, residuals, rank, _ = linalg.lstsq(matrix, right, rcond)
    if rcond is None:
        rcond = np.finfo(np.result_type(matrix, right)).eps * max(matrix.shape)
    x = np.matmul(linalg.pinv(a, rcond), b)
    if residuals.size:
        residuals = np.sum(np.square(b - np.matmul(a, x)), 0).reshape(residuals.shape)
    return x, residuals, rank, linalg.svdvals(a)


@composed(linalg.matrix_power)
def _matrix_power(a: Any, n: int) -> Any:
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


@composed(linalg.cond)
def _cond(x: Any, p: Any = None) -> Any:
    if p in (None, 2, -2):
        s = linalg.svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return linalg.norm(x, p, (-2, -1)) * linalg.norm(linalg.inv(x), p, (-2, -1))


@composed(linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord is None and (axis is None or np.ndim(axis) == 0 or len(axis) == 2):
        return _euclidean(x, axis, keepdims)
    if axis is None:
        if x.ndim not in (1, 2):
            raise ValueError("Improper number of dimensions to norm.")
        axis = tuple(range(x.ndim))
    axes = normalize_axis_tuple(axis, x.ndim)
    if len(axes) == 1:
        return _vector(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    return _matrix(x, ord, axes, keepdims)


@composed(linalg.vector_norm)
def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return _vector(x, ord, axis, keepdims)


@composed(linalg.matrix_norm)
def _matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return _matrix(x, ord, (x.ndim - 2, x.ndim - 1), keepdims)


def _vector(x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
    if ord == 2:
        return _euclidean(x, axis, keepdims)
    if isinstance(ord, str) or is_traced(ord):
        raise NoRule
    if ord == 0:
        return np.sum((value_of(x) != 0).astype(x.dtype), axis, keepdims=keepdims)
    size = np.abs(x)
    if ord == math.inf:
        return np.max(size, axis, keepdims=keepdims)
    if ord == -math.inf:
        return np.min(size, axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axis, keepdims=keepdims)
    return np.power(np.sum(np.power(size, ord), axis, keepdims=keepdims), 1 / ord)


def _euclidean(x: Any, axis: Any, keepdims: bool) -> Any:
    """The root of the sum of squares; as in torch, the elements of a zero vector have no share."""
    held = value_of(x)
    value = np.sqrt(np.sum(held * held, axis, keepdims=keepdims))

    def pull(g: Any) -> Any:
        scale = np.where(value == 0, 0, g / np.where(value == 0, 1, value))
        return held * spread(scale, held.shape, axis)

    return record(value, (x, pull))


def _matrix(x: Any, ord: Any, axes: tuple[int, int], keepdims: bool) -> Any:
    if ord in (None, "fro", "f"):
        return _euclidean(x, axes, keepdims)
    moved = np.moveaxis(x, axes, (-2, -1))
    if ord in (2, -2, "nuc"):
        s = linalg.svdvals(moved)
        found = np.sum(s, -1) if ord == "nuc" else s[..., 0] if ord == 2 else s[..., -1]
    elif ord in (1, -1, math.inf, -math.inf):
        sums = np.sum(np.abs(moved), -2 if abs(ord) == 1 else -1)
        found = np.max(sums, -1) if ord > 0 else np.min(sums, -1)
    else:
        raise ValueError("Invalid norm order for matrices.")
    return np.expand_dims(found, axes) if keepdims else found
