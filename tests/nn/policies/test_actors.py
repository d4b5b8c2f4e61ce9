"""Actor and ProbabilisticActor."""

from typing import Any

import numpy as np
import pytest

from lite import TensorDict, nn
from lite.data import Bounded, Composite
from lite.nn.distributions import IndependentNormal

SPEC = Bounded(-1, 1, (2,))


def probabilistic(**options: Any) -> Any:
    net = nn.TensorDictModule(lambda x: (x * 0 + 2, x * 0 + 1), ["observation"], ["loc", "scale"])
    return nn.ProbabilisticActor(
        net, ["loc", "scale"], spec=SPEC, distribution_class=IndependentNormal, **options
    )


def test_actor() -> None:
    actor = nn.Actor(lambda x: (x + 1, x), out_keys=["action", "hidden"], spec=SPEC, safe=True)
    td = actor(TensorDict(observation=np.array([0.5, -0.5])))
    np.testing.assert_array_equal(td["action"], [1.0, 0.5])
    assert actor.spec == Composite(action=SPEC)


def test_a_string_or_a_tuple_is_one_key() -> None:
    net, key = nn.Linear(3, 2), ("n", "x")
    for module in (nn.Actor(net, "observation", key), nn.ValueOperator(net, "observation", key)):
        assert (module.in_keys, module.out_keys) == (["observation"], [key])
    for module in (nn.TanhModule("loc", "x"), nn.DistributionalDQNnet(in_keys="loc", out_keys="x")):
        assert (module.in_keys, module.out_keys) == (["loc"], ["x"])
    assert nn.TanhModule(("loc", "x")).out_keys == ["loc", "x"]  # as in TorchRL
    assert nn.DistributionalDQNnet(in_keys=("a", "b")).in_keys == ["a", "b"]
    assert nn.QValueActor(net, in_keys=key, action_space="one_hot").in_keys == [key]


def test_samples() -> None:
    td = probabilistic(generator=0)(TensorDict(observation=np.zeros((4000, 2)), batch_size=[4000]))
    np.testing.assert_array_equal(td["action"], 2.0)
    with nn.set_interaction_type("random"):
        drawn = probabilistic(generator=0)(td)["action"]
    np.testing.assert_allclose([drawn.mean(), drawn.std()], [2.0, 1.0], rtol=0.05)
    assert abs(probabilistic(safe=True)(td)["action"]).max() == 1


def test_parts() -> None:
    actor = probabilistic(out_keys=["move"])
    assert actor.spec == Composite(move=SPEC)
    part = actor.select_subsequence(out_keys=["loc"])
    assert type(part) is nn.SafeProbabilisticTensorDictSequential or part.out_keys == ["loc", "scale"]
    with pytest.raises(TypeError, match="module must have in_keys and out_keys, got Linear"):
        nn.ProbabilisticActor(nn.Linear(3, 2), ["loc"])


def test_names_of_a_composite_distribution() -> None:
    net = nn.TensorDictModule(lambda x: {}, ["observation"], ["params"])
    names = {"distribution_map": {"a": IndependentNormal, "b": IndependentNormal}}
    options = {"distribution_class": nn.CompositeDistribution, "distribution_kwargs": names}
    assert nn.ProbabilisticActor(net, ["params"], **options).out_keys == ["params", "a", "b"]


def operator() -> nn.ActorValueOperator:
    body = nn.TensorDictModule(lambda x: x * 2, ["observation"], ["hidden"])
    net = nn.TensorDictModule(lambda x: (x, x * 0 + 1), ["hidden"], ["loc", "scale"])
    actor = nn.ProbabilisticActor(net, ["loc", "scale"], distribution_class=IndependentNormal)
    value = nn.ValueOperator(lambda x: x.sum(-1, keepdims=True), ["hidden"])
    return nn.ActorValueOperator(body, actor, value)


def td() -> TensorDict:
    return TensorDict(observation=np.array([[1.0, 2.0]]), batch_size=[1])


def test_operators_and_heads() -> None:
    both = operator()
    assert both(td())["state_value"].tolist() == [[6.0]]
    policy = both.get_policy_operator()
    assert policy.get_dist(td()).mean.tolist() == [[2.0, 4.0]]
    assert len(policy) == 3
    assert both.get_value_operator()(td()).keys() == {"observation", "hidden", "state_value"}
    assert both.get_policy_head() is both[1]
    assert both.get_value_head() is both[2]
    assert type(both[:2]) is nn.SafeSequential


def test_values_of_actions() -> None:
    both = operator()
    critic = nn.ValueOperator(lambda h, a: (h + a).sum(-1, keepdims=True), ["hidden", "action"])
    actor = nn.Actor(lambda x: x + 1, ["hidden"])
    mixed = nn.ActorCriticOperator(both[0], actor, critic)
    assert mixed.get_critic_operator()(td())["state_action_value"].tolist() == [[14.0]]
    assert mixed.get_policy_operator()(td())["action"].tolist() == [[3.0, 5.0]]
    with pytest.raises(RuntimeError, match="has values of actions, not of states: call get_critic_operator"):
        mixed.get_value_operator()
    with pytest.raises(RuntimeError, match="value_operator must write the value of an action"):
        nn.ActorCriticOperator(both[0], actor, both[2])


def test_side_by_side() -> None:
    actor, value = nn.Actor(lambda x: x), nn.ValueOperator(lambda x: x[..., :1])
    both = nn.ActorCriticWrapper(actor, value)
    assert both.get_policy_operator() is both.get_policy_head() is actor
    assert both.get_value_operator() is both.get_value_head() is value
    assert both.select_subsequence(out_keys=["action"]).out_keys == ["action"]
