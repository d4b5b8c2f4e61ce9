"""Networks that say what actions and states are worth."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict, nn
from lite.data import Bounded, Categorical, Composite, MultiOneHot, OneHot, Unbounded
from lite.nn import QValueActor, QValueModule, ValueOperator
from lite.nn.tensordict_modules.q_value import action_space_of, value_of_action

VALUES = np.array([[1.0, 3.0, 2.0], [5.0, 0.0, 5.0]])


def test_ids() -> None:
    td = QValueModule("categorical")(TensorDict(action_value=VALUES, batch_size=[2]))
    np.testing.assert_array_equal(td["action"], [1, 0])
    np.testing.assert_array_equal(td["chosen_action_value"], [[3.0], [5.0]])


def test_several_choices() -> None:
    for sizes, values, best, worth in (
        ([3, 2], [1.0, 3.0, 2.0, 0.0, 5.0], [0, 1, 0, 0, 1], 8.0),
        (2, [1.0, 3.0, 2.0, 0.0], [0, 1, 1, 0], 5.0),
    ):
        action, _, chosen = QValueModule("mult-one-hot", var_nums=sizes)(np.array([values]))
        np.testing.assert_array_equal(action, [best])
        np.testing.assert_array_equal(chosen, [[worth]])
    with pytest.raises(ValueError, match="var_nums must add up to the 3 action values, got 2"):
        QValueModule("mult-one-hot", var_nums=2)(VALUES)


def test_shapes_and_bounds_of_a_spec() -> None:
    spec = Categorical(3, (1,))
    for strict, shape in (("auto", (2, 1)), (False, (2,))):
        assert QValueModule(spec=spec, strict_shape=strict)(VALUES)[0].shape == shape
    raises(RuntimeError, r"the action must have shape \(2, 1\)", lambda: QValueModule(spec=spec)(VALUES))
    for each in (OneHot(3, (2, 3)), Composite({"action": Categorical(3, (2,))}, shape=(2,))):
        actor = QValueActor(lambda x: x, spec=each)
        assert actor(VALUES)[0].shape == each.shape
    several = QValueActor(lambda x: x, spec=MultiOneHot([2, 1]), action_key="choice")
    np.testing.assert_array_equal(several(VALUES)[0][:, 2], [1, 1])
    bounded = Composite(action=Categorical(3), chosen_action_value=Bounded(0, 4, (1,), dtype=np.float64))
    for safe, chosen in ((True, [[3], [4]]), (False, [[3], [5]])):
        np.testing.assert_array_equal(QValueModule(spec=bounded, safe=safe)(VALUES)[2], chosen)


def test_masks() -> None:
    module = QValueModule("categorical", action_mask_key="mask")
    td = TensorDict(action_value=VALUES, mask=np.array([[1, 0, 1], [0, 1, 0]], bool), batch_size=[2])
    np.testing.assert_array_equal(module(td)["action"], [2, 1])
    raises(KeyError, "QValueModule reads the entry 'mask'", lambda: module(td.exclude("mask")))


def test_action_spaces() -> None:
    assert action_space_of("one_hot") == action_space_of("one-hot") == "one_hot"
    assert action_space_of(Categorical(3)) == "categorical"
    assert action_space_of(Composite({"action": Categorical(3)})) == "categorical"
    agents = Composite({"agents": {"mask": Unbounded(3), "action": OneHot(3)}, "late": Unbounded(3)})
    assert action_space_of(agents) == "one_hot"
    assert action_space_of(Composite({"action": Categorical(3), "agents": agents["agents"]})) == "categorical"
    for wrong in ("binary", None, Unbounded((3,))):
        raises(ValueError, "action_space must be 'one-hot', 'categorical' or a spec", action_space_of, wrong)


@each_case(
    ("action", "space", "message"),
    [
        (np.zeros((2, 2), int), "categorical", r"ids of shape \(2,\)"),
        (np.zeros(2), "categorical", "must be integers"),
        (np.zeros(2, int), "one_hot", r"the values' shape \(2, 3\), got \(2,\)"),
    ],
)
def test_actions_of_other_shapes(action: Any, space: str, message: str) -> None:
    raises(ValueError, message, lambda: value_of_action(VALUES, action, space))


def test_actors() -> None:
    actor = QValueActor(nn.Linear(4, 3), spec=Categorical(3), in_keys=["obs"], action_key="move")
    td = actor(TensorDict(obs=np.zeros((5, 4), np.float32), batch_size=[5]))
    assert td["move"].shape == (5,)
    assert actor.out_keys == ["move", "action_value", "chosen_action_value"]
    assert actor.action_space == "categorical"
    assert actor[:1](td.select("obs")).keys() == {"obs", "action_value"}
    net = nn.TensorDictModule(nn.Linear(4, 3), ["obs"], ["q"])
    assert QValueActor(net, action_space="one-hot", action_value_key="q").out_keys[1] == "q"
    with pytest.raises(KeyError, match="the module must write 'action_value', the action values, got"):
        QValueActor(net, action_space="one-hot")
    with pytest.raises(RuntimeError, match="out_keys must have 'action_value', the key of the values, got"):
        nn.QValueModule("one_hot", out_keys=["action"])
    with pytest.raises(RuntimeError, match="out_keys must have 'q', the key of the values, got"):
        QValueModule("one-hot", "q", out_keys=["a", "b", "c"])


def test_values_of_states_and_actions() -> None:
    assert ValueOperator(nn.Linear(4, 1)).in_keys == ["observation"]
    assert ValueOperator(nn.Linear(4, 1), ["x"], ["y"]).out_keys == ["y"]
