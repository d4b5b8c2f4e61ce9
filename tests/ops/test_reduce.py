"""Reductions over batch dimensions, features, and everything at once, against NumPy."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import unchanged

from lite import LazyStackedTensorDict, TensorDict, lazy_stack

SIMPLE = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "nansum": np.nansum, "nanmean": np.nanmean,
    "amax": np.max, "amin": np.min, "argmax": np.argmax, "argmin": np.argmin,
}  # fmt: skip


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def nested() -> TensorDict:
    inner = TensorDict({"b": floats(4, 3, 5, 1)}, batch_size=[4, 3, 5])
    return TensorDict({"a": floats(4, 3, 2), "n": inner, "s": "x"}, batch_size=[4, 3], names=["t", "u"])


@each_case("name", SIMPLE)
def test_over_everything(name):
    td = nested()
    with unchanged(td):
        out = getattr(td, name)()
    assert out.batch_size == out["n"].batch_size == ()
    np.testing.assert_allclose(out["a"], SIMPLE[name](td["a"]))
    np.testing.assert_allclose(out["n", "b"], SIMPLE[name](td["n", "b"]))
    assert out["s"] == "x"


@each_case("name", SIMPLE)
@each_case("keepdim", [False, True])
@each_case("dim", [0, -1])
def test_over_one_dimension(name, dim, keepdim):
    td = nested()
    out = getattr(td, name)(dim, keepdim)
    np.testing.assert_allclose(out["a"], SIMPLE[name](td["a"], axis=dim % 2, keepdims=keepdim))
    np.testing.assert_allclose(out["n", "b"], SIMPLE[name](td["n", "b"], axis=dim % 2, keepdims=keepdim))
    assert out.batch_size == np.sum(np.zeros((4, 3)), axis=dim, keepdims=keepdim).shape
    assert out["n"].batch_size == (*out.batch_size, 5)
    assert out.names == (["t", "u"] if keepdim else [["u"], ["t"]][dim % 2])
    assert out.get("s").batch_size == out.batch_size


@each_case("name", SIMPLE)
def test_over_features(name):
    td = nested()
    out = getattr(td, name)("feature")
    np.testing.assert_allclose(out["a"], SIMPLE[name](td["a"], axis=-1))
    assert out["n", "b"].shape == (4, 3, 5)
    assert (out.batch_size, out.names) == ((4, 3), ["t", "u"])


def test_empty_means_are_nan_and_warn_not():
    td = TensorDict({"a": np.zeros((0, 2), np.float32)}, batch_size=[0])
    for out in (td.mean(0), td.nanmean(0), td.var(0)):
        np.testing.assert_array_equal(out["a"], np.full(2, np.nan, np.float32))
    raises(ValueError, "no identity", lambda: td.amax(0))


def test_max_and_min_give_values_and_indices():
    td = nested()
    values, indices = td.max(1)
    np.testing.assert_array_equal(values["a"], td["a"].max(1))
    np.testing.assert_array_equal(indices["n", "b"], td["n", "b"].argmax(1))
    assert indices.names == ["t"]
    assert td.min(0, return_indices=False)["a"].shape == (3, 2)
    assert isinstance(td.max(), TensorDict)
    assert td.max("feature").indices["a"].shape == (4, 3)


def test_reduce_joins_the_entries():
    td = TensorDict({"a": floats(4, 2), "n": {"b": floats(4, 2)}, "s": "x"}, batch_size=[4])
    both = np.concatenate([td["a"], td["n", "b"]], 1)
    np.testing.assert_allclose(td.sum(reduce=True), both.sum())
    np.testing.assert_allclose(td.mean("feature", reduce=True), both.mean(1))
    stacked = np.concatenate([td["a"], td["n", "b"]], 0)
    np.testing.assert_allclose(td.std(0, reduce=True), stacked.std(0, ddof=1))
    np.testing.assert_array_equal(td.max(0, reduce=True).indices, stacked.argmax(0))
    np.testing.assert_allclose(td.quantile(0.3, reduce=True), np.quantile(both, 0.3))
    raises(ValueError, "at least one array", lambda: TensorDict(s="x").sum(reduce=True))
    with pytest.raises(RuntimeError, match="do not fit"):
        TensorDict({"a": floats(4, 2), "b": floats(4)}, batch_size=[4]).sum(0, reduce=True)


def test_key_transform():
    out = nested().sum(0, key_transform=lambda key: f"sum_{key}")
    assert set(out.keys(True, True)) == {"sum_a", ("sum_n", "sum_b")}
    np.testing.assert_array_equal(out["sum_n", "sum_b"], nested()["n", "b"].sum(0))
    out = nested().mean(key_transform=lambda key: (key, "mean"))
    assert set(out.keys(True, True)) == {("a", "mean"), ("n", "mean", "b", "mean")}


def test_quantiles():
    td = nested()
    np.testing.assert_allclose(td.quantile(0.25, 0)["a"], np.quantile(td["a"], 0.25, axis=0))
    out = td.quantile([0.1, 0.5, 0.9], 1)
    assert (out.batch_size, out.names, out["n"].batch_size) == ((3, 4), [None, "t"], (3, 4, 5))
    np.testing.assert_allclose(out["a"], np.quantile(td["a"], [0.1, 0.5, 0.9], axis=1))
    lower = td.quantile(0.4, "feature", interpolation="lower")
    np.testing.assert_allclose(lower["a"], td["a"].min(-1))
    raises(ValueError, "1-d", lambda: td.quantile(np.zeros((2, 2))))


def test_logsumexp_does_not_overflow():
    td = TensorDict({"a": np.array([[1e4, 1e4], [-np.inf, -np.inf]])}, batch_size=[2, 2])
    np.testing.assert_allclose(td.logsumexp(1)["a"], [1e4 + np.log(2), -np.inf])
    assert td.logsumexp().batch_size == ()
    out = td.logsumexp(0, keepdim=True)
    assert out.batch_size == (1, 2)
    raises(ValueError, "incompatible", lambda: td.logsumexp(2))


def test_all_and_any():
    td = TensorDict({"a": np.array([[True, False], [True, True]]), "l": ["u", "v"]}, batch_size=[2])
    assert (td.all(), td.any()) == (False, True)
    np.testing.assert_array_equal(td.all(0)["a"], [True, False])
    np.testing.assert_array_equal(td.all("feature")["a"], [False, True])
    np.testing.assert_array_equal(td.any(-1)["a"], [True, True])
    assert td.any(0, keepdim=True).batch_size == (1,)
    assert (TensorDict().all(), TensorDict().any()) == (True, False)
    nested = TensorDict({"n": {"b": [True, True]}, "s": "x"}, batch_size=[2]).all(dim=0)
    assert (nested.batch_size, nested["n", "b"].item(), nested["s"]) == ((), True, "x")
    raises(RuntimeError, r"smaller than.*dim=1|dim=1.*smaller than", lambda: td.all(1))


def test_lazy_stacks_become_dense():
    parts = [TensorDict({"a": floats(3, 2) + i, "n": {"b": floats(3)}}, batch_size=[3]) for i in range(2)]
    stack = lazy_stack(parts)
    out = stack.mean(0)
    np.testing.assert_allclose(out["a"], stack["a"].mean(0))
    assert type(out) is TensorDict
    inside = TensorDict({"l": stack}, batch_size=[2, 3])
    np.testing.assert_allclose(inside.sum(1)["l", "a"], stack["a"].sum(1))
    ragged = LazyStackedTensorDict(TensorDict(a=floats(2)), TensorDict(a=floats(3)))
    raises(RuntimeError, "sum requires", lambda: ragged.sum(0))
    np.testing.assert_allclose(ragged.sum(reduce=True), floats(2).sum() + floats(3).sum())


@each_case(("dim", "error"), [(2, IndexError), (-3, IndexError), ("batch", TypeError), (1.5, TypeError)])
def test_bad_dims(dim, error):
    raises(error, "", lambda: nested().sum(dim))
    raises(ValueError, "twice", lambda: nested().sum((0, -2)))
    raises(TypeError, "keepdim", lambda: nested().sum("feature", keepdim=True))
