"""Assignment at an index of the batch: `td[index] = value`."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.trees import read_only, unchanged

from lite import NonTensorStack, TensorDict


def writable() -> TensorDict:
    return TensorDict(
        {"a": np.zeros((3, 2)), "n": {"b": np.zeros(3, int)}, "s": "old", "r": ["p", "q", "r"]},
        batch_size=[3],
    )


@each_case("index", [1, slice(1, 2), [1], [False, True, False], np.array([1])], ids=repr)
def test_assignment_writes_every_entry_there(index: Any) -> None:
    td = writable()
    a = td["a"]
    shape = np.zeros(3)[index].shape
    source = TensorDict(
        {"a": np.ones((*shape, 2)), "n": {"b": np.full(shape, 7)}, "s": "new"}, batch_size=shape
    )
    with unchanged(source):
        td[index] = source
    assert td["a"] is a
    np.testing.assert_array_equal(a, [[0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(td["n", "b"], [0, 7, 0])
    assert td["s"] == ["old", "new", "old"]
    assert td["r"] == ["p", "q", "r"]


@each_case(
    ("index", "source", "message"),
    [
        (slice(0, 2), TensorDict({"a": np.ones((3, 2))}, batch_size=[3]),
            "differs from the source batch size"),
        (0, TensorDict({"n": {"b": 1}, "a": np.ones(5)}), "shape mismatch at key 'a'"),
        (0, TensorDict({"a": {"x": 1}}), "cannot write"),
        (0, TensorDict({"n": 1}), "cannot write"),
    ],
)  # fmt: skip
def test_a_failed_assignment_writes_nothing(index: Any, source: TensorDict, message: str) -> None:
    td = writable()
    with unchanged(td), pytest.raises(RuntimeError, match=message):
        td[index] = source


def test_assignment_to_read_only_or_locked() -> None:
    td = TensorDict({"a": read_only(np.zeros(3))}, batch_size=[3])
    with unchanged(td), pytest.raises(ValueError, match="read-only"):
        td[0] = 1
    locked = writable().lock_()
    with unchanged(locked), pytest.raises(RuntimeError, match="locked"):
        locked[0] = {"a": [9.0, 9.0], "new": 1}
    locked[0] = {"a": [9.0, 9.0]}
    np.testing.assert_array_equal(locked["a"][0], [9, 9])


def test_equal_payload_stays_shared() -> None:
    td = writable()
    td[0] = TensorDict({"s": "old"})
    assert not isinstance(td.get("s"), NonTensorStack)
