"""Batches of distributions: expanded ones, parts of them, all values of small ones, rows without draws."""

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, noting, raises
from helpers.compared import assert_same

from lite import TensorDict
from lite.nn import distributions as d

OF_SEVERAL = ("CompositeDistribution", "MixtureSameFamily")  # which draw from one after the other
Make = Callable[[dict[str, Any]], Any]
BATCH = (3, 2)


def parameters(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "loc": rng.normal(size=(*BATCH, 4)),
        "scale": rng.random((*BATCH, 4)) + 0.2,
        "probs": rng.random((*BATCH, 4)),
        "logits": rng.normal(size=(*BATCH, 4)),
        "mask": rng.random((*BATCH, 4)) < 0.5,
        "seen": np.array([[True, False], [True, True], [False, True]]),
    }


def _admitting(p: dict[str, Any]) -> Any:
    mask = p["mask"].copy()
    mask[..., 1] = True
    return mask


def _covariances(scale: Any) -> Any:
    return scale[..., None] * scale[..., None, :] * 0.3 + np.eye(4)


# how each is made of parameters (*batch, 4)
MAKE: dict[str, Make] = {
    "Bernoulli": lambda p: d.Bernoulli(probs=p["probs"]),
    "Categorical": lambda p: d.Categorical(logits=p["logits"]),
    "CompositeDistribution": lambda p: d.CompositeDistribution(
        TensorDict(
            {"x": {k: p[k] for k in ("loc", "scale")}, "y": {"probs": p["probs"]}}, p["loc"].shape[:-1]
        ),
        {"x": d.IndependentNormal, "y": d.Categorical},
    ),
    "Delta": lambda p: d.Delta(p["loc"]),
    "Independent": lambda p: d.Independent(d.Uniform(p["loc"], p["loc"] + p["scale"]), 1),
    "IndependentNormal": lambda p: d.IndependentNormal(p["loc"], p["scale"]),
    "LLMMaskedCategorical": lambda p: d.LLMMaskedCategorical(p["logits"], p["seen"]),
    "LogProbDistribution": lambda p: d.LogProbDistribution(p["loc"], p["mask"]),
    "MaskedCategorical": lambda p: d.MaskedCategorical(p["logits"], mask=_admitting(p)),
    "MaskedOneHotCategorical": lambda p: d.MaskedOneHotCategorical(
        probs=p["probs"], indices=np.array([0, 3])
    ),
    "Normal": lambda p: d.Normal(p["loc"], p["scale"]),
    "OneHotCategorical": lambda p: d.OneHotCategorical(probs=p["probs"]),
    "OneHotCategoricalStraightThrough": lambda p: d.OneHotCategoricalStraightThrough(p["probs"]),
    "OneHotOrdinal": lambda p: d.OneHotOrdinal(p["logits"]),
    "Ordinal": lambda p: d.Ordinal(p["logits"]),
    "TanhDelta": lambda p: d.TanhDelta(p["loc"], high=2.0),
    "TanhNormal": lambda p: d.TanhNormal(p["loc"], p["scale"], low=-2.0),
    "TruncatedNormal": lambda p: d.TruncatedNormal(p["loc"], p["scale"]),
    "Uniform": lambda p: d.Uniform(p["loc"], p["loc"] + p["scale"]),
    "Beta": lambda p: d.Beta(p["scale"], p["probs"] + 0.1),
    "Binomial": lambda p: d.Binomial(7, logits=p["logits"]),
    "Cauchy": lambda p: d.Cauchy(p["loc"], p["scale"]),
    "Chi2": lambda p: d.Chi2(p["scale"]),
    "Dirichlet": lambda p: d.Dirichlet(p["scale"]),
    "Exponential": lambda p: d.Exponential(p["scale"]),
    "Gamma": lambda p: d.Gamma(p["scale"], p["probs"] + 0.1),
    "Geometric": lambda p: d.Geometric(probs=p["probs"]),
    "Gumbel": lambda p: d.Gumbel(p["loc"], p["scale"]),
    "HalfNormal": lambda p: d.HalfNormal(p["scale"]),
    "Laplace": lambda p: d.Laplace(p["loc"], p["scale"]),
    "LogNormal": lambda p: d.LogNormal(p["loc"], p["scale"]),
    "MixtureSameFamily": lambda p: d.MixtureSameFamily(
        d.Categorical(probs=p["probs"]), d.Normal(p["loc"], p["scale"])
    ),
    "Multinomial": lambda p: d.Multinomial(5, probs=p["probs"]),
    "MultivariateNormal": lambda p: d.MultivariateNormal(p["loc"], _covariances(p["scale"])),
    "NegativeBinomial": lambda p: d.NegativeBinomial(p["scale"], probs=p["probs"]),
    "Pareto": lambda p: d.Pareto(p["scale"], p["probs"] + 0.1),
    "Poisson": lambda p: d.Poisson(p["scale"]),
    "RelaxedOneHotCategorical": lambda p: d.RelaxedOneHotCategorical(0.6, logits=p["logits"]),
    "StudentT": lambda p: d.StudentT(p["scale"], p["loc"], p["probs"] + 0.1),
    "TransformedDistribution": lambda p: d.TransformedDistribution(
        d.Independent(d.Normal(p["loc"], p["scale"]), 1), [d.SafeTanhTransform(), d.AffineTransform(1.0, 2.0)]
    ),
    "VonMises": lambda p: d.VonMises(p["loc"], p["scale"]),
    "Weibull": lambda p: d.Weibull(p["scale"], p["probs"] + 0.1),
}


def test_the_table_has_every_distribution() -> None:
    classes = [value for name in d.__all__ if inspect.isclass(value := getattr(d, name))]
    assert set(MAKE) == {cls.__name__ for cls in classes if issubclass(cls, d.Distribution)} - {
        "Distribution"
    }


def looked_up(dist: Any, name: str) -> Any:
    """A property or what a method gives, or the class of its error."""
    try:
        value = getattr(dist, name)
        return value() if callable(value) else value
    except (AttributeError, NotImplementedError, RuntimeError) as err:
        return type(err)


def test_expanded_distributions_are_those_of_expanded_parameters() -> None:
    for number, name in enumerate(MAKE):
        used = number % 2 == 0
        with noting(name, used):
            shape = (5, *BATCH)
            small, large = parameters(), {}
            for key, value in small.items():
                large[key] = np.broadcast_to(value, (5, *value.shape))
            dist, expected = MAKE[name](small), MAKE[name](large)
            if used:
                for member in ("entropy", "mode", "probs"):
                    if hasattr(type(dist), member):
                        looked_up(dist, member)
            got = dist.expand((5, *dist.batch_shape))
            assert type(got) is type(dist)
            assert got.batch_shape == expected.batch_shape
            assert got.event_shape == expected.event_shape
            for member in ("mean", "mode", "variance", "deterministic_sample", "entropy", "perplexity"):
                one, other = looked_up(got, member), looked_up(expected, member)
                if isinstance(other, type):
                    assert one is other
                else:
                    assert_same(one, other)
            if name == "LogProbDistribution":
                assert_same(got.log_prob(np.zeros((*shape, 4))), expected.log_prob(np.zeros((*shape, 4))))
                continue
            value = expected.sample((2,), rng=0)
            assert_same(got.sample((2,), rng=0), value)
            if name == "LLMMaskedCategorical":
                value = value[0]
            assert_same(got.log_prob(value), expected.log_prob(value))


def test_expanding_copies_nothing_and_leaves_the_distribution_as_it_was() -> None:
    loc = np.zeros((3, 1))
    dist = d.Normal(loc, np.ones((3, 1)))
    wide = dist.expand((2, 3, 4))
    assert wide.batch_shape == (2, 3, 4)
    assert np.shares_memory(wide.loc, loc)
    assert dist.batch_shape == (3, 1)
    assert dist.log_prob(0.0).shape == (3, 1)
    assert wide.sample(rng=0).shape == (2, 3, 4)
    assert np.unique(wide.sample(rng=0)).size == 24  # other draws for each
    for shape in ((3,), (2, 4), (3, 2, 2)):
        raises(ValueError, r"a batch of shape \(3, 1\) cannot be expanded, got ", dist.expand, shape)


@each_case("name", sorted(set(MAKE) - {"LogProbDistribution", *OF_SEVERAL}))
def test_a_seed_gives_a_row_its_draws_whatever_comes_after_it(name: str) -> None:
    p = parameters()
    part = {key: value[:2] for key, value in p.items()}
    assert_same(MAKE[name](p).sample(rng=3)[:2], MAKE[name](part).sample(rng=3))


@each_case(
    ("name", "values", "event"),
    [
        ("Bernoulli", [0.0, 1.0], ()),
        ("Categorical", [0, 1, 2, 3], ()),
        ("MaskedCategorical", [0, 1, 2, 3], ()),
        ("OneHotCategorical", np.eye(4), (4,)),
        ("MaskedOneHotCategorical", np.eye(4), (4,)),
        ("Binomial", np.arange(8.0), ()),
    ],
)
def test_all_values(name: str, values: Any, event: tuple[int, ...]) -> None:
    dist = MAKE[name](parameters())
    assert dist.has_enumerate_support
    got, narrow = dist.enumerate_support(), dist.enumerate_support(expand=False)
    assert got.shape == (len(values), *dist.batch_shape, *event)
    assert narrow.shape == (len(values), *(1,) * len(dist.batch_shape), *event)
    np.testing.assert_array_equal(narrow.reshape(np.shape(values)), values)
    np.testing.assert_array_equal(got, np.broadcast_to(narrow, got.shape))
    assert dist.support.check(got).all()
    np.testing.assert_allclose(np.exp(dist.log_prob(got)).sum(0), 1)


def test_those_of_many_values_say_so() -> None:
    dist = d.Normal(0.0, 1.0)
    assert not dist.has_enumerate_support
    raises(NotImplementedError, "Normal does not define enumerate_support", lambda: dist.enumerate_support())


NOTHING = [np.full(3, -np.inf), np.array([np.nan, 0.0, 1.0]), np.array([np.inf, 0.0, 1.0])]


def test_rows_of_nan_have_log_probs_but_no_draws() -> None:
    for logits, shape in itertools.product(NOTHING, [(), (5,)]):
        with noting(logits, shape):
            dist = d.Categorical(logits=np.stack([np.zeros(3), logits]))
            np.testing.assert_array_equal(np.isnan(dist.log_prob(np.array([0, 1]))), [False, True])
            with pytest.raises(RuntimeError, match=r"nothing to draw in a row of NaN.*got probabilities"):
                dist.sample(shape, rng=0)


def test_a_mask_that_admits_nothing() -> None:
    mask = np.array([[False, False], [True, False]])
    dist = d.MaskedCategorical(np.zeros((2, 2)), mask=mask)
    np.testing.assert_array_equal(dist.entropy(), 0)
    np.testing.assert_array_equal(dist.log_prob(np.array([0, 0])), [-np.inf, 0])
    raises(RuntimeError, "where a mask admits no class", lambda: dist.sample(rng=0))


@each_case(
    ("probs", "message"),
    [
        ([0.5, -0.5], "must not be negative, got -0.5"),
        ([np.nan, 1.0], "must not be negative, got nan"),
        ([np.inf, 1.0], "must not be negative, got inf"),
        ([0.0, 0.0], r"must have a positive sum, got 0\.0"),
    ],
)
def test_probs_that_are_none(probs: Any, message: str) -> None:
    raises(ValueError, message, lambda: d.Categorical(probs=np.array([[0.5, 0.5], probs])))


def test_extreme_parameters_draw_numbers() -> None:
    """Infinite ones, where there is no room for more; never NaN, and without warnings."""
    for dtype, name in itertools.product(
        ["float32", "float64"],
        ["Cauchy", "Chi2", "Exponential", "Gumbel", "LogNormal", "Pareto", "StudentT", "Weibull"],
    ):
        with noting(dtype, name):
            sizes = np.array([1e-30, 1e-3, 1.0, 1e3, 1e30], dtype)
            one = {"Chi2", "Exponential", "StudentT"}
            a, b = (x.ravel() for x in np.meshgrid(sizes, sizes))
            dist = getattr(d, name)(a) if name in one else getattr(d, name)(a, b)
            draws = dist.sample((50,), rng=0)
            assert draws.dtype == dtype
            assert not np.isnan(draws).any()
