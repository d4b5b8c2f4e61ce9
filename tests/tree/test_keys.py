"""Key paths and the views of keys."""

import enum
from typing import Any

import numpy as np
from helpers.cases import each_case, raises

from lite import NestedKey, TensorDict, lazy_stack, unravel_key, unravel_key_list, unravel_key_to_tuple


@each_case(
    ("key", "flat"),
    [("a", "a"), (("a",), "a"), (("a", ("b", ("c",))), ("a", "b", "c")), ((), ()), ("a.b", "a.b"), ("", "")],
)
def test_unravel_key(key: Any, flat: Any) -> None:
    assert unravel_key(key) == flat
    assert unravel_key_to_tuple(key) == ((flat,) if isinstance(flat, str) else flat)


@each_case("key", [3, ("a", 1), None, ["a"], ("a", ())])
def test_unravel_refuses_what_is_no_key(key: Any) -> None:
    assert not isinstance(key, NestedKey)
    raises(RuntimeError, "NestedKey", lambda: unravel_key(key))
    assert unravel_key_to_tuple(key) == ()


def test_unravel_key_list() -> None:
    assert unravel_key_list(["a", ("b", ("c",))]) == ["a", ("b", "c")]
    raises(TypeError, "", lambda: unravel_key_list("ab"))
    raises(RuntimeError, "key must be a NestedKey", lambda: unravel_key_list(["a", ["b"]]))


class Field(enum.StrEnum):
    A = "a"
    N = "n"


@each_case("kind", [Field, np.str_])
@each_case("lazy", [False, True])
def test_keys_of_subclasses_of_str_are_their_text(kind: Any, lazy: bool) -> None:
    a, n = kind("a"), kind("n")
    td: Any = TensorDict({a: np.ones(2), n: {a: np.zeros(2)}, (n, "b"): np.zeros(2)}, [2])
    td = lazy_stack(list(td.unbind(0))) if lazy else td
    assert all(type(name) is str for name in [*td.keys(), *td["n"].keys()])
    np.testing.assert_array_equal(td[a], np.ones(2))
    np.testing.assert_array_equal(td[n, a], td.get((n, a)))
    td[a] = np.full(2, 5.0)
    td[n, "c"] = np.full(2, 6.0)
    td.update({kind("z") if kind is np.str_ else Field.A: np.full(2, 7.0)})
    assert list(td.keys(True, True, sort=True))[:4] == ["a", ("n", "a"), ("n", "b"), ("n", "c")]
    assert all(type(name) is str for name in td.keys())  # noqa: SIM118
    assert a in td
    assert a in td.keys()  # noqa: SIM118
    assert list(td.select(a).rename_key_(a, "new").keys()) == ["new"]
    assert a not in td.exclude(a)


def test_paths_of_nested_keys_are_remembered_and_other_keys_are_none() -> None:
    td = TensorDict({"a": {"b": {"c": 1}}})
    for _ in range(2):
        assert td.get(("a", ("b", "c"))) == 1
        assert td.get(("a", ("b", "z")), "default") == "default"
        for key in (("a", ["b"]), ("a", ("b", 1)), ("a", ())):
            raises(KeyError, "NestedKeys", td.get, key)
