"""Many entries at once: update, update_, update_at_, replace."""

import numpy as np
import pytest
from helpers.trees import unchanged

from lite import TensorDict


def test_update_of_another_batch_size() -> None:
    td = TensorDict({"a": np.zeros(3)}, batch_size=[3])
    other = TensorDict({"a": np.ones(4)}, batch_size=[4])
    with unchanged(td), pytest.raises(RuntimeError, match="update_batch_size"):
        td.update(other)
    assert td.update(other, update_batch_size=True).batch_size == (4,)


def test_update_options() -> None:
    source = TensorDict({"a": np.ones(2), "n": {"b": np.ones(2), "c": np.ones(2)}})
    td = TensorDict().update(source, keys_to_update=["a", ("n", "b")])
    assert list(td.keys(True, True)) == ["a", ("n", "b")]
    assert td["a"] is source["a"]
    assert TensorDict().update(source, clone=True)["a"] is not source["a"]
    assert TensorDict().update(x=3)["x"] == 3


def test_update_in_place_needs_the_key() -> None:
    td = TensorDict({"a": np.zeros(2), "b": np.zeros(2)}, lock=True)
    buffer = td["a"]
    td.update_({"a": [1, 2]})
    assert td["a"] is buffer
    np.testing.assert_array_equal(buffer, [1, 2])
    with unchanged(td), pytest.raises(KeyError, match="zz"):
        td.update_({"a": [3, 3], "zz": 1})
    td.update_({"a": 9, "zz": 1}, strict=False)
    np.testing.assert_array_equal(buffer, [9, 9])


def test_replace_takes_a_tensordict() -> None:
    td = TensorDict({"a": np.zeros(2), "n": {"b": np.zeros(2), "c": np.zeros(2)}})
    with unchanged(td):
        out = td.replace(TensorDict({"a": np.ones(2), "n": {"b": np.ones(2)}}))
    np.testing.assert_array_equal(out["a"], [1, 1])
    assert out["n", "c"] is td["n", "c"]
    assert td.replace() is td


def test_keys_to_update_below_a_new_node_are_all_that_is_taken() -> None:
    source = {"n": {"a": np.ones(3), "b": np.ones(3), "m": {"c": np.ones(3)}}, "x": np.ones(3)}
    for given in (source, TensorDict(source, [3])):
        for chosen, expected in (
            ([("n", "a")], [("n", "a")]),
            ([("n", "m", "c"), "x"], [("n", "m", "c"), "x"]),
            ([("n", "m")], [("n", "m", "c")]),
        ):
            td = TensorDict(batch_size=[3])
            td.update(given, keys_to_update=chosen)
            assert list(td.keys(True, True)) == expected
    assert source.keys() == {"n", "x"}


def test_chosen_keys_at_an_index() -> None:
    td = TensorDict(a=np.zeros(2), b=np.zeros(2), n={"c": np.zeros(2)}, batch_size=[2])
    td.update_at_({"a": 1.0, "b": 2.0, "n": {"c": 3.0}}, 0, keys_to_update=["a", "n"])
    assert td.to_dict(convert_tensors=True) == {"a": [1, 0], "b": [0, 0], "n": {"c": [3, 0]}}
