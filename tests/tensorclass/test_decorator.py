"""Classes that `@tensorclass` makes tensorclasses."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorClass, TensorDict, from_dataclass, is_tensorclass, tensorclass


@tensorclass(frozen=True, nocast=True)
class Both:
    a: Any

    def twice(self) -> Any:
        return self.a * 2


def test_decorator_with_options() -> None:
    made = Both(a=3)
    assert made.twice() == 6
    assert Both.__name__ == "Both"
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.a = 4


class Plain:
    x: Any

    def twice(self) -> Any:
        return self.x * 2


Renamed, Plain = Plain, tensorclass(Plain)


def test_instances_are_of_the_given_class_too() -> None:
    made = Plain(x=np.ones(2), batch_size=[2])
    assert isinstance(made, Renamed)
    assert isinstance(made[0], Renamed)
    assert type(pickle.loads(pickle.dumps(made))) is Plain
    np.testing.assert_array_equal(made.twice(), [2, 2])


@dataclasses.dataclass
class Inner:
    n: int = 1


@dataclasses.dataclass
class Step:
    reward: float
    obs: np.ndarray = None  # type: ignore[assignment]
    text: str = "ok"
    inner: Any = None
    tags: list[str] = dataclasses.field(default_factory=lambda: ["new"])

    def twice(self) -> Any:
        return self.reward * 2


def test_a_dataclass_that_is_decorated() -> None:
    made = tensorclass(Step)(reward=np.ones(2), batch_size=[2], tags=["a", "b"])
    assert made.reshape(1, 2).text == "ok"
    np.testing.assert_array_equal(made.twice(), [2, 2])
    assert repr(made).startswith("Step(\n    reward=Array")
    assert type(made == made.clone()) is type(made)
    assert Step(1).tags == tensorclass(Step)(1).tags == ["new"]
    assert made[1].tags == "b"


def test_a_dataclass_type() -> None:
    cls = from_dataclass(Step)
    assert is_tensorclass(cls)
    assert cls.__name__ == "Step_tc"
    assert isinstance(cls(reward=1).reward, np.ndarray)
    assert (cls(reward=1).text, cls(reward=1).tags) == ("ok", ["new"])
    cast = from_dataclass(Step, autocast=True)(reward=3, obs=[1, 2])
    assert (cast.reward, cast.obs.tolist()) == (3.0, [1, 2])
    assert type(from_dataclass(Step, nocast=True)(reward=3).reward) is int
    with pytest.raises(dataclasses.FrozenInstanceError):
        from_dataclass(Step, frozen=True)(reward=3).reward = 4
    raises(TypeError, "tensor_only requires", from_dataclass, Step, tensor_only=True)
    assert from_dataclass(cls) is cls
    kept = from_dataclass(Step, inplace=True)
    assert (kept.__name__, kept(reward=2).twice()) == ("Step", 4)


def test_a_dataclass_instance() -> None:
    obs = np.ones((2, 3))
    step = Step(np.zeros((2, 3)), obs, inner=Inner(3), tags=["a", "b"])
    made = from_dataclass(step, batch_size=[2])
    assert type(made) is from_dataclass(Step)
    assert made.obs is obs
    assert (made.batch_size, made.text, made.inner, made[1].tags) == ((2,), "ok", {"n": 3}, "b")
    assert from_dataclass(Step(obs, obs, tags=None), auto_batch_size=True, batch_dims=1).batch_size == (2,)
    assert from_dataclass(Step(3), autocast=True).reward == 3.0
    assert from_dataclass(Step(3), nocast=True).reward == 3

    class Mine(TensorClass):
        reward: Any
        obs: Any
        text: Any
        inner: Any
        tags: Any

    assert type(from_dataclass(step, dest_cls=Mine)) is Mine
    raises(TypeError, "Conflicting batch sizes", from_dataclass, step, batch_size=[2], auto_batch_size=True)
    for wrong in (3, int, TensorDict()):
        raises(TypeError, "expects a dataclass", from_dataclass, wrong)
