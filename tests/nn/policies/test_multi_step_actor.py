"""MultiStepActorWrapper: plans that are carried out step by step."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict, nn


def planner(key: Any, length: int, calls: list[int]) -> nn.TensorDictModule:
    """Plans obs, obs + 1, ..., and notes for how many rows."""

    def plan(obs: Any) -> Any:
        calls.append(len(obs))
        return obs[:, None] + np.arange(length)[:, None]

    return nn.TensorDictModule(plan, ["obs"], [key])


def step(actor: Any, td: TensorDict, obs: list[float], starts: list[bool]) -> list[float]:
    td["obs"] = np.array(obs)[:, None]
    td["is_init"] = np.array(starts)[:, None]
    return actor(td)[actor.action_keys[0]].ravel().tolist()


@each_case("key", ["action", ("agent", "action")])
def test_a_plan_is_carried_out_and_renewed(key: Any) -> None:
    calls: list[int] = []
    actor = nn.MultiStepActorWrapper(planner(key, 3, calls), n_steps=3)
    td = TensorDict({}, [2])
    assert step(actor, td, [0, 100], [True, True]) == [0, 100]
    assert step(actor, td, [10, 200], [False, False]) == [1, 101]
    assert step(actor, td, [20, 300], [False, True]) == [2, 300]  # an episode of the second begins
    assert step(actor, td, [30, 400], [False, False]) == [30, 301]  # the plan of the first is used up
    assert calls == [2, 1, 1]


def test_a_plan_is_renewed_before_its_end() -> None:
    calls: list[int] = []
    actor = nn.MultiStepActorWrapper(planner("action_chunk", 5, calls), replan_interval=2)
    td = TensorDict({}, [1])
    taken = [step(actor, td, [10.0 * i], [i == 0])[0] for i in range(5)]
    assert taken == [0, 1, 20, 21, 40]
    assert set(td.keys()) == {"obs", "is_init", "action_chunk", "action", "counter"}


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="replan_interval"):
        nn.MultiStepActorWrapper(planner("action", 3, []), n_steps=3, replan_interval=4)
    with pytest.raises(ValueError, match="replan_interval"):
        nn.MultiStepActorWrapper(planner("action", 3, []), replan_interval=0)
    with pytest.raises(ValueError, match="init_key must be one key"):
        nn.MultiStepActorWrapper(planner("action", 3, []), init_key=["a", "b"])
    raises(ValueError, r"none .* is a plan .*\['plan'\]", nn.MultiStepActorWrapper, planner("plan", 3, []))
    with pytest.raises(ValueError, match="chunk_keys"):
        nn.MultiStepActorWrapper(planner("action", 3, []), action_keys=["a", "b"])
    td = TensorDict(obs=np.zeros((2, 1)), batch_size=[2])
    raises(KeyError, "is_init", lambda: nn.MultiStepActorWrapper(planner("action", 3, []))(td))
    td["is_init"] = np.ones((2, 1), bool)
    with pytest.raises(NotImplementedError, match=r"export its actor, .* \['action'\]"):
        nn.MultiStepActorWrapper(planner("action", 3, [])).to_onnx("plan.onnx", td)
    td["is_init"] = np.array([[True], [False]])
    raises(RuntimeError, "no plan", lambda: nn.MultiStepActorWrapper(planner("action", 3, []))(td))
    td["is_init"] = np.ones((2, 1), bool)
    for options in ({"n_steps": 4}, {"replan_interval": 4}):
        with pytest.raises(RuntimeError, match="plan must have"):
            nn.MultiStepActorWrapper(planner("action", 3, []), **options)(td.clone())
