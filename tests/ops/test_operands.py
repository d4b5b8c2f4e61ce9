"""What the other arguments of a pointwise operation may be, and how they meet the leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.trees import tree, unchanged

from lite import TensorDict, lazy_stack


def test_arrays_meet_the_batch_from_the_left() -> None:
    td = TensorDict({"a": np.ones((2, 2)), "b": np.zeros(2)}, batch_size=[2])
    got = td + np.array([1, 2])
    assert got["a"].tolist() == [[2, 2], [3, 3]]
    assert got["b"].tolist() == [1, 2]
    wider = td + np.array([[1.0], [2.0], [3.0]])
    assert (wider.batch_size, wider["a"].shape) == ((3, 2), (3, 2, 2))
    assert wider["b"].tolist() == [[1, 1], [2, 2], [3, 3]]
    with unchanged(td), pytest.raises(RuntimeError, match="cannot broadcast"):
        td + np.zeros(3)


def test_tensordicts_of_other_batch_sizes_broadcast() -> None:
    column, row = TensorDict({"a": np.ones((2, 1, 3))}, [2, 1]), TensorDict({"a": np.full((4, 3), 2)}, [4])
    got = column * row
    assert got.batch_size == (2, 4)
    np.testing.assert_array_equal(got["a"], np.full((2, 4, 3), 2))


def test_operands_are_matched_by_key_not_by_position() -> None:
    first = TensorDict({"a": 1.0, "b": 2.0})
    swapped = TensorDict({"b": 20.0, "a": 10.0})
    assert (first + swapped).to_dict(convert_tensors=True) == {"a": 11, "b": 22}
    assert first.lerp(swapped, 0.5).to_dict(convert_tensors=True) == {"a": 5.5, "b": 11}
    assert first.addcmul(swapped, swapped, value=2).to_dict(convert_tensors=True) == {"a": 201, "b": 802}
    assert first.addcdiv(swapped, first).to_dict(convert_tensors=True) == {"a": 11, "b": 12}
    assert (first + {"b": 1.0, "a": 0.0}).to_dict(convert_tensors=True) == {"a": 1, "b": 3}
    first.lerp_(swapped, 1.0).addcmul_(swapped, 1).addcdiv_(swapped, 1, value=-1)
    assert first.to_dict(convert_tensors=True) == {"a": 10, "b": 20}


@pytest.mark.parametrize("operand", [None, "text", object(), np.array(["x"]), {1, 2}])
def test_foreign_operands(operand: Any) -> None:
    td = tree()
    with unchanged(td):
        with pytest.raises(TypeError):
            td + operand
        with pytest.raises(TypeError, match="operands must be"):
            td.add(operand)
        if not isinstance(operand, np.ndarray):
            assert (td == operand) is False
            assert (td != operand) is True


@pytest.mark.parametrize(
    ("first", "second", "features"),
    [((3,), (), ((2, 2), ())), ((4,), (3, 4), ((), (2,))), ((1,), (1, 3, 1), ((), (2,)))],
)
def test_features_meet_features_when_batch_sizes_differ(
    first: tuple[int, ...], second: tuple[int, ...], features: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    a = TensorDict({"n": {"a": np.arange(np.prod(first + features[0])).reshape(first + features[0])}}, first)
    b = TensorDict({"n": {"a": np.full(second + features[1], 2)}}, second)
    for left, right in ((a, b), (b, a)):
        out = left + right
        size = np.broadcast_shapes(first, second)
        assert out.batch_size == size
        rows = a["n", "a"].reshape(first + (features[0] or (1,) * len(features[1])))
        expected = np.broadcast_to(rows + 2, size + (features[0] or features[1]))
        np.testing.assert_array_equal(out["n", "a"], expected)


@pytest.mark.parametrize("size", [(2, 1), (2, 2), (3,)])
def test_features_meet_features_when_batch_sizes_are_equal(size: tuple[int, ...]) -> None:
    rows, more = np.arange(np.prod(size)).reshape(size), np.arange(np.prod(size) * 2).reshape((*size, 2)) * 10
    for stack in (lambda td: td, lambda td: lazy_stack(list(td.unbind(0)))):
        a, b = (stack(TensorDict({"a": x.copy(), "n": {"a": x}}, size)) for x in (rows, more))
        whole = np.ones(size, bool)
        for key in ("a", ("n", "a")):
            np.testing.assert_array_equal((a + b)[key], rows[..., None] + more)
            np.testing.assert_array_equal((b - a)[key], more - rows[..., None])
            np.testing.assert_array_equal((a == b)[key], rows[..., None] == more)
            np.testing.assert_array_equal(
                a.where(whole, b)[key], np.broadcast_to(rows[..., None], more.shape)
            )
            np.testing.assert_array_equal(a.where(~whole, b)[key], more)
            np.testing.assert_array_equal(a.clamp(b, b)[key], more)
        with pytest.raises(RuntimeError, match="features"):
            a += b
        np.testing.assert_array_equal(a["a"], rows)
        b.exclude("n").add_(a.exclude("n"))
        np.testing.assert_array_equal(b["a"], rows[..., None] + more)


def test_an_expanded_operand_may_have_more_features() -> None:
    td = TensorDict({"a": np.arange(8).reshape(4, 2)}, [4])
    out = td + TensorDict({"a": np.array([[10, 20], [30, 40], [50, 60]])}, [])
    assert out.batch_size == (4,)
    np.testing.assert_array_equal(out["a"], td["a"][:, None] + np.array([[10, 20], [30, 40], [50, 60]]))
