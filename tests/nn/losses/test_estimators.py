"""Which estimators losses make."""

from helpers.cases import each_case
from helpers.nn.transitions import critic, gaussian

from lite.nn.losses import ClipPPOLoss, ValueEstimators, default_value_kwargs
from lite.nn.losses.estimators import named


def test_defaults() -> None:
    assert default_value_kwargs("td0") == {"gamma": 0.99, "differentiable": True}
    assert default_value_kwargs(ValueEstimators.GAE)["lmbda"] == 0.95
    assert [named(member.name.upper()) for member in ValueEstimators] == list(ValueEstimators)


@each_case(
    ("kind", "name"),
    [
        ("TD0", "TD0Estimator"),
        ("TD1", "TD1Estimator"),
        ("TDLambda", "TDLambdaEstimator"),
        ("GAE", "GAE"),
        ("MAGAE", "MultiAgentGAE"),
        ("VTrace", "VTrace"),
    ],
)
def test_an_estimator_has_the_networks_and_keys_of_the_loss(kind: str, name: str) -> None:
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
