"""What containers of both kinds answer alike, from outside and to those that build on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import LazyStackedTensorDict, TensorDict, lazy_stack, tensorclass
from lite._tree.protocol import MISSING, Container, class_registry, item_shape, missing_key
from lite.nn import TensorDictModule


@tensorclass
class Point:
    x: Any


def both() -> list[Any]:
    point = Point(x=np.zeros(2), batch_size=[2])
    td = TensorDict({"a": np.zeros((2, 3)), "n": {"b": np.ones(2)}, "s": "text", "p": point}, batch_size=[2])
    return [td, lazy_stack(list(td.unbind(0)))]


def test_class_registry_holds_the_public_classes() -> None:
    assert (class_registry.dense, class_registry.lazy) == (TensorDict, LazyStackedTensorDict)
    assert all(isinstance(td, Container) for td in both())
    assert repr(MISSING) == "<missing>"


@each_case("td", both(), ids=["dense", "lazy"])
def test_entries_by_key_and_by_path(td: Any) -> None:
    assert sorted(td._keys()) == ["a", "n", "p", "s"]
    assert td._get_entry(("a",)).shape == (2, 3)
    np.testing.assert_array_equal(td._get_entry(("n", "b")), [1, 1])
    assert td._get_entry(("a", "b")) is td._get_entry(("n", "z")) is td._get_entry(("z", "b")) is None
    assert item_shape(td, "a") == (2, 3)
    assert item_shape(td, "z") is None
    assert isinstance(td._as_node(td._peek_entry("p")), Container)
    assert td._as_node(td._peek_entry("a")) is td._as_node(td._peek_entry("s")) is None
    assert isinstance(td._rewrap(td._get_entry("p"), td._as_node(td._get_entry("p"))), Point)


def test_errors_for_missing_paths_name_what_is_there() -> None:
    for td in both():
        assert "is not a TensorDict but a ndarray" in str(missing_key(td, ("a", "b")))
        assert "keys ['b']" in missing_key(td, ("n", "z")).args[0]
    assert "is not a TensorDict but a str" in str(missing_key(both()[0], ("s", "b")))


@each_case("make", [lambda td: td, lambda td: td.to_lazystack()], ids=["dense", "lazy"])
def test_errors_name_the_key_that_is_similar(make: Any) -> None:
    td = make(TensorDict({"action": np.zeros(2), "n": TensorDict({"observation": np.zeros(2)}, [2])}, [2]))
    module = TensorDictModule(lambda x: x + 1, in_keys=["acton"], out_keys=["out"])
    for call in (
        lambda: td["acton"],
        lambda: td.del_("acton"),
        lambda: td.pop("acton"),
        lambda: td.rename_key_("acton", "b"),
        lambda: td.select("acton"),
        lambda: td.set_("acton", 1),
        lambda: td.set_at_("acton", 1, 0),
        lambda: td.update_({"acton": np.zeros(2)}),
        lambda: module(td),
    ):
        assert "did you mean 'action'?" in _message(call)
    assert "did you mean 'observation'?" in _message(lambda: td["n", "obsrvation"])
    assert "did you mean" not in _message(lambda: td["zzz"])


def _message(call: Any) -> str:
    with pytest.raises(KeyError) as error:
        call()
    return str(error.value.args[0])


def test_the_protocol_has_at_most_25_private_methods() -> None:
    names = [name for name in vars(Container) if name.startswith("_") and not name.startswith("__")]
    private = [
        n for n in names if callable(getattr(Container, n)) or isinstance(vars(Container)[n], property)
    ]
    assert 0 < len(private) <= 25, sorted(private)


def test_errors_name_the_tuple_for_a_key_with_a_separator() -> None:
    for td in both():
        for key in ("n.b", "n/b"):
            assert 'read with a tuple: ("n", "b")' in missing_key(td, (key,)).args[0]
