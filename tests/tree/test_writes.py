"""Calls that write many entries do all of it or, when they raise, nothing; the source stays as it is, too."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import rows

import lite
from lite import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict, lazy_stack, nn


def content(value: Any) -> Any:
    """Everything there is to know about a value: bytes, batch sizes, names, locks, key order."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist() if value.dtype == object else value.tobytes()
    if isinstance(value, NonTensorData | NonTensorStack):
        return type(value), value.batch_size, value.tolist()
    if isinstance(value, LazyStackedTensorDict):
        return value.stack_dim, value._dim_name, value._locked, [content(p) for p in value.tensordicts]
    if lite.is_tensor_collection(value):
        entries = [(key, content(entry)) for key, entry in value.items()]
        return value.batch_size, value.names, value.is_locked, entries
    if isinstance(value, dict):
        return [(key, content(item)) for key, item in value.items()]
    return value


def assert_unchanged(call: Callable[[], Any], *values: Any, error: type[Exception] = Exception) -> None:
    before = [content(value) for value in values]
    identities = [_identities(value) for value in values]
    raises(error, "", call)
    assert [content(value) for value in values] == before
    assert [_identities(value) for value in values] == identities


def _identities(value: Any) -> Any:
    """Which objects the containers hold, down to the arrays."""
    if isinstance(value, LazyStackedTensorDict):
        return [(id(part), _identities(part)) for part in value.tensordicts]
    if isinstance(value, TensorDict):
        return [(id(entry), _identities(entry)) for _, entry in value.items()]
    return None


def stack() -> LazyStackedTensorDict:
    parts = [
        TensorDict({"a": np.full(2, i), "n": {"b": np.ones(2), "s": "t"}, "z": np.zeros((2, 3))}, [2])
        for i in range(3)
    ]
    return lazy_stack(parts)


def sources() -> dict[str, dict[str, Any]]:
    """Sources whose first entries fit and whose last does not."""
    good = {"a": np.full(3, 7), "n": {"b": np.full((3, 2), 7.0), "m": {"x": np.full((3, 2), 7.0)}}}
    return {
        "shape": {**good, "z": np.ones((3, 4))},
        "nested shape": {**good, "n": {"b": np.full((3, 2), 7.0), "m": {"x": np.ones((3, 5))}}},
        "array for a node": {"a": good["a"], "n": np.ones(3)},
        "node for an array": {"a": good["a"], "z": {"q": np.ones(3)}},
        "text for an array": {**good, "z": "text"},
        "objects": {"a": good["a"], "n": {"s": "other"}, "rows": ["x", "y", "z"], "z": np.ones((3, 4))},
        "below an array": {"a": good["a"], ("z", "q"): np.ones(3)},
    }


@each_case(
    ("name", "lazy"), [*((name, False) for name in sources()), ("nested shape", True), ("objects", True)]
)
@each_case("how", ["update", "update_", "inplace", "update_at_", "set index", "set_", "inplace set"])
def test_updates_are_all_or_nothing(how: str, name: str, lazy: bool) -> None:
    td, source = lazy_stack(list(rows().unbind(0))) if lazy else rows(), sources()[name]
    root = TensorDict({"root": td}, batch_size=[3])
    calls: dict[str, Callable[[], Any]] = {
        "update": lambda: td.update({**source, "end": np.ones(4)}),
        "update_": lambda: td.update_(source),
        "inplace": lambda: td.update(source, inplace=True),
        "update_at_": lambda: td.update_at_(source, slice(None)),
        "set index": lambda: td.__setitem__(slice(None), source),
        "set_": lambda: root.set_("root", source),
        "inplace set": lambda: root.set("root", source, inplace=True),
    }
    assert_unchanged(calls[how], root, source)


@each_case("how", ["update_", "inplace", "update_at_", "set index", "set_", "set"])
def test_writes_to_lazy_stacks_are_all_or_nothing(how: str) -> None:
    td = stack()
    bad = stack()
    bad.tensordicts[2]["z"] = np.zeros((2, 4))
    calls: dict[str, Callable[[], Any]] = {
        "update_": lambda: td.update_(bad),
        "inplace": lambda: td.update(bad, inplace=True),
        "update_at_": lambda: td.update_at_(bad[2], (slice(None), slice(0, 3))),
        "set index": lambda: td.__setitem__(slice(None), bad),
        "set_": lambda: td.set_("z", [np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 4))]),
        "set": lambda: td.set("q", [np.ones(2), np.ones(2), np.ones(3)]),
    }
    for part in bad.tensordicts:
        part["a"] += 5
    assert_unchanged(calls[how], td, bad)


@each_case("how", ["update_", "inplace", "update_at_", "set index", "number"])
def test_read_only_arrays_are_found_first(how: str) -> None:
    td, source = rows(), rows().apply(lambda x: x + 1)
    td["z"].flags.writeable = False
    calls: dict[str, Callable[[], Any]] = {
        "update_": lambda: td.update_(source),
        "inplace": lambda: td.update(source, inplace=True),
        "update_at_": lambda: td.update_at_(source[0], 0),
        "set index": lambda: td.__setitem__(slice(1, None), source[1:]),
        "number": lambda: td.filter_non_tensor_data().__setitem__(0, 5),
    }
    assert_unchanged(calls[how], td, source, error=ValueError)


@each_case("how", ["update", "inplace", "setitem", "names", "new nodes"])
def test_name_conflicts_are_found_first(how: str) -> None:
    td = TensorDict(
        {"a": np.zeros(2), "n": TensorDict({"b": np.zeros((2, 3))}, [2, 3], names=[None, "p"])}, [2]
    )
    fits = TensorDict({"q": np.zeros(2)}, [2])
    named = TensorDict({"q": np.zeros(2)}, [2], names=["p"])  # "p" would be twice in td["n"]
    source = {"fits": fits, "new": np.ones(2), "bad": named}
    calls: dict[str, Callable[[], Any]] = {
        "update": lambda: td.update(source),
        "inplace": lambda: td.update(source, inplace=True),
        "setitem": lambda: td.__setitem__("bad", named),
        "new nodes": lambda: td.set(("x", "y", "bad"), named),
        "names": lambda: setattr(td, "names", ["p"]),
    }
    assert_unchanged(calls[how], td, fits, named, error=ValueError)


def test_names_given_to_a_source_are_taken_back() -> None:
    td = TensorDict({"a": np.zeros((2, 3))}, batch_size=[2], names=["p"])
    first = TensorDict({"q": np.zeros(2)}, [2])
    conflict = TensorDict({"q": np.zeros((2, 3))}, [2, 3], names=[None, "p"])
    for error, bad in (ValueError, conflict), (RuntimeError, TensorDict(batch_size=[2], names=["q"])):
        source = {"first": first, "bad": bad}
        assert_unchanged(lambda: td.update(source), td, first, bad, error=error)  # noqa: B023
        assert_unchanged(lambda: TensorDict(source, [2], names=["p"]), first, bad, error=error)  # noqa: B023
    assert first.names == [None]


def test_update_batch_size_is_all_or_nothing() -> None:
    td = TensorDict({"a": np.zeros(2), "n": {"b": np.zeros(2)}}, [2])
    source = TensorDict({"a": np.zeros(3), "n": {"b": np.zeros(3)}}, [3])
    bad = {"x": np.zeros(5)}
    assert_unchanged(lambda: td.update(source, update_batch_size=True, **bad), td, source, error=RuntimeError)


def test_casts_that_raise_are_found_first() -> None:
    td = TensorDict({"a": np.zeros(2), "b": np.zeros(2, np.int64)}, batch_size=[2])
    source = {"a": np.ones(2), "b": np.array([1.0, np.nan])}
    with np.errstate(invalid="raise"):
        assert_unchanged(lambda: td.update_(source), td, source, error=FloatingPointError)
        assert_unchanged(lambda: td.__setitem__(slice(None), source), td, source, error=FloatingPointError)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        complex_ = {"a": np.ones(2), "b": np.array([1j, 2j])}
        assert_unchanged(lambda: td.update_(complex_), td, complex_)


@each_case("strict", [True, False])
@each_case("assign", [True, False])
def test_load_state_dict_is_all_or_nothing(strict: bool, assign: bool) -> None:
    td = TensorDict({"a": np.zeros(2), "n": {"b": np.zeros(2)}, "z": np.zeros(2)}, [2])
    state = TensorDict({"a": np.ones(2), "n": {"b": np.ones(2)}, "z": np.ones(2)}, [2]).state_dict()
    state["z"] = np.ones(3)
    assert_unchanged(lambda: td.load_state_dict(state, strict, assign), td, dict(state))
    nodes = TensorDict({"a": np.zeros((2, 3)), "n": {"b": np.zeros((2, 3))}}, [2, 3])
    state = TensorDict({"a": np.ones((2, 3)), "n": {"b": np.ones((2, 3))}}, [2]).state_dict()
    state["n.b"] = np.ones((4, 3))
    assert_unchanged(lambda: nodes.load_state_dict(state, strict, assign), nodes)


def test_set_of_a_nested_entry_is_update() -> None:
    td = TensorDict({"n": {"a": np.zeros(2), "s": "x"}}, batch_size=[2]).lock_()
    array = td["n", "a"]
    td.set_("n", {"a": np.ones(2), "s": "y"})
    np.testing.assert_array_equal(array, np.ones(2))
    assert td["n", "s"] == "y"
    assert_unchanged(lambda: td.set_("n", {"a": np.zeros(2), "b": np.ones(2)}), td, error=KeyError)
    assert_unchanged(lambda: td.set_("n", "text"), td, error=ValueError)


@each_case("how", ["set_", "inplace", "update_", "set index"])
def test_objects_take_objects_only(how: str) -> None:
    td = TensorDict({"a": np.zeros(2), "s": "x", "r": ["p", "q"]}, batch_size=[2])
    calls: dict[str, Callable[[Any], Any]] = {
        "set_": lambda value: td.set_("s", value),
        "inplace": lambda value: td.set("s", value, inplace=True),
        "update_": lambda value: td.update_({"a": np.ones(2), "s": value}),
        "set index": lambda value: td.__setitem__(slice(None), {"a": np.ones(2), "s": value}),
    }
    assert_unchanged(lambda: calls[how]({"b": np.ones(2)}), td)
    if how != "set index":
        assert_unchanged(lambda: calls[how](np.ones(2)), td, error=ValueError)
    calls[how](["y", "z"])
    assert td["s"] == ["y", "z"]


def test_numbers_over_objects_are_rows() -> None:
    td = TensorDict({"s": ["x", "y", "z"]}, batch_size=[3])
    td[1:] = {"s": np.array([1, 2])}
    assert td["s"] == ["x", 1, 2]


def test_extend_is_all_or_nothing() -> None:
    parts = stack()
    good, of_other_size = parts[0].clone(), TensorDict(batch_size=[5])
    for items, error in ([good, of_other_size], ValueError), ([good, 3], TypeError):
        assert_unchanged(lambda: parts.extend(items), parts, good, error=error)  # noqa: B023
    assert len(LazyStackedTensorDict().extend([TensorDict(device="cpu"), TensorDict(device="cpu")])) == 2
    with pytest.raises(ValueError, match="Devices differ"):
        LazyStackedTensorDict().extend([TensorDict(device="cpu"), TensorDict()])


def test_in_place_edits_of_lazy_stacks_are_all_or_nothing() -> None:
    part = TensorDict({"n": {"a": np.zeros(2)}, "b": np.ones(2)}, batch_size=[2])
    parts = lazy_stack([part, part.clone().lock_()])  # the second part refuses what the first one does
    calls: list[Callable[[], Any]] = [
        lambda: parts.split_keys([("n", "a")], inplace=True),
        lambda: parts.rename_key_("b", "c"),
        lambda: parts.exclude("b", inplace=True),
        lambda: parts.flatten_keys(inplace=True),
    ]
    for call in calls:
        assert_unchanged(call, parts, error=RuntimeError)


def test_setdefault_that_cannot_return_what_it_stored() -> None:
    td = lazy_stack([TensorDict(a=1), TensorDict(a=2)])
    assert_unchanged(lambda: td.setdefault("g", [np.ones(1), np.ones(2)]), td, error=RuntimeError)


def test_auto_batch_size_caps_shared_objects() -> None:
    td = TensorDict({"a": np.zeros((2, 3)), "s": "x"}, batch_size=[2, 3]).auto_batch_size_(1)
    assert (td.batch_size, td.get("s").batch_size) == ((2,), (2,))
    assert TensorDict(batch_size=[2, 3]).auto_batch_size_(1).batch_size == (2,)


def test_indices_out_of_bounds_write_nothing() -> None:
    td = TensorDict({"a": np.zeros(3), "n": {"b": np.zeros((3, 2))}}, batch_size=[3])
    rows = TensorDict({"a": np.ones(2), "n": {"b": np.ones((2, 2))}}, batch_size=[2])
    assert_unchanged(lambda: td.__setitem__(np.array([0, 3]), rows), td, rows, error=IndexError)
    assert_unchanged(lambda: td.__setitem__(np.array([0, 3]), 1), td, error=IndexError)
    assert_unchanged(lambda: td.__setitem__(3, 1), td, error=IndexError)


@each_case("lazy", [False, True])
def test_update_at_names_the_entry_that_a_value_does_not_fit(lazy: bool) -> None:
    td = TensorDict({"a": np.zeros(3), "n": {"r": NonTensorStack("p", "q", "r")}}, batch_size=[3])
    td = lazy_stack(list(td.unbind(0))) if lazy else td
    objects = NonTensorStack("x", "y")
    for key, value in (("a", objects), (("n", "r"), objects), ("a", np.ones(2))):
        with pytest.raises((TypeError, ValueError), match=f"entry {re.escape(repr(key))} at index 0: "):
            td.update_at_({key: value}, 0)
    np.testing.assert_array_equal(td["a"], np.zeros(3))
    assert td["n", "r"] == ["p", "q", "r"]


_TRACED_WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "set_": lambda td, x: td.set_("a", x),
    "set inplace": lambda td, x: td.set("a", x, inplace=True),
    "set_at_": lambda td, x: td.set_at_("a", x, slice(None)),
    "td[:]": lambda td, x: td.__setitem__(slice(None), TensorDict({"a": x}, [3])),
    "update inplace": lambda td, x: td.update({"a": x}, inplace=True),
    "update_": lambda td, x: td.update_({"a": x}),
    "update_at_": lambda td, x: td.update_at_(TensorDict({"a": x}, [3]), slice(None)),
    "copy_": lambda td, x: td.copy_(TensorDict({"a": x}, [3])),
    "apply_": lambda td, x: td.apply_(lambda old, new: new, TensorDict({"a": x}, [3])),
    "add_": lambda td, x: td.add_(TensorDict({"a": x}, [3])),
    "+=": lambda td, x: td.__iadd__(TensorDict({"a": x}, [3])),
    "stack out": lambda td, x: lite.stack([TensorDict({"a": x[i]}) for i in range(3)], out=td),
}


@each_case("make", [lambda p: p, lambda p: p * 1], ids=["parameter", "result"])
@each_case("write", _TRACED_WRITES.values(), ids=_TRACED_WRITES.keys())
def test_traced_values_keep_their_derivative(write: Callable[..., Any], make: Callable[..., Any]) -> None:
    p = nn.Parameter(np.array([1.0, 2.0, 3.0], np.float32))
    held = np.zeros(3, np.float32)
    td = TensorDict({"a": held}, [3])
    with lite.enable_grad():
        write(td, make(p))
        (td["a"] * [1, 10, 100]).sum().backward()
    np.testing.assert_array_equal(p.grad, [1, 10, 100])
    np.testing.assert_array_equal(td["a"].detach(), [1, 2, 3])
    if write not in (_TRACED_WRITES["add_"], _TRACED_WRITES["+="]):
        np.testing.assert_array_equal(held, [1, 2, 3])  # who holds the array sees the numbers


def test_traced_values_at_an_index() -> None:
    p = nn.Parameter(np.array([1.0, 2.0, 3.0], np.float32))
    td = TensorDict({"a": np.zeros(3, np.float32), "n": np.zeros(3, np.int64)}, [3])
    with lite.enable_grad():
        td.set_at_("a", p[1], 0)
        td.masked_fill_(np.array([False, True, False]), p[2])
        td["n"] = td["n"] + 0
        (td["a"] * [1, 10, 100]).sum().backward()
    np.testing.assert_array_equal(p.grad, [0, 1, 10])
    np.testing.assert_array_equal(td["n"], [0, 3, 0])  # integers take the numbers
    single = TensorDict({"a": np.zeros((), np.float64)})
    with lite.enable_grad():
        single.set_("a", p.sum())
        single["a"].backward()
    assert single["a"].dtype == np.float64
    np.testing.assert_array_equal(p.grad, [1, 2, 11])


@each_case(
    "part",
    [lambda td: td[:2], lambda td: td.unbind(0)[0], lambda td: td.to_lazystack()],
    ids=["slice", "unbind", "lazy stack of views"],
)
def test_traced_values_do_not_go_into_views(part: Callable[[Any], Any]) -> None:
    p = nn.Parameter(np.ones(3, np.float32))
    td = TensorDict({"a": np.zeros(3, np.float32)}, [3])
    inner = part(td)
    with lite.enable_grad():
        assert_unchanged(lambda: inner.set_("a", (p * 1)[: len(inner["a"])] if inner.ndim else p.sum()), td)
        with pytest.raises(ValueError, match=r"a view or a shared array; store it in place.*value\.detach"):
            inner.set_("a", (p * 1)[: len(inner["a"])] if inner.ndim else p.sum())
