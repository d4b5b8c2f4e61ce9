"""Arguments that are seldom given, exclude each other or depend on each other, against tensordict."""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import make_dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas
import pytest
import tensordict
import torch
from helpers.cases import each_case
from parity.compare import LITE, TORCH, Side, assert_outcomes, compare, outcome

import lite

pytestmark = pytest.mark.filterwarnings("ignore")


def tree(n=3, scale=1):
    inner = {"batch_size": (n,), "entries": {"b": np.arange(2.0 * n).reshape(n, 2) * scale, "s": "text"}}
    return {"batch_size": (n,), "entries": {"a": np.arange(1, n + 1) * scale, "n": inner}, "names": None}


def stacked(side, fn, **options):
    parts = [side.build(tree(3, scale)) for scale in (1.0, 2.0)]
    return getattr(side.lib, fn)(parts, 1, **options)


def into(side, fn):
    out = stacked(side, "stack").apply(lambda x: x * 0)
    held = out["n", "b"]
    given = stacked(side, fn, out=out)
    assert given is out
    assert out["n", "b"] is held
    return out.exclude(("n", "s"))  # objects are not written by tensordict


def shared(side):
    td = side.build(tree()).share_memory_()
    return [td.is_shared(), td.is_locked, td[0].is_shared(), td["n"].is_shared(), (td + 1).is_shared(), td]


def chosen_into(side, keys, other, **options):
    """`where` of two TensorDicts with these keys into one that has the first of them, or none."""
    td, second = (side.build(tree(3, scale)).exclude(("n", "s")) for scale in (1.0, 2.0))
    out = side.build(tree(3, 0.0)).select(*keys[:1]) if options.pop("filled", False) else None
    out = side.lib.TensorDict(batch_size=[3]) if out is None else out
    mask = side.leaf(np.array([True, False, True]))
    result = td.select(*keys).where(mask, second.select(*other), out=out, **options)
    assert result is out
    return out


ACTIONS = {
    "where into an empty out": lambda s: chosen_into(s, ["a", "n"], ["a", "n"]),
    "where into an out that lacks a key": lambda s: chosen_into(s, ["a", "n"], ["a", "n"], filled=True),
    "where with a pad into an empty out": lambda s: chosen_into(s, ["a"], ["a", "n"], pad=1.0),
    "where with a pad into an out": lambda s: chosen_into(s, ["a", "n"], ["a"], pad=1.0, filled=True),
    "where with a pad for bools and integers": lambda s: s.lib.TensorDict({"a": s.leaf(np.arange(3))},
        [3]).where(s.leaf(np.array([True, False, True])),
        s.lib.TensorDict({"b": s.leaf(np.array([True, False, True]))}, [3]), pad=1.5),
    "where without a pad into an out": lambda s: chosen_into(s, ["a", "n"], ["a"], filled=True),
    "roll in place": lambda s: s.build(tree()).roll(1, 0, inplace=True).exclude(("n", "s")),
    "rsub": lambda s: s.build(tree()).select("a").rsub(s.build(tree(3, 5.0)).select("a")),
    "add positional alpha": lambda s: s.build(tree()).exclude(("n", "s")).sub_(1.0, 3.0),
    "clamp_min default": lambda s: s.build(tree()).select("a").clamp_min(s.build(tree()).select("a"),
        None),
    "select as tensordict": lambda s: s.build(tree()).select("a", as_tensordict=True),
    "split_keys keeps the tree": lambda s: [
        sorted(map(str, part.keys(True)))
        for part in s.build(tree()).exclude(("n", "s")).split_keys(["a"], [("n", "b")], reproduce_struct=True)
    ],
    "split_keys": lambda s: [
        sorted(map(str, part.keys(True)))
        for part in s.build(tree()).split_keys(["a"], [("n", "b"), ("n", "s")])
    ],
    "view as a dtype": lambda s: s.build(tree(4)).select("a").view(s.leaf(np.zeros(1)).dtype),
    "view as a smaller dtype": lambda s: (
        s.build(tree(4)).select("a").view(s.leaf(np.zeros(1, "int32")).dtype, batch_size=())
    ),
    "view as a dtype that does not fit": lambda s: s.build(tree(4)).view(s.leaf(np.zeros(1, "int32")).dtype),
    "stack into": lambda s: into(s, "stack"),
    "lazy_stack into": lambda s: into(s, "lazy_stack"),
    "maybe_dense_stack into": lambda s: into(s, "maybe_dense_stack"),
    "lazy_stack of another size into": lambda s: stacked(s, "lazy_stack", out=s.build(tree())),
    "name of the stack dimension": lambda s: (
        s.lib.LazyStackedTensorDict(
            *[s.build(tree()) for _ in range(2)], stack_dim=1, stack_dim_name="t"
        ).names
    ),
    "batch size of a stack": lambda s: (s.lib.LazyStackedTensorDict(s.build(tree()),
        batch_size=(1, 3)).batch_size == (1, 3)),
    "wrong batch size of a stack": lambda s: s.lib.LazyStackedTensorDict(s.build(tree()), batch_size=(4,)),
    "lazy from_dict": lambda s: s.lib.LazyStackedTensorDict.from_dict(
        [{"a": s.leaf(np.ones(n))} for n in (2, 2)], auto_batch_size=True, stack_dim_name="t", stack_dim=1
    ),
    "lazy from_dict of a dict": lambda s: s.lib.LazyStackedTensorDict.from_dict(
        {"0": {"a": s.leaf(np.ones(2))}, "1": {"a": s.leaf(np.zeros(2))}}
    ),
    "lazy from_dict with both names": lambda s: s.lib.LazyStackedTensorDict.from_dict([{}],
        stack_dim_name="t", names=["t"]),
    "auto_batch_size_": lambda s: s.build(tree()).auto_batch_size_(),
    "another batch size": lambda s: (td := s.build(tree()), setattr(td, "batch_size", []), td)[2],
    "a wrong batch size": lambda s: setattr(s.build(tree()), "batch_size", [7]),
    "new_zeros": lambda s: s.build(tree()).select("a").new_zeros(2),
    "named_apply": lambda s: s.build(tree()).named_apply(lambda k, x: x if "a" in k else None,
        nested_keys=True),
    "apply to nothing": lambda s: s.build(tree()).apply(lambda x: None),
    "apply to nothing, filtered": lambda s: s.build(tree()).apply(lambda x: None, filter_empty=True),
    "clamp": lambda s: s.build(tree()).select("a").clamp(1, 2),
    "isnan": lambda s: s.build(tree()).select("a").isnan(),
    "not": lambda s: ~s.build(tree()).select("a").bool(),
    "power": lambda s: s.build(tree()).select("a") ** 2,
    "from a number": lambda s: 2.0 - s.build(tree(3, 1.0)).select("a"),
    "with rows": lambda s: s.build(tree()).select("a") + s.leaf(np.arange(3.0)),
    "fromkeys": lambda s: s.lib.fromkeys(["a", ("n", "b")], 3),
    "requires_grad": lambda s: s.build(tree()).requires_grad,
    "shared memory": shared,
    "shared memory of lazy stacks": lambda s: stacked(s, "lazy_stack").share_memory_().is_shared(),
    "shared memory of nothing": lambda s: s.lib.TensorDict({}, [2]).share_memory_().is_locked,
    "assert_close": lambda s: s.lib.assert_allclose_td(s.build(tree()), s.build(tree(3, 2.0))),
    "is_tensorclass": lambda s: s.lib.is_tensorclass(s.lib.TensorDict),
    "defaults": lambda s: s.lib.get_defaults_to_none(),
}  # fmt: skip


@each_case("name", sorted(ACTIONS))
def test_same(name):
    compare(ACTIONS[name], name)


def test_where_takes_the_batch_size_of_the_result():
    td, out = LITE.build(tree()), LITE.build(tree(1))
    mask = np.array([True, False, True])
    assert td.where(mask, 0, out=out, update_batch_size=True) is out
    expected = TORCH.build(tree()).exclude(("n", "s")).where(torch.from_numpy(mask), 0)
    assert out.batch_size == tuple(expected.batch_size)
    for key in ("a", ("n", "b")):
        np.testing.assert_array_equal(out[key], expected[key].numpy())


@each_case(("seed", "dim"), enumerate([0, 1, -1, 2]))
def test_rows(seed, dim):
    rng = np.random.default_rng(seed)
    left, right = ({"batch_size": (3, 3), "entries": {"a": rng.integers(0, 2, (3, 3))}} for _ in range(2))
    right["entries"]["a"][0] = left["entries"]["a"][1]

    def isin(side):
        return side.lib.utils.isin if side is TORCH else lite.isin

    def unique(side):
        return side.lib.utils.remove_duplicates if side is TORCH else lite.remove_duplicates

    for action in (
        lambda s: isin(s)(s.build(left), s.build(right), "a", dim),
        lambda s: unique(s)(s.build(left), "a", dim),
        lambda s: list(unique(s)(s.build(left), "a", dim, return_indices=True)),
        lambda s: unique(s)(s.build(left), "q", dim),
    ):
        compare(action, f"dim {dim}")


def test_frames():
    frame = pandas.DataFrame(
        {
            "n.i": [3, 1, 2],
            "n.f": [0.5, 1, 2],
            "flag": [True, False, True],
            "kind": pandas.Categorical(["b", "a", "b"]),
            "time": pandas.to_datetime(["1970-01-01", "1970-01-02", "1999-01-03"]),
        }
    )
    mine, theirs = (lib.from_pandas(frame, separator=".") for lib in (lite, tensordict))
    assert_outcomes((mine, None), (theirs, None), "from_pandas")
    for separator in (".", "/"):
        pandas.testing.assert_frame_equal(
            mine.to_pandas(separator=separator), theirs.to_pandas(separator=separator)
        )
    for lib in (lite, tensordict):
        with pytest.raises(ValueError, match="separator"):
            lib.from_pandas(frame, separator=".").to_pandas()


def test_parquet_files_of_both(tmp_path):
    mine, theirs = (side.build(tree()).exclude("n") for side in (LITE, TORCH))
    mine.to_parquet(tmp_path / "mine")
    theirs.to_parquet(tmp_path / "theirs")
    for name in ("mine", "theirs"):
        pair = [lib.from_parquet(tmp_path / name) for lib in (lite, tensordict)]
        assert_outcomes((pair[0], None), (pair[1], None), name)


@each_case("name", ["sum", "type", "keys", "shape", "batch_size", "is_locked", "data", "value", "x"])
@each_case("shadow", [False, True])
def test_field_names_of_tensorclasses(name, shadow):
    if shadow and name in ("shape", "batch_size"):
        return  # arguments of the constructor and what follows from them are never fields of lite's

    def define(lib):
        made = type("Made", (), {"__annotations__": {name: object}})
        return lib.tensorclass(made, shadow=shadow).__name__ if shadow else lib.tensorclass(made).__name__

    mine, theirs = (outcome(lambda lib=lib: define(lib)) for lib in (lite, tensordict))
    assert_outcomes(mine, theirs, name)


def test_metadata_stays_one_object():
    def stacks(lib):
        one, other = lib.MetaData(("m", 1)), lib.MetaData(("cm", 2))
        same = lib.stack([lib.TensorDict(u=one), lib.TensorDict(u=one)])
        differ = lib.stack([lib.TensorDict(u=one), lib.TensorDict(u=other)])
        kept = same.get("u")
        return [
            type(kept).__name__, tuple(kept.batch_size), kept.data, same[0]["u"], differ.get("u").tolist(),
        ]  # fmt: skip

    assert stacks(lite) == stacks(tensordict)


MASK = np.arange(12).reshape(3, 4) % 3 > 0
ROWS = np.array([[0, 1, 2, 0], [1, 1, 1, 1]])
Call = Callable[[Side, Any], Any]


def grid(s, size=(3, 4)):
    n = int(np.prod(size))
    rows = np.arange(n, dtype="float32").reshape(size)
    nested = {"batch_size": size, "entries": {"b": rows}}
    return s.build({"batch_size": size, "entries": {"a": np.stack([rows, rows + 0.5], -1), "n": nested}})


def blank(s, size):
    return s.build({"batch_size": size, "entries": {}})


def float64(s):
    return torch.float64 if s is TORCH else np.dtype("float64")


def locked(fn):
    return lambda s, td: fn(s, td.lock_())


# Each is called with a dense grid and with a lazy stack of its rows.
CALLS = {
    "gather with out and inplace": lambda s, td: td.gather(0, s.leaf(ROWS), out=grid(s, (2, 4)),
        inplace=True),
    "gather inplace": lambda s, td: td.gather(0, s.leaf(ROWS), inplace=True),
    "gather inplace, locked": locked(lambda s, td: td.gather(0, s.leaf(ROWS), inplace=True)),
    "gather by rows": lambda s, td: td.gather(0, s.leaf(np.array([2, 0, 1, 2])))["a"],
    "gather by a column": lambda s, td: td.gather(1, s.leaf(np.array([[2, 0]])))["a"],
    "gather by too few": lambda s, td: td.gather(0, s.leaf(np.array([[1, 2]]))),
    "gather by nothing": lambda s, td: td.gather(0, s.leaf(np.zeros((0, 4), int))),
    "reshape twice": lambda s, td: td.reshape(12, size=(12,)),
    "reshape by keyword": lambda s, td: td.reshape(size=(12,)),
    "reshape by keyword, inferred": lambda s, td: td.reshape(size=[2, -1]),
    "reshape by another keyword": lambda s, td: td.reshape(shape=(12,)),
    "reshape inplace": lambda s, td: td.reshape(12, inplace=True),
    "reshape inplace by keyword": lambda s, td: td.reshape(size=(12,), inplace=True),
    "reshape inplace, locked": locked(lambda s, td: td.reshape(12, inplace=True)),
    "view by keyword": lambda s, td: td.view(size=(12,)),
    "view with a batch size": lambda s, td: td.view(12, batch_size=(3,)),
    "expand twice": lambda s, td: td.expand(2, 3, 4, size=(2, 3, 4)),
    "expand by keyword": lambda s, td: td.expand(size=(2, 3, 4)),
    "permute twice": lambda s, td: td.permute(1, 0, dims=(1, 0)),
    "permute by keyword": lambda s, td: td.permute(dims=(1, 0)),
    "flip by keyword": lambda s, td: td.flip(dims=(0,)),
    "broadcast_to by keyword": lambda s, td: td.broadcast_to(shape=(2, 3, 4)),
    "unsqueeze by keyword": lambda s, td: td.unsqueeze(dim=1),
    "squeeze by keyword": lambda s, td: td.squeeze(dim=1),
    "transpose by keyword": lambda s, td: td.transpose(dim0=0, dim1=1),
    "flatten by keyword": lambda s, td: td.flatten(start_dim=0, end_dim=1),
    "flatten of None": lambda s, td: td.flatten(start_dim=None, end_dim=None),
    "flatten inplace": lambda s, td: td.flatten(0, 1, inplace=True),
    "flatten inplace, locked": locked(lambda s, td: td.flatten(0, 1, inplace=True)),
    "unflatten by keyword": lambda s, td: td.unflatten(dim=1, unflattened_size=(2, 2)),
    "unflatten inplace": lambda s, td: td.unflatten(1, (2, 2), inplace=True),
    "repeat inplace": lambda s, td: td.repeat(1, 2, inplace=True),
    "repeat inplace, locked": locked(lambda s, td: td.repeat(1, 2, inplace=True)),
    "repeat_interleave inplace": lambda s, td: td.repeat_interleave(2, dim=1, inplace=True),
    "repeat_interleave inplace of everything": lambda s, td: td.repeat_interleave(2, inplace=True),
    "repeat_interleave to a size": lambda s, td: td.repeat_interleave(2, dim=1, output_size=8),
    "repeat_interleave to another size": lambda s, td: td.repeat_interleave(s.leaf(np.array([1, 1, 1, 1])),
        dim=1, output_size=9),
    "roll by too many": lambda s, td: td.roll((1, 2), 0),
    "roll by several without dims": lambda s, td: td.roll((1, 2)),
    "contiguous inplace": lambda s, td: td.contiguous(inplace=True),
    "contiguous inplace, locked": locked(lambda s, td: td.contiguous(inplace=True)),
    "contiguous canonical": lambda s, td: td.contiguous(canonical=True),
    "to a dtype twice": lambda s, td: td.to(float64(s), dtype=float64(s)),
    "to a device twice": lambda s, td: td.to("cpu", device="cpu"),
    "to a device and another": lambda s, td: td.to("cpu", other=grid(s)),
    "to another": lambda s, td: td.to(other=grid(s).to(float64(s))),
    "to a dtype inplace": lambda s, td: td.to(float64(s), inplace=True),
    "to a dtype inplace, locked": locked(lambda s, td: td.to(float64(s), inplace=True)),
    "to a device inplace, locked": locked(lambda s, td: td.to("cpu", inplace=True)),
    "to a batch size": lambda s, td: td.to(batch_size=(3,)),
    "to a dtype and batch size": lambda s, td: td.to(float64(s), batch_size=(3,)),
    "to a device with threads": lambda s, td: td.to("cpu", num_threads=2),
    "to an unknown argument": lambda s, td: td.to("cpu", foo=2),
    "to nothing": lambda s, td: td.to(),
    "to a numbered CPU": lambda s, td: td.to("cpu:0"),
    "clamp one": lambda s, td: td.clamp(1.0),
    "clamp the other": lambda s, td: td.clamp(max=1.0),
    "clamp between trees": lambda s, td: td.clamp(grid(s), grid(s) * 2),
    "apply with out and a batch size": lambda s, td: td.apply(lambda x: x, batch_size=(3,), out=grid(s)),
    "apply with out and a device": lambda s, td: td.apply(lambda x: x, device="cpu", out=grid(s)),
    "apply inplace with a batch size": lambda s, td: td.apply(lambda x: x, batch_size=(3,), inplace=True),
    "apply inplace with names": lambda s, td: td.apply(lambda x: x, names=["x", "y"], inplace=True),
    "apply inplace with a device": lambda s, td: td.apply(lambda x: x, device="cpu", inplace=True),
    "apply with names": lambda s, td: td.apply(lambda x: x, names=["x", "y"]),
    "apply with too few names": lambda s, td: td.apply(lambda x: x, names=["x"]),
    "apply with a batch size that does not fit": lambda s, td: td.apply(lambda x: x, batch_size=(7,)),
    "apply with threads": lambda s, td: td.apply(lambda x: x + 1, num_threads=2),
    "apply_ with threads": lambda s, td: td.apply_(lambda x: x + 1, num_threads=2),
    "named_apply with threads": lambda s, td: td.named_apply(lambda n, x: x + 1, num_threads=2),
    "apply inplace, locked": locked(lambda s, td: td.apply(lambda x: x + 1, inplace=True)),
    "apply_ with inplace": lambda s, td: td.apply_(lambda x: x + 1, inplace=False),
    "sum of features with keepdim": lambda s, td: td.sum(dim="feature", keepdim=True),
    "sum of something else": lambda s, td: td.sum(dim="foo"),
    "sum of all": lambda s, td: td.select("a").sum(reduce=True),
    "sum of all features": lambda s, td: td.select("a").sum(dim="feature", reduce=True),
    "max without indices": lambda s, td: td.max(dim=0, return_indices=False),
    "max of everything": lambda s, td: td.max(return_indices=False),
    "std with a correction": lambda s, td: td.std(dim=0, correction=0),
    "logsumexp over no dim of the batch": lambda s, td: td.logsumexp(dim=5),
    "logsumexp out of two dims": lambda s, td: td.logsumexp(dim=(0, 1), out=grid(s, ())),
    "logsumexp out, locked": lambda s, td: td.logsumexp(dim=0, out=grid(s, (4,)).lock_()),
    "logsumexp out of another size": lambda s, td: td.logsumexp(dim=0, out=blank(s, (5,))),
    "logsumexp out, empty": lambda s, td: td.logsumexp(dim=0, out=blank(s, (4,))),
    "where with a pad": lambda s, td: td.where(s.leaf(MASK), grid(s).exclude("a"), pad=1),
    "where with a pad and out": lambda s, td: td.where(s.leaf(MASK), grid(s).exclude("a"), pad=1,
        out=blank(s, (3, 4))),
    "where without a pad": lambda s, td: td.where(s.leaf(MASK), grid(s).exclude("a")),
    "where out, locked": lambda s, td: td.where(s.leaf(MASK), grid(s) * 2, out=grid(s).lock_()),
    "split below 0": lambda s, td: td.split(-1),
    "replace twice": lambda s, td: td.replace({"a": td["a"]}, a=td["a"] * 2),
    "replace by a tree": lambda s, td: td.replace(grid(s) * 2),
    "replace by an empty tree": lambda s, td: td.replace(blank(s, (3, 4))) is td,
    "rot90 of one dim": lambda s, td: td.rot90(1, (0, 0)),
    "stack out of another size": lambda s, td: s.lib.TensorDict.stack([td, td], out=grid(s)),
    "cat out of another size": lambda s, td: s.lib.TensorDict.cat([td, td], out=grid(s)),
    "arrays joined into one": lambda s,
        td: td.select("a").cat_from_tensordict(out=s.leaf(np.zeros((3, 4, 2), "float32"))),
    "quantile with keepdim": lambda s, td: td.quantile(0.5, dim=0, keepdim=True),
    "make_tensordict of two": lambda s, td: s.lib.make_tensordict({"a": td["a"]}, a=td["a"] * 2),
    "make_tensordict of a tree": lambda s, td: s.lib.make_tensordict(grid(s), auto_batch_size=True),
    "TensorDict of two": lambda s, td: s.lib.TensorDict({"a": td["a"]}, a=td["a"]),
}  # fmt: skip

# What differs on purpose, as lite/DIFFERENCES.md says.
DENSE_ONLY = {
    "flatten of None": "stacks have numbers as defaults there",
    "expand by keyword": "the keyword is missing there",
    "apply with out and a batch size": "a dense `out` is refused there",
    "apply with out and a device": "a dense `out` is refused there",
}


@each_case("lazy", [False, True])
@each_case("name", CALLS)
def test_dense_and_lazy(name, lazy):
    if lazy and name in DENSE_ONLY:
        return

    def run(s):
        td = grid(s)
        return CALLS[name](s, s.lib.lazy_stack(list(td.unbind(0))) if lazy else td)

    compare(run, name)


Pair = namedtuple("Pair", "a b")
Two = make_dataclass("Two", [("a", Any), ("b", Any)])


def _pair(side):
    return side.leaf(np.zeros((3, 4, 5))), side.leaf(np.zeros((3, 4)))


VALUES = {
    "from_dict": lambda s: dict(zip("ab", _pair(s), strict=True)),
    "from_tuple": _pair,
    "from_namedtuple": lambda s: Pair(*_pair(s)),
    "from_dataclass": lambda s: Two(*_pair(s)),
    "from_pandas": lambda s: pandas.DataFrame({"a": [1.0, 2, 3], "b": [4, 5, 6]}),
}
SIZES = [None, [], [3], [3, 4], [7]]


@pytest.mark.parametrize("through", ["itself", "from_any"])
@pytest.mark.parametrize("name", VALUES)
def test_batch_sizes(name, through):
    for size, auto, dims in product(SIZES, [False, True], [None, 0, 1]):
        if (
            dims is not None
            and size is None
            and (not auto or (name, through) == ("from_dataclass", "from_any"))
        ):
            continue  # a row of the differences
        if size == [7] and auto:
            continue  # wrong in two ways
        if name == "from_pandas" and size == [3, 4]:
            continue  # columns have one dimension: both refuse, tensordict with an error of its own making

        def outcome(side, size=size, auto=auto, dims=dims):
            make = getattr(side.lib.TensorDict, name if through == "itself" else "from_any")
            try:
                return tuple(
                    make(
                        VALUES[name](side), batch_size=size, auto_batch_size=auto, batch_dims=dims
                    ).batch_size
                )
            except (TypeError, ValueError, RuntimeError) as error:
                return type(error)

        assert outcome(LITE) == outcome(TORCH), (size, auto, dims)
