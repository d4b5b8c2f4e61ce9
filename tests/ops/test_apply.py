"""apply, apply_, named_apply."""

import threading
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree, unchanged

from lite import NonTensorData, TensorDict, is_leaf_nontensor, lazy_stack, stack


def test_leaves_are_replaced_and_the_rest_is_kept() -> None:
    td = tree(lock=True)
    td.names = ["x", "y"]
    with unchanged(td):
        got = td.apply(lambda leaf: leaf + 1)
    np.testing.assert_array_equal(got["n", "b"], td["n", "b"] + 1)
    assert (got["s"], got.names, got.is_locked) == ("text", ["x", "y"], False)
    assert got["n"].batch_size == (4, 3, 5)
    assert td.apply(lambda leaf: leaf, propagate_lock=True).is_locked


def test_order_and_names_of_the_calls() -> None:
    td = tree()
    seen: list[Any] = []
    td.named_apply(lambda name, leaf: seen.append(name))
    assert seen == ["a", "i", "b", "c"]
    seen.clear()
    td.named_apply(lambda name, leaf: seen.append(name), nested_keys=True)
    assert seen == ["a", "i", ("n", "b"), ("n", "m", "c")]


def test_results_are_converted_and_checked() -> None:
    td = TensorDict({"a": np.zeros((2, 3))}, batch_size=[2])
    assert td.apply(lambda leaf: "text")["a"] == "text"
    assert td.apply(lambda leaf: [1.0, 2.0])["a"].dtype == np.float32
    with unchanged(td), pytest.raises(RuntimeError, match="batch dimension mismatch"):
        td.apply(lambda leaf: leaf.sum())
    assert td.apply(lambda leaf: leaf.sum(), batch_size=[])["a"] == 0
    assert td.apply(lambda leaf: leaf[0], batch_size=[3]).batch_size == (3,)
    # One object for the whole batch has the new batch size, too, so that results of several lengths stack.
    rows = [TensorDict({"a": np.zeros(n), "n": {"s": f"{n}"}}, batch_size=[n]) for n in (2, 3)]
    assert stack([td.apply(np.sum, batch_size=[]) for td in rows])["n", "s"] == ["2", "3"]


def test_metadata_arguments() -> None:
    td = tree()
    assert td.apply(lambda leaf: leaf, names=["u", "v"]).names == ["u", "v"]
    assert td.apply(lambda leaf: leaf, device="cpu")["n"].device == "cpu"
    assert td.to("cpu").apply(lambda leaf: leaf, device=None).device is None


@each_case("missing", ["a", "n", ("n", "b")])
def test_missing_keys_of_others(missing: Any) -> None:
    td = TensorDict({"a": 1, "n": {"b": 2}})
    other = td.exclude(missing)
    with unchanged(td, other), pytest.raises(KeyError):
        td.apply(lambda x, y: x, other)
    got = td.apply(lambda x, y: -1 if y is None else y, other, default=None)
    assert got[("n", "b") if missing == "n" else missing] == -1
    got = td.apply(lambda x, y: x + y, other, default=10)
    assert got[("n", "b") if missing == "n" else missing] == (11 if missing == "a" else 12)
    raises(TypeError, "must be TensorDicts", lambda: td.apply(lambda x, y: x, 3))


def test_filter_empty() -> None:
    td = TensorDict({"a": 1, "n": {"b": 2}, "e": {}})

    def none(leaf: Any) -> None:
        return None

    assert td.exclude("e").apply(none) is None
    assert list(td.apply(none).keys()) == ["e"]
    assert td.apply(none, filter_empty=True) is None
    assert list(td.apply(none, filter_empty=False).keys(True)) == ["n", "e"]
    assert TensorDict().apply(none).is_empty()
    assert TensorDict().apply(none, filter_empty=True) is None
    kept = td.named_apply(lambda name, leaf: leaf if name == "a" else None)
    assert "n" not in kept
    with_object = td.clone().set("s", "text").apply(none)
    assert with_object["s"] == "text"
    assert "n" not in with_object


def test_in_place() -> None:
    td = TensorDict({"a": np.zeros(2, np.float32), "n": {"b": np.zeros(2)}, "s": "x"}, lock=True)
    a, b = td["a"], td["n", "b"]
    assert td.apply_(lambda leaf: leaf + 1.5) is td
    assert td["a"] is a
    assert td["n", "b"] is b
    np.testing.assert_array_equal(a, [1.5, 1.5])
    assert td.apply(lambda leaf: 7, inplace=True) is td
    np.testing.assert_array_equal(b, [7, 7])
    assert td.apply_(lambda leaf: None) is td
    with unchanged(td), pytest.raises(ValueError, match="Failed to update 'a'"):
        td.apply_(lambda leaf: np.zeros(5))


def test_out() -> None:
    td = TensorDict({"a": 1, "n": {"b": 2}})
    out = TensorDict({"old": 5, "n": {"kept": 6}})
    node = out["n"]
    assert td.apply(lambda leaf: leaf * 10, out=out) is out
    assert out["n"] is node
    assert out.to_dict(convert_tensors=True) == {"old": 5, "n": {"kept": 6, "b": 20}, "a": 10}
    raises(RuntimeError, "must be equal", lambda: td.apply(lambda leaf: leaf, out=out, batch_size=[2]))
    raises(RuntimeError, "locked", lambda: td.apply(lambda leaf: leaf, out=out.lock_()))


def test_what_counts_as_a_leaf() -> None:
    td = TensorDict({"a": 1, "n": {"b": 2}, "s": "x"})
    seen: list[type] = []

    def note(entry: Any) -> Any:
        seen.append(type(entry))
        return entry

    td.apply(note, is_leaf=is_leaf_nontensor)
    assert seen == [np.ndarray, np.ndarray, NonTensorData]
    seen.clear()
    got = td.apply(note, call_on_nested=True)
    assert seen == [np.ndarray, TensorDict, NonTensorData]
    assert got["n"] is td["n"]


def test_lazy_stacks_go_part_by_part() -> None:
    stack = lazy_stack([TensorDict({"x": np.ones(2), "k": 1}), TensorDict({"x": np.ones(3)})])
    got = stack.apply(lambda leaf: leaf * 2)
    assert [part["x"].tolist() for part in got.tensordicts] == [[2, 2], [2, 2, 2]]
    assert got[0]["k"] == 2
    assert stack.apply(lambda leaf: None) is None
    stack.apply_(lambda leaf: leaf * 5)
    assert stack[1]["x"].tolist() == [5, 5, 5]
    pair = stack.apply(lambda x, y: x + y, stack)
    assert pair[1]["x"].tolist() == [10, 10, 10]


def _fails_at(n: int) -> Any:
    seen: list[Any] = []

    def fn(leaf: Any) -> Any:
        seen.append(leaf)
        if len(seen) == n:
            raise ZeroDivisionError
        return leaf + 1

    return fn


@each_case("lazy", [False, True])
@each_case("n", [2, 4])
def test_a_function_that_raises_leaves_everything_as_it_was(lazy: bool, n: int) -> None:
    td = (lazy_stack([tree(), tree()]) if lazy else tree()).clone()
    out, before = td.empty(), td.clone()
    raises(ZeroDivisionError, "", lambda: td.apply_(_fails_at(n)))
    raises(ZeroDivisionError, "", lambda: td.apply(_fails_at(n), out=out))
    with pytest.raises(ValueError, match="Failed to update"):
        td.apply_(lambda leaf: leaf + 1 if leaf.ndim == td["a"].ndim - lazy else np.zeros(7))
    assert out.is_empty()
    assert (td == before).all()


def test_a_lazy_stack_writes_to_a_dense_out() -> None:
    stack = lazy_stack([TensorDict({"a": np.ones(2), "n": {"b": i}}) for i in range(2)])
    for out in TensorDict(batch_size=[2]), TensorDict({"a": np.zeros((2, 2))}, [2]), stack.to_lazystack(0):
        assert stack.apply(lambda leaf: leaf + 1, out=out) is out
        np.testing.assert_array_equal(out["a"], [[2, 2], [2, 2]])
        np.testing.assert_array_equal(out["n", "b"], [1, 2])
    wide = lazy_stack([TensorDict(a=np.ones(3), batch_size=[3])] * 2)
    across = wide.contiguous().to_lazystack(1)
    np.testing.assert_array_equal(wide.apply(lambda leaf: leaf + 1, out=across)["a"], np.full((2, 3), 2))
    ragged = lazy_stack([TensorDict(a=np.ones(1)), TensorDict(a=np.ones(2))])
    out = TensorDict(batch_size=[2])
    raises(RuntimeError, "Failed to stack", lambda: ragged.apply(lambda leaf: leaf + 1, out=out))
    assert out.is_empty()


@pytest.mark.parametrize("lazy", [False, True])
@each_case("threads", [1, 3])
def test_threads_call_the_function(threads: int, lazy: bool) -> None:
    td = lazy_stack([tree(), tree()]) if lazy else tree()
    seen: set[str] = set()

    def noting(*args: Any) -> Any:
        seen.add(threading.current_thread().name)
        return args[-1] * 2

    for out, expected in (
        (td.apply(noting, num_threads=threads), td.apply(lambda x: x * 2)),
        (td.apply(lambda x, y: x * y, td, num_threads=threads), td.apply(lambda x, y: x * y, td)),
        (td.named_apply(lambda name, x: np.array(len(name)) + x, nested_keys=True, num_threads=threads),
            td.named_apply(lambda name, x: np.array(len(name)) + x, nested_keys=True)),
        (td.apply(lambda x: None if x.dtype == np.bool_ else x, num_threads=threads),
            td.apply(lambda x: None if x.dtype == np.bool_ else x)),
        (td.clone().apply_(lambda x: x + x, num_threads=threads), td.clone().apply_(lambda x: x + x)),
        (td.apply(noting, out=td.clone(), num_threads=threads), td.apply(lambda x: x * 2, out=td.clone())),
    ):  # fmt: skip
        assert set(out.keys(True, True)) == set(expected.keys(True, True))
        assert (out == expected).all()
    assert threading.current_thread().name not in seen


def test_a_function_that_raises_in_a_thread_leaves_everything_as_it_was() -> None:
    td = tree().clone()
    with unchanged(td), pytest.raises(ZeroDivisionError):
        td.apply_(_fails_at(2), num_threads=2)
    with unchanged(td), pytest.raises(ValueError, match="num_threads must be 0 or more, got -1"):
        td.apply(lambda x: x, num_threads=-1)


@each_case("make", [lambda td: td, lambda td: lazy_stack([td, td.clone()])], ids=["dense", "lazy"])
def test_in_place_without_results(make: Any) -> None:
    td = make(TensorDict(a=np.zeros(2), n=TensorDict(b=np.ones(2))))
    assert td.apply(lambda x: None, inplace=True) is None
    assert td.named_apply(lambda key, x: None, inplace=True) is None
    assert td.apply_(lambda x: None) is None
    assert td.apply(lambda x: None, inplace=True, filter_empty=False) is td
    assert td.apply_(lambda x: x + 1 if x.any() else None) is td


def test_names_stand_before_the_entries_of_all() -> None:
    td, other = TensorDict({"a": 1, "n": {"b": 2}}), TensorDict({"a": 10, "n": {"b": 20}})
    seen: list[Any] = []
    got = td.named_apply(lambda name, x, y: seen.append(name) or x + y, other)
    assert got.to_dict(convert_tensors=True) == {"a": 11, "n": {"b": 22}}
    td.named_apply(lambda name, x, y: seen.append(name), other, nested_keys=True)
    assert seen == ["a", "b", "a", ("n", "b")]
