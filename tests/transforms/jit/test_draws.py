"""Draws as inputs: those of the generator itself, in their order; computed are places and scales only."""

from pathlib import Path
from typing import Any

import numpy as np
from helpers.cases import each_case, raises
from helpers.compared import assert_same

import lite
import lite.nn

X = np.array([[0.5, 1.0, 2.0]])

DRAWS: dict[str, Any] = {
    "random": lambda rng, x: rng.random((2, 3)),
    "random of single precision": lambda rng, x: rng.random((2, 3), np.float32),
    "number": lambda rng, x: rng.random() + x,
    "numbers of Python": lambda rng, x: [
        x.astype(np.float32) * draw()
        for draw in (
            *(rng.random, rng.normal, rng.standard_normal, rng.uniform, rng.exponential, rng.gumbel),
            *(lambda: rng.beta(1.0, 2.0), lambda: rng.normal(1, 2), lambda: rng.uniform(-1, 2)),
            *(lambda: rng.poisson(3.0), lambda: rng.binomial(4, 0.5), lambda: rng.integers(3)),
            lambda: np.where(x > 0, rng.geometric(0.5), np.float32(1)).astype(np.float32),
        )
    ],
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
    "permutation of an array": lambda rng, x: [rng.permutation(x.T), rng.permutation(x, axis=1)],
    "shuffle": lambda rng, x: rng.shuffle(copy := x.T * 1) or copy,
    "permuted": lambda rng, x: [rng.permuted(x, axis=1), rng.permuted(x)],
    "choice": lambda rng, x: [rng.choice(x[0], 2), rng.choice(5, 3, False), rng.choice(x, 2, axis=1)],
    "choice by probabilities": lambda rng, x: rng.choice(x[0], size=4, p=[0.1, 0.6, 0.3]),
    "multinomial": lambda rng, x: rng.multinomial(9, [0.2, 0.8], 3),
    "dirichlet": lambda rng, x: rng.dirichlet([1.0, 2.0]),
    "lognormal": lambda rng, x: rng.lognormal(0.1, 0.2, 3),
    "multivariate normal": lambda rng, x: rng.multivariate_normal(np.zeros(2), np.eye(2), 3),
    "triangular": lambda rng, x: rng.triangular(0, 1, 2, size=3),
    "weibull": lambda rng, x: rng.weibull(2.0, 3),
    "beta": lambda rng, x: rng.beta(2.0, 3.0, 3),
    "standard normal": lambda rng, x: rng.standard_normal(3),
    "standard exponential": lambda rng, x: rng.standard_exponential(3, np.float32, "inv"),
}


def test_numbers_are_those_of_the_generator() -> None:
    def function(rng: Any, x: Any) -> dict[str, Any]:
        return {name: draw(rng, x) for name, draw in DRAWS.items()}

    step = lite.jit(function)
    one, two = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(2):
        assert_same(step(one, X), function(two, X), rtol=1e-12, strict=True)
    assert one.bit_generator.state == two.bit_generator.state


def test_other_draws_are_refused() -> None:
    for function, message in (
        (lambda rng, x: rng.gamma(x), r"draws by gamma, whose shape is computed"),
        (lambda rng, x: rng.spawn(2), r"draws by spawn, .*: draw before .* \(.*test_draws.py, line"),
        (lambda rng, x: rng.choice(3, p=x[0]), r"draws by choice, whose p is computed"),
        (lambda rng, x: rng.shuffle(np.arange(3)), r"shuffles an ndarray .* permutation"),
        (lambda rng, x: rng.random(out=np.zeros(3)), "draws by random into an array of its own"),
    ):
        raises(NotImplementedError, message, lite.jit(function), np.random.default_rng(0), X)


def test_arguments_of_draws_are_sizes_of_the_call() -> None:
    def function(rng: Any, x: Any) -> Any:
        rows, order = rng.integers(x.shape[0], size=4), rng.permutation(x.shape[0])
        return rows, x[order], rng.binomial(x.shape[0], 0.5, 3), x[rng.integers(0, x.shape[0] - 1, 5)]

    def of_products(rng: Any, x: Any) -> Any:
        return rng.integers(0, np.prod(x.shape), 6)  # a number that does not say where it is from

    step, other = lite.jit(function), lite.jit(of_products)
    for n in (4, 4, 9, 2):
        x = np.arange(3.0 * n).reshape(n, 3)
        one, two = np.random.default_rng(n), np.random.default_rng(n)
        np.testing.assert_equal(step(one, x), function(two, x))
        np.testing.assert_array_equal(other(one, x), of_products(two, x))
        assert one.bit_generator.state == two.bit_generator.state


@each_case("bits", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_a_seed_in_the_function_gives_the_same_numbers_at_each_call(tmp_path: Path, bits: Any) -> None:
    def function(x: Any) -> Any:
        normal, own = lite.nn.distributions.Normal(x, x + 1), np.random.Generator(bits(7))
        return normal.rsample(rng=own) - normal.rsample(rng=own), normal.rsample(rng=3)

    step = lite.jit(function)
    for n in (3, 3, 5):
        assert_same(step(np.ones(n)), function(np.ones(n)), rtol=1e-7)
    loaded = lite.load_step(step.lower(np.ones(3)).save(tmp_path / "step.onnx"))
    for _ in range(2):
        assert_same(loaded(np.ones(3)), function(np.ones(3)), rtol=1e-7)


OF_MODULE = np.random.default_rng(3)


class _Noisy:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.others = [np.random.default_rng(seed + 1)]

    def act(self, x: Any) -> Any:
        return x + self.rng.normal(size=x.shape) * self.others[0].random() + OF_MODULE.random()


def test_generators_of_closures_objects_and_modules_draw_at_each_call() -> None:
    def numbers(wrap: Any) -> Any:
        OF_MODULE.bit_generator.state = np.random.default_rng(9).bit_generator.state
        rng, noisy = np.random.default_rng(0), _Noisy(1)
        step = wrap(lambda x: (x * rng.normal(size=x.shape) + rng.permutation(x.shape[0]), noisy.act(x)))
        found = [step(np.ones(n)) for n in (3, 3, 4)]
        rngs = rng, noisy.rng, noisy.others[0], OF_MODULE
        assert all(type(one) is np.random.Generator for one in rngs)
        return found, [one.random() for one in rngs]

    assert_same(numbers(lite.jit), numbers(lambda fn: fn), rtol=1e-7)


def test_what_no_graph_draws_is_refused() -> None:
    rng, made = np.random.default_rng(0), iter([np.random.default_rng(0)] * 9)
    for function, error, message in (
        (lambda x: x if rng.random() < 0.01 else x + 1, RuntimeError, "branches on the numbers in an array"),
        (lambda x: x + next(made).normal(size=3), NotImplementedError,
            r"Random numbers do this, but for .* an argument"),
        (lambda x: x + np.random.default_rng().normal(size=x.shape), NotImplementedError,
            "cannot be traced: it has other numbers for the operator"),
    ):  # fmt: skip
        raises(error, message, lite.jit(function), X)
    assert type(rng) is np.random.Generator
