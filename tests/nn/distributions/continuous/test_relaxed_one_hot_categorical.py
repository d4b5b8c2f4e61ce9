"""RelaxedOneHotCategorical: densities over shares, temperatures, draws and their derivatives."""

import math

import numpy as np
import pytest
from helpers.cases import each_case

import lite
from lite.nn.distributions import RelaxedOneHotCategorical


@pytest.mark.parametrize("temperature", [0.6, 1.0, 2.5])
def test_the_density_of_two_shares(temperature: float) -> None:
    p = np.array([0.3, 0.7])
    dist = RelaxedOneHotCategorical(temperature, probs=p)
    x = np.linspace(0, 1, 200_001)[1:-1]
    y = np.stack([x, 1 - x], -1)
    powers = p * y ** (-temperature - 1)
    by_hand = temperature * powers.prod(-1) / (p * y**-temperature).sum(-1) ** 2  # (10) of the paper
    density = np.exp(dist.log_prob(y))
    np.testing.assert_allclose(density, by_hand, rtol=1e-9)
    assert abs(np.trapezoid(density, x) - 1) < 0.02
    below = (dist.sample((20_000,), rng=0)[:, 0] < 0.4).mean()
    assert abs(below - np.trapezoid(density[x < 0.4], x[x < 0.4])) < 0.02


def test_three_shares_by_hand() -> None:
    logits, y, t = np.array([0.1, -0.4, 0.2]), np.array([0.2, 0.3, 0.5]), 0.8
    p = np.exp(logits)
    expected = math.gamma(3) * t**2 * (p * y ** (-t - 1)).prod() / (p * y**-t).sum() ** 3
    np.testing.assert_allclose(RelaxedOneHotCategorical(t, logits=logits).log_prob(y), np.log(expected))


def test_temperatures() -> None:
    logits = np.log(np.array([0.2, 0.5, 0.3], np.float32))
    cold = RelaxedOneHotCategorical(0.01, logits=logits).sample((4000,), rng=0)
    np.testing.assert_allclose((cold > 0.99).mean(0), np.exp(logits), atol=0.03)
    hot = RelaxedOneHotCategorical(1e4, logits=logits).sample((10,), rng=0)
    np.testing.assert_allclose(hot, 1 / 3, atol=1e-3)
    assert hot.dtype == np.float32
    rows = RelaxedOneHotCategorical(np.array([0.5, 2.0], np.float32), logits=logits)
    assert (rows.batch_shape, rows.event_shape, rows.sample(rng=0).shape) == ((2,), (3,), (2, 3))
    for i, temperature in enumerate((0.5, 2.0)):
        one = RelaxedOneHotCategorical(np.array([temperature], np.float32), logits=logits)
        assert one.batch_shape == ()
        np.testing.assert_allclose(
            rows.log_prob(cold[0] * 0 + 1 / 3)[i], one.log_prob(np.full(3, 1 / 3)), rtol=1e-6
        )
        np.testing.assert_array_equal(rows.deterministic_sample[i], one.deterministic_sample)


def test_draws_have_finite_densities() -> None:
    dist = RelaxedOneHotCategorical(0.01, logits=np.array([30.0, 0.0, -30.0], np.float32))
    drawn = dist.sample((1000,), rng=0)
    assert dist.support.check(drawn).all()
    assert np.isfinite(dist.log_prob(drawn)).all()
    np.testing.assert_array_equal(dist.log_prob(np.array([[0.5, 0.6, -0.1], [0.5, 0.5, 0.5]])), -np.inf)
    assert np.isfinite(dist.log_prob(np.array([1.0, 0.0, 0.0])))
    assert np.isnan(dist.log_prob(np.array([np.nan, 0.5, 0.5])))


def test_derivatives_of_draws() -> None:
    goal = np.array([1.0, 2.0, 4.0])

    def mean(logits: np.ndarray, temperature: np.ndarray) -> np.ndarray:
        dist = RelaxedOneHotCategorical(temperature, logits=logits)
        return (dist.rsample((50,), rng=0) @ goal).mean()

    args = (np.array([0.3, -0.2, 0.1]), np.array(0.7))
    for place, got in enumerate(lite.grad(mean, (0, 1))(*args)):
        steps = np.eye(got.size).reshape(got.size, *got.shape) * 1e-6
        sides = [
            [mean(*[x + sign * step if i == place else x for i, x in enumerate(args)]) for sign in (1, -1)]
            for step in steps
        ]
        np.testing.assert_allclose(got.reshape(-1), [(a - b) / 2e-6 for a, b in sides], rtol=1e-6)
    drawn = lite.grad(lambda x: (RelaxedOneHotCategorical(1.0, logits=x).sample(rng=0) * x).sum())(args[0])
    np.testing.assert_allclose(drawn, RelaxedOneHotCategorical(1.0, logits=args[0]).sample(rng=0))


@each_case(
    ("args", "message"),
    [
        ((1.0,), "Either `probs` or `logits`"),
        ((1.0, np.ones(2), np.ones(2)), "Either `probs` or `logits`"),
        ((0.0, np.ones(2)), r"temperature must be positive, got 0\.0"),
        ((np.array([1.0, -2.0]), np.ones(2)), r"temperature must be positive, got -2\.0"),
        ((np.ones(3), np.ones((2, 2))), "shape mismatch|broadcast"),
    ],
)
def test_errors(args: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RelaxedOneHotCategorical(*args)
    assert RelaxedOneHotCategorical(-1.0, np.ones(2), validate_args=False).temperature == -1
