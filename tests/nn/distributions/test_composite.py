"""Composite distributions: what tests/parity/test_probabilistic.py does not compare with tensordict."""

import numpy as np
import pytest

from lite import TensorDict
from lite.nn import CompositeDistribution
from lite.nn.distributions import Categorical, Normal, TanhNormal, Uniform


def two() -> CompositeDistribution:
    own = {"a": {"loc": np.zeros((3, 2)), "scale": np.ones((3, 2))}, "b": {"logits": np.zeros((3, 4))}}
    td = TensorDict(own, batch_size=[3])
    return CompositeDistribution(td, {"a": Normal, "b": Categorical})


def test_composite_draws_with_one_generator() -> None:
    dist = two()
    sample = dist.sample((5,), rng=0)
    again = dist.sample((5,), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(sample["a"], again["a"])
    np.testing.assert_array_equal(sample["b"], again["b"])
    assert sample.batch_size == (5, 3)
    assert dist.sample(2).batch_size == (2, 3)
    np.testing.assert_array_equal(dist.rsample(rng=0)["a"], dist.sample(rng=0)["a"])


def test_composite_is_a_mapping() -> None:
    dist = two()
    assert list(dist) == list(dist.keys()) == ["a", "b"]
    assert isinstance(dict(dist)["a"], Normal)
    assert dist[("a",)] is dist["a"]
    assert "CompositeDistribution({'a': Normal(" in repr(dist)


def test_composite_entropy_without_closed_form() -> None:
    dist = CompositeDistribution.from_distributions(
        TensorDict(batch_size=[3]), {"t": TanhNormal(np.zeros((3, 1)), 1.0), "u": Uniform(np.zeros(3), 2.0)}
    )
    out = dist.entropy(samples_mc=20_000, rng=0)
    np.testing.assert_allclose(out["u_entropy"], np.log(2.0))
    z = np.random.default_rng(1).standard_normal(400_000)
    exact = 0.5 * np.log(2 * np.pi * np.e) + np.log1p(-(np.tanh(z) ** 2)).mean()
    np.testing.assert_allclose(out["t_entropy"], exact, atol=0.03)
    assert np.isfinite(dist.entropy(rng=0)["t_entropy"]).all()  # of one sample
    assert np.isfinite(dist.entropy_composite(rng=0)["t_entropy"]).all()


def test_composite_icdf_asks_for_what_it_needs() -> None:
    dist = CompositeDistribution.from_distributions(TensorDict(), {"u": Uniform(0.0, 2.0)})
    np.testing.assert_allclose(dist.icdf(TensorDict(u=0.5))["u_icdf"], 0.5)
    np.testing.assert_allclose(dist.icdf(TensorDict(u_cdf=0.5))["u_icdf"], 1.0)
    with pytest.raises(KeyError, match="neither 'u' nor 'u_cdf' is in the sample"):
        dist.icdf(TensorDict())
    assert dist.median["u"] == 1.0


def test_composite_errors_name_the_key() -> None:
    with pytest.raises(KeyError, match=r"params has no 'c', only \['a'\]"):
        CompositeDistribution(TensorDict(a=1), {"c": Normal})
    with pytest.raises(RuntimeError, match="Expected a tensordict sample, but got a ndarray instead"):
        two().log_prob(np.zeros(3))


def test_log_probs_leave_the_sample_alone() -> None:
    dist, sample = two(), two().mode
    out = dist.log_prob(sample)
    assert sorted(out.keys()) == ["a_log_prob", "b_log_prob"]
    assert sorted(sample.keys()) == ["a", "b"]


def test_sums_are_written_where_they_are_asked_for() -> None:
    dist = two()
    sample = dist.sample(rng=0)
    for call, end, single in (
        (lambda **options: dist.log_prob_composite(sample.copy(), **options), "log_prob", "sample_log_prob"),
        (dist.entropy_composite, "entropy", "entropy"),
    ):
        each = {f"a_{end}", f"b_{end}"}
        assert set(map(str, call(include_sum=False).select(*each).keys())) == each
        found = call(include_sum=True)
        np.testing.assert_allclose(found[single], found[f"a_{end}"].sum(-1) + found[f"b_{end}"])
    loc = TensorDict({"a": {"loc": np.zeros(2), "scale": np.ones(2)}})
    halves = CompositeDistribution(loc, {"a": Normal}).cdf(TensorDict(a=np.zeros(2)))
    np.testing.assert_allclose(halves["a_cdf"], [0.5, 0.5])


def test_extra_keyword_arguments() -> None:
    td = TensorDict({"a": {"loc": np.zeros((3, 2)), "scale": np.ones((3, 2))}}, batch_size=[3])
    dist = CompositeDistribution(td, {("a",): TanhNormal}, extra_kwargs={("a",): {"low": -2.0, "high": 4.0}})
    np.testing.assert_array_equal(dist.deterministic_sample["a"], np.ones((3, 2)))


def test_sums_and_parts_of_log_probs() -> None:
    dist = CompositeDistribution(
        TensorDict(
            {"a": {"loc": np.zeros(2), "scale": np.ones(2)}, "b": {"low": np.zeros(2), "high": np.ones(2)}}
        ),
        {"a": Normal, "b": Uniform},
    )
    sample = TensorDict(a=np.zeros(2), b=np.full(2, 0.5))
    sums = dist.log_prob_composite(sample.copy(), include_sum=True)
    np.testing.assert_allclose(sums[dist.log_prob_key], np.log(2 * np.pi) * -0.5 * 2)
    assert dist.log_prob_key not in dist.log_prob_composite(sample.copy(), include_sum=False)
