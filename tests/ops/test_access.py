"""get, set and removal by key."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree, unchanged

import lite
from lite import NonTensorData, TensorDict


def test_get_returns_the_entry_or_none() -> None:
    td = tree()
    assert td.get("a") is td["a"]
    assert td.get(("n", ("m", "c"))) is td["n", "m", "c"]
    assert td.get("zz") is None
    assert td.get("zz", 7) == 7
    assert td.get(("a", "b"), default=7) == 7
    assert isinstance(td.get("s"), NonTensorData)
    assert td["s"] == "text"


def test_missing_keys_name_the_key_and_those_there_are() -> None:
    td = TensorDict({"a": 1, "n": {"b": 2}})
    raises(KeyError, r"zz.*a.*, .*n.*\]", lambda: td["zz"])
    raises(KeyError, r"zz.*\[.*b", lambda: td["n", "zz"])
    raises(KeyError, "Only NestedKeys", lambda: td.get(()))
    with pytest.raises(KeyError, match="Only NestedKeys"):
        td.set(3, 1)  # type: ignore[arg-type]


def test_get_may_raise_on_missing_keys() -> None:
    td = TensorDict(a=1)
    lite.set_get_defaults_to_none(False)
    try:
        raises(KeyError, "", lambda: td.get("zz"))
        assert td.get("zz", None) is None
    finally:
        lite.set_get_defaults_to_none(True)


def test_contains() -> None:
    td = tree()
    assert "a" in td
    assert ("n", "b") in td
    assert ("a", "b") not in td
    assert "zz" not in td
    with pytest.raises(RuntimeError, match="NestedKey"):
        3 in td  # noqa: B015


def test_set_through_an_array_is_refused() -> None:
    td = tree()
    with unchanged(td), pytest.raises(KeyError, match="already present"):
        td.set(("a", "b"), 1)
    with unchanged(td), pytest.raises(RuntimeError, match="batch dimension mismatch"):
        td.set(("new", "b"), np.zeros(3))


def test_setting_a_mapping_replaces_and_update_merges() -> None:
    td = TensorDict({"n": {"a": 1, "b": 2}})
    td["n"] = {"a": 3}
    assert list(td["n"].keys()) == ["a"]
    td.update({"n": {"b": 4}, ("m", "c"): 5})
    assert sorted(td.keys(True, True), key=str) == [("m", "c"), ("n", "a"), ("n", "b")]


@each_case("key", ["zz", ("zz", "a"), ("n", "zz")])
def test_set_of_a_missing_key_in_place(key: Any) -> None:
    td = tree()
    with unchanged(td), pytest.raises(KeyError):
        td.set_(key, 1)


def test_set_at_and_get_at() -> None:
    td = TensorDict({"a": np.zeros(3), "s": ["x", "y", "z"]}, batch_size=[3])
    td.set_at_("a", 5, 1).set_at_("s", "new", 0)
    np.testing.assert_array_equal(td["a"], [0, 5, 0])
    assert td["s"] == ["new", "y", "z"]
    td.set_at_("s", ["p", "q"], slice(2)).update_at_({"s": ["r"]}, [2])
    assert td["s"] == ["p", "q", "r"]
    assert td.set_at_("s", [1, 2], 2)["s"] == ["p", "q", [1, 2]]  # numbers are one object, as in tensordict
    raises(ValueError, "do not broadcast", lambda: td.set_at_("s", ["p", "q"], 0))
    for key, value in (("s", ["p", "q"]), ("a", np.zeros(5))):
        raises(
            ValueError,
            f"the entry {key!r} at index slice",
            lambda k, v: td.set_at_(k, v, slice(3)),
            key,
            value,
        )
    assert td.get_at("a", 1) == 5
    raises(KeyError, "", lambda: td.set_at_("zz", 1, 0))


def test_removal() -> None:
    td = tree()
    a = td["a"]
    assert td.pop("a") is a
    assert td.pop("a", None) is None
    raises(KeyError, "pop key `a`", lambda: td.pop("a"))
    del td["n", "b"]
    assert ("n", "b") not in td
    with pytest.raises(KeyError):
        del td["zz"]
    raises(KeyError, "No sub-tensordict with key zz", lambda: td.del_(("zz", "a")))
    assert td.popitem()[0] == "r"
    assert td.clear().is_empty()
    raises(KeyError, "", lambda: td.popitem())


def test_which_items_are_a_list() -> None:
    td = TensorDict({"b": 1, "a": {"c": 2}})
    for options in ({"sort": True}, {"include_nested": True, "leaves_only": True}):
        assert type(td.items(**options)) is list
    assert [key for key, _ in td.items(True, sort=True)] == ["a", ("a", "c"), "b"]
    for options in ({"include_nested": True}, {"leaves_only": True}):
        assert isinstance(td.items(**options), Iterator)


def test_notebooks_complete_keys() -> None:
    td = TensorDict({"a": np.zeros(2), "n": {"b": np.zeros(2)}}, [2])
    assert set(td._ipython_key_completions_()) == {"a", "n", ("n", "b")}
    assert set(lite.lazy_stack([td, td])._ipython_key_completions_()) == {"a", "n", ("n", "b")}
