"""From what a user stores to what a TensorDict holds."""

import collections
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict


@each_case(
    ("value", "dtype", "shape"),
    [
        (True, "bool", ()),
        (3, "int64", ()),
        (1.5, "float32", ()),
        (1 + 2j, "complex128", ()),
        (np.float16(2), "float16", ()),
        (np.bool_(True), "bool", ()),
        ([1, 2], "int64", (2,)),
        ([1, 2.5, True], "float32", (3,)),
        ([2**63 + 1, True], "uint64", (2,)),  # not rounded, as np.asarray does
        ((1.0, 2.0), "float32", (2,)),
        ([[1, 2], [3, 4]], "int64", (2, 2)),
        ([], "float32", (0,)),
        ([np.zeros(2), np.ones(2)], "float64", (2, 2)),
        (np.arange(3, dtype=">i4"), ">i4", (3,)),
        (np.arange(6)[::-2], "int64", (3,)),
    ],
)
def test_numbers_become_arrays(value: Any, dtype: str, shape: tuple[int, ...]) -> None:
    stored = TensorDict(a=value).get("a")
    assert isinstance(stored, np.ndarray)
    assert (stored.dtype, stored.shape) == (np.dtype(dtype), shape)
    np.testing.assert_array_equal(stored, np.array(value, dtype=dtype))


@each_case("dtype", [">f4", "longdouble", "bfloat16", "uint16"])
def test_arrays_of_all_numbers_are_stored_themselves(dtype: str) -> None:
    array = np.ones(2, getattr(ml_dtypes, dtype, dtype))
    assert TensorDict({"a": array}, [2]).get("a") is array
    assert TensorDict(batch_size=[2]).set("a", array).get("a") is array
    assert TensorDict(batch_size=[2]).update({"a": array}).get("a") is array


def test_structured_arrays_become_nodes() -> None:
    array = np.array([(1, 2.0), (3, 4.0)], dtype=[("i", "i8"), ("f", "f8")])
    np.testing.assert_array_equal(TensorDict({"r": array}, batch_size=[2])["r", "f"], [2.0, 4.0])


def test_fields_are_those_of_the_class_of_the_array() -> None:
    class Scaled(np.recarray[Any, Any]):  # as of a FITS file, whose texts end at blanks, too
        def __getitem__(self, key: Any) -> Any:
            field = np.asarray(self)[key]
            return field * 10 if key == "i" else field.view(type("chararray", (np.ndarray,), {}))

    rows = np.array([(1, "a "), (2, "b")], [("i", "i8"), ("s", "U2")]).view(Scaled)
    for td in (
        TensorDict.from_struct_array(rows),
        TensorDict.from_any({"rows": rows}, batch_size=[2])["rows"],
    ):
        assert (td["i"].tolist(), td["s"]) == ([10, 20], ["a", "b"])
    assert TensorDict.from_struct_array(np.array(rows)[0])["i"] == 1  # a row is np.void


def test_mappings_become_nodes() -> None:
    class Untold(collections.UserDict[str, Any]):  # as tensordict's TensorDict
        def __bool__(self) -> bool:
            raise RuntimeError("Converting a tensordict to boolean value is not permitted")

    td = TensorDict({"n": Untold({"a": np.zeros((2, 3))})}, batch_size=[2], names=["t"])
    assert td["n"].batch_size == (2,)
    assert td["n"].names == ["t"]


def test_objects_with_a_numpy_method_become_arrays() -> None:
    class Tensor:
        def numpy(self) -> Any:
            return np.arange(2)

    np.testing.assert_array_equal(TensorDict(a=Tensor())["a"], [0, 1])


@each_case("value", [[2**63, -1], [2**64, 1]])
def test_integers_that_no_array_holds_stay_objects(value: Any) -> None:
    assert TensorDict({"a": value}, [2])["a"] == value


@each_case("value", [[[1], [1, 2]], [np.zeros(1), np.zeros(2)], [[2**64], [1]]])
def test_ragged_numbers_are_refused(value: Any) -> None:
    raises(ValueError, r"lite\.lazy_stack", lambda: TensorDict(a=value))


def test_lists_of_tensordicts_are_stacked() -> None:
    td = TensorDict({"n": [TensorDict(a=1), TensorDict(a=2)]}, batch_size=[2])
    np.testing.assert_array_equal(td["n", "a"], [1, 2])


def test_a_value_must_start_with_the_batch_size() -> None:
    with pytest.raises(RuntimeError, match=r"self.batch_size=\(3,\) and value.shape=\(4,\)"):
        TensorDict({"a": np.zeros(4)}, batch_size=[3])
    raises(RuntimeError, "batch dimension mismatch", lambda: TensorDict({"a": 1}, batch_size=[3]))
