"""KLPENPPOLoss."""

import numpy as np
import pytest
from helpers.cases import raises
from helpers.nn.transitions import critic, gaussian, transitions

from lite.nn.distributions import IndependentNormal, kl_divergence
from lite.nn.losses import KLPENPPOLoss


def test_the_penalty_is_the_divergence() -> None:
    policy, rng = gaussian(), np.random.default_rng(0)
    td = policy(transitions(6, advantage=rng.normal(size=(6, 1)), value_target=np.zeros((6, 1))))
    td["loc"] = td["loc"] + rng.normal(size=(6, 2))
    td["action_log_prob"] = td["action_log_prob"] - np.log(1.2)
    loss = KLPENPPOLoss(policy, critic(), beta=3.0, dtarg=1e9)
    out = loss(td)
    expected = kl_divergence(IndependentNormal(td["loc"], td["scale"]), policy.get_dist(td.copy()))
    np.testing.assert_allclose(out["kl"][:, 0], expected)
    np.testing.assert_allclose(out["loss_objective"], 3 * expected.mean() - 1.2 * td["advantage"].mean())
    factors = []
    for share in (2 / 3.1, 2 / 2.9, 1.0, 1.4, 1.6):
        loss.dtarg = float(expected.mean()) / share
        before = loss.beta.copy()
        loss(td)
        factors.append(float(loss.beta / before))
    assert factors == [0.5, 1.0, 1.0, 1.0, 2.0]


def test_beta_starts_anew() -> None:
    loss = KLPENPPOLoss(gaussian(), critic(), beta=3.0)
    loss.beta[...] = 7.0
    loss.reset()
    assert loss.beta == 3.0


def test_divergences_without_a_formula_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise NotImplementedError

    policy = gaussian()
    td = policy(transitions(6, advantage=np.zeros((6, 1)), value_target=np.zeros((6, 1))))
    td["loc"] = td["loc"] + 0.5
    exact = KLPENPPOLoss(policy, critic())(td)["kl"]
    monkeypatch.setattr("lite.nn.losses.kl_ppo.kl_divergence", missing)
    drawn = KLPENPPOLoss(policy, critic(), samples_mc_kl=20_000, generator=0)(td)["kl"]
    np.testing.assert_allclose(drawn, exact, atol=0.05)


def test_a_divergence_without_a_formula_is_sampled() -> None:
    policy = gaussian(bounded=True)
    td = policy(transitions(6, advantage=np.ones((6, 1)), value_target=np.zeros((6, 1))))
    loss = KLPENPPOLoss(policy, critic(), samples_mc_kl=4, samples_mc_entropy=4, generator=0)
    out = loss(td)
    np.testing.assert_allclose(out["kl"], 0, atol=1e-6)
    assert out["kl"].shape == (6, 1)


def test_errors() -> None:
    raises(ValueError, "increment must be at least 1", KLPENPPOLoss, gaussian(), critic(), increment=0.5)
    raises(ValueError, "decrement must be at most 1", KLPENPPOLoss, gaussian(), critic(), decrement=2)
    td = gaussian()(transitions(6, advantage=np.zeros((6, 1)), value_target=np.zeros((6, 1))))
    with pytest.raises(KeyError, match="lacks the parameters of the distribution that acted"):
        KLPENPPOLoss(gaussian(), critic())(td.exclude("loc"))
