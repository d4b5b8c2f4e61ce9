"""Cumulative functions, sorting and softmax along a batch dimension."""

import numpy as np
from helpers.cases import each_case, raises

from lite import TensorDict


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def nested() -> TensorDict:
    return TensorDict(
        {"a": floats(4, 3, 2), "n": {"b": floats(4, 3)}, "s": "x"}, batch_size=[4, 3], names=["t", "u"]
    )


@each_case(("name", "fn"), [("cumsum", np.cumsum), ("cumprod", np.cumprod)])
@each_case("dim", [0, -1])
def test_running_sums_and_products(name, fn, dim):
    td = nested()
    out = getattr(td, name)(dim)
    np.testing.assert_allclose(out["a"], fn(td["a"], axis=dim % 2))
    assert (out.batch_size, out.names, out["s"]) == ((4, 3), ["t", "u"], "x")
    flat = fn(td)  # as NumPy's function without an axis
    np.testing.assert_allclose(flat["a"], fn(td["a"].reshape(12, 2), axis=0))
    for kind in (">u8", "Q"):  # C's long long is a type of its own beside uint64
        large = fn(TensorDict({"a": np.array([2**63, 1], kind)}, [2]))["a"]
        assert (large.dtype, large.tolist()[0]) == (np.uint64, 2**63)  # as int64 it would be negative


def test_best_so_far_gives_the_latest_of_equals():
    td = TensorDict({"a": np.array([1.0, 3.0, 3.0, 2.0, np.nan, 9.0])}, batch_size=[6])
    values, indices = td.cummax(0)
    np.testing.assert_array_equal(values["a"], [1, 3, 3, 3, np.nan, np.nan])
    np.testing.assert_array_equal(indices["a"], [0, 1, 2, 2, 4, 4])
    low = nested().cummin(1, return_indices=False)
    np.testing.assert_array_equal(low["a"], np.minimum.accumulate(nested()["a"], 1))


def test_sorting():
    td = nested()
    values, indices = td.sort(0, descending=True)
    np.testing.assert_array_equal(values["a"], -np.sort(-td["a"], axis=0))
    np.testing.assert_array_equal(np.take_along_axis(td["a"], indices["a"], 0), values["a"])
    ties = TensorDict({"a": np.array([1, 0, 1, 0])}, batch_size=[4])
    np.testing.assert_array_equal(ties.argsort(0)["a"], [1, 3, 0, 2])
    np.testing.assert_array_equal(ties.argsort(0, descending=True)["a"], [0, 2, 1, 3])


def test_softmax():
    td = nested()
    out = td.softmax(1)["a"]
    np.testing.assert_allclose(out.sum(1), np.ones((4, 2)))
    np.testing.assert_allclose(np.log(out[:, 0] / out[:, 1]), td["a"][:, 0] - td["a"][:, 1])
    assert td.softmax(0, dtype="float32")["a"].dtype == np.float32
    large = TensorDict({"a": np.full(2, 1000, np.float32)}, batch_size=[2])
    np.testing.assert_array_equal(large.softmax(0)["a"], np.full(2, 0.5, np.float32))
    infinite = TensorDict({"a": np.array([[np.inf, -np.inf, -np.inf], [0, -np.inf, 0]])}, batch_size=[2, 3])
    np.testing.assert_array_equal(infinite.softmax(0)["a"], [[np.nan, np.nan, 0], [np.nan, np.nan, 1]])
    raises(IndexError, "Incompatible dim 2", td.softmax, 2)


def test_nan_to_num():
    td = TensorDict({"a": np.array([np.nan, np.inf, 1.0]), "s": "x"}).lock_()
    out = td.nan_to_num(nan=5, posinf=7)
    np.testing.assert_array_equal(out["a"], [5, 7, 1])
    assert out.is_locked


def test_of_all_entries_joined() -> None:
    td = TensorDict(a=[[1.0], [3.0]], b=[[2.0], [0.0]], batch_size=[2])
    values = td.cummax(0, reduce=True).values
    np.testing.assert_array_equal(values, [[1], [3], [3], [3]])
