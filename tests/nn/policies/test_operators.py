"""Actors and value networks together."""

import numpy as np
import pytest

from lite import TensorDict, nn
from lite.nn.distributions import IndependentNormal


def operator() -> nn.ActorValueOperator:
    body = nn.TensorDictModule(lambda x: x * 2, ["observation"], ["hidden"])
    net = nn.TensorDictModule(lambda x: (x, x * 0 + 1), ["hidden"], ["loc", "scale"])
    actor = nn.ProbabilisticActor(net, ["loc", "scale"], distribution_class=IndependentNormal)
    value = nn.ValueOperator(lambda x: x.sum(-1, keepdims=True), ["hidden"])
    return nn.ActorValueOperator(body, actor, value)


def td() -> TensorDict:
    return TensorDict(observation=np.array([[1.0, 2.0]]), batch_size=[1])


def test_parts() -> None:
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
