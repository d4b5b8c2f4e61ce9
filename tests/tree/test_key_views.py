"""The views of keys, items and values."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree

from lite import LazyStackedTensorDict, TensorDict, is_leaf_nontensor


def test_orders_agree_and_children_come_before_their_node() -> None:
    td = tree()
    nested = ["a", "i", ("n", "b"), ("n", "m", "c"), ("n", "m"), "n", "s", "r"]
    assert list(td.keys(True)) == nested
    assert [key for key, _ in td.items(True)] == nested
    assert [td.get(key) for key in nested] == list(td.values(True)) or all(
        x is y for x, y in zip([td.get(key) for key in nested], td.values(True), strict=True)
    )
    assert list(td.keys()) == ["a", "i", "n", "s", "r"]
    assert list(td.keys(True, True)) == ["a", "i", ("n", "b"), ("n", "m", "c")]
    assert list(td.keys(True, True, is_leaf_nontensor)) == ["a", "i", ("n", "b"), ("n", "m", "c"), "s", "r"]
    assert list(td.keys(True, True, sort=True)) == ["a", "i", ("n", "b"), ("n", "m", "c")]
    assert list(TensorDict().values(sort=True)) == []
    assert TensorDict(b=1, a=2).sorted_keys == ["a", "b"]


def test_view_is_live_and_set_like() -> None:
    td = TensorDict(a=1)
    keys = td.keys()
    td["b"] = 2
    assert len(keys) == 2
    assert keys == {"a", "b"}
    assert keys - {"a"} == {"b"}
    assert {**TensorDict(a=1).to_dict()} == {"a": 1}


def test_membership_in_views() -> None:
    td = tree()
    assert "a" in td.keys(False)
    assert ("n", "b") in td.keys(True)
    assert "n" in td.keys(True)
    assert "n" not in td.keys(True, True)
    with pytest.raises(TypeError, match="include_nested=True"):
        ("n", "b") in td.keys()  # noqa: B015, SIM118
    with pytest.raises(TypeError, match="always strings"):
        3 in td.keys()  # noqa: B015, SIM118


def test_items_and_values_are_views_as_a_dicts() -> None:
    td = TensorDict({"a": np.zeros(2), "n": {"b": np.ones(2)}}, batch_size=[2])
    items, values = td.items(), td.values()
    assert (len(items), len(values)) == (2, 2)
    td["c"] = np.ones(2)
    for _ in range(2):  # they can be gone through again
        assert [key for key, _ in items] == ["a", "n", "c"]
        assert [value is td.get(key) for key, value in items] == [True] * 3
        assert len(list(values)) == 3
    going = iter(td.items())
    next(going)
    td["d"] = np.zeros(2)
    raises(RuntimeError, "changed size", next, going)


@each_case("arguments", [(True,), (True, True), (False, True)])
def test_entries_may_be_set_while_nested_ones_are_gone_through(arguments: tuple[bool, ...]) -> None:
    td = TensorDict({"a": np.zeros(2), "n": {"b": np.ones(2)}}, batch_size=[2])
    expected = list(td.keys(*arguments))
    for key, _ in td.items(*arguments):
        td["x", str(key)] = np.zeros(2)
    assert len(td["x"].keys()) == len(expected)
    assert len(td.items(True, True)) == 2 + len(expected)


def test_views_of_lazy_stacks_count_their_keys() -> None:
    stack = LazyStackedTensorDict(TensorDict(a=1, b=2), TensorDict(a=1))
    assert len(stack.keys(sort=True)) == len(list(stack.keys(sort=True))) == 1
