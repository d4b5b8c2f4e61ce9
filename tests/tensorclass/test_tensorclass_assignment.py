"""`instance[index] = value`: what a tensorclass takes, and what it refuses before anything is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorClass, TensorDict, TensorDictBase, lazy_stack


class Left(TensorClass):
    x: np.ndarray
    z: Any = None


class Same(TensorClass):
    x: np.ndarray
    z: Any = None


class Right(TensorClass):
    x: np.ndarray
    y: Any = None


class Longer(Left):
    w: Any = None


class Holder(TensorClass):
    x: np.ndarray
    held: Any = None


def made(cls: Any, value: float = 1.0, **fields: Any) -> Any:
    return cls(x=np.full(3, value), **fields, batch_size=[3])


def lazy(cls: Any, value: float = 1.0, **fields: Any) -> Any:
    return lazy_stack([cls(x=np.full((), value), **fields) for _ in range(3)])


def nested(value: Any) -> TensorDict:
    return TensorDict({"x": np.full(3, value.x[0]), "n": {"held": value}}, batch_size=[3])


WRAPPED = {
    "on top": lambda value: value,
    "in a tensorclass": lambda value: made(Holder, value.x[0], held=value),
    "in TensorDicts": nested,
    "in a lazy stack": lambda value: lazy_stack(list(nested(value).unbind(0))),
    "around a lazy stack": lambda value: lazy_stack(list(value.unbind(0))),
}
REFUSED = {
    "another field": (Left, lambda: made(Right, y=np.ones(3))),
    "another field, None": (Left, lambda: made(Right)),
    "fewer fields": (Longer, lambda: made(Left)),
    "a further field": (Left, lambda: made(Longer, w=np.ones(3))),
    "a TensorDict": (Left, lambda: TensorDict({"x": np.ones(3), "q": np.ones(3)}, batch_size=[3])),
    "a lazy stack": (Left, lambda: lazy(Right)),
}


def held(obj: Any) -> Any:
    """The instance in what `WRAPPED` made."""
    if isinstance(obj, TensorDictBase):
        return obj["n", "held"]
    return obj.held if isinstance(obj, Holder) else obj


@each_case("wrap", WRAPPED)
@each_case("name", REFUSED)
@each_case("index", [slice(None, 2), 0, [0, 2], np.array([True, False, True]), ...])
def test_other_fields_are_refused(name: str, wrap: str, index: Any) -> None:
    cls, make = REFUSED[name]
    source = make()
    if isinstance(source, TensorClass):
        other = WRAPPED[wrap](source)
    elif wrap == "in a tensorclass":
        other = TensorDict({"x": np.ones(3), "held": source}, batch_size=[3])
    elif wrap.startswith("in"):
        other = TensorDict({"x": np.ones(3), "n": {"held": source}}, batch_size=[3])
    else:
        other = source
    target = WRAPPED[wrap](made(cls, 0.0))
    with pytest.raises(ValueError, match=r"are not fields of (both|it)"):
        target[index] = other[index]
    np.testing.assert_array_equal(target.get("x"), [0, 0, 0])
    inner = held(target)
    np.testing.assert_array_equal(inner.x, [0, 0, 0])
    assert sorted(inner.keys()) == ["x"]


@each_case("wrap", WRAPPED)
@each_case("cls", [Left, Same, Longer])
def test_the_same_fields_are_written(cls: Any, wrap: str) -> None:
    target = WRAPPED[wrap](made(Left, 0.0, z=np.zeros(3)))
    target[:2] = WRAPPED[wrap](made(cls, z=np.ones(3)))[:2]
    inner = held(target)
    assert type(inner) is Left
    np.testing.assert_array_equal(inner.x, [1, 1, 0])
    np.testing.assert_array_equal(inner.z, [1, 1, 0])


def test_fields_that_are_none() -> None:
    target = made(Left, 0.0)
    target[:2] = made(Left)[:2]
    assert target.z is None
    target[:2] = made(Left, z=np.ones(3))[:2]
    np.testing.assert_array_equal(target.z, [1, 1, 0])
    target[1:] = made(Left, 2.0)[1:]
    np.testing.assert_array_equal(target.x, [1, 2, 2])
    np.testing.assert_array_equal(target.z, [1, 1, 0])


def test_values_of_other_kinds() -> None:
    target = made(Left, 0.0)
    target[:2] = TensorDict({"x": np.ones(2)}, batch_size=[2])
    target[2] = {"x": 5}
    np.testing.assert_array_equal(target.x, [1, 1, 5])
    with pytest.raises(ValueError, match=r"dict to a Left: \['q'\] are not fields of it"):
        target[0] = {"x": 7, "q": 1}
    target[1:] = 3
    np.testing.assert_array_equal(target.x, [1, 3, 3])


@each_case(
    "source",
    [
        {"x": np.ones(3), "q": np.ones(3)},
        TensorDict({"x": np.ones(3), "q": np.ones(3)}, batch_size=[3]),
        made(Right, y=np.ones(3)),
    ],
)
def test_updates_of_what_holds_an_instance(source: Any) -> None:
    for wrap in ("in TensorDicts", "in a lazy stack"):
        td = WRAPPED[wrap](made(Left, 0.0))
        value = source if wrap == "in TensorDicts" else TensorDict(source, batch_size=[3])
        raises(ValueError, "are not fields of it", td.update, {"n": {"held": value}})
        np.testing.assert_array_equal(td["n", "held"].x, [0, 0, 0])
        assert sorted(td["n", "held"].keys()) == ["x"]
    td = nested(made(Left, 0.0))
    td.update({"n": {"held": {"x": np.ones(3)}}})
    assert type(td["n", "held"]) is Left
    np.testing.assert_array_equal(td["n", "held"].x, [1, 1, 1])


def test_set_at_of_an_instance() -> None:
    td = nested(made(Left, 0.0))
    raises(ValueError, "are not fields of both", td.set_at_, ("n", "held"), made(Right)[0], 0)
    td.set_at_(("n", "held"), made(Same)[0], 0)
    np.testing.assert_array_equal(td["n", "held"].x, [1, 0, 0])
