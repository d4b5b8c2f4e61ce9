"""out= of everything that has it, and operands whose batch ends elsewhere, against tensordict."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case
from parity.compare import LITE, TORCH, Side, assert_outcomes, outcome, plain

import lite

pytestmark = pytest.mark.filterwarnings("ignore")


MASK = np.array([True, False, True])
INDEX = np.array([2, 0])


def tree(s, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(size=shape).astype(dtype) for shape in ((3, 2), (3,)))
    return s.build({"batch_size": (3,), "entries": {"a": a, "n": {"batch_size": (3,), "entries": {"b": b}}}})


def stacked(s, seed=0):
    return s.lib.lazy_stack(list(tree(s, seed).unbind(0)))


Call = Callable[[Side, Any, Any], Any]
CALLS = {
    "logsumexp": lambda s, td, out: td.logsumexp(dim=0, out=out),
    "logsumexp, kept": lambda s, td, out: td.logsumexp(dim=0, keepdim=True, out=out),
    "logsumexp of everything": lambda s, td, out: td.logsumexp(out=out),
    "where": lambda s, td, out: td.where(s.leaf(MASK), tree(s, 9), out=out),
    "gather": lambda s, td, out: td.gather(0, s.leaf(INDEX), out=out),
    "stack": lambda s, td, out: s.lib.TensorDict.stack([td, tree(s, 9)], out=out),
    "stack, last": lambda s, td, out: s.lib.TensorDict.stack([td, tree(s, 9)], 1, out=out),
    "cat": lambda s, td, out: s.lib.TensorDict.cat([td, tree(s, 9)], out=out),
    "lazy_stack": lambda s, td, out: s.lib.lazy_stack([td, tree(s, 9)], out=out),
    "maybe_dense_stack": lambda s, td, out: s.lib.maybe_dense_stack([td, tree(s, 9)], out=out),
    "pad_sequence": lambda s, td, out: s.lib.pad_sequence([td, tree(s, 9)[:2]], out=out),
    "apply": lambda s, td, out: td.apply(lambda x: x + 1, out=out),
}
# Which have no form here, and why.
WITHOUT = {
    "clamp": "torch's clamp has no `out` as a method, so that of tensordict always raises",
    "norm": "tensordict compares a list with a batch size, and so always raises",
    "named_apply": "`out` is ignored there",
    "map": "chunks are assigned",
    "load_memmap": "the entries are those of the files",
    "to_mds": "a folder",
    "cat_from_tensordict": "see test_argument_conflicts",
    "stack_from_tensordict": "see test_argument_conflicts",
}
# There entries of `out` are replaced, here they are written into.
REPLACED = {"where"}
RECEIVED = {"apply"}


def test_every_method_with_out_is_compared():
    def parameters(value):
        try:
            return inspect.signature(value).parameters
        except (TypeError, ValueError):
            return {}

    there = {
        name
        for kind in (tensordict.TensorDict, tensordict.LazyStackedTensorDict)
        for name in dir(kind)
        if not name.startswith("_") and "out" in parameters(getattr(kind, name))
    }
    assert there <= {name.split(",")[0].split(" ")[0] for name in CALLS} | set(WITHOUT)


def address(leaf):
    return leaf.data_ptr() if isinstance(leaf, torch.Tensor) else leaf.ctypes.data


def addresses(td):
    return {key: address(td[key]) for key in td.keys(True, True)}


def zeros(s, td):
    return s.build(_zeroed(plain(td.contiguous())))


def _zeroed(content):
    entries = {
        key: _zeroed(entry) if isinstance(entry, dict) else np.zeros_like(entry)
        for key, entry in content["entries"].items()
    }
    return {"batch_size": content["batch_size"], "entries": entries}


@each_case("lazy", [False, True])
@each_case("name", CALLS)
def test_values_and_memory(name, lazy):
    if lazy and name in ("apply", "logsumexp, kept", "logsumexp of everything", "pad_sequence"):
        return  # stacks have no such form there

    def run(s, lacks):
        td = stacked(s) if lazy else tree(s)
        out = zeros(s, CALLS[name](s, td, None)).exclude(*lacks)
        before = addresses(out)
        got = CALLS[name](s, td, out)
        after = addresses(out)
        return out, got is out, all(after[key] == place for key, place in before.items())

    mine, theirs = run(LITE, []), run(TORCH, [])
    assert_outcomes((mine[0], None), (theirs[0], None), name)
    assert mine[1] == theirs[1] == True  # noqa: E712
    assert mine[2] == (name not in RECEIVED)
    assert theirs[2] == (name not in RECEIVED | REPLACED)
    # What is missing is created; there it is created, left out, or an error.
    whole = run(LITE, [])[0]
    for lacks in (["a"], [("n", "b")], ["n"]):
        assert_outcomes((run(LITE, lacks)[0], None), (whole, None), f"{name} without {lacks}")


OUTS = {
    "another batch size": lambda s, out: s.build({"batch_size": (7, 7), "entries": {}}),
    "integers": lambda s, out: out.apply(
        lambda x: s.leaf(np.zeros(tuple(x.shape), np.int32)), batch_size=out.batch_size
    ),
    "locked, without an entry": lambda s, out: out.exclude("a").lock_(),
    "no TensorDict": lambda s, out: [],
}
# Calls that tensordict takes: it writes less than the result, or something that does not fit.
TAKEN = {
    ("where", "another batch size"),
    ("where", "integers"),
    ("apply", "integers"),
    ("pad_sequence", "integers"),
    *((name, "locked, without an entry") for name in ("stack", "stack, last", "cat", "lazy_stack")),
    *((name, "locked, without an entry") for name in ("maybe_dense_stack",)),
}


@each_case("kind", OUTS)
@each_case("name", CALLS)
def test_what_is_refused_there_is_refused(name, kind):
    def run(s):
        td = tree(s)
        return CALLS[name](s, td, OUTS[kind](s, zeros(s, CALLS[name](s, td, None))))

    mine, theirs = (outcome(lambda side=side: run(side)) for side in (LITE, TORCH))
    if (name, kind) in TAKEN:
        assert theirs[1] is None
        assert (mine[1] is None) == (name == "apply")
    else:
        assert theirs[1] is not None
        assert mine[1] is not None


def test_lite_has_out_where_tensordict_has():
    for name in {name.split(",")[0].split(" ")[0] for name in CALLS} | set(WITHOUT) - {"to_mds"}:
        fn = getattr(lite.TensorDict, name, None) or getattr(lite, name)
        assert "out" in inspect.signature(fn).parameters


OPERATIONS = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y,
    "==": lambda x, y: x == y, "!=": lambda x, y: x != y, "<": lambda x, y: x < y,
    ">=": lambda x, y: x >= y, "maximum": lambda x, y: x.maximum(y), "minimum": lambda x, y: x.minimum(y),
    "pow": lambda x, y: x.pow(y), "sub": lambda x, y: x.sub(y), "lerp": lambda x, y: x.lerp(y, 0.5),
    "lerp between trees": lambda x, y: x.lerp(y, y), "addcmul": lambda x, y: x.addcmul(y, y),
    "addcdiv": lambda x, y: x.addcdiv(y, y), "clamp": lambda x, y: x.clamp(y, y + 1),
    "add_": lambda x, y: x.add_(y), "mul_": lambda x, y: x.mul_(y), "+=": lambda x, y: x.__iadd__(y),
}  # fmt: skip


def tree_operands(s, seed, size):
    rng = np.random.default_rng(seed)
    a, b, c = (rng.uniform(1, 2, size=shape).astype("float32") for shape in ((3, 2), (3, 2, 4), (3, 2)))
    nested = {"batch_size": size, "entries": {"b": b, "m": {"batch_size": size, "entries": {"c": c}}}}
    return s.build({"batch_size": size, "entries": {"a": a, "n": nested}})


@each_case("name", OPERATIONS)
@each_case("size", [(), (3,), (3, 2)])
def test_leaves_of_equal_shape(size, name):
    def run(s):
        return OPERATIONS[name](tree_operands(s, 0, size), tree_operands(s, 1, ()))

    mine, theirs = (outcome(lambda side=side: run(side)) for side in (LITE, TORCH))
    assert theirs[1] is None
    assert_outcomes(mine, theirs, name)


@each_case("name", OPERATIONS)
def test_other_leaves_beside_them(name):
    def run(s):
        rows = np.arange(1, 7, dtype="float32").reshape(3, 2)
        first = {"a": rows, "b": rows[:, 0], "c": rows[:, :1]}
        second = {"a": rows * 2, "b": np.float32(3) + np.zeros((), "float32"), "c": rows[0, :1]}
        x, y = (s.build({"batch_size": n, "entries": e}) for n, e in (((3,), first), ((), second)))
        return OPERATIONS[name](x, y)

    mine, theirs = (outcome(lambda side=side: run(side)) for side in (LITE, TORCH))
    assert theirs[1] is None
    assert_outcomes(mine, theirs, name)


@each_case("payload", [1, "x", 2.5])
def test_what_comes_back_from_a_dict(payload):
    def run(s):
        td = s.build({"batch_size": (3,), "entries": {"a": np.ones((3, 2), "float32")}})
        td["s"] = s.lib.NonTensorData(payload, batch_size=[3])
        back = s.lib.TensorDict.from_dict(td.to_dict(), batch_size=[])
        return (td == back).select("a")

    mine, theirs = (outcome(lambda side=side: run(side)) for side in (LITE, TORCH))
    assert theirs[1] is None
    assert_outcomes(mine, theirs, repr(payload))


def test_arrays_beside_objects():
    def run(s):
        array = s.build({"batch_size": (), "entries": {"s": np.ones(2, "float32")}})
        payload = s.lib.TensorDict(s="x")
        return [sorted((x == y)["s"].keys()) for x, y in ((array, payload), (payload, array))]

    assert run(LITE) == run(TORCH) == [[], []]
