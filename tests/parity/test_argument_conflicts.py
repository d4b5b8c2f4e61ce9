"""Arguments that exclude each other or depend on each other: refused, or accepted, as by tensordict."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from parity.compare import TORCH, Side, compare

pytestmark = pytest.mark.filterwarnings("ignore")

MASK = np.arange(12).reshape(3, 4) % 3 > 0
ROWS = np.array([[0, 1, 2, 0], [1, 1, 1, 1]])
Call = Callable[[Side, Any], Any]


def tree(s, size=(3, 4)):
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


# Each is called with a dense tree and with a lazy stack of its rows.
CALLS = {
    "gather with out and inplace": lambda s, td: td.gather(
        0, s.leaf(ROWS), out=tree(s, (2, 4)), inplace=True
    ),
    "gather inplace": lambda s, td: td.gather(0, s.leaf(ROWS), inplace=True),
    "gather inplace, locked": locked(lambda s, td: td.gather(0, s.leaf(ROWS), inplace=True)),
    "gather by nothing": lambda s, td: td.gather(0, s.leaf(np.zeros((0, 4), int))),
    "gather out": lambda s, td: td.gather(0, s.leaf(ROWS), out=tree(s, (2, 4))),
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
    "repeat_interleave to another size": lambda s, td: td.repeat_interleave(
        s.leaf(np.array([1, 1, 1, 1])), dim=1, output_size=9
    ),
    "roll by too many": lambda s, td: td.roll((1, 2), 0),
    "roll by several without dims": lambda s, td: td.roll((1, 2)),
    "contiguous inplace": lambda s, td: td.contiguous(inplace=True),
    "contiguous inplace, locked": locked(lambda s, td: td.contiguous(inplace=True)),
    "contiguous canonical": lambda s, td: td.contiguous(canonical=True),
    "to a dtype twice": lambda s, td: td.to(float64(s), dtype=float64(s)),
    "to a device twice": lambda s, td: td.to("cpu", device="cpu"),
    "to a device and another": lambda s, td: td.to("cpu", other=tree(s)),
    "to another": lambda s, td: td.to(other=tree(s).to(float64(s))),
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
    "clamp between trees": lambda s, td: td.clamp(tree(s), tree(s) * 2),
    "apply with out and a batch size": lambda s, td: td.apply(lambda x: x, batch_size=(3,), out=tree(s)),
    "apply with out and a device": lambda s, td: td.apply(lambda x: x, device="cpu", out=tree(s)),
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
    "logsumexp out": lambda s, td: td.logsumexp(dim=0, out=tree(s, (4,))),
    "logsumexp out, kept": lambda s, td: td.logsumexp(dim=0, keepdim=True, out=tree(s, (1, 4))),
    "logsumexp out of two dims": lambda s, td: td.logsumexp(dim=(0, 1), out=tree(s, ())),
    "logsumexp out of all dims": lambda s, td: td.logsumexp(out=tree(s, ())),
    "logsumexp out, locked": lambda s, td: td.logsumexp(dim=0, out=tree(s, (4,)).lock_()),
    "logsumexp out of another size": lambda s, td: td.logsumexp(dim=0, out=blank(s, (5,))),
    "logsumexp out, empty": lambda s, td: td.logsumexp(dim=0, out=blank(s, (4,))),
    "where with a pad": lambda s, td: td.where(s.leaf(MASK), tree(s).exclude("a"), pad=1),
    "where with a pad and out": lambda s, td: td.where(
        s.leaf(MASK), tree(s).exclude("a"), pad=1, out=blank(s, (3, 4))
    ),
    "where without a pad": lambda s, td: td.where(s.leaf(MASK), tree(s).exclude("a")),
    "where out": lambda s, td: td.where(s.leaf(MASK), tree(s) * 2, out=tree(s)),
    "where out, locked": lambda s, td: td.where(s.leaf(MASK), tree(s) * 2, out=tree(s).lock_()),
    "split below 0": lambda s, td: td.split(-1),
    "replace twice": lambda s, td: td.replace({"a": td["a"]}, a=td["a"] * 2),
    "replace by a tree": lambda s, td: td.replace(tree(s) * 2),
    "replace by an empty tree": lambda s, td: td.replace(blank(s, (3, 4))) is td,
    "rot90 of one dim": lambda s, td: td.rot90(1, (0, 0)),
    "stack out of another size": lambda s, td: s.lib.TensorDict.stack([td, td], out=tree(s)),
    "cat out of another size": lambda s, td: s.lib.TensorDict.cat([td, td], out=tree(s)),
    "arrays joined into one": lambda s, td: td.select("a").cat_from_tensordict(
        out=s.leaf(np.zeros((3, 4, 2), "float32"))
    ),
    "quantile with keepdim": lambda s, td: td.quantile(0.5, dim=0, keepdim=True),
    "make_tensordict of two": lambda s, td: s.lib.make_tensordict({"a": td["a"]}, a=td["a"] * 2),
    "make_tensordict of a tree": lambda s, td: s.lib.make_tensordict(tree(s), auto_batch_size=True),
    "TensorDict of two": lambda s, td: s.lib.TensorDict({"a": td["a"]}, a=td["a"]),
}

# What differs on purpose, as lite/DIFFERENCES.md says.
DENSE_ONLY = {
    "flatten of None": "stacks have numbers as defaults there",
    "expand by keyword": "the keyword is missing there",
    "apply with out and a batch size": "a dense `out` is refused there",
    "apply with out and a device": "a dense `out` is refused there",
}


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_same(name, lazy):
    if lazy and name in DENSE_ONLY:
        return

    def run(s):
        td = tree(s)
        return CALLS[name](s, s.lib.lazy_stack(list(td.unbind(0))) if lazy else td)

    compare(run, name)
