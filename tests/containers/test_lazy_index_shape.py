"""Shape operations of a LazyStackedTensorDict are those of the dense stack; ragged ones stay lazy."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.lazy_stacks import assert_same, ragged, regular
from hypothesis import given, settings
from hypothesis import strategies as st

from lite import LazyStackedTensorDict, TensorDict, lazy_stack

SHAPES: list[Any] = [
    lambda td: td.unsqueeze(0), lambda td: td.unsqueeze(-1), lambda td: td.unsqueeze(2),
    lambda td: td.unsqueeze(1).squeeze(), lambda td: td.squeeze(), lambda td: td.squeeze(1),
    lambda td: td.permute(2, 0, 1, 3), lambda td: td.transpose(0, 3), lambda td: td.movedim(0, 2),
    lambda td: td.flatten(), lambda td: td.flatten(1, 2), lambda td: td.flatten(0, 1),
    lambda td: td.flatten(2, 3), lambda td: td.unflatten(0, (2, -1)), lambda td: td.unflatten(2, (3, 1)),
    lambda td: td.unflatten(3, (1, 2)), lambda td: td.reshape(-1), lambda td: td.reshape(24),
    lambda td: td.reshape(4, 6), lambda td: td.reshape(2, 2, 3, 2), lambda td: td.reshape(6, 4),
    lambda td: td.reshape(4, 1, 3, 2), lambda td: td.expand(3, 4, 1, 3, 2),
    lambda td: td.expand(4, 5, -1, 2), lambda td: td.unbind(2)[1], lambda td: td.split([1, 2], 2)[1],
    lambda td: td.chunk(2, 0)[1], lambda td: td.clone(), lambda td: td.flatten_keys(),
    lambda td: td.view(24), lambda td: td.view(2, 2, 1, 3, 2),
]  # fmt: skip


@each_case("dim", [0, 2])
@each_case("op", SHAPES)
def test_shape_is_that_of_the_dense_stack(op, dim):
    ls = regular((4, 1, 3, 2), dim, ["x", "y", None, "z"])
    dense = ls.contiguous()
    assert_same(op(ls), op(dense))
    assert_same(ls, dense)


@pytest.mark.depth
@settings(max_examples=30)
@given(st.data())
def test_reshape_is_that_of_the_dense_stack(data):
    old = data.draw(st.permutations([1, 2, 3, 4]).map(tuple))
    factors = data.draw(st.permutations([1, 2, 2, 2, 3]))
    cuts = data.draw(st.sets(st.integers(1, 4)))
    new = [int(np.prod(part)) for part in np.split(factors, sorted(cuts))]
    ls = regular(old, data.draw(st.integers(0, 3)))
    assert_same(ls.reshape(*new), ls.contiguous().reshape(*new))


def test_shapes_of_ragged_stacks_stay_lazy():
    ls = ragged(1, 2, 3, 4)
    grid = ls.unflatten(0, (2, 2))
    assert grid.batch_size == (2, 2)
    assert grid[1, 0] is ls[2]
    for flat in (grid.flatten(), grid.reshape(-1), grid.view(4), grid.reshape(4)):
        assert all(got is row for got, row in zip(flat.tensordicts, ls.tensordicts, strict=True))
    again = grid.reshape(1, 4)
    assert [len(leaf) for leaf in again.get("a", as_list=True)[0]] == [1, 2, 3, 4]
    turned = grid.transpose(0, 1)
    assert turned[0, 1] is ls[2]
    assert ls.unsqueeze(0).squeeze(0)[1]["a"].tolist() == [10, 11]
    assert ls.expand(2, 4).batch_size == (2, 4)
    wide = lazy_stack([ls, ls]).expand(2, 4)
    assert [len(row) for row in wide[1].get("a", as_list=True)] == [1, 2, 3, 4]
    parts = lazy_stack([ls, ls], 1).split(2, 0)
    assert parts[1][0, 1] is ls[2]
    rows = lazy_stack([TensorDict(a=np.zeros((2, n)), batch_size=[2]) for n in (1, 2, 3)])
    assert [len(row) for row in rows.reshape(2, 3).flatten().get("a", as_list=True)] == [1, 1, 2, 2, 3, 3]
    assert rows.permute(1, 0).get_item_shape("a") == (2, 3, -1)


def test_flatten_of_a_ragged_batch():
    ls = lazy_stack([TensorDict(a=np.arange(n) + 10 * n, batch_size=[n]) for n in (1, 3)])
    np.testing.assert_array_equal(ls.flatten()["a"], [10, 30, 31, 32])
    np.testing.assert_array_equal(ls.reshape(-1)["a"], [10, 30, 31, 32])
    assert ls.unsqueeze(0).batch_size == (1, 2, -1)
    for method in ("unbind", "split"):
        with pytest.raises(ValueError, match=f"cannot {method} dim 1 of batch size"):
            getattr(ls, method)(1, dim=1) if method == "split" else ls.unbind(1)
    raises(RuntimeError, "no row-major order", lambda: ls.transpose(0, 1).flatten())
    raises(RuntimeError, "ragged batch", lambda: ls.contiguous())
    none = [TensorDict(batch_size=[0, 5])] * 2
    assert [lazy_stack(none, dim).flatten(0, 1).batch_size for dim in (0, 1)] == [(0, 5)] * 2


def test_view_refuses_what_is_not_lazy():
    ls = regular((2, 3, 2), 0)
    raises(RuntimeError, "Cannot call `view` on a lazy stacked tensordict", lambda: ls.view(3, 2, 2))


def test_exclusive_keys_of_stacks_below_dense_parts_take_part() -> None:
    def part() -> TensorDict:
        rows = [TensorDict({"x": np.ones(2)} if i == 0 else {}, [2]) for i in range(2)]
        return TensorDict({"n": lazy_stack(rows, 1)}, [2])

    td = lazy_stack([part(), part(), part()], 1)
    out = td.reshape(3, 2)
    assert [list(row["n"][0].keys()) for row in out.unbind(0)[0].unbind(0)] == [["x"], ["x"]]
    raises(RuntimeError, "exclusive keys", lambda: td.to_dict())


def test_a_stack_of_none_or_one() -> None:
    ragged = lazy_stack([TensorDict(a=np.ones(n)) for n in (1, 2)])
    none = ragged[:0]
    for found, shape in (
        (none.unsqueeze(0), (1, 0)),
        (none.reshape(0, 3), (0, 3)),
        (none.expand(2, 0), (2, 0)),
        (none.unsqueeze(-1).squeeze(-1), (0,)),
    ):
        assert (found.batch_size, isinstance(found, LazyStackedTensorDict)) == (shape, True)
    one = ragged[1:].squeeze(0)
    assert (type(one), one["a"].shape) == (TensorDict, (2,))
    assert ragged.flatten(0, 0) is ragged
