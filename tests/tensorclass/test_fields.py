"""Options of tensorclasses: autocast, nocast, frozen; and what they share with dataclasses."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorClass, TensorDict, is_inexact, lazy_stack, stack, tensorclass
from lite.nn import Parameter


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
    """Other values and annotations are in tests/parity/test_tensorclass.py."""
    made = Cast(count=np.ones(()) * 3.7, ratio=1, inner={"x": [1.0]})
    assert (made.count, type(made.count), type(made.ratio), type(made.inner)) == (3, int, float, Inner)
    made.count = "7"
    assert made.count == 7
    made.inner = TensorDict(x=np.zeros(2))
    assert type(made.inner) is Inner
    for array in (np.ones(2), 2.5, [1.5]):
        made.array = array
        np.testing.assert_array_equal(made.array, array)
    for wrong, error in (("text", TypeError), (["a"], ValueError), ([[1], [2, 3]], ValueError)):
        with pytest.raises(error, match=r"cannot convert a .* to the annotated ndarray"):
            made.array = wrong
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
    for name, value in {"batch_size": [2], "names": None, "is_locked": False, "other": 1}.items():
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(made, name, value)
    raises(RuntimeError, "Cannot modify locked", lambda: made.set("a", np.ones(2)))
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


@each_case("flags", ["unknown", int, ("autocast", "nocast"), ("tensor_only", "nocast"), "kw_only"])
def test_wrong_options(flags: Any) -> None:
    raises(TypeError, "tensorclass options", lambda: TensorClass[flags])


def test_keyword_only_fields() -> None:
    """As measured on tensordict 0.15.3: the option is one of the class, not of those derived from it."""

    @tensorclass(kw_only=True)
    class Named:
        a: Any = None

    class More(Named):
        b: Any = None

    raises(TypeError, "takes 0 fields", Named, 1)
    assert (Named(a=2).a, More(3).b, More(3).a) == (2, 3, None)
    assert str(inspect.signature(More)).startswith("(b: 'Any' = None, *, a: 'Any' = None, batch_size")


def test_cast_filter_of_a_class() -> None:
    """As measured on tensordict 0.15.3."""

    class Mesh(TensorClass, cast_filter=is_inexact):
        points: np.ndarray
        cells: np.ndarray

    class More(Mesh):
        pass

    mesh = More(points=np.ones(2, np.float32), cells=np.arange(2))
    for cast in (mesh.double(), mesh.to(np.float64), mesh.type(np.float64), mesh.to(dtype="float64")):
        assert (cast.points.dtype, cast.cells.dtype) == (np.float64, np.int64)
    assert mesh.double(cast_filter=None).cells.dtype == np.float64
    assert TensorDict(mesh=mesh).double()["mesh"].cells.dtype == np.float64
    raises(TypeError, "cast_filter must be a function", lambda: TensorClass["cast_filter"])


def test_post_init_runs_when_the_class_is_called() -> None:
    calls = []

    @tensorclass(skip_post_init_on_rebuild=True)
    class Checked:
        a: Any

        def __post_init__(self) -> None:
            calls.append(self.a)

    _ = Checked(a=1).clone() + 1
    assert len(calls) == 1
    assert TensorClass["skip_post_init_on_rebuild"]


def test_dataclass_functions() -> None:
    assert Kept.fields() == dataclasses.fields(Kept)
    assert list(inspect.signature(Kept).parameters) == ["a", "b", "batch_size", "device", "names"]
    assert inspect.signature(Kept).parameters["b"].default is None
    assert inspect.signature(Kept.split) == inspect.signature(TensorDict.split)
    assert Kept.__match_args__ == ("a", "b")


def test_from_tensordict_with_further_fields() -> None:
    td = TensorDict(a=np.zeros(2))
    made = Kept.from_tensordict(td, non_tensordict={"b": 3})
    assert made.b == 3
    assert list(td.keys()) == ["a"]
    raises(KeyError, "given both", lambda: Kept.from_tensordict(td, non_tensordict={"a": 3}))


@each_case("name", ["sum", "keys", "is_locked", "sort"])
def test_fields_do_not_hide_methods_unasked(name: str) -> None:
    def define(**options: bool) -> Any:
        made = type("Made", (), {"__annotations__": {name: object}})
        return tensorclass(**options)(made)

    raises(AttributeError, f"name {name} can't be used.*shadow=True", define)
    assert getattr(define(shadow=True)(**{name: "x"}), name) == "x"


@each_case("name", ["batch_size", "device", "names", "shape", "ndim"])
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
    raises(KeyError, "", lambda: step.select("b"))
    assert step.select("b", strict=False).a is None


def test_frozen_instances_are_hashable() -> None:
    array = np.zeros(2)
    made = Frozen(a=array)
    assert {made: 1}[made] == 1
    assert made in {made, Frozen(a=np.ones(2))}
    assert hash(made) == hash(Frozen(a=array))
    assert hash(made) != hash(Frozen(a=array, b="other"))
    rows = lazy_stack([made, made])
    assert hash(rows) == hash(rows)
    nested = Frozen(a=TensorDict(x=1))
    assert hash(nested) == hash(nested)
    raises(TypeError, "unhashable", lambda: hash(Kept(a=1)))
    raises(TypeError, "unhashable", lambda: hash(Frozen(a=array, b={"un": "hashable"})))


def test_an_own_setattr_is_called_for_every_field() -> None:
    class Doubled(TensorClass):
        a: Any
        b: Any = None

        def __setattr__(self, name: str, value: Any) -> None:
            seen.append(name)
            super().__setattr__(name, value * 2 if name == "a" else value)

    class Derived(Doubled):
        c: Any = 3

    @tensorclass
    class Decorated:
        a: Any

        def __setattr__(self, name: str, value: Any) -> None:
            seen.append(name)
            super().__setattr__(name, value * 2)

    for cls, names in ((Doubled, ["a", "b"]), (Derived, ["a", "b", "c"]), (Decorated, ["a"])):
        seen: list[str] = []
        made = cls(a=np.ones(2))
        np.testing.assert_array_equal(made.a, [2, 2])
        assert seen == names
        made.a = np.zeros(2)
        assert seen == [*names, "a"]
        assert type(made.clone()) is cls


def test_deleted_fields() -> None:
    made = Kept(a=np.ones(2), b="text")
    del made.b
    assert not hasattr(made, "b")
    with pytest.raises(AttributeError, match="no attribute 'b'"):
        _ = made.b
    with pytest.raises(AttributeError, match="'b' has no value"):
        del made.b
    assert made.get("b", "default") == "default"
    assert "b=None" not in repr(made)
    assert list(made.to_dict()) == ["a"]
    assert made.clone().b is None
    made.b = None
    assert made.b is None
    made.b = 3
    assert made.b == 3
    with pytest.raises(RuntimeError, match="locked"):
        del made.lock_().b
    assert made.b == 3
    made = Kept(a=1)
    with pytest.raises(AttributeError, match="'b' has no value"):
        del made.b
    assert made.del_("b") is made
    assert made.del_("a").a is None
    raises(KeyError, "other", lambda: made.del_("other"))


def test_arrays_as_defaults() -> None:
    shared = np.zeros(2)

    class Made(TensorClass):
        a: Any = shared
        b: Any = Parameter(np.ones(1))
        c: Any = np.float32(2)

    assert Made().a is shared
    np.testing.assert_array_equal(Made(np.ones(2)).a, [1, 1])
    assert isinstance(Made().b, Parameter)
    assert Made().c == 2

    class Derived(Made):
        d: Any = np.ones(3)

    assert Derived().a is shared
    np.testing.assert_array_equal(Derived().d, np.ones(3))
    for value in ([1], {"a": 1}, TensorDict(a=1), Kept(a=1)):
        with pytest.raises(ValueError, match="mutable default"):
            tensorclass(type("Wrong", (), {"__annotations__": {"a": Any}, "a": value}))


def test_get_of_attributes() -> None:
    made = Kept(a=np.ones((2, 3)), batch_size=[2], names=["x"])
    assert (made.get("names"), made.get("is_locked")) == (["x"], False)
    assert type(made.get("data")) is Kept
    assert made.get("sum")(dim=0).a.shape == (3,)
    assert (made.get("other"), made.get("other", 3)) == (None, 3)


def test_lock_and_none() -> None:
    assert [Kept(a=1, lock=lock).is_locked for lock in (True, False)] == [True, False]
    made = Kept(a=np.ones(2))
    assert made.to_dict()["b"] is None
    assert list(made.to_tensordict().keys()) == ["a"]
    assert made.to_tensordict(retain_none=True)["b"] is None
    raises(ValueError, r"Got the keys \['other'\]", Kept.from_tensordict, TensorDict(a=1), {"other": 2})


def test_fields_named_as_methods() -> None:
    class Shadowing(TensorClass["shadow"]):
        stack: Any
        keys: Any = 3
        update: Any = None

    made = Shadowing(stack=np.ones(2))
    np.testing.assert_array_equal(made.stack, [1, 1])
    assert (int(made.keys), made.update) == (3, None)
    raises(TypeError, "missing a value for its field 'stack'", Shadowing)
