"""`out=` of everything that has it: entries are written into, others created, nothing half written."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.cases import each_case, raises
from helpers.compared import assert_same
from helpers.trees import snapshot, unchanged

import lite
import lite.data
import lite.nn
from lite import LazyStackedTensorDict, TensorDict, lazy_stack, tensorclass

MASK = np.array([True, False, True])
INDEX = np.array([2, 0])

# What receives a result, and is no memory that it is written into.
RECEIVES = {
    "apply": "what the function returns takes the place of an entry, whatever its shape and dtype",
    "named_apply": "as apply",
    "load_memmap": "the entries are those of the files",
    "map": "chunks are assigned to `out`, see tests/processes/test_map.py",
}
ARRAYS = {"cat_from_tensordict", "stack_from_tensordict"}


def tree(lazy: bool = False, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    inner = TensorDict({"c": rng.normal(size=(3, 2)), "s": "x"}, [3])
    td = TensorDict(
        {"a": rng.normal(size=(3, 2)), "n": TensorDict({"b": rng.normal(size=3), "m": inner}, [3])}, [3]
    )
    return lazy_stack(list(td.unbind(0))) if lazy else td


# name -> the call; `out` is None for the plain result
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "norm": lambda td, out: td.norm(out=out),
    "logsumexp": lambda td, out: td.logsumexp(0, out=out),
    "clamp": lambda td, out: td.clamp(-0.5, 0.5, out=out),
    "clip": lambda td, out: td.clip(td, td + 1, out=out),
    "where": lambda td, out: td.where(MASK, tree(seed=9), out=out),
    "gather": lambda td, out: td.gather(0, INDEX, out=out),
    "stack": lambda td, out: TensorDict.stack([td, tree(seed=9)], 1, out=out),
    "cat": lambda td, out: TensorDict.cat([td, tree(seed=9)], out=out),
    "lazy_stack": lambda td, out: TensorDict.lazy_stack([td, tree(seed=9)], out=out),
    "maybe_dense_stack": lambda td, out: TensorDict.maybe_dense_stack([td, tree(seed=9)], out=out),
    "lite.where": lambda td, out: lite.where(MASK, td, 0.0, out=out),
    "lite.stack": lambda td, out: lite.stack([td, tree(seed=9)], out=out),
    "lite.cat": lambda td, out: lite.cat([td, tree(seed=9)], out=out),
    "lite.lazy_stack": lambda td, out: lite.lazy_stack([td, tree(seed=9)], 1, out=out),
    "lite.maybe_dense_stack": lambda td, out: lite.maybe_dense_stack([td, tree(seed=9)], 1, out=out),
    "lite.pad_sequence": lambda td, out: lite.pad_sequence([td, tree(seed=9)[:2]], out=out),
    "np.add": lambda td, out: np.add(td, 1.0, out=out),
    "np.add reflected": lambda td, out: np.add(1.0, td, out=out),
    "np.multiply": lambda td, out: np.multiply(td, tree(seed=9), out=out),
    "np.exp": lambda td, out: np.exp(td, out=out),
    "np.less": lambda td, out: np.less(td, 0.0, out=out),
    "np.clip": lambda td, out: np.clip(td, -0.5, 0.5, out=out),
    "np.matmul": lambda td, out: np.matmul(td.select("a"), np.eye(2), out=out),
    "np.stack": lambda td, out: np.stack([td, tree(seed=9)], out=out),
    "np.concatenate": lambda td, out: np.concatenate([td, tree(seed=9)], out=out),
}
# What refuses a locked `out` in the reference, where these replace entries.
UNLOCKED = {"norm", "logsumexp", "where", "lite.where"}
SAME_SHAPE = [
    "clamp", "clip", "where", "lite.where", "np.add", "np.add reflected", "np.multiply", "np.exp",
    "np.clip",
]  # fmt: skip


def _parameters(value: Any) -> Any:
    try:
        return inspect.signature(value).parameters
    except (TypeError, ValueError):
        return {}


def test_every_name_with_out_is_in_a_table() -> None:
    """A new operation with `out=` needs a case here, or a reason why it has none."""
    methods = {
        name
        for kind in (TensorDict, LazyStackedTensorDict, lite.nn.TensorDictParams, lite.TensorClass)
        for name in dir(kind)
        if not name.startswith("_") and "out" in _parameters(getattr(kind, name))
    }
    assert methods - set(RECEIVES) - ARRAYS == {name for name in CALLS if "." not in name}
    functions = {
        f"lite.{name}"
        for module in (lite, lite.data, lite.nn)
        for name in module.__all__
        if not inspect.isclass(getattr(module, name)) and "out" in _parameters(getattr(module, name))
    }
    assert functions == {name for name in CALLS if name.startswith("lite.")}


def arrays(td: Any) -> dict[Any, Any]:
    """The arrays at the leaves; those of the parts for a lazy stack."""
    if td._parts() is not None:
        return {
            (i, key): array for i, part in enumerate(td.tensordicts) for key, array in arrays(part).items()
        }
    found: dict[Any, Any] = {}
    for key in list(td.keys()):
        entry = td.get(key)
        if isinstance(entry, np.ndarray):
            found[key] = entry
        elif isinstance(entry, lite.TensorDictBase):
            found.update({(key, below): array for below, array in arrays(entry).items()})
    return found


def dense(value: Any) -> Any:
    return value.contiguous().clone()


@each_case(("lazy", "stacked"), [(False, True), (True, False)])
@each_case("name", CALLS)
def test_entries_are_written_into(name: str, lazy: bool, stacked: bool) -> None:
    call, td = CALLS[name], tree(lazy)
    expected = dense(call(td, None))
    out = expected.apply(np.zeros_like)
    if stacked and out.ndim:
        out = lazy_stack([part.clone() for part in out.unbind(0)])
    held = arrays(out)
    assert call(td, out) is out
    after = arrays(out)
    assert held.keys() == after.keys()
    assert all(held[key] is after[key] for key in held)
    assert_same(out, expected)


@each_case("drop", [["a", ("n", "m")], ["n"]])
@each_case("name", CALLS)
def test_entries_that_are_missing_are_created(name: str, drop: list[Any]) -> None:
    call, td = CALLS[name], tree()
    expected = dense(call(td, None))
    out = expected.apply(np.zeros_like).exclude(*drop)
    out["more"] = np.zeros((*out.batch_size, 7))
    held = arrays(out)
    assert call(td, out) is out
    after = arrays(out)
    assert all(held[key] is after[key] for key in held)
    assert_same(out.exclude("more"), expected)
    np.testing.assert_array_equal(out["more"], np.zeros((*out.batch_size, 7)))
    with unchanged(td):  # nothing that is new shares memory with what went in
        for array in after.values():
            array[...] = 0


@each_case("name", CALLS)
def test_what_does_not_fit_is_refused_and_nothing_written(name: str) -> None:
    call, td = CALLS[name], tree()
    expected = dense(call(td, None))
    zeros = expected.apply(np.zeros_like)
    last = list(expected.keys(True, True, is_leaf=lambda kind: kind is np.ndarray))[-1]
    shape, dtype = zeros[last].shape, zeros[last].dtype
    cases: list[tuple[Any, type[Exception]]] = [
        (zeros.clone().set(last, np.zeros((*shape, 1), dtype)), ValueError),
        (zeros.clone().set(last, np.broadcast_to(np.zeros((), dtype), shape)), ValueError),
        (TensorDict({}, (5, *expected.batch_size)), RuntimeError),
        (zeros.clone().set(last, TensorDict({}, expected.batch_size)), RuntimeError),
        ({}, TypeError),
        (np.zeros(3), TypeError),
    ]
    if dtype != np.bool_:
        cases.append((zeros.clone().set(last, np.zeros(shape, np.int32)), TypeError))
    for out, error in cases:
        if not isinstance(out, TensorDict):
            raises(error, "", call, td, out)
            continue
        lazy = [lazy_stack(list(out.unbind(0)))] if out.ndim and out.batch_size == expected.batch_size else []
        for target in (out, *lazy):
            before = snapshot(target)
            raises(error, "", call, td, target)
            assert snapshot(target) == before


@each_case("name", CALLS)
def test_a_locked_out_gets_no_entries(name: str) -> None:
    call, td = CALLS[name], tree()
    expected = dense(call(td, None))
    out = expected.apply(np.zeros_like)
    lacks = out.exclude("a").lock_()
    before = snapshot(lacks)
    raises(RuntimeError, "locked", lambda: call(td, lacks))
    assert snapshot(lacks) == before
    out.lock_()
    if name in UNLOCKED:
        raises(RuntimeError, "locked", lambda: call(td, out))
        assert not out["a"].any()
    else:
        assert call(td, out) is out
        assert_same(out, expected)


@each_case("name", SAME_SHAPE)
def test_out_may_be_the_input(name: str) -> None:
    call, td = CALLS[name], tree()
    expected = dense(call(td, None))
    held = arrays(td)
    assert call(td, td) is td
    assert all(held[key] is array for key, array in arrays(td).items())
    assert_same(td, expected)


@each_case("name", [name for name in SAME_SHAPE if name not in ("where", "np.multiply")])
def test_out_may_overlap_the_input(name: str) -> None:
    buffer = np.random.default_rng(0).normal(size=(4, 2))
    td, out = TensorDict({"a": buffer[:3]}, [3]), TensorDict({"a": buffer[1:]}, [3])
    call = CALLS[name]
    expected = dense(call(td, None))["a"]
    assert call(td, out) is out
    np.testing.assert_array_equal(buffer[1:], expected)


@tensorclass
class Pair:
    a: Any
    n: Any = None


def pair(td: Any) -> Any:
    return Pair(a=td["a"].copy(), n=td["n"].clone(), batch_size=td.batch_size)


@each_case("name", ["clamp", "where", "gather", "logsumexp", "np.add"])
def test_tensorclasses(name: str) -> None:
    call, td = CALLS[name], tree()
    expected = dense(call(td, None))
    zeros = expected.apply(np.zeros_like)
    cases = [(pair(td), pair(zeros)), (td, pair(zeros)), (pair(td), zeros)]
    for source, out in cases[: 2 if name == "np.add" else 3]:
        held = out.get("a")
        assert call(source, out) is out
        assert out.get("a") is held
        np.testing.assert_array_equal(held, expected["a"])


def test_several_outputs() -> None:
    td = TensorDict({"a": np.array([1.5, -2.25])}, [2])
    first, second = (td.apply(np.zeros_like) for _ in range(2))
    held = first["a"], second["a"]
    out = np.modf(td, out=(first, second))
    assert (out[0] is first, out[1] is second) == (True, True)
    np.testing.assert_array_equal(held, [[0.5, -0.25], [1, -2]])
    fraction, whole = np.modf(td, out=(None, second))
    assert whole is second
    np.testing.assert_array_equal(fraction["a"], [0.5, -0.25])


def test_casting_is_that_of_the_ufunc() -> None:
    td = TensorDict({"a": np.array([1.5, 2.5])}, [2])
    out = TensorDict({"a": np.zeros(2, np.int64)}, [2])
    raises(TypeError, "", lambda: np.add(td, 1, out=out))
    np.add(td, 1, out=out, casting="unsafe")
    np.testing.assert_array_equal(out["a"], [2, 3])


def test_arrays_receive_joined_results() -> None:
    td = tree()
    out = np.zeros(())
    assert td.norm(reduce=True, out=out) is out
    np.testing.assert_array_equal(out, td.norm(reduce=True))
    raises(ValueError, "out has shape", lambda: td.norm(reduce=True, out=np.zeros(3)))
    raises(TypeError, "must be an array", lambda: td.norm(reduce=True, out=TensorDict({})))
    flat = TensorDict({"a": np.ones((3, 2)), "b": np.zeros((3, 2))}, [3])
    for name, shape in (("cat_from_tensordict", (6, 2)), ("stack_from_tensordict", (2, 3, 2))):
        joined = np.zeros(shape)
        assert getattr(flat, name)(out=joined) is joined
        np.testing.assert_array_equal(joined, getattr(flat, name)())
        raises(ValueError, "", getattr(flat, name), out=np.zeros(5))
