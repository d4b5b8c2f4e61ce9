"""Draws as inputs: those of the generator itself, in their order; computed are places and scales only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lite

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")
X = np.array([[0.5, 1.0, 2.0]])

DRAWS: dict[str, Any] = {
    "random": lambda rng, x: rng.random((2, 3)),
    "random of single precision": lambda rng, x: rng.random((2, 3), np.float32),
    "number": lambda rng, x: rng.random() + x,
    "normal": lambda rng, x: rng.normal(x, x * 2, (4, 3)),
    "normal of arrays": lambda rng, x: rng.normal(x, x),
    "normal of a number": lambda rng, x: rng.normal(scale=2.0, size=3),
    "uniform": lambda rng, x: rng.uniform(-x, x, (4, 3)),
    "uniform of arrays": lambda rng, x: rng.uniform(high=x),
    "exponential": lambda rng, x: rng.exponential(x, (4, 3)),
    "gumbel": lambda rng, x: rng.gumbel(x, 2.0, (4, 3)),
    "laplace": lambda rng, x: rng.laplace(x, x, (4, 3)),
    "logistic": lambda rng, x: rng.logistic(0.0, x, (4, 3)),
    "gamma": lambda rng, x: rng.standard_gamma(2.0, (3,)),
    "integers": lambda rng, x: rng.integers(5, size=(2, 3)),
    "permutation": lambda rng, x: rng.permutation(4),
    "beta": lambda rng, x: rng.beta(2.0, 3.0, 3),
    "standard normal": lambda rng, x: rng.standard_normal(3),
}


def test_numbers_are_those_of_the_generator() -> None:
    def function(rng: Any, x: Any) -> dict[str, Any]:
        return {name: draw(rng, x) for name, draw in DRAWS.items()}

    step = lite.jit(function)
    one, two = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(2):
        got, want = step(one, X), function(two, X)
        for name, expected in want.items():
            np.testing.assert_allclose(got[name], expected, rtol=1e-12, err_msg=name)
            assert np.asarray(got[name]).dtype == np.asarray(expected).dtype, name
    assert one.bit_generator.state == two.bit_generator.state


def test_shapes_follow_the_arguments() -> None:
    step = lite.jit(lambda rng, x: rng.standard_normal((*x.shape, 2)) + rng.random(2 * x.size)[0])
    for n in (3, 5):
        x = np.ones((n, 4))
        want = np.random.default_rng(n)
        np.testing.assert_allclose(
            step(np.random.default_rng(n), x), want.standard_normal((n, 4, 2)) + want.random(8 * n)[0]
        )
    assert len(step._kept) == 1


def test_other_draws_are_refused() -> None:
    for function, message in (
        (lambda rng, x: rng.gamma(x), r"draw \(gamma\) whose shape is computed"),
        (lambda rng, x: rng.multivariate_normal(np.zeros(2), np.eye(2)), "that a graph has no input for"),
        (lambda rng, x: rng.random(out=np.zeros(3)), "into an array of its own"),
    ):
        with pytest.raises(NotImplementedError, match=message):
            lite.jit(function)(np.random.default_rng(0), X)
