"""Nested lists set into lazy stacks: level i of a list is dim i of the batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import LazyStackedTensorDict, TensorDict, lazy_stack

Index = tuple[int, ...]
LAYOUTS = [((2, 2), (0, 0)), ((2, 3), (1, 0)), ((2, 3, 4), (2, 1, 0))]


def _stack(sizes: Index, dims: Index, entries: dict[str, Any] | None = None) -> Any:
    """Stacks of stacks: `sizes` and `dims` from the outer one to the inner one."""
    if not sizes:
        return TensorDict({} if entries is None else {key: value.copy() for key, value in entries.items()})
    return lazy_stack([_stack(sizes[1:], dims[1:], entries) for _ in range(sizes[0])], dims[0])


def _lists(shape: Index, element: Callable[[Index], Any], at: Index = ()) -> Any:
    if not shape:
        return element(at)
    return [_lists(shape[1:], element, (*at, i)) for i in range(shape[0])]


def _number(at: Index) -> float:
    return float(sum(10**i * n for i, n in enumerate(at)))


ELEMENTS: dict[str, Callable[[Index], Any]] = {
    "arrays": lambda at: np.array([_number(at)]),
    "arrays without dims": lambda at: np.array(_number(at)),
    "ragged arrays": lambda at: np.full(1 + sum(at), _number(at)),
    "numbers": _number,
    "lists of numbers": lambda at: [_number(at), -1.0],
    "tuples of numbers": lambda at: (_number(at), -1.0),
    "strings": str,
    "tensordicts": lambda at: TensorDict(x=np.array(_number(at))),
    "dicts": lambda at: {"x": np.array(_number(at))},
    "strings and arrays": lambda at: str(at) if sum(at) % 2 else np.array([_number(at)]),
}
WRITES: dict[str, Callable[[Any, Any], object]] = {
    "td[key] = ...": lambda td, value: td.__setitem__("a", value),
    "set": lambda td, value: td.set("a", value),
    "update": lambda td, value: td.update({"a": value}),
    "td[...] = ...": lambda td, value: td.__setitem__(..., {"a": value}),
}


def _assert_read_back(td: Any, sizes: Index, key: Any, element: Callable[[Index], Any]) -> None:
    for at in np.ndindex(*sizes):
        row, wanted = td, element(at)
        for i in at:
            row = row[i]
        got = row[key]
        if isinstance(wanted, str):
            assert got == wanted, at
        elif isinstance(wanted, TensorDict | dict):
            np.testing.assert_array_equal(got["x"], wanted["x"])
        else:
            np.testing.assert_array_equal(got, wanted)


@each_case("write", WRITES.values(), ids=WRITES)
@each_case("element", ELEMENTS.values(), ids=ELEMENTS)
@each_case(("sizes", "dims"), LAYOUTS[1:])
def test_elements_are_read_back_where_the_list_has_them(sizes, dims, element, write):
    td = _stack(sizes, dims)
    value = _lists(td.batch_size, element)
    write(td, value)
    _assert_read_back(td, td.batch_size, "a", element)


IN_PLACE: dict[str, Callable[[Any, Any], object]] = {
    "set_": lambda td, value: td.set_("a", value),
    "set": lambda td, value: td.set("a", value, inplace=True),
    "update": lambda td, value: td.update({"a": value}, inplace=True),
    "update_": lambda td, value: td.update_({"a": value}),
    "update_at_": lambda td, value: td.update_at_({"a": value}, ...),
    "set_at_": lambda td, value: td.set_at_("a", value, ...),
}


@each_case("write", IN_PLACE.values(), ids=IN_PLACE)
@each_case("kind", ["arrays", "lists of numbers"])
@each_case(("sizes", "dims"), LAYOUTS)
def test_elements_are_written_where_the_list_has_them(sizes, dims, kind, write):
    element = ELEMENTS[kind]
    start = np.zeros(np.shape(element((0,))))
    td = _stack(sizes, dims, {"a": start})
    held = td[(0,) * len(sizes)]["a"]
    write(td, _lists(td.batch_size, element))
    _assert_read_back(td, td.batch_size, "a", element)
    assert td[(0,) * len(sizes)]["a"] is held


def test_lists_in_nested_nodes_and_under_paths() -> None:
    element = ELEMENTS["ragged arrays"]
    for write in (
        lambda td, value: td.set(("n", "a"), value),
        lambda td, value: td.update({"n": {"a": value}}),
        lambda td, value: td.set("n", {"a": value}),
    ):
        td = _stack((2, 3), (1, 0))
        write(td, _lists((3, 2), element))
        _assert_read_back(td, (3, 2), ("n", "a"), element)
        write(td, _lists((3, 2), element))
        _assert_read_back(td, (3, 2), ("n", "a"), element)
    inside = TensorDict({"n": _stack((2, 3), (1, 0))}, [3])
    inside["n"]["a"] = _lists((3, 2), element)
    _assert_read_back(inside["n"], (3, 2), "a", element)


def test_lists_for_parts_with_a_batch_of_their_own() -> None:
    def parts(dim: int) -> LazyStackedTensorDict:
        return LazyStackedTensorDict(*(TensorDict({}, [2]) for _ in range(3)), stack_dim=dim)

    td = parts(1)
    td["a"] = [np.arange(3.0), np.arange(3.0) + 10]
    np.testing.assert_array_equal(td["a"], [[0, 1, 2], [10, 11, 12]])
    td["t"] = [TensorDict({"x": np.arange(3)}, [3]), TensorDict({"x": np.arange(3) + 10}, [3])]
    np.testing.assert_array_equal(td["t", "x"], [[0, 1, 2], [10, 11, 12]])
    td["g"] = [[np.full(1 + j, i) for j in range(3)] for i in range(2)]
    assert td.get_item_shape("g") == (2, 3, -1)
    np.testing.assert_array_equal(td[1, 2]["g"], [1, 1, 1])
    td["u"] = ((0, 1, 2), (10, 11, 12))
    np.testing.assert_array_equal(td["u"], [[0, 1, 2], [10, 11, 12]])
    td["v"] = [(0, 1, 2), (10, 11, 12)]
    np.testing.assert_array_equal(td["v"], [[0, 1, 2], [10, 11, 12]])
    td = parts(0)
    td["a"] = [np.arange(2.0) + 10 * i for i in range(3)]
    np.testing.assert_array_equal(td["a"], [[0, 1], [10, 11], [20, 21]])


@each_case(
    "value",
    [
        [np.zeros(2), np.zeros(2), np.zeros(2)],
        ["one", "other", "third"],
        [[np.zeros(1)] * 3, [np.zeros(1)] * 2],
        [["x"] * 3, ["y"] * 2],
        [["x"] * 2] * 3,
        [{"x": 1}] * 3,
        [],
    ],
)
def test_lists_of_another_shape_than_the_batch_are_refused(value: Any) -> None:
    td = LazyStackedTensorDict(*(TensorDict({"b": np.zeros(2)}, [2]) for _ in range(3)), stack_dim=1)
    with pytest.raises((RuntimeError, ValueError), match=r"'a'|rectangular|equal shapes"):
        td["a"] = value
    assert [list(part.keys()) for part in td.tensordicts] == [["b"]] * 3


def test_lists_that_broadcast_are_written_as_arrays_are() -> None:
    td = LazyStackedTensorDict(*(TensorDict({"a": np.zeros(2)}, [2]) for _ in range(2)), stack_dim=1)
    td.set_("a", [[1.0], [2.0]])
    np.testing.assert_array_equal(td["a"], [[1, 1], [2, 2]])
    td.update_({"a": [[3.0, 4.0]]})
    np.testing.assert_array_equal(td["a"], [[3, 4], [3, 4]])
