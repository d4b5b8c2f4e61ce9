"""Distributions in graphs: the draws, probabilities and entropies of NumPy's, for any size of the batch."""

import contextlib
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from helpers.compared import assert_same

import lite
from lite import TensorDict, nn
from lite.data import Collector
from lite.nn import distributions


def _covariance(x: Any) -> Any:
    return x[..., :, None] * x[..., None, :] + np.eye(4)


MADE: dict[str, Any] = {
    "Categorical": lambda x: distributions.Categorical(logits=x),
    "Categorical of probabilities": lambda x: distributions.Categorical(probs=np.abs(x)),
    "OneHotCategorical": lambda x: distributions.OneHotCategorical(logits=x),
    "OneHotCategoricalStraightThrough": lambda x: distributions.OneHotCategoricalStraightThrough(logits=x),
    "MaskedCategorical": lambda x: distributions.MaskedCategorical(logits=x, mask=np.abs(x) < 1),
    "RelaxedOneHotCategorical": lambda x: distributions.RelaxedOneHotCategorical(0.5, logits=x),
    "Bernoulli": lambda x: distributions.Bernoulli(logits=x),
    "Ordinal": lambda x: distributions.Ordinal(x),
    "IndependentNormal": lambda x: distributions.IndependentNormal(x, np.exp(x)),
    "TanhNormal": lambda x: distributions.TanhNormal(x, np.exp(x)),
    "TruncatedNormal": lambda x: distributions.TruncatedNormal(x, np.exp(x)),
    "TanhDelta": lambda x: distributions.TanhDelta(x),
    "Uniform": lambda x: distributions.Uniform(x, x + 2),
    "Laplace": lambda x: distributions.Laplace(x, np.exp(x)),
    "Gumbel": lambda x: distributions.Gumbel(x, np.exp(x)),
    "MultivariateNormal": lambda x: distributions.MultivariateNormal(x, _covariance(x)),
    "MultivariateNormal by precisions": lambda x: distributions.MultivariateNormal(
        x, precision_matrix=_covariance(x)
    ),
    "MultivariateNormal by a factor": lambda x: distributions.MultivariateNormal(
        x, scale_tril=np.linalg.cholesky(_covariance(x))
    ),
}
ASKED: dict[str, Any] = {
    "sample": lambda d, rng: d.sample((3,), rng=rng),
    "rsample": lambda d, rng: d.rsample((3,), rng=rng),
    "log_prob": lambda d, rng: d.log_prob(d.sample(rng=rng)),
    "entropy": lambda d, rng: d.entropy(),
    "mode": lambda d, rng: d.mode,
}


def answers(distribution: Any, rng: Any) -> dict[str, Any]:
    """All that the distribution has an answer to."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, ask in ASKED.items():
            with contextlib.suppress(NotImplementedError, AttributeError, RuntimeError):
                found[name] = ask(distribution, rng)
    return found


@pytest.mark.parametrize("name", MADE)
def test_the_same_numbers(name: str) -> None:
    step = lite.jit(lambda x, rng: answers(MADE[name](x), rng), threads=1)
    for n in (5, 4):
        x = np.random.default_rng(n).normal(size=(n, 4)) / 2
        one, two = (np.random.default_rng(7) for _ in range(2))
        want, got = answers(MADE[name](x), one), step(x, two)
        assert len(want) >= 2
        assert_same(got, want, rtol=1e-9, atol=1e-12, strict=True)
        assert one.bit_generator.state == two.bit_generator.state


def test_draws_that_hang_on_parameters_are_refused() -> None:
    step = lite.jit(lambda x, rng: distributions.Beta(x, x).rsample(rng=rng))
    with pytest.raises(NotImplementedError, match="draw a standard distribution and compute with it"):
        step(np.ones(3), np.random.default_rng(0))


def test_a_policy_acts_by_its_graph() -> None:
    net = nn.Sequential(nn.Linear(4, 8, rng=0), nn.Tanh(), nn.Linear(8, 2, rng=1))
    found = []
    for graph in (False, True):
        actor = nn.ProbabilisticTensorDictSequential(
            nn.TensorDictModule(net, ["observation"], ["logits"]),
            nn.ProbabilisticTensorDictModule(
                ["logits"], ["action"], distribution_class=distributions.Categorical, return_log_prob=True,
                generator=np.random.default_rng(3),
            ),
        )  # fmt: skip
        env = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
        policy = lite.jit(actor, threads=1) if graph else actor
        collector = Collector(env, policy, frames_per_batch=32, total_frames=64, seed=1)
        found.append(lite.cat(list(collector), 1))
    plain, graph = found
    assert_same(graph, plain, rtol=1e-5, atol=1e-5)


def test_a_row_of_nothing_draws_the_first_class() -> None:
    rows = TensorDict(x=np.array([[0.0, 0.0], [np.nan, 1.0]]), batch_size=[2])
    step = lite.jit(lambda td, rng: distributions.Categorical(logits=td["x"]).sample((50,), rng=rng))
    drawn = step(rows, np.random.default_rng(0))
    assert set(drawn[:, 0]) == {0, 1}
    assert set(drawn[:, 1]) == {0}
