"""What ends up in which entry: rows, views of what is written to, chosen keys."""

import numpy as np
from helpers.cases import each_case, raises
from helpers.trees import rows

from lite import TensorDict, lazy_stack


@each_case("lazy", [False, True])
def test_rows_move_up_as_in_one_array(lazy: bool) -> None:
    td = TensorDict({"a": np.arange(4), "n": {"b": np.arange(4.0)}, "s": ["p", "q", "r", "s"]}, [4])
    td = lazy_stack(list(td.clone().unbind(0))) if lazy else td
    td[1:] = td[:-1]
    np.testing.assert_array_equal(td["a"], [0, 0, 1, 2])
    np.testing.assert_array_equal(td["n", "b"], [0, 0, 1, 2])
    assert td["s"] == ["p", "p", "q", "r"]
    td[:-1] = td[1:]
    np.testing.assert_array_equal(td["a"], [0, 1, 2, 2])


def test_an_entry_made_by_a_call_takes_its_later_entries() -> None:
    td = TensorDict(a=np.zeros(2))
    td.update({"n": {"x": 1}, ("n", "y"): 2}, inplace=True)  # y goes to the node made just before
    assert sorted(td["n"].keys()) == ["x", "y"]


def test_an_update_of_a_stack_by_its_own_rows_reads_them_first() -> None:
    base = np.arange(6.0).reshape(3, 2)
    stack_ = lazy_stack(list(TensorDict({"a": base}, [3]).unbind(0)))
    stack_.update_(stack_.flip([0]))
    np.testing.assert_array_equal(stack_["a"], [[4, 5], [2, 3], [0, 1]])
    stack_.set_("a", base[::-1])
    np.testing.assert_array_equal(stack_["a"], [[0, 1], [2, 3], [4, 5]])
    stack_[:] = stack_.flip([0])
    np.testing.assert_array_equal(stack_["a"], [[4, 5], [2, 3], [0, 1]])


@each_case("dim", [0, 1])
def test_parts_get_their_rows(dim: int) -> None:
    def parts() -> list[TensorDict]:
        return [
            TensorDict({"a": np.full((3, 2), float(i)), "n": {"b": np.full(3, i)}}, [3]) for i in range(2)
        ]

    for other in (lazy_stack(parts(), dim), lazy_stack(parts(), dim).contiguous()):
        source = other + 10
        for how in ("update_", "update", "inplace", "clone", "set index", "update_at_"):
            td = lazy_stack(parts(), dim)
            if how == "update_":
                td.update_(source)
            elif how == "set index":
                td[:] = source
            elif how == "update_at_":
                td.update_at_(source, slice(None))
            else:
                td.update(source, inplace=how == "inplace", clone=how == "clone")
            np.testing.assert_array_equal(td["a"], source["a"])
            np.testing.assert_array_equal(td["n", "b"], source["n", "b"])
            if how == "clone":
                td["a"][...] = 0
                td.tensordicts[0]["a"][...] = -1
                assert not (source["a"] == -1).any()


def test_chosen_keys_only_are_copied() -> None:
    td = rows()
    td.update_({"a": np.full(3, 5), "z": np.ones((3, 3))}, keys_to_update=["z"])
    np.testing.assert_array_equal(td["a"], np.arange(3))
    np.testing.assert_array_equal(td["z"], np.ones((3, 3)))
    td.update_({("n", "b"): np.zeros((3, 2)), "a": np.full(3, 9)}, keys_to_update=[("n", "b")])
    np.testing.assert_array_equal(td["n", "b"], np.zeros((3, 2)))
    np.testing.assert_array_equal(td["a"], np.arange(3))
    raises(KeyError, "", td.update_, {"missing": np.zeros(3)}, keys_to_update=["missing"])


def test_a_mapping_at_a_new_path_creates_every_node() -> None:
    td = TensorDict(batch_size=[2], names=["rows"]).set(("a", "b", "c"), {"x": np.ones(2)})
    np.testing.assert_array_equal(td["a", "b", "c", "x"], [1, 1])
    assert td["a", "b"].names == ["rows"]


def test_objects_at_indices_that_are_filled() -> None:
    td = TensorDict({"a": np.zeros(3), "s": ["x", "y", "z"]}, [3])
    td[1] = 7
    assert td["a"].tolist() == [0, 7, 0]
    assert td["s"] == ["x", 7, "z"]
