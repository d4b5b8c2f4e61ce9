"""Tensorclasses stacked, concatenated, nested, and as rows of lazy stacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.tensorclasses import Point, Tokens

from lite import LazyStackedTensorDict, TensorDict, cat, lazy_stack, stack


def ragged() -> Tokens:
    return lazy_stack([Tokens(full=np.arange(n), padded=False) for n in (2, 3)])


def test_lazy_stack_of_ragged_rows():
    tokens = ragged()
    assert type(tokens) is Tokens
    assert tokens.batch_size == (2,)
    with pytest.raises(RuntimeError, match="Failed to stack"):
        _ = tokens.full
    assert [row.tolist() for row in tokens.get("full", as_list=True)] == [[0, 1], [0, 1, 2]]
    padded = tokens.get("full", as_padded_tensor=True, padding_side="left", padding_value=-1)
    np.testing.assert_array_equal(padded, [[-1, 0, 1], [0, 1, 2]])
    assert tokens.padded is False
    assert tokens[1].length() == 3
    assert type(tokens[1]) is Tokens
    tokens.prompt = [np.zeros(1), np.zeros(2)]
    assert [len(row) for row in tokens.get("prompt", as_list=True)] == [1, 2]
    assert [len(row.full) for row in tokens] == [2, 3]
    assert "full=Array(shape=(2, -1), device=cpu, dtype=int64, is_shared=False)" in repr(tokens)
    row = Tokens(full=np.arange(2), padded=True)
    assert row.get("full", as_list=True) is row.full


def test_nested_in_each_other():
    point = Point(
        xy=np.zeros((2, 2)), inner=Tokens(full=np.zeros((2, 3)), batch_size=[2]), tags="t", batch_size=[2]
    )
    assert type(point.inner) is Tokens
    assert type(point[0].inner) is Tokens
    assert point[0].inner.full.shape == (3,)
    assert point.get(("inner", "full")).shape == (2, 3)
    point.set(("inner", "prompt"), np.ones(2))
    assert point.inner.prompt.tolist() == [1, 1]
    assert type(stack([point, point]).inner) is Tokens


def test_copies_of_several_tensorclasses_are_of_the_first():
    class Derived(Tokens):
        """With the same fields."""

    class Longer(Tokens):
        more: Any = None

    for other in (Derived, Longer):
        rows = [other(full=np.ones(2), batch_size=[2]), Tokens(full=np.ones(2), batch_size=[2])]
        for join in (stack, cat, TensorDict.maybe_dense_stack):
            assert type(join(rows)) is other
            assert type(join(rows[::-1])) is Tokens
            assert type(join([TensorDict({"t": row}, batch_size=[2]) for row in rows])["t"]) is other
    rows = [Derived(full=np.ones(2)), Tokens(full=np.zeros(2))]
    assert type(lazy_stack(rows)) is LazyStackedTensorDict
    rows = [Tokens(prompt=np.ones(2)), Longer(more=np.ones(2))]
    assert type(TensorDict.maybe_dense_stack(rows)) is LazyStackedTensorDict
