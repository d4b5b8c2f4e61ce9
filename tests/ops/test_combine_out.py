"""`out=` of what joins TensorDicts: dense, lazy and nested outs, of every layout that holds the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

import lite
from lite import LazyStackedTensorDict, TensorDict, cat, lazy_stack, maybe_dense_stack, stack

Join = Callable[..., Any]
STACKS: list[Join] = [stack, lazy_stack, maybe_dense_stack]


def _ragged(i: int) -> LazyStackedTensorDict:
    """A ragged stack of two rows."""
    return lazy_stack([TensorDict({"x": np.arange(2.0 + j) + 10 * i + j, "s": f"{i} {j}"}) for j in range(2)])


def _nested(i: int) -> TensorDict:
    return TensorDict({"n": _ragged(i), "x": np.full((2, 3), float(i))}, [2])


def _blank(td: Any) -> Any:
    """The same without values."""
    if isinstance(td, LazyStackedTensorDict):
        return lazy_stack([_blank(part) for part in td.tensordicts], td.stack_dim)
    out = td.clone().zero_()
    if "s" in out:
        out["s"] = ""
    if "n" in out:
        out["n"] = _blank(out["n"])
    return out


def _assert_rows(out: Any, items: list[Any]) -> None:
    for i, item in enumerate(items):
        for j in range(2):
            np.testing.assert_array_equal(out[i, j]["x"], item[j]["x"])
            assert out[i, j].get("s", None) == item[j].get("s", None)


@each_case("join", STACKS)
@each_case("dim", [0, 1])
@each_case("layout", [0, 1])
def test_ragged_stacks_are_written_into_a_stack_along_any_dim(join: Join, dim: int, layout: int) -> None:
    items = [_ragged(0), _ragged(1)]
    rows = items if dim == layout else list(zip(*(item.tensordicts for item in items), strict=True))
    parts = [_blank(row if isinstance(row, LazyStackedTensorDict) else lazy_stack(list(row))) for row in rows]
    out = lazy_stack(parts, layout)
    held = [part["x"] for row in out.tensordicts for part in row.tensordicts]
    assert join(items, dim, out=out) is out
    for i in range(2):
        for j in range(2):
            at = (i, j) if dim == 0 else (j, i)
            np.testing.assert_array_equal(out[at]["x"], items[i][j]["x"])
            assert out[at]["s"] == f"{i} {j}"
    now = [part["x"] for row in out.tensordicts for part in row.tensordicts]
    assert all(array is other for array, other in zip(now, held, strict=True))


@each_case("join", STACKS)
def test_ragged_rows_and_keys_that_one_part_has_are_written_into_a_lazy_out(join: Join) -> None:
    items = [TensorDict({"x": np.ones((2, 1 + i)), f"k{i}": np.full(2, i)}, [2]) for i in range(2)]
    out = lazy_stack([_blank(item) for item in items])
    held = out[1]["x"]
    assert join(items, out=out) is out
    assert out[1]["x"] is held
    np.testing.assert_array_equal(held, np.ones((2, 2)))
    np.testing.assert_array_equal(out[1]["k1"], [1, 1])


@each_case("join", STACKS)
def test_nested_ragged_stacks_are_written_into_nested_stacks_along_another_dim(join: Join) -> None:
    items = [_nested(0), _nested(1)]
    for build in (stack, lazy_stack, maybe_dense_stack):
        out = build([_blank(item) for item in items])
        assert join(items, out=out) is out
        _assert_rows(out["n"], [item["n"] for item in items])
        np.testing.assert_array_equal(out["x"], [np.zeros((2, 3)), np.ones((2, 3))])


def test_updates_between_ragged_stacks_along_different_dims() -> None:
    items = [_ragged(0), _ragged(1)]
    across = lazy_stack([lazy_stack([item[j] for item in items]) for j in range(2)], 1)
    for update in (
        lambda td: td.update(across),
        lambda td: td.update(across, inplace=True),
        lambda td: td.update_(across),
        lambda td: td.update(across, clone=True),
    ):
        out = lazy_stack([_blank(item) for item in items])
        update(out)
        _assert_rows(out, items)
        inside = TensorDict({"n": lazy_stack([_blank(item) for item in items])}, [2, 2])
        inside.update({"n": across}, inplace=True)
        _assert_rows(inside["n"], items)
    with pytest.raises(RuntimeError, match="size"):
        lazy_stack(items).update(lazy_stack([_ragged(0), _ragged(1), _ragged(2)], 1))


def test_an_out_of_another_batch_size_is_refused() -> None:
    items = [_ragged(0), _ragged(1)]
    for out in (lazy_stack([_ragged(i) for i in range(3)]), TensorDict(batch_size=[2])):
        for join in STACKS:
            with pytest.raises(RuntimeError, match=r"batch.size"):
                join(items, out=out)
    with pytest.raises(RuntimeError, match=r"batch.size"):
        cat(items, out=lazy_stack([_ragged(0), _ragged(1)]))


def test_what_cannot_be_written_leaves_out_as_it_was() -> None:
    items = [_ragged(0), _ragged(1)]
    out = lazy_stack([_blank(_ragged(0)), lazy_stack([TensorDict({"x": np.zeros(7), "s": ""})] * 2)])
    with pytest.raises(ValueError, match="'x'"):
        lazy_stack(items, out=out)
    np.testing.assert_array_equal(out[0, 1]["x"], np.zeros(3))
    assert out[0, 1]["s"] == ""


def test_entries_that_out_lacks_are_added() -> None:
    items = [TensorDict({"x": np.full(2, float(i)), "s": f"{i}"}, [2]) for i in range(2)]
    for join in (*STACKS, cat):
        size = (4,) if join is cat else (2, 2)
        out = TensorDict({"y": np.zeros(size)}, size)
        join(items, out=out)
        assert out.sorted_keys == ["s", "x", "y"]
        np.testing.assert_array_equal(out["x"].reshape(-1), [0, 0, 1, 1])


def test_lazy_stacks_are_concatenated_into_an_out() -> None:
    items = [_ragged(0), _ragged(1)]
    out = lazy_stack([_blank(row) for item in items for row in item.tensordicts])
    assert cat(items, out=out) is out
    _assert_rows(lazy_stack([out[:2], out[2:]]), items)


def test_arrays_are_written_into_an_array_of_their_shape() -> None:
    rows = [np.zeros(2), np.ones(2)]
    for join, shape in ((stack, (2, 2)), (maybe_dense_stack, (2, 2)), (lazy_stack, (2, 2)), (cat, (4,))):
        out = np.full(shape, 7.0)
        assert join(rows, out=out) is out
        np.testing.assert_array_equal(out.reshape(-1), [0, 0, 1, 1])
        with pytest.raises(ValueError, match="shape"):
            join(rows, out=np.zeros((3, *shape)))


def test_a_tensorclass_is_written_into() -> None:
    @lite.tensorclass
    class Point:
        x: np.ndarray

    items = [Point(x=np.full((2, 1 + i), float(i)), batch_size=[2]) for i in range(2)]
    out = lazy_stack([item.clone() for item in items])
    for join in STACKS:
        out.zero_()
        assert join(items, out=out) is out
        np.testing.assert_array_equal(out[1].x, np.ones((2, 2)))
