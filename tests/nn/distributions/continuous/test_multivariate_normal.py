"""MultivariateNormal: its three forms, independent numbers, draws, errors."""

from typing import Any

import numpy as np
from helpers.cases import each_case, raises

from lite.nn import distributions as d


def covariances(*shape: int, n: int = 3) -> np.ndarray:
    root = np.random.default_rng(0).normal(size=(*shape, n, n))
    return root @ root.swapaxes(-1, -2) + np.eye(n)


@each_case("shape", [(), (2,), (0,)])
def test_forms_agree(shape: tuple[int, ...]) -> None:
    cov = covariances(*shape)
    loc = np.random.default_rng(1).normal(size=(*shape, 3))
    forms = [
        d.MultivariateNormal(loc, cov),
        d.MultivariateNormal(loc, precision_matrix=np.linalg.inv(cov)),
        d.MultivariateNormal(loc, scale_tril=np.linalg.cholesky(cov)),
    ]
    x = np.random.default_rng(2).normal(size=(4, *shape, 3))
    away = x - loc
    squares = (away * np.linalg.solve(cov, away[..., None])[..., 0]).sum(-1)
    expected = -0.5 * (squares + np.linalg.slogdet(cov)[1] + 3 * np.log(2 * np.pi))
    for dist in forms:
        assert (dist.batch_shape, dist.event_shape) == (shape, (3,))
        np.testing.assert_allclose(dist.log_prob(x), expected, rtol=1e-9)
        np.testing.assert_allclose(dist.covariance_matrix, cov, rtol=1e-9)
        np.testing.assert_allclose(dist.precision_matrix, np.linalg.inv(cov), rtol=1e-8)
        np.testing.assert_allclose(dist.variance, np.diagonal(cov, axis1=-2, axis2=-1), rtol=1e-9)
        np.testing.assert_array_equal(np.triu(dist.scale_tril, 1), 0)
        large = dist.expand((5, *shape))
        np.testing.assert_allclose(
            large.log_prob(x[:1]), np.broadcast_to(expected[:1], (5, *shape)), rtol=1e-9
        )
        assert large.covariance_matrix.shape == (5, *shape, 3, 3)


@each_case(
    ("arguments", "message"),
    [
        ({}, "Exactly one of .* got none"),
        (
            {"covariance_matrix": np.eye(2), "scale_tril": np.eye(2)},
            "Exactly one of .*got .'covariance_matrix'",
        ),
        ({"covariance_matrix": np.ones(2)}, r"must have as last dimensions .* 2, got a shape of \(2,\)"),
        ({"covariance_matrix": np.eye(3)}, r"must have as last dimensions .* got a shape of \(3, 3\)"),
        ({"covariance_matrix": -np.eye(2)}, "covariance_matrix must be positive definite"),
        ({"precision_matrix": -np.eye(2)}, "precision_matrix must be positive definite"),
        ({"covariance_matrix": np.array([[1.0, 0.5], [0.0, 1.0]])}, "covariance_matrix must be symmetric"),
        ({"scale_tril": -np.eye(2)}, "scale_tril must have a positive diagonal, got -1.0"),
        ({"scale_tril": np.ones((2, 2))}, "scale_tril must have zeros above its diagonal, got 1.0"),
    ],
)
def test_errors(arguments: dict[str, Any], message: str) -> None:
    raises(ValueError, message, d.MultivariateNormal, np.zeros(2), **arguments)


def test_a_mean_needs_a_dimension() -> None:
    raises(ValueError, "loc must be at least one-dimensional", d.MultivariateNormal, np.float64(0), np.eye(1))
