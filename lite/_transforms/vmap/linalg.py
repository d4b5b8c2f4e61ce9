"""Rules of numpy.linalg, whose functions take stacks of matrices already."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import linalg

from lite._transforms.formulas import ndim_of
from lite._transforms.registry import NoRule
from lite._transforms.vmap.along import all_further, further
from lite._transforms.vmap.level import Level
from lite._transforms.vmap.rules import composed, rule, rules_of


@rules_of(
    *(linalg.inv, linalg.pinv, linalg.det, linalg.slogdet, linalg.cholesky, linalg.qr, linalg.svd),
    *(linalg.svdvals, linalg.eig, linalg.eigh, linalg.eigvals, linalg.eigvalsh, linalg.cond),
    *(linalg.matrix_power, linalg.matrix_norm),
)
def _of_matrices(function: Any) -> Any:
    def run(level: Level, a: Any, *args: Any, **kwargs: Any) -> Any:
        if not level.on(a) or any(hasattr(value, "level") for value in (*args, *kwargs.values())):
            raise NoRule
        if a.ndim < 2:
            raise linalg.LinAlgError(
                f"{a.ndim}-dimensional array given. Array must be at least two-dimensional"
            )
        result = function(a.value, *args, **kwargs)
        return level.wrap_all(result) if isinstance(result, tuple) else level.wrap(result)

    return run


@rule(linalg.matrix_rank)
def _matrix_rank(level: Level, A: Any, *args: Any, **kwargs: Any) -> Any:
    if args or kwargs:
        raise NoRule
    if A.ndim < 2:
        return np.any(A != 0).astype(np.int64)
    return level.wrap(linalg.matrix_rank(A.value))


@rule(linalg.solve)
def _solve(level: Level, a: Any, b: Any) -> Any:
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


@composed(linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    raise NoRule  # its residuals have a shape that depends on the rank


@rule(linalg.norm)
def _norm(level: Level, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
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
        axes = all_further(axis, ndim) if isinstance(axis, tuple | list) else further(axis, ndim)
    return level.wrap(linalg.norm(x.value, ord, axes, keepdims))


@rule(linalg.vector_norm)
def _vector_norm(level: Level, x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    ndim = x.ndim
    if axis is None:
        out = linalg.vector_norm(x.value.reshape(level.size, math.prod(x.shape)), axis=1, ord=ord)
        return level.wrap(out.reshape(level.size, *[1] * ndim) if keepdims else out)
    axes = all_further(axis, ndim)
    return level.wrap(linalg.vector_norm(x.value, axis=axes, keepdims=keepdims, ord=ord))
