"""Non-tensor data: one object for the batch, or one per element in an object array."""

import copy
import dataclasses
import datetime
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import (
    MetaData,
    NonTensorData,
    NonTensorStack,
    TensorClass,
    TensorDict,
    is_non_tensor,
    lazy_stack,
    stack,
)


def rows(*values: Any) -> TensorDict:
    return TensorDict({"a": np.arange(len(values)), "s": list(values)}, batch_size=[len(values)])


# -- one object -------------------------------------------------------------------------------


@each_case(
    "value", ["text", None, b"raw", {1, 2}, range(3), ("x", 2), len, object()], ids=lambda v: type(v).__name__
)
def test_any_object_is_kept_as_it_is(value):
    td = TensorDict({"s": value}, batch_size=[2])
    assert td["s"] is value
    assert td.get("s").batch_size == (2,)
    assert is_non_tensor(td.get("s"))
    assert td[0]["s"] is value
    assert td.reshape(1, 2)["s"] is value


def test_wrapper():
    data = NonTensorData({"k": 1}, batch_size=[2])
    assert data.data == {"k": 1}
    assert NonTensorData(data).data == {"k": 1}
    assert data[0].batch_size == ()
    assert data.tolist() == [{"k": 1}, {"k": 1}]
    assert NonTensorData([1, 2]).tolist() == [1, 2]
    assert NonTensorData(len)("abc") == 3
    assert data.clone().data is not data.data
    assert data.clone(recurse=False).data is data.data
    assert "data=aaaaaaaaaaaaaaaaaaaa  ...  aaaa" in repr(NonTensorData("a" * 300))


def test_set_non_tensor_keeps_what_set_would_convert():
    td = TensorDict(batch_size=[2]).set_non_tensor("x", 1.5)
    assert td.get_non_tensor("x") == 1.5
    assert isinstance(td.get("x"), NonTensorData)
    assert td.get_non_tensor("missing", "default") == "default"
    assert td.get("x").empty(names=["n"]).names == ["n"]


# -- one object per element -------------------------------------------------------------------


def test_lists_hold_one_object_per_row():
    td = rows("x", "y", "z")
    assert td["s"] == ["x", "y", "z"]
    assert isinstance(td.get("s"), NonTensorStack)
    assert td[1]["s"] == "y"
    assert td[1:]["s"] == ["y", "z"]
    assert td[np.array([True, False, True])]["s"] == ["x", "z"]
    assert td[[2, 0]]["s"] == ["z", "x"]
    assert NonTensorStack.from_list([["a"], ["b", "c"]]).batch_size == (2,)
    raises(RuntimeError, "batch dimension mismatch", TensorDict, {"s": ["x", "y"]}, batch_size=[3])


# -- writing ----------------------------------------------------------------------------------


def test_linked_list_writes_back_until_resized():
    td = rows("x", "y")
    found = td["s"]
    found[0] = "z"
    assert td["s"] == ["z", "y"]
    found.append("more")
    found[1] = "lost"
    assert td["s"] == ["z", "y"]
    grid = TensorDict({"s": [["a", "b"]]}, batch_size=[1, 2])
    grid["s"][0][1] = ["payload"]
    assert grid["s"] == [["a", ["payload"]]]


def test_copies_of_the_list_write_nowhere():
    """torch's `default_collate` writes its columns into a copy of the first row's list."""

    class Rows(TensorClass):
        s: Any

    rows = Rows(s=[["a", "b"], ["c", "d"]], batch_size=[2, 2])
    for copied in (copy.copy(rows.s), copy.deepcopy(rows.s), pickle.loads(pickle.dumps(rows.s))):
        copied[0] = "z"
        assert rows.s == [["a", "b"], ["c", "d"]]
    assert dataclasses.asdict(rows) == {"s": rows.s}
    assert lite.collate([{"s": rows[0].s}, {"s": rows[1].s}])["s"] == [["a", "c"], ["b", "d"]]


def test_clone_separates_the_rows():
    td = rows({"k": 1}, {"k": 2})
    deep, shallow = td.clone(), td.clone(recurse=False)
    td["s"][0]["k"] = 3
    assert deep["s"][0] == {"k": 1}
    assert shallow["s"][0] == {"k": 3}
    shallow["s"][1] = "other"
    assert td["s"][1] == {"k": 2}


def test_metadata_stays_one_object_where_it_is_one() -> None:
    unit = MetaData(["m"])
    rows = [TensorDict({"u": unit}, [2]) for _ in range(3)]
    for joined in (stack(rows, 1), lazy_stack(rows, 1)):
        entry = joined.get("u")
        assert (type(entry), entry.batch_size, entry.data is unit.data) == (MetaData, (2, 3), True)
    other = TensorDict({"u": MetaData(["m"])}, [2])  # equal is not the same
    assert type(stack([rows[0], other]).get("u")) is NonTensorStack
    assert type(rows[0][0].get("u")) is MetaData


class _Uncomparable:
    """As many arrays, and rows of data frames: `==` does not give one bool."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("cannot be compared")

    __hash__ = object.__hash__


@each_case(
    ("first", "second"),
    [
        (_Uncomparable(), _Uncomparable()),
        (np.array([1, 1]), np.array(1)),  # equal where they broadcast, but not the same
        (np.array([1, 2]), np.array([1, 2, 3])),
        (np.array([1, 2]), np.array([1.0, 2.0])),
        ([np.array([1, 2])], [np.array([1, 2])]),
    ],
)
def test_objects_that_are_not_the_same_are_kept_apart(first: Any, second: Any) -> None:
    def make(value: Any) -> TensorDict:
        return TensorDict({"x": np.zeros(2)}, [2]).set_non_tensor("o", value)

    td = make(first)
    td[0] = make(second)[0]
    assert td["o"][0] is second
    assert td["o"][1] is first
    both = lite.cat([make(first), make(second)])
    assert both["o"][1] is first
    assert both["o"][2] is second
    chosen = make(first).where(np.array([True, False]), make(second))
    assert chosen["o"][0] is first
    assert chosen["o"][1] is second
    with pytest.raises(AttributeError, match="non-unique"):
        _ = lite.stack([make(first), make(second)]).get("o").data
    assert lite.stack([make(first), make(first)]).get("o").data is first
    assert lite.assert_close(make(first), make(first))


def test_times_that_python_cannot_hold_stay_numpys() -> None:
    times = np.array(["2020-01-01T00:00:00.000000001", "NaT"], "M8[ns]")
    td = TensorDict({"t": times, "day": times.astype("M8[D]")}, batch_size=[2])
    assert td["t"][0] == times[0]
    assert td["t"][0].dtype == times.dtype
    assert td[0]["day"] == datetime.date(2020, 1, 1)


def test_devices_of_several_are_that_of_each() -> None:
    on, off = NonTensorData("a", device="cpu"), NonTensorData("b")
    both = NonTensorStack(on, on)
    several = (
        both, lite.stack([on, on]), lite.cat([both, both]), NonTensorData("a", [2], "cpu").maybe_to_stack(),
    )  # fmt: skip
    assert [stack.device for stack in several] == ["cpu"] * 4
    assert [NonTensorStack(on, off).device, NonTensorStack("a").device, lite.stack([off, on]).device] == [
        None
    ] * 3


def test_payloads_of_other_shapes_are_not_equal() -> None:
    first, second = NonTensorData(np.array([1, 2])), NonTensorData(np.array([1, 2, 3]))
    assert not (first == second).any()
    assert (first == NonTensorData([1, 2])).all()
    assert (NonTensorData([1, 2]) == first).all()
