"""stack, cat, lazy_stack, maybe_dense_stack: values, structure, promotion, errors."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import (
    LazyStackedTensorDict,
    NonTensorData,
    NonTensorStack,
    TensorDict,
    cat,
    dense_stack_tds,
    lazy_stack,
    maybe_dense_stack,
    merge_tensordicts,
    stack,
)


def make(seed: int, shape: tuple[int, ...] = (3,), **more: Any) -> TensorDict:
    rng = np.random.default_rng(seed)
    return TensorDict(
        {"a": rng.normal(size=(*shape, 2)), "n": {"b": rng.integers(0, 9, shape)}, **more}, batch_size=shape
    )


# -- stack ------------------------------------------------------------------------------------


@each_case(("shape", "dim"), [(s, d) for s in [(), (3,), (2, 3)] for d in range(-len(s) - 1, len(s) + 1)])
def test_stack_is_numpy_s_leaf_by_leaf(shape, dim):
    tds = [make(i, shape) for i in range(4)]
    out = stack(tds, dim)
    where = dim % (len(shape) + 1)
    assert out.batch_size == (*shape[:where], 4, *shape[where:])
    assert out["n"].batch_size == out.batch_size
    np.testing.assert_array_equal(out["a"], np.stack([td["a"] for td in tds], where))
    np.testing.assert_array_equal(out["n", "b"], np.stack([td["n", "b"] for td in tds], where))
    assert list(out.keys()) == ["a", "n"]
    assert type(out) is TensorDict


def test_stack_accepts_iterables_and_numpy_s_spelling():
    tds = [make(i) for i in range(3)]
    expected = stack(tds)["a"]
    for out in (
        stack(td for td in tds),
        stack(tuple(tds)),
        TensorDict.stack(tds),
        np.stack(tds),
        stack(lazy_stack(tds)),
    ):
        np.testing.assert_array_equal(out["a"], expected)
    assert np.stack(tds, axis=1).batch_size == (3, 3)
    assert np.concatenate(tds).batch_size == (9,)
    np.testing.assert_array_equal(stack([np.zeros(2), np.ones(2)], 1), [[0, 1], [0, 1]])


def test_dtypes_promote_as_in_numpy():
    out = stack([TensorDict(a=np.zeros(2, np.int32)), TensorDict(a=np.zeros(2, np.float32))])
    assert out["a"].dtype == np.result_type(np.int32, np.float32)
    out = cat([TensorDict({"a": np.zeros(2, bool)}, [2]), TensorDict({"a": np.ones(1, np.int8)}, [1])])
    assert out["a"].dtype == np.int8


@each_case(
    ("items", "message"),
    [
        ([], "items cannot be empty"),
        (
            [make(0), make(0, (2,))],
            r"congruent batch sizes, got td\[1\].batch_size=\(2,\) and td\[0\].batch_size=\(3,\)",
        ),
        ([make(0), make(0, c=1 * np.ones(3))], "sets of keys in the tensordicts to stack are exclusive"),
        ([TensorDict(a=1), TensorDict(b=1)], "sets of keys in the tensordicts to stack are exclusive"),
        ([TensorDict(a=np.zeros(2)), TensorDict(a=np.zeros(3))], r"at key 'a': \(3,\) vs \(2,\)"),
        ([TensorDict(a=1), TensorDict(a={"b": 1})], "at key 'a' to stack are of different kinds"),
        ([TensorDict(a=1), TensorDict(a="text")], "at key 'a' to stack are of different kinds"),
    ],
)
def test_stack_errors(items, message):
    raises(RuntimeError, message, lambda: stack(items))


def test_stack_argument_errors():
    raises(IndexError, r"dim must be in \[-2, 1\]", lambda: stack([make(0)], 2))
    raises(TypeError, "stack expects an iterable", lambda: stack(3))
    raises(TypeError, "items of type", lambda: stack([make(0), "x"]))


def test_objects_stack_to_one_per_element():
    equal = stack([TensorDict({"s": "x"}, [2]), TensorDict({"s": "x"}, [2])])
    assert isinstance(equal.get("s"), NonTensorStack)
    assert equal["s"] == [["x", "x"], ["x", "x"]]
    assert stack([TensorDict(s="x"), TensorDict(s="y")])["s"] == ["x", "y"]
    assert stack([NonTensorData("x"), NonTensorData([1])]).tolist() == ["x", [1]]
    raises(RuntimeError, "different batch sizes", stack, [NonTensorData("x", [1]), NonTensorData("x", [2])])


def test_dense_stack_of_a_lazy_stack():
    ls = lazy_stack([make(0), make(1)], 1)
    dense = dense_stack_tds(ls)
    assert type(dense) is TensorDict
    assert dense.batch_size == (3, 2)
    np.testing.assert_array_equal(dense["a"], ls["a"])
    raises(RuntimeError, "stack dim 1", lambda: dense_stack_tds(ls, 0))
    assert dense_stack_tds([make(0), make(1)], 1).batch_size == (3, 2)


# -- maybe_dense_stack ------------------------------------------------------------------------


@each_case(
    "rows",
    [
        [TensorDict(a=np.zeros(1)), TensorDict(a=np.zeros(2))],
        [TensorDict(a=1), TensorDict(b=1)],
        [TensorDict(a=1), TensorDict(a="text")],
        [TensorDict(batch_size=[1]), TensorDict(batch_size=[2])],
        [TensorDict(a={"b": TensorDict(batch_size=[2])}), TensorDict(a={"b": TensorDict(batch_size=[])})],
    ],
)
def test_maybe_dense_is_lazy_where_it_must(rows):
    out = maybe_dense_stack(rows)
    assert isinstance(out, LazyStackedTensorDict) or isinstance(out["a"], LazyStackedTensorDict)


def test_maybe_dense_needs_one_number_of_batch_dims():
    with pytest.raises(RuntimeError, match="congruent batch dimensions"):
        maybe_dense_stack([TensorDict(), TensorDict(batch_size=[1])])


# -- cat --------------------------------------------------------------------------------------


@each_case("dim", [0, 1, -1])
def test_cat_is_numpy_s_leaf_by_leaf(dim):
    tds = [make(0, (2, 3)), make(1, (1, 3) if dim == 0 else (2, 1))]
    out = cat(tds, dim)
    for key in ("a", ("n", "b")):
        np.testing.assert_array_equal(out[key], np.concatenate([td[key] for td in tds], dim % 2))
    assert out.batch_size == out["n"].batch_size == out["n", "b"].shape


def test_joined_transposed_arrays_have_views():
    td = TensorDict({"a": np.arange(12).reshape(2, 3, 2)}, [2, 3]).transpose(0, 1)
    for out in (cat([td, td]), cat([td, td], 1), *[stack([td, td], dim) for dim in (0, 1, 2)]):
        np.testing.assert_array_equal(out.view(-1)["a"], out["a"].reshape(-1, 2))


def test_cat_errors():
    raises(RuntimeError, "items cannot be empty", lambda: cat([]))
    raises(KeyError, "different keys", lambda: cat([make(0), make(0).exclude("a")]))
    raises(RuntimeError, "dim must be in the range 0 <= dim < len", lambda: cat([make(0)], 1))
    raises(RuntimeError, "dim must be in the range", lambda: cat([TensorDict(a=1)]))
    raises(RuntimeError, "batch sizes must agree except in dim 1", cat, [make(0, (2, 1)), make(0, (3, 1))], 1)
    with pytest.raises(RuntimeError, match="key 'a' cannot be concatenated"):
        cat([TensorDict({"a": np.zeros((1, 2))}, [1]), TensorDict({"a": np.zeros((1, 3))}, [1])])


def test_cat_with_a_lazy_stack_is_lazy():
    rows = [TensorDict(a=np.arange(n)) for n in (1, 2, 3)]
    ls = lazy_stack(rows)
    out = cat([ls, ls[:1], lazy_stack([TensorDict(a=np.zeros(2))]).contiguous()])
    assert isinstance(out, LazyStackedTensorDict)
    assert [len(row) for row in out.get("a", as_list=True)] == [1, 2, 3, 1, 2]
    wide = lazy_stack([make(0, (2,)), make(1, (2,))])
    joined = cat([wide, wide], 1)
    assert joined.batch_size == (2, 4)
    np.testing.assert_array_equal(joined[0]["a"], np.concatenate([make(0, (2,))["a"]] * 2))
    raises(RuntimeError, "equal lengths", lambda: cat([wide, wide[:1]], 1))
    raises(RuntimeError, "one stack dim", lambda: cat([wide, lazy_stack([make(0, (2,)), make(1, (2,))], 1)]))


# -- merge ------------------------------------------------------------------------------------


def test_merge():
    first, second = TensorDict(a=1, n={"x": 1}), TensorDict(a=2, b=3, n={"y": 2})
    out = merge_tensordicts(first, second)
    assert (out["a"], out["b"], out["n", "x"], out["n", "y"]) == (1, 3, 1, 2)
    assert merge_tensordicts(first, second, callback_exist=lambda *v: sum(v))["a"] == 3
    assert merge_tensordicts(first, second, callback_exist={"a": max})["a"] == 2
    raises(RuntimeError, "at least 2", lambda: merge_tensordicts(first))


def test_inputs_are_left_as_they_were():
    tds = [make(i, s="text").lock_() for i in range(3)]
    for array in [td[key] for td in tds for key in ("a", ("n", "b"))]:
        array.setflags(write=False)
    before = [td["a"].copy() for td in tds]
    for function in (stack, cat, lazy_stack, maybe_dense_stack, lite.dense_stack_tds):
        function(tds)
    for td, array in zip(tds, before, strict=True):
        np.testing.assert_array_equal(td["a"], array)
        assert td.is_locked


def test_options_of_lazy_stacks():
    rows = [lite.TensorDict({"a": np.zeros(n)}, [n], names=["t"]) for n in (1, 2)]
    assert lite.lazy_stack(rows, stack_dim_name="b").names == ["b", "t"]
    raises(ValueError, "non-unique", lambda: lite.lazy_stack(rows, stack_dim_name="t"))
    raises(RuntimeError, "differ", lambda: lite.lazy_stack(rows, strict_shape=True))
    assert lite.LazyStackedTensorDict(batch_size=[3], stack_dim=1).batch_size == (3, 0)
    named = lite.LazyStackedTensorDict.from_dict([{"a": np.zeros(2)}], batch_size=[2], names=["b", "t"])
    assert named.names == ["b", "t"]
    assert type(lite.LazyStackedTensorDict.fromkeys(["a"])) is lite.TensorDict
    np.testing.assert_array_equal(lite.TensorDict.fromkeys(["a"])["a"], 0)
