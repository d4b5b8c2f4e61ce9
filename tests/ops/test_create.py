"""New TensorDicts in the form of another one."""

from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.cases import each_case, raises
from helpers.trees import read_only, tree

import lite
from lite import LazyStackedTensorDict, TensorDict, lazy_stack


def test_like_factories() -> None:
    td = TensorDict(
        {"a": read_only(np.ones((2, 3), np.float32)), "n": {"b": [1, 2]}, "s": "x"}, batch_size=[2]
    )
    td.names = ["t"]
    td.lock_()
    for module_function, numpy_function, value in (
        (lite.zeros_like, np.zeros_like, 0),
        (lite.ones_like, np.ones_like, 1),
        (lambda x, **kw: lite.full_like(x, 7, **kw), lambda x, **kw: np.full_like(x, 7, **kw), 7),
    ):
        for function in (module_function, numpy_function):
            out = function(td)
            assert (out.names, out.is_locked, out["s"]) == (["t"], True, "x")
            assert (out["a"].dtype, out["n", "b"].dtype) == (np.float32, np.int64)
            np.testing.assert_array_equal(out["a"], np.full((2, 3), value))
            assert function(td, dtype=np.int8).dtype == np.int8
    assert np.empty_like(td)["a"].shape == (2, 3)


def test_random_factories_follow_the_generator() -> None:
    td = TensorDict({"a": np.zeros((50, 2)), "h": np.zeros(50, np.float16)}, batch_size=[50])
    for function in (lite.rand_like, lite.randn_like):
        first, second = (function(td, rng=np.random.default_rng(3)) for _ in range(2))
        np.testing.assert_array_equal(first["a"], second["a"])
        assert first["h"].dtype == np.float16
        assert first["a"].std() > 0.2
    assert lite.rand_like(td)["a"].min() >= 0
    raises(TypeError, "floating dtype", lambda: lite.rand_like(TensorDict(a=1)))


def test_new_with_another_batch_size() -> None:
    td = tree()
    td.names = ["x", "y"]
    for out, value in ((td.new_zeros(5), 0), (td.new_ones([5]), 1), (td.new_full(5, 3), 3)):
        assert (out.batch_size, out.names, out["n"].batch_size) == ((5,), ["y"], (5, 5))
        np.testing.assert_array_equal(out["a"], np.full((5, 2), value))
        assert out["i"].dtype == np.int64
        assert out["r"].batch_size == (5,)  # no objects are there for other elements
        assert list(out["r"].keys()) == []
    assert td.new_empty(2, 1, dtype=np.int8)["n", "b"].shape == (2, 1, 5)


def test_fill_and_zero() -> None:
    td = TensorDict({"a": np.ones(2), "n": {"b": np.ones(2)}})
    td.fill_("a", 5).fill_("n", 7)
    assert (td["a"].tolist(), td["n", "b"].tolist()) == ([5, 5], [7, 7])
    assert td.zero_()["n", "b"].tolist() == [0, 0]
    raises(KeyError, "", lambda: td.fill_("zz", 1))


NEW: dict[str, Callable[..., Any]] = {
    "new_zeros": lambda td, size, **kw: td.new_zeros(size, **kw),
    "new_ones": lambda td, size, **kw: td.new_ones(*size, **kw),
    "new_empty": lambda td, size, **kw: td.new_empty(size, **kw),
    "new_full": lambda td, size, **kw: td.new_full(size, 7, **kw),
}


def _ragged_rows(dim: int = 0) -> LazyStackedTensorDict:
    parts = [TensorDict({"x": np.ones((2, i + 1)), "n": {"y": np.ones(2)}}, [2]) for i in range(2)]
    return lazy_stack(parts, dim)


@each_case("make", NEW.values(), ids=NEW)
def test_empty_lazy_gives_empty_stacks(make: Callable[..., Any]) -> None:
    for dim in (0, 1):
        td = _ragged_rows(dim)
        for size in ((3, 2), (2, 5), (2, 2, 1)):
            out = make(td, size, empty_lazy=True)
            assert isinstance(out, LazyStackedTensorDict)
            assert (out.stack_dim, out.batch_size) == (dim, size)
            assert list(out.keys(True)) == ["n"]
            out["x"] = np.zeros(size)
            assert out[0]["n"] is not out[1]["n"]
    nested = TensorDict({"q": np.ones(2), "m": _ragged_rows()}, [2])
    out = make(nested, (3,), empty_lazy=True)
    assert out["q"].shape == (3,)
    assert (type(out["m"]), out["m"].batch_size) == (LazyStackedTensorDict, (3, 2))
    assert out["m"].is_empty()
    raises(RuntimeError, "'x'", lambda: make(nested, (3,)))


def test_empty_lazy_where_the_stack_dim_does_not_remain() -> None:
    parts = [TensorDict({"x": np.ones(2)}, [2]) for _ in range(2)]
    out = lazy_stack(parts, 1).new_zeros(4, empty_lazy=True)
    assert type(out) is TensorDict
    np.testing.assert_array_equal(out["x"], np.zeros(4))
    deep = lazy_stack([_ragged_rows(), _ragged_rows()]).new_zeros(3, 4, 5, empty_lazy=True)
    assert (deep.batch_size, type(deep[0]), type(deep[0, 0])) == (
        (3, 4, 5),
        LazyStackedTensorDict,
        TensorDict,
    )
    dense = TensorDict({"x": np.ones(2)}, [2]).new_ones(3, empty_lazy=True)
    np.testing.assert_array_equal(dense["x"], np.ones(3))
