"""MultivariateNormal: normal distributions over vectors of numbers that depend on each other."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite._transforms.grad.array import TracedArray
from lite._transforms.vmap.running import everything
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import (
    HALF_LOG_2PI,
    Distribution,
    Numbers,
    ShapeLike,
    as_float,
    as_shape,
    as_value,
    in_double,
    require,
    standard_normal,
)
from lite.nn.distributions.support import IndependentSupport, Real

_FORMS = ("covariance_matrix", "precision_matrix", "scale_tril")


class MultivariateNormal(Distribution):
    """Normal distributions over vectors, with a covariance in one of three forms.

    Args:
        loc: means, (*batch, n).
        covariance_matrix: (*batch, n, n), symmetric and positive definite.
        precision_matrix: its inverse.
        scale_tril: its Cholesky factor, a lower triangle with a positive diagonal.
        validate_args: False leaves `scale_tril` and the symmetry of the others unchecked.

    Raises:
        ValueError: not exactly one form is given, the matrix is invalid, or it has too few dimensions.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import MultivariateNormal
        >>> dist = MultivariateNormal(np.zeros(2), np.array([[2.0, 1.0], [1.0, 2.0]]))
        >>> dist.log_prob(np.array([1.0, 0.0])).round(4), dist.variance
        (np.float64(-2.7205), array([2., 2.]))

    Source:
        torch.distributions.MultivariateNormal.
    """

    has_rsample = True
    _batched = ("loc", "scale_tril", "covariance_matrix", "precision_matrix")
    scale_tril: Any

    def __init__(
        self,
        loc: Numbers,
        covariance_matrix: Numbers | None = None,
        precision_matrix: Numbers | None = None,
        scale_tril: Numbers | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            name: matrix
            for name, matrix in zip(_FORMS, (covariance_matrix, precision_matrix, scale_tril), strict=True)
            if matrix is not None
        }
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified, "
                f"got {sorted(given) or 'none'}."
            )
        [(name, matrix)] = given.items()
        loc, matrix = as_float(loc), as_float(matrix)
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if matrix.ndim < 2 or matrix.shape[-2:] != (loc.shape[-1],) * 2:
            raise ValueError(
                f"{name} must have as last dimensions twice that of loc, {loc.shape[-1]}, "
                f"got a shape of {matrix.shape}"
            )
        dtype = np.result_type(loc.dtype, matrix.dtype)
        batch = np.broadcast_shapes(loc.shape[:-1], matrix.shape[:-2])
        self.loc = np.broadcast_to(loc, (*batch, *loc.shape[-1:])).astype(dtype, copy=False)
        if self._is_checked(validate_args):
            _check(name, matrix)
        whole = np.broadcast_to(matrix, (*batch, *matrix.shape[-2:])).astype(dtype, copy=False)
        if name == "scale_tril" and isinstance(matrix, TracedArray):
            whole = np.tril(whole)  # above the diagonal nothing counts
        self.__dict__[name] = whole
        if name != "scale_tril":
            factor = _FACTORS[name](matrix).astype(dtype, copy=False)
            self.scale_tril = np.broadcast_to(factor, whole.shape)
        super().__init__(batch, loc.shape[-1:])

    @cached_property
    def covariance_matrix(self) -> Array:
        """Covariances, (*batch, n, n)."""
        return in_double(lambda tril: np.matmul(tril, np.matrix_transpose(tril)), self.scale_tril)

    @cached_property
    def precision_matrix(self) -> Array:
        """Inverses of the covariances, (*batch, n, n)."""

        def inverse(tril: Array) -> Array:
            half = np.linalg.inv(tril)
            return np.matmul(np.matrix_transpose(half), half)

        return in_double(inverse, self.scale_tril)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw vectors; see `Distribution.rsample`."""
        noise = standard_normal(rng, (*as_shape(sample_shape), *self.loc.shape), self.loc.dtype)
        return self.loc + np.matmul(self.scale_tril, noise[..., None])[..., 0]

    def log_prob(self, value: Numbers) -> Array:
        """Logarithm of the density of vectors (..., n)."""

        def density(x: Array, loc: Array, tril: Array) -> Array:
            z = np.linalg.solve(tril, (x - loc)[..., None])[..., 0]
            norm = loc.shape[-1] * HALF_LOG_2PI + log_diagonal(tril)
            return -0.5 * (z * z).sum(-1) - norm

        return in_double(density, as_value(value, self.loc.dtype), self.loc, self.scale_tril)

    def entropy(self) -> Array:
        """Entropy of each vector."""

        def entropy(tril: Array) -> Array:
            return tril.shape[-1] * (0.5 + HALF_LOG_2PI) + log_diagonal(tril)

        return in_double(entropy, self.scale_tril)

    @property
    def mean(self) -> Array:
        """`loc`."""
        return self.loc

    mode = deterministic_sample = mean

    @property
    def variance(self) -> Array:
        """Variance of each number."""
        return (self.scale_tril * self.scale_tril).sum(-1)

    support = IndependentSupport(Real(), 1)


def log_diagonal(tril: Array) -> Array:
    """Sum of the logarithms of the diagonal: half the logarithm of the covariance's determinant."""
    return np.log(np.diagonal(tril, axis1=-2, axis2=-1)).sum(-1)


def _check(name: str, matrix: Array) -> None:
    numbers = everything(matrix)
    if numbers.ndim < 2:  # a graph has none yet
        return
    if name == "scale_tril":
        diagonal, above = np.diagonal(numbers, axis1=-2, axis2=-1), np.triu(numbers, 1)
        require(diagonal > 0, "scale_tril must have a positive diagonal", diagonal)
        require(above == 0, "scale_tril must have zeros above its diagonal", above)
        return
    skew = np.abs(numbers - np.matrix_transpose(numbers))
    # a product of matrices is symmetric only to the last digits
    require(skew <= 1e-6 + 1e-5 * np.abs(numbers), f"{name} must be symmetric, with differences of 0", skew)


def _cholesky(matrix: Array, name: str = "covariance_matrix") -> Array:
    try:
        return np.linalg.cholesky(matrix.astype(np.float64, copy=False))
    except np.linalg.LinAlgError as err:
        raise ValueError(f"{name} must be positive definite, got one that is not") from err


def _of_precision(matrix: Array) -> Array:
    # L of the covariance: the inverse of the factor of the precision, whose triangle is mirrored for that
    mirrored = _cholesky(np.flip(matrix, (-2, -1)), "precision_matrix")
    inverse = np.linalg.inv(np.matrix_transpose(np.flip(mirrored, (-2, -1))))
    return np.tril(inverse)


_FACTORS = {"covariance_matrix": _cholesky, "precision_matrix": _of_precision}
