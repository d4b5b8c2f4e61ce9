"""Locking: what it blocks, what it allows, parents, contexts, pickling."""

import copy
import gc
import pickle

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree, unchanged

from lite import LazyStackedTensorDict, TensorDict, lazy_stack


def nested() -> TensorDict:
    return TensorDict({"a": np.zeros(2), "n": {"b": np.zeros(2), "m": {"c": np.zeros(2)}}}, batch_size=[2])


def test_a_node_of_a_locked_tree_stays_locked() -> None:
    td = nested().lock_()
    for node in (td["n"], td["n", "m"]):
        with unchanged(td), pytest.raises(RuntimeError, match="part of a locked graph"):
            node.unlock_()


@pytest.mark.usefixtures("only_new_garbage")
def test_a_node_is_free_once_its_parents_are_gone() -> None:
    td = nested().lock_()
    node = td["n"]
    del td
    gc.collect()
    assert not node.unlock_().is_locked


def test_parents_that_are_gone_leave_nothing_behind() -> None:
    node = TensorDict(b=1)
    for _ in range(3):
        TensorDict(n=node).lock_()
    assert len(node._lock_parents) == 1


def test_a_node_shared_by_two_roots() -> None:
    node = TensorDict(b=1)
    first, second = TensorDict(n=node).lock_(), TensorDict(n=node).lock_()
    raises(RuntimeError, "part of a locked graph", lambda: first.unlock_())
    assert first.is_locked
    assert node.is_locked
    root = TensorDict(first=first, second=second).lock_()
    root.unlock_()
    assert not node.is_locked


def test_unlocking_a_stack_unlocks_parts_that_were_locked_one_by_one() -> None:
    parts = [TensorDict(a=1).lock_() for _ in range(2)]
    stack = lazy_stack(parts)
    assert stack.is_locked
    assert not stack.unlock_().is_locked
    assert not any(part.is_locked for part in parts)


def test_unlocking_reaches_what_was_locked_alone() -> None:
    td = TensorDict(n=TensorDict(a=1).lock_())
    assert not td.unlock_()["n"].is_locked
    parts = [TensorDict(a=1), TensorDict(a=1).lock_()]
    with lazy_stack(parts).unlock_() as stack:
        stack["new"] = np.arange(2)
    assert [int(part["new"]) for part in parts] == [0, 1]


def test_contexts_restore_the_state() -> None:
    td = nested()
    with td.lock_() as inside:
        assert inside is td
        assert td.is_locked
        with td.unlock_():
            td["z"] = np.zeros(2)
        assert td.is_locked
        with td.lock_():
            assert td["n"].is_locked
        assert td.is_locked
    assert not td.is_locked
    with td:
        assert not td.is_locked
    assert "z" in td


@each_case("locked", [True, False])
def test_contexts_restore_the_state_after_an_error(locked: bool) -> None:
    td = tree(lock=locked)
    with pytest.raises(ZeroDivisionError), td.unlock_() if locked else td.lock_():
        1 / 0  # noqa: B018
    assert td.is_locked is locked
    assert td["n", "m"].is_locked is locked


def test_pickle_keeps_everything() -> None:
    td = tree(lock=True)
    td.names = ["x", "y"]
    back = pickle.loads(pickle.dumps(td, 2))
    with unchanged(td):
        pass
    assert (back == td).all()
    assert (back.names, back.is_locked, back["n", "m"].is_locked) == (["x", "y"], True, True)
    raises(RuntimeError, "part of a locked graph", lambda: back["n"].unlock_())
    back.unlock_()["z"] = np.zeros((4, 3))


def test_deepcopy_is_unlocked_and_independent() -> None:
    td = tree(lock=True)
    back = copy.deepcopy(td)
    assert not back.is_locked
    assert back["a"] is not td["a"]
    assert copy.copy(td)["a"] is td["a"]


def _with_one_locked_part() -> LazyStackedTensorDict:
    parts = [TensorDict({"x": np.zeros(2), "n": {"a": np.zeros(2)}}, [2]) for _ in range(2)]
    parts[1].lock_()
    return LazyStackedTensorDict(*parts, stack_dim=0)


@each_case("key", [("x",), ("n", "a")])
@each_case("name", ["del_", "pop"])
def test_nothing_is_removed_where_one_part_is_locked(name: str, key: tuple[str, ...]) -> None:
    td = _with_one_locked_part()
    raises(RuntimeError, "locked", lambda: getattr(td, name)(key))
    raises(RuntimeError, "locked", lambda: getattr(TensorDict({"td": td}, [2]), name)(("td", *key)))
    assert [key in part for part in td.tensordicts] == [True, True]


def test_in_place_operators_on_entries_of_a_locked_tensordict() -> None:
    # Python changes the array in place and then stores it under its key again.
    td = TensorDict({"x": np.zeros(2), "n": {"y": np.zeros(2)}}, batch_size=[2]).lock_()
    array, node = td["x"], td["n"]
    td["x"] += 1
    td["n", "y"] += 2
    td["n"] *= 3
    td.set("x", array)
    np.testing.assert_array_equal(array, [1, 1])
    np.testing.assert_array_equal(node["y"], [6, 6])
    assert td["x"] is array
    for key, value in (("x", np.zeros(2)), ("z", array), ("s", None), (("n", "y"), array)):
        with pytest.raises(RuntimeError, match="Cannot modify locked"):
            td[key] = value
    assert set(td.keys(True, True)) == {"x", ("n", "y")}


def test_in_place_operators_on_nodes_of_a_locked_lazy_stack() -> None:
    td = lazy_stack([TensorDict({"n": {"y": np.zeros(2)}}, batch_size=[2]) for _ in range(2)]).lock_()
    td["n"] += 1
    td[0]["n", "y"] += 1
    np.testing.assert_array_equal(td["n", "y"], [[2, 2], [1, 1]])
    with pytest.raises(RuntimeError, match="Cannot modify locked"):
        td["n"] = td["n"].clone()
