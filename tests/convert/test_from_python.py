"""Constructors from dicts, tuples, dataclasses, structured arrays and lists, and the way back."""

from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import LazyStackedTensorDict, NonTensorStack, TensorClass, TensorDict

Pair = namedtuple("Pair", "a b")


@dataclass
class Two:
    a: Any
    b: Any


@dataclass
class Step:
    obs: Any
    reward: Any
    text: str = "ok"
    tags: list[str] = field(default_factory=list)


def frozen(*shape: int) -> np.ndarray:
    out = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    out.flags.writeable = False
    return out


X = frozen(3, 2)


@each_case("value", [3, 2.5, "x", None, X, b"x", {1, 2}, Step])
def test_what_is_no_container_comes_back_itself(value: Any) -> None:
    assert TensorDict.from_any(value) is value


def test_a_tensordict_comes_back_itself() -> None:
    td = TensorDict(a=1)
    assert TensorDict.from_any(td) is td
    assert TensorDict.from_dict(td) is td


def test_containers_at_any_depth() -> None:
    td = TensorDict.from_any(
        {"t": (1, {"p": Pair(X, 2)}), "d": Step(X, 0.5), "u": UserDict(x=X), "empty": ()}
    )
    assert td["t", "0"] == 1
    assert td["t", "1", "p", "a"] is X
    assert td["d", "obs"] is X
    assert td["d", "text"] == "ok"
    assert td["u", "x"] is X
    assert td["empty"].is_empty()
    assert td.batch_size == ()


def test_nothing_is_an_array_of_no_numbers() -> None:
    np.testing.assert_array_equal(TensorDict.from_any([]), np.zeros(0, np.float32), strict=True)


@each_case("items", [[1, 2.5], ["a", 1], [{"a": 1}], [None]])
def test_other_lists_are_objects(items: list[Any]) -> None:
    out = TensorDict.from_any(items)
    assert isinstance(out, NonTensorStack)
    assert out.tolist() == items
    assert isinstance(TensorDict.from_dict({"l": items}).get("l"), NonTensorStack)


def test_batch_sizes() -> None:
    assert TensorDict.from_any({"a": X}, batch_size=[3]).batch_size == (3,)
    assert TensorDict.from_any({"a": X, "n": (X,)}, auto_batch_size=True)["n"].batch_size == (3, 2)
    assert TensorDict.from_any({"a": X}, auto_batch_size=True, batch_dims=1).batch_size == (3,)
    td = TensorDict.from_any({"n": {"a": X}}, batch_size=[3])
    assert td["n"].batch_size == (3,)
    raises(RuntimeError, "batch dimension mismatch", lambda: TensorDict.from_any({"a": X}, batch_size=[4]))


def test_from_tuple() -> None:
    td = TensorDict.from_tuple((X, (1, "s")))
    assert list(td.keys(True, True)) == ["0", ("1", "0")]
    assert td["0"] is X
    assert td["1", "1"] == "s"
    raises(TypeError, "from_tuple expects a tuple", lambda: TensorDict.from_tuple(3))
    raises(TypeError, "from_tuple expects a tuple", lambda: TensorDict.from_tuple("text"))


class Typed(NamedTuple):
    x: Any
    inner: Any


def test_named_tuples_both_ways() -> None:
    td = TensorDict.from_namedtuple(Typed(X, Pair(1, "s")), auto_batch_size=False)
    back = td.to_namedtuple()
    assert back.x is X
    assert back.inner.b == "s"
    assert td.exclude("inner").update({"inner": 1}).to_namedtuple(Typed).x is X
    raises(TypeError, "expects a named tuple, got tuple", lambda: TensorDict.from_namedtuple((1, 2)))


def test_from_dataclass() -> None:
    reward = np.zeros(3)
    step = Step(X, reward, tags=["a", "b", "c"])
    td = TensorDict.from_dataclass(step, batch_size=[3])
    assert td["obs"] is X
    assert td["tags"] == ["a", "b", "c"]
    assert step.obs is X
    assert step.reward is reward
    assert step.tags == ["a", "b", "c"]
    for wrong in (3, Step):
        raises(TypeError, "Expected a dataclass input", TensorDict.from_dataclass, wrong)


def test_a_dataclass_as_a_tensorclass() -> None:
    out = TensorDict.from_dataclass(Step(X, np.zeros(3)), as_tensorclass=True)
    assert isinstance(out, TensorClass)
    assert type(out).__name__ == "Step_tc"
    assert out.obs is X
    assert type(TensorDict.from_dataclass(Step(1, 2), as_tensorclass=True)) is type(out)

    class Mine(TensorClass):
        obs: Any
        reward: Any
        text: str
        tags: Any

    assert TensorDict.from_dataclass(Step(X, 1), dest_cls=Mine).obs is X


ROWS = np.array(
    [(1, "x", (2.0, [1, 2])), (3, "long", (4.0, [3, 4]))],
    dtype=[("a", "i4"), ("s", "U4"), ("n", [("f", "f8"), ("v", "i8", (2,))])],
)


def test_structured_arrays_both_ways() -> None:
    td = TensorDict.from_struct_array(ROWS)
    assert td.batch_size == td["n"].batch_size == (2,)
    assert np.shares_memory(td["a"], ROWS)
    assert td["s"] == ["x", "long"]
    np.testing.assert_array_equal(td["n", "v"], [[1, 2], [3, 4]])
    back = td.to_struct_array()
    for name in ("a", "s", "n"):
        assert (back[name] == ROWS[name]).all()
    assert back.dtype["s"] == "U10"
    assert TensorDict.from_any(ROWS).batch_size == (2,)


def test_one_record_and_smaller_batches() -> None:
    one = TensorDict.from_struct_array(ROWS[1])
    assert one.batch_size == ()
    assert one["s"] == "long"
    assert one["n", "f"] == 4
    assert TensorDict.from_struct_array(ROWS, batch_size=[]).batch_size == ()
    assert TensorDict.from_struct_array(ROWS.reshape(2, 1), batch_dims=1).batch_size == (2,)
    for wrong in (np.zeros(3), [1, 2]):
        raises(TypeError, "array with named fields", TensorDict.from_struct_array, wrong)


def test_from_list() -> None:
    td = TensorDict.from_list([{"a": X, "s": "u"}, {"a": X + 1, "s": "v"}], names=["t"])
    assert td.batch_size == (2,)
    assert td.names == ["t"]
    assert td["s"] == ["u", "v"]
    np.testing.assert_array_equal(td["a"], [X, X + 1])
    options: list[dict[str, Any]] = [{"batch_size": [2, 3]}, {"auto_batch_size": True}, {"batch_dims": 2}]
    sizes = [TensorDict.from_list([{"a": X}] * 2, **one).batch_size for one in options]
    assert sizes == [(2, 3), (2, 3, 2), (2, 3)]
    assert TensorDict.from_list([Step(X, 1), Step(X, 2)])["reward"].tolist() == [1, 2]


def test_from_list_lazily_and_strictly() -> None:
    same, different = [{"a": 1}, {"a": 2}], [{"a": 1}, {"b": 2}]
    assert isinstance(TensorDict.from_list(same, lazy=True), LazyStackedTensorDict)
    assert isinstance(TensorDict.from_list(different), LazyStackedTensorDict)
    for rows in (same, different):
        assert isinstance(LazyStackedTensorDict.from_list(rows), LazyStackedTensorDict)
    assert LazyStackedTensorDict.from_list(same, names=["t"]).names == ["t"]
    assert type(LazyStackedTensorDict.from_list(same, lazy=False)) is TensorDict
    assert type(TensorDict.from_list(same, lazy=False)) is TensorDict
    raises(RuntimeError, "exclusive", lambda: TensorDict.from_list(different, lazy=False))


def test_from_list_errors() -> None:
    with pytest.raises(ValueError, match="does not match the length of the list"):
        TensorDict.from_list([{"a": 1}], batch_size=[2])
    with pytest.raises(ValueError, match="does not match the length of the list"):
        TensorDict.from_list([{"a": 1}], batch_size=[])
    raises(TypeError, "row 1 must be a mapping", lambda: TensorDict.from_list([{"a": 1}, 3]))
    raises(RuntimeError, "empty", lambda: TensorDict.from_list([]))


def test_a_batch_size_goes_before_finding_one() -> None:
    """Of other constructors in tests/parity/test_arguments.py."""
    rows = {"a": np.zeros((3, 4, 5)), "n": {"b": np.zeros((3, 4))}}
    for size in ([], [3], [3, 4]):
        td = TensorDict().from_dict_instance(rows, batch_size=size, auto_batch_size=True)
        assert td.batch_size == td["n"].batch_size == tuple(size)
    for make in (TensorDict.from_dict, TensorDict.from_any):
        raises(ValueError, "batch_size and batch_dims", make, rows, batch_size=[3], batch_dims=1)


@each_case(
    ("name", "value"),
    [
        ("from_tuple", (X, X)),
        ("from_namedtuple", Pair(X, X)),
        ("from_dataclass", Two(X, X)),
        ("from_struct_array", np.zeros((3, 4), [("a", "i8"), ("b", "f4")])),
    ],
)
def test_two_batch_sizes(name: str, value: Any) -> None:
    for make in (getattr(TensorDict, name), TensorDict.from_any):
        raises(TypeError, "Conflicting batch sizes", make, value, batch_size=[3], auto_batch_size=True)
    assert TensorDict.from_tuple((X, X), batch_size=[3], batch_dims=0).batch_size == (3,)
    make = TensorDict.from_struct_array
    assert make(np.zeros((3, 4), [("a", "i8")]), auto_batch_size=True, batch_dims=1).batch_size == (3,)


def test_names_of_dimensions() -> None:
    td = TensorDict.from_dict({"a": np.zeros((2, 3))}, auto_batch_size=True, batch_dims=2, names=["x", "y"])
    assert td.names == ["x", "y"]
