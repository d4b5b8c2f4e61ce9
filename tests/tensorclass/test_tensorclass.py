"""Tensorclasses: the class, its fields, and TensorDict's methods on its instances."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Generic, TypeVar

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.tensorclasses import Point, Tokens, Turn

from lite import TensorClass, TensorDict, is_tensor_collection, lazy_stack, tensorclass


@tensorclass(autocast=True)
class Cast:
    x: np.ndarray = None
    count: int = None
    rate: float = None
    done: bool = None


T = TypeVar("T")


@tensorclass
class Holder:
    x: Any


def test_it_is_a_dataclass():
    assert [field.name for field in dataclasses.fields(Tokens)] == ["prompt", "full", "padded"]
    assert dataclasses.is_dataclass(Point)
    assert Point.__doc__ == "Made by the decorator."
    assert Point.__qualname__ == "Point"
    assert Point.count == 7
    assert issubclass(Point, TensorClass)
    assert tensorclass(Tokens) is Tokens
    assert is_tensor_collection(Tokens)
    assert Turn.is_complete is True


def test_fields_are_inherited():
    class Longer(Tokens):
        response: Any = None

    row = Longer(np.arange(2), response=np.arange(3))
    assert row.prompt.tolist() == [0, 1]
    assert row[...].response.tolist() == [0, 1, 2]
    assert [field.name for field in dataclasses.fields(Longer)] == ["prompt", "full", "padded", "response"]
    assert Longer.__doc__ == f"Longer{inspect.signature(Longer)}"  # not the arguments of Tokens


def test_a_generic_class():
    @tensorclass
    class Decorated(Generic[T]):
        x: T

    class Derived(TensorClass, Generic[T]):
        x: T

    for cls in (Decorated, Derived):

        class Both(cls[np.ndarray]):  # type: ignore[misc, valid-type]
            y: Any = None

        assert cls[np.ndarray](x=np.ones(2)).x.tolist() == [1, 1]
        assert Both(x=np.ones(2), y=3).y == 3
    assert Derived["nocast"](x=1).x == 1


def test_what_does_not_fit_is_told_by_its_field():
    raises(RuntimeError, "mismatch at key 'full', got", Tokens, np.ones(2), full=np.ones(3), batch_size=[2])


def test_post_init_runs():
    class Checked(TensorClass):
        x: Any = None

        def __post_init__(self) -> None:
            self.x = self.x + 1

    assert Checked(x=np.ones(2)).x.tolist() == [2, 2]


@each_case(
    ("call", "message"),
    [
        (lambda: Turn(role="user"), "missing a value for its field 'content'"),
        (lambda: Tokens(other=1), "unexpected keyword argument 'other'"),
        (lambda: Tokens(1, 2, 3, 4), "takes 3 fields"),
        (lambda: Tokens(np.zeros(1), prompt=1), "multiple values for field 'prompt'"),
    ],
)
def test_constructor_errors(call, message):
    raises(TypeError, message, call)


def test_get_and_set():
    tokens = Tokens(full=np.zeros((2, 3), np.int64), batch_size=[2])
    assert tokens.prompt is None
    assert "prompt" not in tokens.keys()  # noqa: SIM118
    tokens.prompt = np.ones((2, 1))
    assert tokens.get("prompt") is tokens.prompt
    assert tokens.set("padded", True) is tokens
    assert tokens.padded is True
    tokens.prompt = None
    assert list(tokens.keys()) == ["full", "padded"]
    assert tokens.get("prompt", "default") == "default"
    tokens.update({"prompt": np.zeros(2)}, full=np.ones(2))
    assert tokens.update(full=np.ones(2)) is tokens
    held = tokens.full
    held[:] = 0
    assert tokens.update({"full": np.ones(2)}, inplace=True).full is held
    assert tokens.full.tolist() == [1, 1]
    given = np.zeros(2)
    assert tokens.update(input_dict_or_td={"full": given}).full is given
    assert tokens.update({"full": given}, True).full is not given  # clone
    tokens["prompt"] = np.ones(2)
    assert tokens["prompt"].tolist() == [1, 1]


@each_case(
    "write",
    [
        lambda t: setattr(t, "other", 1),
        lambda t: t.set("other", 1),
        lambda t: t.update({"other": 1}),
        lambda t: t.update(other=np.ones(2)),
        lambda t: t.set(("other", "x"), 1),
    ],
)
def test_unknown_fields_cannot_be_set(write):
    tokens = Tokens(full=np.zeros(2))
    raises(AttributeError, "expected attributes are", lambda: write(tokens))
    raises(AttributeError, "the source must be .* got int", tokens.update, 5)
    assert list(tokens.keys()) == ["full"]


def test_unknown_attributes():
    with pytest.raises(AttributeError, match="'Tokens' object has no attribute 'other'"):
        _ = Tokens().other
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        _ = Tokens.other


def test_objects_come_back_as_they_were():
    row = Turn(role="tool", content="", tool_calls=[{"name": "add"}], extra={"k": 1})
    assert row.tool_calls == [{"name": "add"}]
    assert row.extra == {"k": 1}
    assert Turn(role="tool", content="", tool_calls=[]).tool_calls == []
    both = lazy_stack([row, Turn(role="user", content="")])
    assert both.tool_calls is None
    assert both[0].tool_calls == [{"name": "add"}]
    assert both[1].tool_calls is None


def test_batch_operations_keep_the_class():
    points = Point(xy=np.arange(12.0).reshape(3, 2, 2), tags=[["a", "b"]] * 3, batch_size=[3, 2])
    for out, shape in [
        (points[[0, 2]], (2, 2)),
        (points.transpose(0, 1), (2, 3)),
        (points.split(2)[1], (1, 2)),
        (points.unbind(1)[0], (3,)),
        (points.clone(), (3, 2)),
        (points.select("xy"), (3, 2)),
    ]:
        assert type(out) is Point
        assert out.batch_size == shape
        assert out.xy.shape == (*shape, 2)
    assert type(TensorDict(p=points, batch_size=[3, 2]).clone()["p"]) is Point
    assert points[2, 1].norm() == np.hypot(10, 11)
    assert [type(row) for row in points] == [Point] * 3
    assert points.shape == (3, 2)
    raises(TypeError, "0-d Point", lambda: iter(Point(xy=np.zeros(2))))


def test_conversion():
    tokens = Tokens(full=np.zeros((2, 3)), padded=True, batch_size=[2])
    assert tokens.to_dict().keys() == {"prompt", "full", "padded"}
    assert tokens.to_dict()["prompt"] is None
    td = tokens.to_tensordict()
    assert td["padded"] is True
    back = Tokens.from_tensordict(td)
    assert back.full is td["full"]
    assert back.batch_size == (2,)
    raises(ValueError, "do not belong to the class", lambda: Tokens.from_tensordict(TensorDict(other=1)))
    raises(RuntimeError, "expects a TensorDict", lambda: Tokens.from_tensordict({"full": 1}))
    made = Tokens.from_dict({"full": np.zeros(2)})
    assert type(made) is Tokens


def test_lock():
    tokens = Tokens(full=np.zeros(2))
    assert tokens.lock_() is tokens
    assert tokens.is_locked
    with pytest.raises(RuntimeError, match="Cannot modify locked TensorDict"):
        tokens.prompt = np.zeros(1)
    with pytest.raises(RuntimeError, match="Cannot modify locked TensorDict"):
        tokens.full = None
    tokens.unlock_().prompt = np.zeros(1)
    tokens.is_locked = True
    assert tokens.is_locked


@each_case("lazy", [False, True])
def test_fields_without_a_value_are_none_in_dicts(lazy: bool) -> None:
    point = tensorclass(type("Point", (), {"__annotations__": {"x": Any, "s": Any}, "s": None}))
    td = TensorDict(p=point(x=np.ones(2)), a=np.ones(2))
    td = lazy_stack([td, td]) if lazy else td
    assert td.to_dict()["p"]["s"] is None
    assert "s" not in td.to_dict(retain_none=False)["p"]


def test_from_dict_instance_casts_to_the_fields() -> None:
    step = Cast(x=np.zeros(2), count=3, rate=0.1, done=True)
    for model in (step, TensorDict(step=step)):
        values = model.to_dict()
        out = model.from_dict_instance(values)
        out = out if model is step else out["step"]
        assert (out.count, out.rate, out.done) == (3, 0.1, True)
        assert [type(value) for value in (out.count, out.rate, out.done, out.x)] == [
            int, float, bool, np.ndarray,
        ]  # fmt: skip


def test_equal_to_its_dict() -> None:
    td = TensorDict(c=Cast(x=np.zeros(2)), y=1.0)
    assert (td == td.to_dict()).all()
    with pytest.raises(KeyError, match="mismatch"):
        td == {**td.to_dict(), "z": None}  # noqa: B015


def test_an_entry_with_the_same_fields_stays_what_it_is() -> None:
    inner = TensorDict({"x": np.ones(2)}, [2])
    holder = Holder(x=inner, batch_size=[2])
    assert holder.get("x") is holder.setdefault("x", 0) is inner
    assert type(holder.select("x")) is Holder


def test_the_batch_size_is_set_as_that_of_its_entries() -> None:
    point = Point(xy=np.zeros((2, 3)), tags=np.zeros((2, 3)), inner=None, batch_size=[2])
    point.batch_size = [2, 3]
    assert point.batch_size == (2, 3)
    with pytest.raises(RuntimeError):
        point.batch_size = [3]
    assert point.batch_size == (2, 3)
