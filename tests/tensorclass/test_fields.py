"""Options of tensorclasses: autocast, nocast, frozen; and what they share with dataclasses."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

from lite import TensorClass, TensorDict, stack, tensorclass


class Inner(TensorClass["autocast"]):
    x: np.ndarray


class Cast(TensorClass["autocast"]):
    count: int
    ratio: float = 0.5
    name: str = "n"
    array: np.ndarray = None
    inner: Inner = None
    anything: Any = None


class Kept(TensorClass["nocast"]):
    a: Any
    b: Any = None


class Frozen(TensorClass["frozen"]):
    a: np.ndarray
    b: str = "text"


def test_autocast() -> None:
    made = Cast(count=np.ones(()) * 3.7, ratio=1, name=5, array=[1, 2], inner={"x": [1.0]}, anything=3)
    assert (made.count, type(made.count)) == (3, int)
    assert (made.ratio, type(made.ratio)) == (1.0, float)
    assert made.name == "5"
    np.testing.assert_array_equal(made.array, [1, 2])
    assert type(made.inner) is Inner
    assert isinstance(made.anything, np.ndarray)
    made.count = "7"
    assert made.count == 7
    made.inner = TensorDict(x=np.zeros(2))
    assert type(made.inner) is Inner
    with pytest.raises(ValueError, match="cannot convert a str to the annotated int"):
        made.count = "seven"
    assert made.count == 7


def test_nocast() -> None:
    made = Kept(a=3, b=2.5)
    assert (type(made.a), type(made.b)) == (int, float)
    assert isinstance(Kept(a=np.ones(2)).a, np.ndarray)
    rows = stack([Kept(a=i) for i in range(3)])
    assert rows.a == [0, 1, 2]


def test_frozen() -> None:
    made = Frozen(a=np.zeros(2))
    assert made.is_locked
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        made.a = np.ones(2)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'b'"):
        del made.b
    with pytest.raises(RuntimeError, match="Cannot modify locked"):
        made.set("a", np.ones(2))
    np.testing.assert_array_equal(made.a, [0, 0])
    out = pickle.loads(pickle.dumps(made))
    assert type(out) is Frozen
    assert type(copy.deepcopy(made)) is Frozen
    assert type(made + 1) is Frozen


def test_options_are_inherited_and_given_as_keywords() -> None:
    class More(Frozen):
        c: Any = None

    class Keyword(TensorClass, nocast=True):
        a: Any = None

    with pytest.raises(dataclasses.FrozenInstanceError):
        More(a=np.zeros(1)).c = 1
    assert type(Keyword(a=1).a) is int


@pytest.mark.parametrize("flags", ["unknown", ("autocast", "nocast"), ("tensor_only", "nocast")])
def test_wrong_options(flags: Any) -> None:
    with pytest.raises(TypeError, match="tensorclass options"):
        TensorClass[flags]


def test_dataclass_functions() -> None:
    made = Kept(a=3, b="x")
    assert [field.name for field in dataclasses.fields(made)] == ["a", "b"]
    assert Kept.fields() == dataclasses.fields(Kept)
    assert dataclasses.asdict(made) == {"a": 3, "b": "x"}
    assert dataclasses.replace(made, a=4).a == 4
    assert list(inspect.signature(Kept).parameters) == ["a", "b", "batch_size", "device", "names"]
    assert inspect.signature(Kept).parameters["b"].default is None
    assert Kept.__match_args__ == ("a", "b")


def test_from_tensordict_with_further_fields() -> None:
    td = TensorDict(a=np.zeros(2))
    made = Kept.from_tensordict(td, non_tensordict={"b": 3})
    assert made.b == 3
    assert list(td.keys()) == ["a"]
    with pytest.raises(KeyError, match="given both"):
        Kept.from_tensordict(td, non_tensordict={"a": 3})


@pytest.mark.parametrize("name", ["sum", "keys", "is_locked", "sort"])
def test_fields_do_not_hide_methods_unasked(name: str) -> None:
    def define(**options: bool) -> Any:
        made = type("Made", (), {"__annotations__": {name: object}})
        return tensorclass(**options)(made)

    with pytest.raises(AttributeError, match=f"name {name} can't be used.*shadow=True"):
        define()
    assert getattr(define(shadow=True)(**{name: "x"}), name) == "x"


@pytest.mark.parametrize("name", ["batch_size", "device", "names", "shape", "ndim"])
def test_names_that_are_never_fields(name: str) -> None:
    with pytest.raises(AttributeError, match=f"name {name} can't be used"):
        tensorclass(shadow=True)(type("Made", (), {"__annotations__": {name: object}}))


def test_select_as_a_tensordict() -> None:
    @tensorclass
    class Step:
        a: np.ndarray
        b: np.ndarray | None = None

    step = Step(a=np.ones(2), batch_size=[2])
    assert type(step.select("a", as_tensordict=True)) is TensorDict
    assert isinstance(step.select("a"), Step)
    with pytest.raises(KeyError):
        step.select("b")
    assert step.select("b", strict=False).a is None
