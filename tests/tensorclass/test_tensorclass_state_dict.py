"""State dicts of tensorclasses, on top and nested."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers.cases import each_case, raises

from lite import TensorClass, TensorDict, lazy_stack


class Pair(TensorClass):
    x: np.ndarray | None
    text: str | None
    inner: Any = None
    flag: bool = False


def pair(value: int, **fields: Any) -> Pair:
    inner = Pair(x=np.full(2, value), text=[f"{value}", "row"], flag=bool(value), batch_size=[2])
    return Pair(**{"x": np.full(2, value), "text": f"text {value}", "inner": inner, **fields}, batch_size=[2])


def nested(value: int) -> Any:
    return TensorDict({"p": pair(value), "deep": {"p": pair(value)}}, batch_size=[2])


def lazy(value: int) -> Any:
    return lazy_stack([pair(value)[0], pair(value)[1]])


def assert_values(one: Any) -> None:
    """That the values are those of `pair(1)`, in a class of its own at each level."""
    assert type(one) is type(one.inner) is Pair
    assert one.text in ("text 1", ["text 1"] * 2)
    assert (one.inner.text, one.inner.flag, one.flag) == (["1", "row"], True, False)
    np.testing.assert_array_equal(one.x, [1, 1])
    np.testing.assert_array_equal(one.inner.x, [1, 1])


@each_case("assign", [False, True])
@each_case("flatten", [False, True])
def test_all_fields_come_back(flatten: bool, assign: bool) -> None:
    one = pair(0)
    assert one.load_state_dict(pair(1).state_dict(flatten=flatten), assign=assign) is one
    assert_values(one)
    td = nested(0)
    td.load_state_dict(nested(1).state_dict(flatten=flatten), assign=assign)
    assert_values(td["p"])
    assert_values(td["deep", "p"])
    rows = lazy(0)
    rows.load_state_dict(lazy(1).state_dict(flatten=flatten), assign=assign)
    assert_values(rows)


@each_case("flatten", [False, True])
def test_none(flatten: bool) -> None:
    one = pair(0).load_state_dict(pair(1, text=None).state_dict(flatten=flatten))
    assert one.text is None
    one.load_state_dict(pair(1).state_dict(flatten=flatten))
    assert_values(one)
    only = Pair(x=None, text="a").load_state_dict(Pair(x=None, text="b").state_dict(flatten=flatten))
    assert (only.x, only.text, only.inner) == (None, "b", None)


@each_case("flatten", [False, True])
def test_what_is_no_field(flatten: bool) -> None:
    other = TensorDict({"x": np.ones(2), "more": np.ones(2), "word": "w"}, batch_size=[2])
    state = other.state_dict(flatten=flatten)
    one = Pair(x=np.zeros(2), text="t", batch_size=[2])
    raises(KeyError, "Key 'more' wasn't expected in the state-dict of a Pair", one.load_state_dict, state)
    np.testing.assert_array_equal(one.x, [0, 0])
    one.load_state_dict(state, strict=False)
    np.testing.assert_array_equal(one.x, [1, 1])
    assert sorted(one.keys()) == ["flag", "text", "x"]


def test_nothing_changes_where_something_does_not_fit() -> None:
    one, state = pair(0), pair(1).state_dict()
    state["inner.x"] = np.zeros((3, 3))
    raises(ValueError, "Failed to update", lambda: one.load_state_dict(state))
    assert (one.text, one.inner.text) == ("text 0", ["0", "row"])
    np.testing.assert_array_equal(one.x, [0, 0])
    one.lock_()
    raises(RuntimeError, "locked", lambda: one.load_state_dict(pair(1, text=None).state_dict()))
    assert one.text == "text 0"


def test_tensordicts_and_instances_as_state_dicts() -> None:
    for other in (pair(1), pair(1).to_tensordict()):
        one = pair(0).load_state_dict(other)
        np.testing.assert_array_equal(one.inner.x, [1, 1])
        assert one.text == "text 1"
