"""Writes to lazy stacks: what overlaps, what only some parts have, what is ragged along another dim."""

from collections.abc import Callable

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import LazyStackedTensorDict, NonTensorStack, TensorDict, lazy_stack


def _rows(*values: float) -> LazyStackedTensorDict:
    return lazy_stack([TensorDict({"x": np.full(2, value)}, [2]) for value in values])


def _ragged() -> LazyStackedTensorDict:
    return lazy_stack([TensorDict({"g": np.arange(3.0 * n).reshape(3, n)}, [3]) for n in (1, 2)])


def test_a_part_written_to_the_whole_stack_is_read_first() -> None:
    stack = _rows(1, 2)
    stack[:] = stack.flip([0])
    np.testing.assert_array_equal(stack["x"][:, 0], [2, 1])
    stack[:] = stack[1]
    np.testing.assert_array_equal(stack["x"][:, 0], [1, 1])


def test_values_that_do_not_fit_a_place_are_refused_by_the_index_of_the_stack() -> None:
    stack, single = _rows(1, 2), lazy_stack([TensorDict({"x": np.zeros(2)}) for _ in range(2)])
    said = "batch_size = \\(2, 2\\), index=\\(0,\\)"
    raises(RuntimeError, said, stack.__setitem__, 0, TensorDict({"x": np.zeros(1)}, [1]))
    raises(IndexError, "too many indices", single.__setitem__, (0, 0), single[0])


def test_update_merges_into_nested_entries_that_only_some_parts_have() -> None:
    first = TensorDict({"n": {"x": np.ones(2)}}, [2])
    second = TensorDict({"a": np.zeros(2)}, [2])
    stack = lazy_stack([first, second], 1)
    node = first["n"]
    stack.update({"n": {"y": np.array([[1, 2], [3, 4]])}})
    assert first["n"] is node
    assert first["n"].sorted_keys == ["x", "y"]
    assert second["n"].sorted_keys == ["y"]
    np.testing.assert_array_equal(stack["n", "y"], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(second["n", "y"], [2, 4])


@each_case("clone", [False, True])
def test_update_takes_ragged_entries_that_are_stacked_along_another_dim(clone: bool) -> None:
    stack = lazy_stack([TensorDict({"n": {"a": np.zeros(2)}}, [2]) for _ in range(3)], 1)
    stack.update(TensorDict({"n": _ragged()}, [2, 3]), clone=clone)
    assert stack["n"].get_item_shape("g") == (2, 3, -1)
    np.testing.assert_array_equal(stack[1, 2]["n", "g"], [4, 5])
    np.testing.assert_array_equal(stack[0, 2]["n", "g"], [2])
    np.testing.assert_array_equal(stack["n", "a"], np.zeros((2, 3)))


def test_update_at_writes_ragged_rows() -> None:
    stack = lazy_stack([_ragged(), _ragged()])
    stack.update_at_(_ragged().zero_(), 0)
    np.testing.assert_array_equal(stack[0, 1]["g"], np.zeros((3, 2)))
    np.testing.assert_array_equal(stack[1, 1]["g"], np.arange(6.0).reshape(3, 2))
    raises(KeyError, "other", lambda: stack.update_at_(_ragged().set("other", np.zeros((2, 3))), 0))


def test_nested_entries_of_different_batch_dims_can_be_seen_but_not_stacked() -> None:
    def part(size: list[int]) -> TensorDict:
        return TensorDict({"n": TensorDict({"a": np.zeros((3, 2))}, size), "z": np.zeros(3)}, [3])

    stack = lazy_stack([part([3, 2]), part([3])])
    assert "n" in stack
    assert ("n", "a") in stack
    assert ("n", "b") not in stack
    assert "n: TensorDict(batch_size=(-1,)" in repr(stack)
    assert "z" in stack._repr_html_()
    assert "n" in str(stack.summary())
    raises(RuntimeError, "different kinds", lambda: stack.get("n"))


def test_padding_values_that_do_not_fit_are_refused() -> None:
    stack = lazy_stack([TensorDict(a=np.zeros(n, np.uint8)) for n in (1, 2)])
    with pytest.raises(ValueError, match="padding_value -1 does not fit 'a' of dtype uint8"):
        stack.get("a", as_padded_tensor=True, padding_value=-1)
    np.testing.assert_array_equal(stack.get("a", as_padded_tensor=True, padding_value=7), [[0, 7], [0, 0]])


@each_case("lazy", [False, True])
def test_assigned_leaves_broadcast_as_in_a_dense_tensordict(lazy: bool) -> None:
    td = TensorDict({"a": np.zeros((2, 3, 2))}, [2, 3])
    if lazy:
        td = LazyStackedTensorDict(*td.unbind(1), stack_dim=1)
    # In each part alone this leaf would fit, along another dimension.
    with pytest.raises(RuntimeError, match="shape mismatch at key"):
        td[None] = TensorDict({"a": np.ones((1, 2, 3))}, [1, 2, 3])
    np.testing.assert_array_equal(td["a"], np.zeros((2, 3, 2)))
    td[...] = TensorDict({"a": np.arange(6.0).reshape(2, 3, 1)}, [2, 3])
    np.testing.assert_array_equal(td["a"], np.arange(6.0).repeat(2).reshape(2, 3, 2))


def test_a_new_key_below_an_array_of_some_part_changes_nothing() -> None:
    parts = [TensorDict(), TensorDict({"n": {"a": 1}}), TensorDict(n=1)]
    stack = lazy_stack(parts)
    with pytest.raises(KeyError, match="already present"):
        stack["n", "new"] = np.arange(3.0)
    assert [set(part.keys(True, True)) for part in parts] == [set(), {("n", "a")}, {"n"}]


def test_a_lazy_stack_merged_into_a_node_under_names_is_stored() -> None:
    td = TensorDict({"n": {"a": np.zeros((2, 1))}}, [2, 1], names=["x", "y"])
    td.update({"n": lazy_stack([TensorDict({"a": np.ones(2), "g": np.ones(2)}, [2])], 1)})
    np.testing.assert_array_equal(td["n", "a"], np.ones((2, 1)))
    np.testing.assert_array_equal(td["n", "g"], np.ones((2, 1)))


def _nested(*keys: str, dim: int = 0) -> TensorDict:
    parts = [TensorDict({key: np.full((2, 1 + i), float(i)) for key in keys}, [2]) for i in range(2)]
    return TensorDict({"n": LazyStackedTensorDict(*parts, stack_dim=dim)}, [2])


def test_update_in_place_makes_no_keys_in_a_nested_stack() -> None:
    td, source = _nested("g"), _nested("g", "x")
    source["n"].tensordicts[1]["g"] = np.full((2, 2), 7.0)
    raises(KeyError, r"\('n', 'x'\)", lambda: td.update_(source))
    assert [list(part.keys()) for part in td["n"].tensordicts] == [["g"], ["g"]]
    np.testing.assert_array_equal(td["n"].tensordicts[1]["g"], np.ones((2, 2)))
    td.update_(source, strict=False)
    assert [list(part.keys()) for part in td["n"].tensordicts] == [["g"], ["g"]]
    np.testing.assert_array_equal(td["n"].tensordicts[1]["g"], np.full((2, 2), 7))


def test_update_in_place_broadcasts_a_nested_stack_of_fewer_batch_dims() -> None:
    td = TensorDict({"n": _rows(1, 2, 3)}, [3, 2]).unsqueeze(0)
    td.update_(TensorDict({"n": _rows(4, 5, 6)}, [3, 2]))
    np.testing.assert_array_equal(td["n", "x"], [[[4, 4], [5, 5], [6, 6]]])
    raises(RuntimeError, "expand", lambda: td.update_(TensorDict({"n": _rows(7, 8)}, [2, 2])))
    np.testing.assert_array_equal(td["n", "x"], [[[4, 4], [5, 5], [6, 6]]])


def test_update_in_place_broadcasts_an_array_to_a_ragged_entry() -> None:
    stack = LazyStackedTensorDict(TensorDict(a=np.ones(2)), TensorDict(a=np.ones(3)))
    stack.update_({"a": np.array([[5.0], [6.0]])})
    np.testing.assert_equal([part["a"].tolist() for part in stack.tensordicts], [[5, 5], [6, 6, 6]])


@each_case(
    "write",
    [
        lambda td, n: td.__setitem__(..., TensorDict({"n": n}, td.batch_size)),
        lambda td, n: td.update({"n": n}, inplace=True),
        lambda td, n: td.update_({"n": n}),
        lambda td, n: td.update_at_({"n": n}, ...),
        lambda td, n: td.set("n", n, inplace=True),
        lambda td, n: td["n"].__setitem__(..., n),
    ],
)
@each_case("dim", [0, 1])
def test_parts_of_a_nested_stack_can_be_exchanged(dim: int, write: Callable[..., object]) -> None:
    parts = [TensorDict({"a": np.full(2, i), "b": np.full(2, i + 5)}, [2]) for i in range(2)]
    td = TensorDict({"n": LazyStackedTensorDict(*parts, stack_dim=dim)}, [2])
    write(td, LazyStackedTensorDict(*parts[::-1], stack_dim=dim))
    for part, a in zip(td["n"].tensordicts, (1, 0), strict=True):
        np.testing.assert_array_equal(part["a"], [a, a])
        np.testing.assert_array_equal(part["b"], [a + 5, a + 5])


def _stack_of_stacks() -> LazyStackedTensorDict:
    """Only the first part of the first part has the node `n`."""
    rows = [TensorDict({"a": i, "n": {"b": i}} if i == 0 else {"a": i}) for i in range(4)]
    return LazyStackedTensorDict(*(LazyStackedTensorDict(*rows[i : i + 2]) for i in (0, 2)))


def test_a_node_that_one_part_of_a_part_has_keeps_its_entries() -> None:
    new = np.arange(4).reshape(2, 2)
    writes: list[Callable[[LazyStackedTensorDict], object]] = [
        lambda td: td.set(("n", "new"), new),
        lambda td: td.setdefault(("n", "new"), new),
        lambda td: td.update({"n": {"new": new}}),
        lambda td: td.update(TensorDict({"n": {"new": new}}, [2, 2])),
    ]
    for write in writes:
        td = _stack_of_stacks()
        write(td)
        np.testing.assert_array_equal(td["n", "new"], new)
        assert td[0][0]["n", "b"] == 0


def test_objects_broadcast_in_place() -> None:
    parts = [TensorDict({"s": [["a", "b"]] * 2}, [2, 2]) for _ in range(2)]
    td = LazyStackedTensorDict(*parts, stack_dim=2)
    td.update_({"s": TensorDict({"s": ["x", "y"]}, [2]).get("s")})
    assert td.get("s").tolist() == [[["x", "y"], ["x", "y"]]] * 2
    with pytest.raises(ValueError, match=r"Failed to update 's'.*shape \(3,\) does not broadcast"):
        td.update_({"s": TensorDict({"s": ["x", "y", "z"]}, [3]).get("s")})


def test_update_in_place_from_a_stack_with_exclusive_keys() -> None:
    source = LazyStackedTensorDict(TensorDict({"a": 1, "x": 1}), TensorDict({"a": 2}))
    td = TensorDict({"a": np.zeros(2, int)}, [2])
    raises(KeyError, "some of its parts only", lambda: td.update_(source))
    np.testing.assert_array_equal(td["a"], 0)
    np.testing.assert_array_equal(td.update_(source, strict=False)["a"], [1, 2])


def test_a_named_entry_names_the_stack_dimension() -> None:
    named = TensorDict({"x": np.zeros((2, 3, 4))}, [2, 3, 4], names=["c", "d", None])
    stack = lazy_stack([TensorDict(batch_size=[3]) for _ in range(2)])
    stack["n"] = named
    assert (stack.names, stack["n"].names) == (["c", "d"], ["c", "d", None])
    for names in (["a", "d"], ["a", "b"]):
        other = lazy_stack([TensorDict(batch_size=[3]) for _ in range(2)])
        other.names = names
        with pytest.raises(RuntimeError, match=r"refine_names: cannot coerce"):
            other["n"] = named
        assert (other.names, list(other.keys())) == (names, [])


def test_a_named_entry_without_the_stack_dimension() -> None:
    stack = lazy_stack([TensorDict(batch_size=[1]) for _ in range(2)], 1)
    td = TensorDict({"n": stack}, [1], names=["c"]).create_nested(("n", "new"))
    assert td["n", "new"].names == ["c", None]


def test_objects_of_more_dimensions_are_refused() -> None:
    def target() -> TensorDict:
        return TensorDict(s=NonTensorStack("p", "q"), x=np.zeros((2, 1)), batch_size=[2])

    source = TensorDict(s=NonTensorStack.from_list([["a"], ["b"]]), x=np.ones((2, 1)), batch_size=[2])
    for td in (target(), target().to_lazystack()):
        for new in (source, source.to_lazystack()):
            with pytest.raises(ValueError, match=r"'s': objects of shape .* do not broadcast"):
                td[:] = new
            assert td.get("s").tolist() == ["p", "q"]
            np.testing.assert_array_equal(td["x"], 0)


def test_split_keys_takes_entries_once_from_a_part_that_is_there_twice() -> None:
    part = TensorDict({"a": 1, "b": 2})
    stack = lazy_stack([part, part])
    taken, rest = stack.split_keys(["a"], inplace=True)
    np.testing.assert_array_equal(taken["a"], [1, 1])
    assert rest is stack
    assert list(part.keys()) == ["b"]
    raises(KeyError, "missing", lambda: stack.split_keys(["missing"], inplace=True))


def test_ragged_entries_are_written_at_an_index() -> None:
    stack = lazy_stack([TensorDict(x=np.zeros(2), y=0), TensorDict(x=np.zeros(3), y=0)])
    stack.set_at_("x", 1.0, 0)
    stack.set_at_("x", np.full(3, 2.0), 1)
    assert [part["x"].tolist() for part in stack.tensordicts] == [[1, 1], [2, 2, 2]]
    assert [part["y"].tolist() for part in stack.tensordicts] == [0, 0]
    ragged = lazy_stack([TensorDict({"x": np.zeros((2, n))}, [2, n]) for n in (2, 3)])
    for index in ([0, 1], ([0, 1], [1, 0])):
        rows = TensorDict({"x": np.zeros(1)}, [1])
        raises(RuntimeError, r"has \(2,\) at dim 0", ragged.__setitem__, index, rows)
