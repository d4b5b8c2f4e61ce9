"""Dicts, lists, structured arrays, named tuples and plain copies of a TensorDict."""

from collections import namedtuple

import numpy as np
import pytest
from helpers.cases import raises
from helpers.trees import tree

from lite import TensorDict, lazy_stack


def test_to_dict() -> None:
    td = tree()
    out = td.to_dict()
    assert list(out) == ["a", "i", "n", "s", "r"]
    assert out["a"] is td["a"]
    assert out["n"]["m"]["c"] is td["n", "m", "c"]
    assert out["s"] == "text"
    assert out["r"][1] == ["10", "11", "12"]
    assert type(out["n"]) is dict
    assert td.to_dict(convert_tensors=True)["i"] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert td.to_dict(convert_tensors="numpy")["i"] is td["i"]


def test_none_entries() -> None:
    td = TensorDict({"x": None, "a": 1})
    assert td.to_dict() == {"x": None, "a": 1}
    assert list(td.to_dict(retain_none=False)) == ["a"]
    assert list(td.numpy()) == ["a"]
    assert list(td.to_tensordict(retain_none=False).keys()) == ["a"]
    assert list(td.to_tensordict().keys()) == ["x", "a"]


def test_tolist() -> None:
    td = TensorDict({"a": [1, 2], "n": {"s": ["x", "y"]}}, batch_size=[2])
    assert td.tolist(convert_tensors=True) == [{"a": 1, "n": {"s": "x"}}, {"a": 2, "n": {"s": "y"}}]
    assert td.tolist()[1]["a"].shape == ()
    assert td.tolist(convert_nodes=False)[0].batch_size == ()
    for part in (td, td[0], td[:0]):
        with pytest.raises(TypeError, match="convert_tensors='numpy' needs convert_nodes=True"):
            part.tolist(convert_nodes=False, convert_tensors="numpy")
    assert TensorDict({"td": td}).to_dict(tolist_first=True, convert_tensors=True) == {
        "td": [{"a": 1, "n": {"s": "x"}}, {"a": 2, "n": {"s": "y"}}]
    }


def test_to_tensordict_copies_and_densifies() -> None:
    td = tree(lock=True)
    out = td.to_tensordict()
    assert out["a"] is not td["a"]
    assert not out.is_locked
    assert (out == td).all()
    stack = lazy_stack([TensorDict(a=1, b=2), TensorDict(a=3)])
    assert type(stack.to_tensordict()) is TensorDict
    np.testing.assert_array_equal(stack.to_tensordict()["a"], [1, 3])
    for method in (stack.to_dict, stack.to_namedtuple, stack.to_struct_array):
        raises(RuntimeError, f"{method.__name__} cannot complete when there are exclusive keys", method)


def test_to_struct_array_round_trip() -> None:
    td = TensorDict(
        {"a": np.arange(4).reshape(2, 2), "n": {"f": np.ones(2)}, "s": ["x", "longer"]}, batch_size=[2]
    )
    array = td.to_struct_array()
    assert array.dtype.names == ("a", "n", "s")
    assert (array.shape, array["s"].dtype) == ((2,), np.dtype("U10"))
    np.testing.assert_array_equal(array["a"], td["a"])
    back = TensorDict(TensorDict({"x": array}, batch_size=[2])["x"], batch_size=[2])
    np.testing.assert_array_equal(back["n", "f"], [1, 1])
    raises(TypeError, "key 'o'", TensorDict(o=object()).to_struct_array)


def test_to_namedtuple() -> None:
    out = TensorDict({"a": 1, "n": {"b": 2}, "s": "x"}).to_namedtuple()
    assert type(out).__name__ == "GenericDict"
    assert (int(out.a), int(out.n.b), out.s) == (1, 2, "x")
    cls = namedtuple("cls", "a")  # type: ignore[name-match]
    assert isinstance(TensorDict(a=1).to_namedtuple(cls), cls)


def test_lists_of_rows_of_rows() -> None:
    td = TensorDict(a=np.arange(4).reshape(2, 2), batch_size=[2, 2])
    assert td.tolist() == [[{"a": 0}, {"a": 1}], [{"a": 2}, {"a": 3}]]
    assert td.flatten(0, 1).tolist() == [{"a": i} for i in range(4)]
