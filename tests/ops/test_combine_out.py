"""`out=` of what joins TensorDicts: dense, lazy and nested outs, of every layout that holds the result."""

from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.cases import each_case, raises

from lite import LazyStackedTensorDict, TensorDict, cat, lazy_stack, maybe_dense_stack, stack

Join = Callable[..., Any]
STACKS: list[Join] = [stack, lazy_stack, maybe_dense_stack]


def _ragged(i: int) -> LazyStackedTensorDict:
    """A ragged stack of two rows."""
    return lazy_stack([TensorDict({"x": np.arange(2.0 + j) + 10 * i + j, "s": f"{i} {j}"}) for j in range(2)])


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


def test_an_out_of_another_batch_size_is_refused() -> None:
    items = [_ragged(0), _ragged(1)]
    for out in (lazy_stack([_ragged(i) for i in range(3)]), TensorDict(batch_size=[2])):
        for join in STACKS:
            raises(RuntimeError, r"batch.size", join, items, out=out)
    raises(RuntimeError, r"batch.size", lambda: cat(items, out=lazy_stack([_ragged(0), _ragged(1)])))


def test_what_cannot_be_written_leaves_out_as_it_was() -> None:
    items = [_ragged(0), _ragged(1)]
    out = lazy_stack([_blank(_ragged(0)), lazy_stack([TensorDict({"x": np.zeros(7), "s": ""})] * 2)])
    raises(ValueError, "'x'", lambda: lazy_stack(items, out=out))
    np.testing.assert_array_equal(out[0, 1]["x"], np.zeros(3))
    assert out[0, 1]["s"] == ""


def test_arrays_are_written_into_an_array_of_their_shape() -> None:
    rows = [np.zeros(2), np.ones(2)]
    for join, shape in ((stack, (2, 2)), (maybe_dense_stack, (2, 2)), (lazy_stack, (2, 2)), (cat, (4,))):
        out = np.full(shape, 7.0)
        assert join(rows, out=out) is out
        np.testing.assert_array_equal(out.reshape(-1), [0, 0, 1, 1])
        raises(ValueError, "shape", join, rows, out=np.zeros((3, *shape)))
