"""LazyStackedTensorDict: what it is, how its parts are read, locked and copied."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.lazy_stacks import assert_same, ragged, regular

import lite
from lite import LazyStackedTensorDict, NonTensorStack, TensorDict, lazy_stack

# -- what it is -------------------------------------------------------------------------------


def test_parts_are_aliased():
    rows = [TensorDict(a=np.zeros(2)) for _ in range(3)]
    ls = lazy_stack(rows)
    assert ls[0] is rows[0]
    assert all(got is row for got, row in zip(ls.unbind(0), rows, strict=True))
    rows[1]["a"] = np.ones(2)
    np.testing.assert_array_equal(ls["a"], [[0, 0], [1, 1], [0, 0]])


def test_keys_are_the_sorted_intersection():
    ls = lazy_stack([TensorDict(z=1, a=1, n={"x": 1, "y": 1}), TensorDict(a=1, q=1, z=1, n={"y": 1})])
    assert list(ls.keys()) == ["a", "n", "z"]
    assert list(ls.keys(True, True)) == ["a", ("n", "y"), "z"]
    assert "q" not in ls
    assert ls.get("q") is None
    assert ls.get("q", 3) == 3
    raises(KeyError, 'key "q" not found', lambda: ls["q"])
    assert ls[1]["q"] == 1
    ls[0]["q"] = 5
    np.testing.assert_array_equal(ls["q"], [5, 1])


def test_batch_size_has_minus_one_where_parts_differ():
    parts = [TensorDict(a=np.zeros((n, 3)), batch_size=[n, 3]) for n in (1, 2)]
    assert lazy_stack(parts).batch_size == (2, -1, 3)
    assert lazy_stack(parts, 1).batch_size == (-1, 2, 3)
    assert lazy_stack(parts, -1).batch_size == (-1, 3, 2)
    assert lazy_stack(parts).numel() == 9
    with pytest.raises(RuntimeError, match="batch sizes in tensordicts differs"):
        LazyStackedTensorDict(*parts, strict_shape=True)


def test_parts_that_changed_their_number_of_dims_are_named():
    parts = [TensorDict({"a": np.zeros((2, 3))}, [2]) for _ in range(2)]
    stack = LazyStackedTensorDict(*parts)
    parts[0].batch_size = (2, 3)
    with pytest.raises(RuntimeError, match=r"different numbers of batch dimensions: \[\(2,\), \(2, 3\)\]"):
        stack.batch_size  # noqa: B018


@each_case("dim", [2, -3])
def test_stack_dim_out_of_range(dim):
    raises(IndexError, "stack_dim", lambda: lazy_stack([TensorDict(batch_size=[3])], dim))


def test_what_cannot_be_stacked():
    raises(RuntimeError, "items cannot be empty", lambda: lazy_stack([]))
    with pytest.raises(RuntimeError, match="batch sizes in tensordicts differs"):
        lazy_stack([TensorDict(), TensorDict(batch_size=[1])])
    with pytest.raises(RuntimeError, match="devices differ, got None and cpu"):
        lazy_stack([TensorDict(), TensorDict(device="cpu")])
    raises(TypeError, "must be TensorDicts", lambda: LazyStackedTensorDict(3))
    one, two = TensorDict(batch_size=[1]), TensorDict(batch_size=[2])
    assert LazyStackedTensorDict(one, one, batch_size=[2, 1], strict_shape=True).batch_size == (2, 1)
    raises(RuntimeError, "batch sizes", LazyStackedTensorDict, one, two, strict_shape=True)
    with pytest.raises(RuntimeError, match=r"batch_size is \(2, 1\) for these parts, got batch_size=\(2,\)"):
        LazyStackedTensorDict(one, one, batch_size=[2])
    assert LazyStackedTensorDict().batch_size == (0,)


def test_batch_size_cannot_be_set():
    ls = ragged(1, 2)
    ls.batch_size = (2,)
    with pytest.raises(RuntimeError, match="lazy representation"):
        ls.batch_size = (1,)


# -- reading ----------------------------------------------------------------------------------


# -- the stack itself, locks, copies ----------------------------------------------------------


def test_insert_append_extend():
    ls = ragged(1, 2)
    ls.append(TensorDict(a=np.zeros(5)))
    assert ls.insert(0, TensorDict(a=np.zeros(6))) is ls
    ls.extend([TensorDict(a=np.zeros(7))])
    ls.extend(ragged(8, 9))
    assert [len(row) for row in ls.get("a", as_list=True)] == [6, 1, 2, 5, 7, 8, 9]
    raises(ValueError, "Batch sizes", lambda: ls.append(TensorDict(batch_size=[2])))
    raises(ValueError, "Devices differ", lambda: ls.append(TensorDict(device="cpu")))
    raises(TypeError, "TensorDict", lambda: ls.append(3))
    ls.lock_()
    raises(RuntimeError, "locked", lambda: ls.append(TensorDict()))


def test_appends_and_slices_do_not_grow_with_the_stack(monkeypatch):
    """They look at one part: a trajectory that is appended to step by step takes linear time."""
    parts = [TensorDict(a=np.full(2, i), batch_size=[2]) for i in range(3)]
    stack = lazy_stack(parts[:2])
    monkeypatch.setattr(LazyStackedTensorDict, "_part_size", lambda self: pytest.fail("asked all parts"))
    stack.append(parts[2])
    tail = stack[1:]
    stack[0] = TensorDict(a=np.zeros(2), s="x", batch_size=[2])
    monkeypatch.undo()
    asked, size = [], LazyStackedTensorDict._part_size
    monkeypatch.setattr(LazyStackedTensorDict, "_part_size", lambda self: asked.append(self) or size(self))
    assert [piece.tensordicts for piece in stack.split(3)] == [parts]
    once = len(asked)
    assert [piece.tensordicts for piece in stack.split(1)] == [[part] for part in parts]
    assert len(asked) == 2 * once
    monkeypatch.undo()
    assert parts[0]["s"] == ["x", "x"]
    assert stack.tensordicts == parts
    assert tail.tensordicts == parts[1:]
    empty = LazyStackedTensorDict(batch_size=[2])
    with pytest.raises(ValueError, match="Devices differ"):  # from the first one
        empty.extend([parts[0], TensorDict(batch_size=[2], device="cpu")])
    assert stack[3:].batch_size == (0, 2)


def test_lock_reaches_the_parts():
    ls = ragged(1, 2)
    ls.lock_()
    assert ls[0].is_locked
    assert ls["n"].is_locked
    for write in (lambda: ls.set("q", [1, 2]), lambda: ls[0].set("q", 1), lambda: ls["n"].set("q", [1, 2])):
        raises(RuntimeError, "Cannot modify locked TensorDict", write)
    raises(RuntimeError, "Cannot unlock", lambda: ls[0].unlock_())
    ls.unlock_()
    ls.set("q", [1, 2])
    for part in ls.tensordicts:
        part.lock_()
    assert ls.is_locked
    assert ls.clone().is_locked is False


def test_names():
    ls = regular((2, 3), 1, ["x", "y"])
    assert ls.tensordicts[0].names == ["x"]
    assert ls[0].names == ["y"]
    assert ls["n"].names == ["x", "y"]
    ls.tensordicts[1].names = ["z"]
    with pytest.raises(ValueError, match="names of the stacked tensordicts differ"):
        _ = ls.names


def test_a_part_that_was_renamed_takes_part_in_everything():
    ls = lazy_stack([TensorDict({"x": np.full((2, 3), i)}, [2, 3], names=["p", "q"]) for i in (0, 1)])
    ls.tensordicts[0].names = ["p", "z"]
    x = ls["x"]
    assert ls.reshape(4, 3).names == [None, None]
    np.testing.assert_array_equal(ls.reshape(4, 3)["x"], x.reshape(4, 3))
    assert ls[:, 0].tensordicts[1].names == ["q"]
    assert ls[np.ones((2, 2), bool)].names == [None, None]
    assert ls.contiguous().names == [None, "p", None]
    assert ls.sum(0).names == ["p", None]
    assert "names=[None, &#x27;p&#x27;, None]" in ls._repr_html_()
    assert TensorDict({"n": ls}, [2], names=["z"])["n"].names[:1] == ["z"]
    assert ls.rename_("a", "b", "c").tensordicts[0].names == ["b", "c"]


def test_a_part_may_be_named_as_the_stack_dimension():
    ls = lazy_stack([TensorDict({"x": np.zeros(2)}, [2])], stack_dim_name="t")
    ls.tensordicts[0].names = ["t"]
    assert ls.names == ["t", None]
    assert ls.reshape(-1).batch_size == (2,)


def test_dense_forms():
    ls = ragged(1, 3)
    raises(RuntimeError, "Failed to stack", lambda: ls.to_tensordict())
    dense = ls.densify(padding_value=-1)
    assert type(dense) is TensorDict
    np.testing.assert_array_equal(dense["a"], [[0, -1, -1], [10, 11, 12]])
    np.testing.assert_array_equal(dense["n", "c"], [[1, -1, -1], [1, 1, 1]])
    assert dense["s"] == ["s0", "s1"]
    regular_ = regular((2, 3), 1)
    assert type(regular_.contiguous()) is TensorDict
    assert_same(regular_.contiguous(), regular_)
    assert type(regular_.to_tensordict()["n"]) is TensorDict


def test_padding_of_no_objects_is_the_entry():
    part = TensorDict({"s": np.array(["text"], dtype=object)}, [1])[:0]
    assert lazy_stack([part], 0).get("s", as_padded_tensor=True).tolist() == [[]]


def test_a_part_is_in_its_stack():
    parts = [TensorDict(a=np.zeros(2)), TensorDict(a=np.zeros(2), only=1)]
    stack = lazy_stack(parts)
    assert all(part in stack for part in parts)
    assert parts[0].clone() not in stack
    assert stack not in stack
    outer = lazy_stack([stack, stack.clone()])
    assert stack in outer
    assert parts[0] not in outer
    assert "a" in stack
    assert "only" not in stack
    assert ("a",) in stack
    for key in (1, None):
        with pytest.raises(RuntimeError, match="NestedKey"):
            key in stack  # noqa: B015


def test_the_device_of_a_stack_without_parts():
    stack = LazyStackedTensorDict(device="cpu", batch_size=[3])
    assert (stack.device, stack.batch_size) == ("cpu", (0, 3))
    assert LazyStackedTensorDict().device is None
    stack.append(TensorDict(batch_size=[3]))
    assert stack.device is None
    part = TensorDict(a=np.zeros(2), device="cpu")
    assert LazyStackedTensorDict(part, device="cpu").device == "cpu"
    assert LazyStackedTensorDict(TensorDict(), device="cpu").device is None
    raises(ValueError, "device", lambda: LazyStackedTensorDict(device="nowhere"))


def test_arrays_and_objects_stack_at_once():
    np.testing.assert_array_equal(lazy_stack([np.zeros(2), np.ones(2)]), [[0, 0], [1, 1]])
    objects = lazy_stack([lite.NonTensorData("a"), lite.NonTensorData("b")])
    assert isinstance(objects, NonTensorStack)
    assert objects.tolist() == ["a", "b"]


def test_entries_are_taken_from_all_parts() -> None:
    stack = lazy_stack([TensorDict(a=1, b=2), TensorDict(a=3, b=4)])
    del stack["a"]
    assert [list(part.keys()) for part in stack.tensordicts] == [["b"], ["b"]]
    with pytest.raises(KeyError, match="a"):
        del stack["a"]


def test_entries_of_a_nested_stack_are_removed_from_the_parts_that_have_them():
    td = TensorDict(n=lazy_stack([TensorDict(a=1, b=2), TensorDict(a=3)]))
    td.del_(("n", "b"))
    assert [list(part.keys()) for part in td["n"].tensordicts] == [["a"], ["a"]]
    raises(KeyError, "b", td.del_, ("n", "b"))
    td.del_(("n", "a"))
    assert td["n"].is_empty()
