"""Operations on the set of keys."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree, unchanged

from lite import TensorDict, is_leaf_nontensor, lazy_stack

LEAVES = ["a", "i", ("n", "b"), ("n", "m", "c"), "s", "r"]


def leaves(td: TensorDict) -> list[Any]:
    return list(td.keys(True, True, is_leaf_nontensor))


def test_select() -> None:
    td = tree()
    with unchanged(td):
        got = td.select(("n", "b"), "a")
    assert leaves(got) == [("n", "b"), "a"]
    assert got["a"] is td["a"]
    assert got["n"].batch_size == (4, 3, 5)
    assert got["n"] is not td["n"]
    assert td.select("n")["n"] is td["n"]
    assert leaves(td.select("zz", "a", strict=False)) == ["a"]
    assert td.select("a", inplace=True) is td
    assert leaves(td) == ["a"]


@each_case("key", ["zz", ("n", "zz"), ("a", "b"), ("zz", "b")])
@each_case("inplace", [False, True])
def test_select_of_a_missing_key(key: Any, inplace: bool) -> None:
    td = tree()
    with unchanged(td), pytest.raises(KeyError):
        td.select("i", key, inplace=inplace)


def test_exclude() -> None:
    td = tree()
    with unchanged(td):
        got = td.exclude("a", ("n", "m", "c"), "zz", ("n", "zz"))
    assert leaves(got) == ["i", ("n", "b"), "s", "r"]
    assert ("n", "m") in got
    assert td.exclude("a")["n"] is td["n"]
    for key in ((("n",), "m"), ("n", ("m",))):
        assert leaves(td.exclude(key)) == leaves(td.exclude(("n", "m")))
    assert leaves(td.exclude(("a",))) == leaves(td.exclude("a"))
    assert leaves(td.exclude("a", "n", inplace=True)) == ["i", "s", "r"]


@each_case(
    "operation",
    [
        lambda td: td.set("new", np.zeros((4, 3))),
        lambda td: td.set("a", td["a"].copy()),
        lambda td: td.set("new", np.zeros((4, 3)), inplace=True),
        lambda td: td.set(("n", "new"), np.zeros((4, 3, 5))),
        lambda td: td.del_("a"),
        lambda td: td.pop("a"),
        lambda td: td.popitem(),
        lambda td: td.clear(),
        lambda td: td.rename_key_("a", "z"),
        lambda td: td.update({"a": td["a"]}),
        lambda td: td.create_nested("z"),
        lambda td: td.setdefault("z", np.zeros((4, 3))),
        lambda td: td.select("a", inplace=True),
        lambda td: td.exclude("a", inplace=True),
        lambda td: td.flatten_keys(inplace=True),
        lambda td: td.split_keys(["a"], inplace=True),
        lambda td: td["n"].set("z", np.zeros((4, 3, 5))),
        lambda td: td.apply(lambda x: x, out=td),
    ],
)
def test_a_locked_tree_keeps_its_keys(operation: Callable[[Any], Any]) -> None:
    td = tree(lock=True)
    with unchanged(td), pytest.raises(RuntimeError, match="Cannot modify locked TensorDict"):
        operation(td)


def test_rename() -> None:
    td = TensorDict({"a": np.zeros(2), "i": np.ones(2), "n": {"m": {"c": np.ones(2)}}}, batch_size=[2])
    a = td["a"]
    assert td.rename_key_("a", ("n", "m", "z")) is td
    assert td["n", "m", "z"] is a
    assert "a" not in td
    assert td.rename_key_("i", "i") is td
    td.rename_key_(("n", "m", "z"), "n")
    assert td["n"] is a
    assert td.rename_key_("n", ("n", "inner")) is td
    assert td["n", "inner"] is a
    assert list(td.keys()) == ["i", "n"]
    td["n"].lock_()
    with unchanged(td), pytest.raises(RuntimeError, match="locked"):
        td.rename_key_(("n", "inner"), ("q", "r"))


@each_case(
    ("old", "new", "safe", "error"),
    [
        ("zz", "y", False, KeyError),
        (("n", "zz"), "y", False, KeyError),
        ("a", "i", True, KeyError),
        (3, "y", False, TypeError),
        ("a", 3, False, TypeError),
        ("a", ("i", "x"), False, KeyError),
        ("a", ("n", "x"), False, RuntimeError),
    ],
)
def test_rename_errors(old: Any, new: Any, safe: bool, error: type[Exception]) -> None:
    td = tree()
    with unchanged(td), pytest.raises(error):
        td.rename_key_(old, new, safe=safe)


# What mappings give, measured on tensordict 0.15.3, for {a, b, n: {c, d}, e: {}}.
RENAMED: list[tuple[dict[Any, Any], Any]] = [
    ({"a": "b", "b": "a"}, [("n", "c"), ("n", "d"), "n", "e", "b", "a"]),
    ({"a": "n", "n": "a"}, ["b", "e", "n", ("a", "c"), ("a", "d"), "a"]),
    ({("n", "c"): "c", ("n", "d"): "d"}, ["a", "b", "e", "c", "d"]),
    ({("n", "c"): ("m", "c"), ("n", "d"): ("m", "d")}, ["a", "b", "e", ("m", "c"), ("m", "d"), "m"]),
    ({"n": ("n", "n")}, ["a", "b", "e", ("n", "n", "c"), ("n", "n", "d"), ("n", "n"), "n"]),
    ({("a",): ("n", ("q", "r"))}, ["b", ("n", "c"), ("n", "d"), ("n", "q", "r"), ("n", "q"), "n", "e"]),
    ({"a": "a"}, ["a", "b", ("n", "c"), ("n", "d"), "n", "e"]),
    ({"zz": "q"}, KeyError),
    ({("a", "k"): "z"}, KeyError),
    ({"a": ()}, KeyError),
    ({1: "b"}, TypeError),
    ({"a": 1}, TypeError),
    ({"a": "b"}, ValueError),
    ({("n", "c"): "n"}, ValueError),
    ({"a": ("b", "k")}, ValueError),
    ({"a": "x", "b": "x"}, ValueError),
    ({"n": "m", ("n", "c"): "k"}, ValueError),
    ({"a": "p", "b": ("p", "q"), ("n", "c"): "p0"}, ValueError),
]


@each_case(("mapping", "expected"), RENAMED)
@each_case("lazy", [False, True])
def test_rename_keys(mapping: dict[Any, Any], expected: Any, lazy: bool) -> None:
    dense = TensorDict(a=np.arange(2), b=np.ones(2), n={"c": np.arange(2), "d": np.zeros(2)}, e={})
    td = lazy_stack([dense, dense.clone()]) if lazy else dense
    td.lock_()
    with unchanged(td):
        if not isinstance(expected, list):
            return raises(expected, "", td.rename_keys, mapping)
        got = td.rename_keys(mapping)
    assert not got.is_locked
    first = got.tensordicts[0] if lazy else got
    assert list(first.keys(True)) == expected
    assert all(first[new] is dense[old] for old, new in mapping.items() if old != "n")
    return None


def test_rename_keys_that_some_parts_have() -> None:
    stack = lazy_stack([TensorDict(n={"b": 1}), TensorDict(n={"b": 2, "c": 3})])
    raises(KeyError, "c", stack.rename_keys, {("n", "c"): "b"})
    kept = TensorDict(n=stack["n"]).rename_keys({("n", "b"): "b"})
    assert kept["n"].tensordicts[1]["c"] == 3
    found = stack.rename_keys({("n", "c"): "c", "zz": "q"}, strict=False)
    assert [list(part.keys()) for part in found.tensordicts] == [["n"], ["n", "c"]]


def test_flatten_and_unflatten_keys() -> None:
    td = tree()
    with unchanged(td):
        flat = td.flatten_keys()
    assert list(flat.keys()) == ["a", "i", "n.b", "n.m.c", "s", "r"]
    assert flat["n.b"] is td["n", "b"]
    back = flat.unflatten_keys()
    assert set(leaves(back)) == set(LEAVES)
    assert back["n"].batch_size == (4, 3)
    assert "n/m/c" in td.flatten_keys("/")
    assert td.flatten_keys(inplace=True) is td
    assert td.keys() == set(flat.keys())
    assert set(leaves(td.unflatten_keys(inplace=True))) == set(LEAVES)


def test_key_collisions() -> None:
    td = TensorDict({"n": {"a": 1}, "n.a": 2})
    with unchanged(td), pytest.raises(KeyError, match="collide"):
        td.flatten_keys()
    td["n.b"] = td.pop("n.a")
    with unchanged(td):
        assert leaves(td.unflatten_keys()) == [("n", "a"), ("n", "b")]
    clash = TensorDict({"n": 1, "n.a": 2})
    with unchanged(clash), pytest.raises(KeyError, match="override"):
        clash.unflatten_keys()


def test_split_keys() -> None:
    td = tree()
    with unchanged(td):
        first, second, rest = td.split_keys(["a", ("n", "b")], {"i": ("x", "y")})
    assert leaves(first) == ["a", ("n", "b")]
    assert leaves(second) == [("x", "y")]
    assert leaves(rest) == [("n", "m", "c"), "s", "r"]
    with unchanged(td), pytest.raises(KeyError):
        td.split_keys(["zz"])
    assert td.split_keys(["zz"], strict=False)[0].is_empty()
    *_, same = td.split_keys(["a"], inplace=True)
    assert same is td
    assert "a" not in td
    td = TensorDict({"a": np.ones(2), "b": np.zeros(2)})
    with unchanged(td):  # the last of a name replaces the others
        assert td.split_keys({"a": "x", "b": "x"})[0]["x"] is td["b"]


def test_empty_and_is_empty() -> None:
    td = tree(lock=True)
    empty = td.empty()
    assert (empty.batch_size, empty.is_locked, list(empty.keys())) == ((4, 3), False, [])
    assert list(td.empty(recurse=True).keys(True)) == [("n", "m"), "n"]
    resized = td.empty(recurse=True, batch_size=[7])
    assert (resized.batch_size, resized["n"].batch_size) == ((7,), (7, 5))
    assert TensorDict({"n": {"m": {}}}).is_empty()
    assert not TensorDict(s="x").is_empty()
    assert list(TensorDict(n={"m": {}}, a={"b": 1, "e": {}}).filter_empty_().keys(True)) == [("a", "b"), "a"]


def test_clone_and_copy() -> None:
    td = tree(lock=True)
    clone, copy = td.clone(), td.copy()
    assert clone["a"] is not td["a"]
    assert copy["a"] is td["a"]
    assert copy["n"] is not td["n"]
    assert not clone.is_locked
    assert not copy.is_locked
    assert td.is_locked
    clone["a"][:] = 0
    assert td["a"][0, 0, 1] == 1


def test_select_narrows_a_node_that_is_named_too() -> None:
    td = TensorDict({"n": {"c": 1, "d": 2}})
    for keys in (("n", ("n", "c")), (("n", "c"), "n")):
        assert list(td.select(*keys).keys(True, True)) == [("n", "c")]


@each_case("inplace", [False, True])
@each_case("lazy", [False, True])
def test_split_keys_gives_every_entry_once(inplace: bool, lazy: bool) -> None:
    def make() -> Any:
        td = TensorDict({"a": np.zeros(2), "b": np.ones(2), "n": {"c": np.ones(2), "d": np.zeros(2)}}, [2])
        return lazy_stack([td, td.clone()]) if lazy else td

    for sets in (["a"], ["b", "a"]), (["n"], [("n", "c")]), (["a"], {"a": "z"}), (["n", ("n", "c")],):
        td = make()
        raises(KeyError, "in the key sets more than once", td.split_keys, *sets, inplace=inplace)
        assert list(td.keys(True, True)) == ["a", "b", ("n", "c"), ("n", "d")]
    parts = make().split_keys([("n", "c")], ["n"], inplace=inplace)
    assert [list(part.keys(True, True)) for part in parts] == [[("n", "c")], [("n", "d")], ["a", "b"]]
    assert make().split_keys(["a"], ["a"], strict=False, inplace=inplace)[1].is_empty()
    second = make().split_keys(["a"], ["a"], default=np.full(2, 7.0), inplace=inplace)[1]
    assert (second["a"] == 7).all()


def test_split_keys_keeps_the_tree_on_request() -> None:
    td = TensorDict({"a": 1, "n": {"b": 2, "s": "x", "m": {}}})
    first, rest = td.split_keys([("n", "b")], reproduce_struct=True)
    assert set(first.keys(True)) == {("n", "b"), ("n", "m"), "n"}
    assert set(rest.keys(True)) == {"a", ("n", "s"), ("n", "m"), "n"}


def test_paths_that_end_at_leaves_are_left_out() -> None:
    td = TensorDict({"a": 1, "n": {"b": 2}})
    assert list(td.select(("a", "x"), ("n", "b"), strict=False).keys(True, True)) == [("n", "b")]
    with unchanged(td), pytest.raises(KeyError):
        td.select(("a", "x"))
