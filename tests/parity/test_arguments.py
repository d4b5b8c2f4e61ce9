"""Arguments that are seldom given, and functions that are seldom called, against tensordict."""

import numpy as np
import pytest
import tensordict
import torch
from parity.compare import LITE, TORCH, assert_outcomes, compare, outcome

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
    "where without a pad into an out": lambda s: chosen_into(s, ["a", "n"], ["a"], filled=True),
    "roll in place": lambda s: s.build(tree()).roll(1, 0, inplace=True).exclude(("n", "s")),
    "rsub alpha": lambda s: s.build(tree()).select("a").rsub(s.build(tree(3, 5.0)).select("a"), alpha=2.0),
    "add positional alpha": lambda s: s.build(tree()).exclude(("n", "s")).sub_(1.0, 3.0),
    "clamp_min default": lambda s: s.build(tree()).select("a").clamp_min(s.build(tree()).select("a"), None),
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
    "batch size of a stack": lambda s: (
        s.lib.LazyStackedTensorDict(s.build(tree()), batch_size=(1, 3)).batch_size == (1, 3)
    ),
    "wrong batch size of a stack": lambda s: s.lib.LazyStackedTensorDict(s.build(tree()), batch_size=(4,)),
    "lazy from_dict": lambda s: s.lib.LazyStackedTensorDict.from_dict(
        [{"a": s.leaf(np.ones(n))} for n in (2, 2)], auto_batch_size=True, stack_dim_name="t", stack_dim=1
    ),
    "lazy from_dict of a dict": lambda s: s.lib.LazyStackedTensorDict.from_dict(
        {"0": {"a": s.leaf(np.ones(2))}, "1": {"a": s.leaf(np.zeros(2))}}
    ),
    "lazy from_dict with both names": lambda s: s.lib.LazyStackedTensorDict.from_dict(
        [{}], stack_dim_name="t", names=["t"]
    ),
    "auto_batch_size_": lambda s: s.build(tree()).auto_batch_size_(),
    "another batch size": lambda s: (td := s.build(tree()), setattr(td, "batch_size", []), td)[2],
    "a wrong batch size": lambda s: setattr(s.build(tree()), "batch_size", [7]),
    "new_zeros": lambda s: s.build(tree()).select("a").new_zeros(2),
    "named_apply": lambda s: s.build(tree()).named_apply(
        lambda k, x: x if "a" in k else None, nested_keys=True
    ),
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
}


@pytest.mark.parametrize("name", sorted(ACTIONS))
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


@pytest.mark.parametrize("dim", [0, 1, -1, 2])
@pytest.mark.parametrize("seed", range(4))
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
    pandas = pytest.importorskip("pandas")
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


@pytest.mark.parametrize(
    "name", ["sum", "type", "keys", "shape", "batch_size", "is_locked", "data", "value", "x"]
)
@pytest.mark.parametrize("shadow", [False, True])
def test_field_names_of_tensorclasses(name, shadow):
    if shadow and name in ("shape", "batch_size"):
        pytest.skip("arguments of the constructor and what follows from them are never fields of lite's")

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
