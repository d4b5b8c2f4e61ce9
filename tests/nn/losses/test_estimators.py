"""Which estimators losses make."""

from __future__ import annotations

from helpers.nn.transitions import critic, gaussian
from helpers.noting import noting

from lite.nn.losses import ClipPPOLoss, ValueEstimators, default_value_kwargs
from lite.nn.losses.estimators import named


def test_defaults() -> None:
    assert default_value_kwargs("td0") == {"gamma": 0.99, "differentiable": True}
    assert default_value_kwargs(ValueEstimators.GAE)["lmbda"] == 0.95
    assert [named(member.name.upper()) for member in ValueEstimators] == list(ValueEstimators)


def test_an_estimator_has_the_networks_and_keys_of_the_loss() -> None:
    for kind, name in [
        ("TD0", "TD0Estimator"),
        ("TD1", "TD1Estimator"),
        ("TDLambda", "TDLambdaEstimator"),
        ("GAE", "GAE"),
        ("MAGAE", "MultiAgentGAE"),
        ("VTrace", "VTrace"),
    ]:
        with noting(kind, name):
            actor, value = gaussian(), critic()
            loss = ClipPPOLoss(actor, value)
            loss.set_keys(advantage="gain", reward="r")
            loss.make_value_estimator(ValueEstimators[kind], gamma=0.5)
            made = loss.value_estimator
            assert type(made).__name__ == name
            assert made.value_network is value
            assert float(made.gamma) == 0.5
            assert (made.tensor_keys.advantage, made.tensor_keys.reward) == ("gain", "r")
            if kind == "VTrace":
                assert made.actor_network is actor
