"""Trees of lists, tuples and dicts, and TensorDicts as trees of JAX and optree."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

import lite
from lite import TensorClass, TensorDict, lazy_stack, register_pytree

Pair = namedtuple("Pair", "a b")

X = np.arange(6.0).reshape(3, 2)


def test_trees_both_ways() -> None:
    tree = {
        "list": [X, (X, "text")], 3: X, (1, "k"): {"deep": [None]}, "pair": Pair(X, {}), "empty": [],
        "ordered": OrderedDict(a=X),
    }  # fmt: skip
    td = TensorDict.from_pytree(tree)
    assert td["list", "1", "0"] is X
    back = td.to_pytree()
    assert list(back) == list(tree)
    assert back[3] is X
    assert type(back["list"][1]) is tuple
    assert back["list"][1][0] is X
    assert back["list"][1][1] == "text"
    assert back[1, "k"] == {"deep": [None]}
    assert type(back["pair"]) is Pair
    assert back["empty"] == []
    assert type(back["ordered"]) is OrderedDict


def test_trees_of_one_leaf_and_of_tensordicts() -> None:
    assert TensorDict.from_pytree(X) is X
    td = TensorDict(a=1)
    assert TensorDict.from_pytree(td) is td
    assert td.to_pytree() is td
    inner = TensorDict.from_pytree([td]).to_pytree()[0]
    assert isinstance(inner, TensorDict)
    assert lite.from_pytree((X,), auto_batch_size=True).batch_size == (3, 2)
    assert lite.from_pytree((X,), batch_dims=1).batch_size == (3,)
    assert lite.from_pytree([X], batch_size=[3]).batch_size == (3,)
    with pytest.raises(TypeError, match="Conflicting batch sizes in from_"):
        lite.from_pytree([X], batch_size=[3], auto_batch_size=True)


def test_keys_that_mark_containers_are_refused() -> None:
    raises(KeyError, "marks containers", TensorDict.from_pytree, {"_pytree_type": 1})


class Point(TensorClass):
    xy: Any
    label: str | None = None


def tree() -> TensorDict:
    return TensorDict(
        {
            "x": np.arange(6.0, dtype=np.float32).reshape(3, 2),
            "n": {"y": np.arange(3, dtype=np.int32)},
            "s": "text",
            "each": ["a", "b", "c"],
            "p": Point(xy=np.ones((3, 2), np.float32), label="l", batch_size=[3]),
        },
        batch_size=[3],
        names=["time"],
    )


def ragged() -> Any:
    return lazy_stack([TensorDict(r=np.ones(n, np.float32)) for n in (1, 2)])


def check_tree(map_tree: Any, flatten: Any) -> None:
    td = tree()
    leaves, structure = flatten(td)
    assert len(leaves) == 3
    assert structure == flatten(tree())[1]
    assert hash(structure) == hash(flatten(tree())[1])
    assert structure != flatten(tree().set("s", "other"))[1]
    out = map_tree(lambda x: x + 1, td)
    assert type(out) is TensorDict
    for key in ("x", ("n", "y"), ("p", "xy")):
        np.testing.assert_array_equal(out[key], td[key] + 1)
    assert out.batch_size == (3,)
    assert out.names == ["time"]
    assert out["s"] == "text"
    assert out["each"] == ["a", "b", "c"]
    assert isinstance(out["p"], Point)
    assert out["p"].label == "l"
    smaller = map_tree(lambda x: x[:2], td)
    assert smaller.batch_size == (2,)
    assert smaller.names == [None]
    assert smaller["s"] == "text"
    assert "each" not in smaller
    assert smaller["x"].shape == (2, 2)
    rows = map_tree(lambda x: x * 2, ragged())
    assert [part["r"].tolist() for part in rows.tensordicts] == [[2], [2, 2]]
    assert rows.batch_size == (2,)
    assert map_tree(lambda x: x, td.lock_()).is_locked
    held = map_tree(lambda x: x + 1, TensorDict(t=(np.zeros(2), {"k": np.ones(3)}), u=(np.zeros(2), "text")))
    np.testing.assert_array_equal(held["t"][1]["k"], [2, 2, 2])
    np.testing.assert_array_equal(held["u"][0], [0, 0])


def test_optree() -> None:
    optree = pytest.importorskip("optree", reason="pip install optree")
    register_pytree("optree")
    register_pytree("optree", Point)
    check_tree(optree.tree_map, lambda td: optree.tree_flatten(td))
    assert optree.tree_paths(tree()) == [("n", "y"), ("p", "_tensordict", "xy"), ("x",)]
    assert optree.tree_map(lambda x: x * 0, Point(xy=np.ones(2))).xy.tolist() == [0, 0]
    assert optree.tree_structure(tree()) == optree.tree_structure(tree())
    assert optree.tree_structure(tree()) != optree.tree_structure(tree().rename_key_("x", "z"))


def test_jax() -> None:
    jax = pytest.importorskip("jax", reason="pip install jax")
    register_pytree("jax")
    register_pytree("jax", Point)
    check_tree(jax.tree_util.tree_map, jax.tree_util.tree_flatten)
    assert jax.tree_util.keystr(jax.tree_util.tree_flatten_with_path(tree())[0][0][0]) == "['n']['y']"

    traced = []

    @jax.jit
    def twice(td: TensorDict) -> TensorDict:
        traced.append(1)
        return jax.tree_util.tree_map(lambda x: x * 2, td)

    for _ in range(2):
        out = twice(tree())
    assert len(traced) == 1
    assert isinstance(out["x"], jax.Array)
    np.testing.assert_array_equal(out["x"], tree()["x"] * 2)
    gradient = jax.grad(lambda td: (td["x"] ** 2).sum())(tree().select("x"))
    np.testing.assert_array_equal(gradient["x"], 2 * tree()["x"])


def test_other_libraries_are_refused() -> None:
    raises(ValueError, "library must be 'jax' or 'optree', got 'torch'", register_pytree, "torch")
