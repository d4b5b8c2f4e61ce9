"""State dicts, flat and nested, both ways."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from helpers.trees import unchanged

from lite import TensorDict, lazy_stack


def source(value: float = 0.0) -> TensorDict:
    return TensorDict(
        {"a": np.full(2, value), "n": {"b": np.full((2, 3), value), "e": {}}, "s": "x"}, batch_size=[2]
    )


def test_names_and_metadata():
    td = source()
    state = td.state_dict(prefix="p.")
    assert isinstance(state, OrderedDict)
    assert list(state) == ["p.a", "p.n.b"]
    assert state["p.a"] is td["a"]
    assert state._metadata["p.n"] == {"batch_size": (2,), "device": None}
    nested = td.state_dict(flatten=False)
    assert list(nested) == ["a", "n"]
    assert list(nested["n"]) == ["b", "e"]
    more = OrderedDict()
    assert td.state_dict(more) is more
    assert list(more) == ["a", "n.b"]


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("assign", [False, True])
def test_round_trip(flatten, assign):
    td, state = source(), source(5).state_dict(flatten=flatten)
    array = td["n", "b"]
    assert td.load_state_dict(state, assign=assign) is td
    np.testing.assert_array_equal(td["n", "b"], np.full((2, 3), 5))
    np.testing.assert_array_equal(td["a"], [5, 5])
    assert (td["n", "b"] is array) is not assign
    assert td["s"] == "x"


def test_plain_and_legacy_dicts():
    td = source()
    td.load_state_dict({"a": np.ones(2), "n": {"b": np.ones((2, 3))}})
    np.testing.assert_array_equal(td["a"], [1, 1])
    old = {"a": np.zeros(2), "n": {"b": np.zeros((2, 3)), "__batch_size": (2,), "__device": None}}
    td.load_state_dict({**old, "__batch_size": (2,), "__device": None})
    np.testing.assert_array_equal(td["n", "b"], np.zeros((2, 3)))
    td.load_state_dict({"a": np.ones(2), "n.b": np.ones((2, 3))}, from_flatten=True)
    np.testing.assert_array_equal(td["n", "b"], np.ones((2, 3)))


def test_strict():
    td = source()
    state = source(5).state_dict()
    del state["n.b"]
    state["q"] = np.ones(2)
    with unchanged(td), pytest.raises(RuntimeError, match=r"extra keys \['q'\].*\['n'\]"):
        td.load_state_dict(state)
    td.load_state_dict(state, strict=False)
    np.testing.assert_array_equal(td["a"], [5, 5])
    np.testing.assert_array_equal(td["q"], [1, 1])
    np.testing.assert_array_equal(td["n", "b"], np.zeros((2, 3)))


def test_empty_nodes_do_not_count():
    td = TensorDict(a=1, n={})
    td.load_state_dict(TensorDict(a=2, m={"k": {}}).state_dict(flatten=False))
    assert int(td["a"]) == 2


def test_below_an_array():
    with pytest.raises(RuntimeError, match="below an array"):
        TensorDict(a=1).load_state_dict({"a": 1, "a.b": 2}, from_flatten=True)


def test_batch_size_and_locks():
    td = TensorDict({"a": np.zeros((2, 3))}, batch_size=[2])
    td.load_state_dict(TensorDict({"a": np.ones((2, 3))}, batch_size=[2, 3]).state_dict())
    assert td.batch_size == (2, 3)
    td.lock_()
    td.load_state_dict(TensorDict({"a": np.full((2, 3), 2)}, batch_size=[2, 3]).state_dict())
    assert td["a"][0, 0] == 2
    with pytest.raises(RuntimeError, match="locked"):
        td.load_state_dict({"a": np.ones((2, 3)), "q": np.ones((2, 3))}, strict=False)


def test_lazy_stacks():
    stack = lazy_stack([TensorDict(a=np.zeros(2)), TensorDict(a=np.zeros(2))])
    stack.load_state_dict(lazy_stack([TensorDict(a=np.ones(2)), TensorDict(a=np.ones(2))]).state_dict())
    np.testing.assert_array_equal(stack.tensordicts[1]["a"], [1, 1])
    with pytest.raises(RuntimeError, match="exclusive"):
        lazy_stack([TensorDict(a=1), TensorDict(b=1)]).state_dict()


def test_tensordicts_as_state_dicts():
    td = TensorDict({"a": np.zeros(2), "n": {"b": np.zeros(2)}})
    array = td["n", "b"]
    source = TensorDict({"a": [1, 2], "s": "x", "n": {"b": [3, 4]}}, batch_size=[2])
    with unchanged(source):
        assert td.load_state_dict(source) is td
        td.load_state_dict(source.flatten_keys("."), from_flatten=True)
    assert td["n", "b"] is array
    np.testing.assert_array_equal(array, [3, 4])
    assert td.batch_size == ()
    with pytest.raises(RuntimeError, match=r"tensordict extra keys \['n.b'\]"):
        td.load_state_dict(source.exclude(("n", "b")))
