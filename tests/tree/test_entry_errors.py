"""Errors about an entry name its whole key and both shapes, wherever a tree was written or joined."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict, cat, lazy_stack, stack
from lite._tree.entry_errors import entry_error, error_path, prefix_error_path

KEY = ("n", "m", "c")


def tree(lazy: bool = False) -> Any:
    leaves = {"a": np.zeros(3), "n": {"b": np.zeros((3, 2)), "m": {"c": np.zeros((3, 2))}}}
    td = TensorDict(leaves, batch_size=[3])
    return lazy_stack(list(td.unbind(0))) if lazy else td


def nested(value: Any) -> dict[str, Any]:
    return {"a": np.ones(3), "n": {"m": {"c": value}}}


WRONG_BATCH: dict[str, Callable[[Any, Any], Any]] = {
    "constructor": lambda td, value: TensorDict(nested(value), batch_size=[3]),
    "constructor, flat keys": lambda td, value: TensorDict({KEY: value, "a": np.ones(3)}, batch_size=[3]),
    "constructor, TensorDict": lambda td, value: TensorDict(TensorDict(nested(value)), batch_size=[3]),
    "set": lambda td, value: td.set(KEY, value),
    "set of a node": lambda td, value: td.set("n", {"m": {"c": value}}),
    "[] =": lambda td, value: td.__setitem__(KEY, value),
    "update": lambda td, value: td.update(nested(value)),
    "update, flat keys": lambda td, value: td.update({"a": np.ones(3), KEY: value}),
    "update, new nodes": lambda td, value: td.exclude("n").update(nested(value)),
    "td[...] =": lambda td, value: td.__setitem__(..., nested(value)),
}


@each_case("lazy", [False, True])
@each_case("name", WRONG_BATCH)
def test_a_wrong_batch_size(name: str, lazy: bool) -> None:
    with pytest.raises(RuntimeError, match=re.escape(repr(KEY))) as raised:
        WRONG_BATCH[name](tree(lazy), np.zeros(2))
    assert all(shape in str(raised.value) for shape in ("(3,)", "(2,)"))


WRONG_SHAPE: dict[str, Callable[[Any, Any], Any]] = {
    "set in place": lambda td, value: td.set(KEY, value, inplace=True),
    "set_": lambda td, value: td.set_(KEY, value),
    "set_ of a node": lambda td, value: td.set_("n", {"m": {"c": value}}),
    "update_": lambda td, value: td.update_(nested(value)),
    "update in place": lambda td, value: td.update(nested(value), inplace=True),
    "update_at_": lambda td, value: td.update_at_(nested(value), slice(None)),
    "td[:] = dict": lambda td, value: td.__setitem__(slice(None), nested(value)),
    "td[:] = td": lambda td, value: td.__setitem__(slice(None), TensorDict(nested(value), [3])),
    "td[:] = lazy": lambda td, value: td.__setitem__(
        slice(None), lazy_stack(list(TensorDict(nested(value), [3]).unbind(0)))
    ),
}


@each_case("lazy", [False, True])
@each_case("name", WRONG_SHAPE)
def test_a_wrong_shape(name: str, lazy: bool) -> None:
    with pytest.raises((RuntimeError, ValueError)) as raised:
        WRONG_SHAPE[name](tree(lazy), np.zeros((3, 5)))
    message = str(raised.value)
    assert repr(KEY) in message
    # Of a lazy stack some calls name the shapes in one part.
    assert re.search(r"\((3, )?5,?\)", message)
    assert re.search(r"\((3, )?2,?\)", message)


@each_case("lazy", [False, True])
def test_an_array_that_does_not_fit_the_rows(lazy: bool) -> None:
    with pytest.raises((RuntimeError, ValueError), match=r"key 'a'.*\(7,\).*\(3,\)"):
        tree(lazy)[:] = np.zeros(7)


@each_case(
    "join",
    [
        stack,
        lambda items: stack(items, 1),
        cat,
        lambda items: lazy_stack(items)[KEY],
        lambda items: lazy_stack(items).contiguous(),
        lambda items: stack([lazy_stack(items[:1]), lazy_stack(items[1:])], 1),
    ],
)
def test_joining(join: Callable[[list[Any]], Any]) -> None:
    other = tree().set(KEY, np.zeros((3, 5)))
    with pytest.raises(RuntimeError) as raised:
        join([tree(), other])
    assert all(text in str(raised.value) for text in (repr(KEY), "(3, 2)", "(3, 5)"))
    raises(RuntimeError, re.escape(f"at key {KEY}"), lambda: join([tree(), tree().set(KEY, "text")]))


def test_joining_names_the_keys_that_are_not_in_all() -> None:
    with pytest.raises(RuntimeError, match=r"are exclusive at key \('n', 'm'\): \['c'\] are not in all"):
        stack([tree(), tree().exclude(KEY)])
    raises(KeyError, r"different keys.*'m'.*'c'", lambda: cat([tree(), tree().exclude(KEY)]))


def test_batch_size_names_nested_entries() -> None:
    td = TensorDict({"n": {"m": {"c": np.zeros((3, 2))}}}, batch_size=[])
    with pytest.raises(RuntimeError, match=r"ndarray \('n', 'm', 'c'\) has shape \(3, 2\).*\(3, 4\)"):
        td.batch_size = [3, 4]


def test_keys_are_put_in_front() -> None:
    error = entry_error(ValueError, "no room{at}: {key} is full")
    assert str(error) == "no room:  is full"
    prefix_error_path(error, "b")
    assert str(error) == "no room at key 'b': 'b' is full"
    with pytest.raises(ValueError, match=r"^no room at key \('x', 'a', 'b'\)"), error_path("x", "a"):
        raise error
    other = OSError(2, "no file")
    prefix_error_path(other, "a")
    assert other.args == (2, "no file")
