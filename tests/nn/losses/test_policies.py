"""What losses ask of a policy's distribution."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.nn.transitions import categorical, critic, gaussian, linear, transitions

from lite import TensorDict, nn, value_and_grad
from lite.nn import set_composite_lp_aggregate
from lite.nn.distributions import Categorical, CompositeDistribution, Normal, TanhNormal
from lite.nn.losses import A2CLoss, KLPENPPOLoss, PPOLoss
from lite.nn.losses.policies import (
    drawn,
    entries,
    entropy_of,
    log_prob_of,
    policy_keys,
    require_policy,
    total,
)


def composite() -> CompositeDistribution:
    params = TensorDict(
        {"a": {"loc": np.zeros((3, 2)), "scale": np.ones((3, 2))}, "b": {"logits": np.zeros((3, 4))}},
        batch_size=[3],
    )
    return CompositeDistribution(params, {"a": Normal, "b": Categorical})


def test_policies_and_their_keys() -> None:
    require_policy(categorical())
    with pytest.raises(TypeError, match=r"actor_network must be a module with get_dist, .* got Linear"):
        require_policy(linear(4, 3))
    assert policy_keys(gaussian()) == {"sample_log_prob": "action_log_prob", "action": "action"}
    assert policy_keys(linear(4, 3)) == {}


def test_entries() -> None:
    td = TensorDict(a=np.ones(3), b=np.zeros(3), batch_size=[3])
    assert entries(td, "a", "Loss") is td["a"]
    assert set(entries(td, ["a", "b"], "Loss").keys()) == {"a", "b"}
    with pytest.raises(KeyError, match="Loss reads the entry 'c'"):
        entries(td, ["a", "c"], "Loss")


def test_log_probs_of_parts() -> None:
    dist = composite()
    td = dist.sample(rng=0)
    log_probs = log_prob_of(dist, td, ["a", "b"], "Loss")
    expected = Normal(np.zeros((3, 2)), 1.0).log_prob(td["a"]).sum(-1) - np.log(4)
    np.testing.assert_allclose(total(log_probs, 1), expected)
    assert total(expected, 1) is expected
    with set_composite_lp_aggregate(True):
        np.testing.assert_allclose(log_prob_of(dist, td, ["a", "b"], "Loss"), expected)


@each_case("cls", [PPOLoss, KLPENPPOLoss, A2CLoss])
def test_losses_add_up_the_parts_of_a_policy(cls: Any) -> None:
    keys = [("params", "a", "loc"), ("params", "a", "scale"), ("params", "b", "logits")]
    network = nn.TensorDictModule(lambda x: (x[..., :2], np.ones_like(x[..., :2]), x), ["observation"], keys)
    options = {"distribution_class": CompositeDistribution, "return_log_prob": True}
    options["distribution_kwargs"] = {"distribution_map": {"a": Normal, "b": Categorical}}
    with set_composite_lp_aggregate(False):
        head = nn.ProbabilisticTensorDictModule(["params"], ["a", "b"], **options)
        policy = nn.ProbabilisticTensorDictSequential(network, head)
        td = policy(transitions(3, advantage=np.arange(3.0)[:, None], value_target=np.zeros((3, 1))))
        out = cls(policy, critic(), **({"samples_mc_kl": 2} if cls is KLPENPPOLoss else {}))(
            td.copy().set("a_log_prob", td["a_log_prob"] - 0.25)
        )
    weight = td["a_log_prob"].sum(-1) + td["b_log_prob"] if cls is A2CLoss else np.full(3, np.exp(0.5))
    np.testing.assert_allclose(out["loss_objective"], -(weight * np.arange(3.0)).mean())
    entropy = policy.get_dist(td)["b"].entropy().mean() + np.log(2 * np.pi * np.e)
    np.testing.assert_allclose(out["loss_entropy"], -0.01 * entropy)


def test_draws_have_derivatives_where_the_distribution_has_them() -> None:
    def mean(loc: object) -> object:
        values, log_probs = drawn(TanhNormal(loc, np.ones((3, 2))), (), 0)
        return values.sum() + 0 * log_probs.sum()

    _, grad = value_and_grad(mean)(np.zeros((3, 2)))
    assert (grad > 0).all()
    values, log_probs = drawn(Categorical(logits=np.zeros((3, 4))), (5,), 0)
    assert values.shape == log_probs.shape == (5, 3)


def test_entropies() -> None:
    np.testing.assert_allclose(entropy_of(Categorical(logits=np.zeros((3, 4))), 1, None), np.log(4))
    found = entropy_of(composite(), 1, 0)
    assert set(found.keys()) == {"a_entropy", "b_entropy"}
    with set_composite_lp_aggregate(True):
        assert entropy_of(composite(), 1, 0).shape == (3,)
    narrow = TanhNormal(np.zeros((3, 1)), np.full((3, 1), 0.01))
    sampled = entropy_of(narrow, 20_000, 0)
    np.testing.assert_allclose(sampled, Normal(0.0, 0.01).entropy(), atol=0.02)


def test_an_entropy_that_is_not_finite_is_sampled() -> None:
    td = transitions(3)
    dist = categorical().get_dist(td)
    dist.entropy = lambda: np.full(3, np.inf)  # type: ignore[method-assign]
    assert np.isfinite(entropy_of(dist, 4, 0)).all()
