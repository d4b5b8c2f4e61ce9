"""Equality within a tolerance."""

import numpy as np
from helpers.cases import raises
from helpers.trees import tree

import lite
from lite import TensorDict


def test_assert_close() -> None:
    td = tree()
    assert lite.assert_close(td, td.clone())
    near = td.clone()
    near["a"] += 1e-7
    assert lite.assert_close(td, near)
    near["a"] += 1
    raises(AssertionError, r"key \('a',\) does not match, got mse = 1.0000", lite.assert_close, near, td)
    assert lite.assert_close(near, td, atol=2)
    raises(KeyError, "only in actual", lambda: lite.assert_close(td, td.exclude(("n", "b"))))
    assert lite.assert_close(td, td.exclude(("n", "b")), intersection=True)
    raises(AssertionError, r"'s'", lambda: lite.assert_close(td, td.clone().set("s", "other")))
    for other in (np.ones(td.batch_size), TensorDict({}, td.batch_size)):
        mixed = td.clone().set("s", other)
        raises(AssertionError, r"key \('s',\) does not match", lite.assert_close, td, mixed)
        raises(AssertionError, r"key \('s',\) does not match", lite.assert_close, mixed, td)
    raises(AssertionError, r"'n'", lite.assert_close, td, td.clone().set("n", np.ones(td.batch_size)))
    stacks = [lite.lazy_stack([tree(), part]) for part in (tree(), near)]
    assert lite.assert_close(stacks[0], stacks[0].clone())
    raises(AssertionError, r"key \('a',\) does not match", lambda: lite.assert_close(*stacks))
    nan = TensorDict(a=np.nan)
    assert lite.assert_close(nan, nan)
    raises(AssertionError, "", lambda: lite.assert_close(nan, nan, equal_nan=False))


def test_isclose() -> None:
    first, second = TensorDict(a=[1.0, 2.0]), TensorDict(a=[1.0, 2.1])
    assert first.isclose(second)["a"].tolist() == [True, False]
    assert np.isclose(first, second, atol=1)["a"].all()
    assert first.allclose(first)
    assert not np.allclose(first, second)


def test_array_equal_compares_shape_keys_objects_and_numbers() -> None:
    td = TensorDict({"a": np.arange(3.0), "s": "x"}, batch_size=[3])
    assert np.array_equal(td, td.clone())
    for other in (
        td.clone().set("a", np.zeros(3)),
        td.clone().set("s", "y"),
        td.clone().set("s", np.zeros(3)),
        td.exclude("s"),
        TensorDict(td.to_dict()),
    ):
        assert not np.array_equal(td, other)


def test_ragged_stacks_are_compared_part_by_part() -> None:
    stack = lite.lazy_stack([TensorDict(x=np.zeros(2)), TensorDict(x=np.zeros(3))])
    assert lite.assert_close(stack, stack.clone())
    other = stack.clone()
    other.tensordicts[1]["x"][2] = 1
    raises(AssertionError, "x", lambda: lite.assert_close(stack, other))
