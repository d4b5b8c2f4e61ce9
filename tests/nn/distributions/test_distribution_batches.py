"""Batches of distributions: expanded, mapped, parts of them, all values of small ones, rows without draws."""

import contextlib
import inspect
import itertools
from typing import Any

import ml_dtypes  # noqa: F401 - its names are dtypes
import numpy as np
import pytest
from helpers.cases import each_case, noting, raises
from helpers.compared import assert_same
from helpers.nn.distributions import BATCH, MAKE, parameters

from lite import vmap
from lite.nn import distributions as d

MAPPED = sorted(set(MAKE) - {"CompositeDistribution", "LLMMaskedCategorical", "LogProbDistribution"})
OF_SEVERAL = ("CompositeDistribution", "MixtureSameFamily")  # which draw from one after the other


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


@each_case("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_dtypes_are_kept_and_parameters_not_written_to(dtype: str) -> None:
    """In bfloat16 results may be float32: their digits are compared."""
    floats = {key: value.dtype.kind == "f" for key, value in parameters().items()}
    narrow = {key: value.astype(dtype) if floats[key] else value for key, value in parameters().items()}
    for array in narrow.values():
        array.flags.writeable = False
    wide = {key: value.astype(np.float64) if floats[key] else value for key, value in narrow.items()}
    half = ("Bernoulli", "Normal", "TanhDelta", "TanhNormal", "TruncatedNormal", "Uniform")
    for name in half if dtype == "bfloat16" else MAPPED:
        with noting(name):
            dist = MAKE[name](narrow)
            value = dist.sample((2,), rng=0)
            found = dist.log_prob(value)
            if name in half and "Delta" not in name:  # others draw numbers that end the support when rounded
                expected = MAKE[name](wide).log_prob(value.astype(np.float64))
                np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-2, atol=1e-2)
            if dtype != "bfloat16":
                kept = {found.dtype, value.dtype, getattr(dist, "deterministic_sample", value).dtype}
                with contextlib.suppress(NotImplementedError, RuntimeError):
                    kept.add(dist.entropy().dtype)
                assert {kind for kind in kept if kind != np.int64} == {np.dtype(dtype)}


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


@each_case(("logits", "shape"), itertools.product(NOTHING, [(), (5,)]))
def test_rows_of_nan_have_log_probs_but_no_draws(logits: Any, shape: Any) -> None:
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


@each_case(
    ("dtype", "name"),
    itertools.product(
        ["float32", "float64"],
        ["Cauchy", "Chi2", "Exponential", "Gumbel", "LogNormal", "Pareto", "StudentT", "Weibull"],
    ),
)
def test_extreme_parameters_draw_numbers(dtype: Any, name: Any) -> None:
    """Infinite ones, where there is no room for more; never NaN, and without warnings."""
    sizes = np.array([1e-30, 1e-3, 1.0, 1e3, 1e30], dtype)
    one = {"Chi2", "Exponential", "StudentT"}
    a, b = (x.ravel() for x in np.meshgrid(sizes, sizes))
    dist = getattr(d, name)(a) if name in one else getattr(d, name)(a, b)
    draws = dist.sample((50,), rng=0)
    assert draws.dtype == dtype
    assert not np.isnan(draws).any()


# -- inside vmap: with mapped parameters they give what their batch gives ------------------------------------

# Of these the random numbers that a draw takes depend on the parameters.
REJECTING = (
    *("Beta", "Binomial", "Chi2", "Dirichlet", "Gamma", "Multinomial", "NegativeBinomial", "Poisson"),
    *("StudentT", "VonMises"),
)


@each_case("name", MAPPED)
def test_mapped_parameters(name: str) -> None:
    p, make, tested = parameters(), MAKE[name], 0
    values = make(p).sample(rng=0)

    def member(dist: Any, what: str, value: Any) -> Any:
        found = getattr(dist, what)
        return found(value) if what in ("log_prob", "cdf", "icdf") else found() if callable(found) else found

    for what in ("log_prob", "cdf", "icdf", "mean", "mode", "variance", "entropy"):
        given = np.full(values.shape, 0.3) if what == "icdf" else values
        try:
            expected = member(make(p), what, given)
        except (NotImplementedError, RuntimeError):
            continue
        got = vmap(lambda p, v, what=what: member(make(p), what, v))(p, given)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-11)
        tested += 1
    few = ("RelaxedOneHotCategorical", "TanhNormal", "TransformedDistribution")
    assert tested >= (1 if name in few else 3)


@each_case("name", MAPPED)
def test_mapped_draws(name: str) -> None:
    p, make, rng = parameters(), MAKE[name], np.random.default_rng(1)

    def draw(p: Any) -> Any:
        return make(p).sample((3,), rng=rng)

    if "Delta" not in name:
        raises(RuntimeError, "vmap met a random draw", vmap(draw), p)
    expected = make(p).sample((3,), rng=0)
    got = vmap(draw, randomness="different", out_dims=1)(p)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    if name in REJECTING:
        message = r"draws by Generator\.\w+ cannot be the same for all elements"
        raises(RuntimeError, message, vmap(draw, randomness="same"), p)
    elif name not in OF_SEVERAL:
        same = vmap(draw, randomness="same")({key: value[[0] * 3] for key, value in p.items()})
        np.testing.assert_array_equal(same, np.broadcast_to(same[:1], same.shape))


def test_mapped_divergences() -> None:
    for one, other in (("Normal", "Gumbel"), ("MultivariateNormal", "MultivariateNormal")):

        def divergence(p: Any, one: str = one, other: str = other) -> Any:
            return d.kl_divergence(MAKE[one](p), MAKE[other]({**p, "loc": p["loc"] * 0}))

        np.testing.assert_allclose(vmap(divergence)(parameters()), divergence(parameters()), rtol=1e-12)
