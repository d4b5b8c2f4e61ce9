"""Reductions, layouts, joins, splits of keys and contexts on random trees against tensordict."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from parity.compare import LITE, TORCH, assert_outcomes, compare, outcome, plain

pytestmark = pytest.mark.filterwarnings("ignore")


DTYPES = ("float32", "int64", "bool")
FEATURES = st.sampled_from([(), (2,), (1,), (2, 3)])


@st.composite
def trees(draw, dtypes, size=None):
    """Trees without empty dimensions, of which many of the reference's kernels make errors."""
    own = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)) if size is None else size
    entries = {}
    for key in draw(st.permutations(["a", "b", "n", "s"]))[: draw(st.integers(1, 4))]:
        if key == "n":
            if size is None:
                # A nested batch size that is longer comes back shorter from some of its methods.
                entries[key] = draw(trees(dtypes, own))
        elif key == "s":
            entries[key] = "text"
        else:
            shape = own + draw(FEATURES)
            rng = np.random.default_rng(draw(st.integers(0, 99)))
            drawn = rng.permutation(int(np.prod(shape))).reshape(shape) - 3
            dtype = draw(st.sampled_from(dtypes))
            entries[key] = (drawn % 2 > 0) if dtype == "bool" else np.abs(drawn).astype(dtype)
    tree = {"batch_size": own, "entries": entries}
    if size is None:
        tree["names"] = draw(st.sampled_from([None, ["x", "y", "z"][: len(own)]]))
    return tree


def same(action, where):
    mine, theirs = (outcome(lambda side=side: action(side)) for side in (LITE, TORCH))
    if mine[1] == "AxisError":  # NumPy's IndexError
        mine = (None, "IndexError")
    assert_outcomes(mine, theirs, where)


LAYOUTS = {
    "rot90": lambda td: td.rot90(),
    "rot90 3": lambda td: td.rot90(3, (1, 0)),
    "fliplr": lambda td: td.fliplr(),
    "flipud": lambda td: td.flipud(),
    "expand_as": lambda td: td.expand_as(td.unsqueeze(0).repeat(2, *[1] * td.ndim)),
    "tensor_split": lambda td: td.tensor_split(2, -1),
    "to_tensordict": lambda td: td.to_lazystack(0).to_tensordict(),
    "filter": lambda td: td.filter_non_tensor_data(),
    "depth": lambda td: td.depth,
    "rename": lambda td: td.rename(*"pqr"[: td.ndim]),
    "rename wrong": lambda td: td.rename("p", "q", "r", "s"),
}


@settings(max_examples=66)
@given(st.data(), st.sampled_from(sorted(LAYOUTS)))
def test_layouts(data, name):
    tree = data.draw(trees(DTYPES))
    if name == "expand_as":
        tree["names"] = None  # dropped by the reference
    if name == "to_tensordict":
        tree["names"] = None  # the reference drops the name of the stacked dimension
        tree["entries"].pop("s", None)
    same(lambda side: LAYOUTS[name](side.build(tree)), name)


@settings(max_examples=20)
@given(trees(DTYPES), st.integers(1, 3))
def test_atleast(tree, n):
    tree["names"] = None  # dropped by the reference
    same(lambda side: getattr(side.build(tree), f"atleast_{n}d")(), f"atleast_{n}d")


@settings(max_examples=50)
@given(st.data(), st.sampled_from(["cat_tensors", "stack_tensors"]), st.booleans())
def test_joins(data, name, keep):
    # One dtype at a time: NumPy and torch promote int64 with float32 differently.
    tree = data.draw(trees((data.draw(st.sampled_from(["float32", "int64"])),)))
    keys = data.draw(
        st.lists(st.sampled_from(["a", "b", ("n", "a"), "q"]), min_size=1, max_size=2, unique_by=str)
    )
    dim = data.draw(st.integers(-1, 2))

    def action(side):
        td = side.build(tree)
        if not all(key in td.keys(True) for key in keys):
            td.select(*keys)  # a KeyError; the reference's join raises this or that
        # Nodes that become empty stay; the comparison leaves them out on both sides.
        return getattr(td, name)(*keys, out_key=("o", "k"), dim=dim, keep_entries=keep)

    same(action, f"{name}({keys}, dim={dim})")


@settings(max_examples=33)
@given(st.data(), st.sampled_from(["cat_from_tensordict", "stack_from_tensordict"]))
def test_all_arrays_in_one(data, name):
    tree = data.draw(trees(("float32",)))  # NumPy and torch promote differently
    tree["entries"].pop("s", None)
    order, dim = data.draw(st.sampled_from([None, True])), data.draw(st.integers(-1, 1))
    if "n" in tree["entries"]:
        order = True  # insertion order of nested entries differs
    same(lambda side: plain(getattr(side.build(tree), name)(dim, sorted=order)), name)


@settings(max_examples=33)
@given(st.data())
def test_separates(data):
    tree = data.draw(trees(DTYPES))
    keys = data.draw(st.lists(st.sampled_from(["a", "b", ("n", "a"), "s", "q"]), max_size=3, unique_by=str))

    def action(side):
        td = side.build(tree)
        out = td.separates(*keys)
        return [plain(item.filter_non_tensor_data()) for item in (out, td)]

    same(action, f"separates{keys}")


CONTEXTS = {
    "view": lambda td: td.view(-1),
    "flatten": lambda td: td.flatten(),
    "unflatten": lambda td: td.unflatten(0, (1, td.shape[0])),
    "unsqueeze": lambda td: td.unsqueeze(-1),
    "squeeze": lambda td: td.squeeze(0) if td.shape[0] == 1 else td.unsqueeze(0),
    "transpose": lambda td: td.transpose(0, -1),
    "permute": lambda td: td.permute(*reversed(range(td.ndim))),
    "flip": lambda td: td.flip(0),
    "roll": lambda td: td.roll(1, 0),
    "flatten_keys": lambda td: td.flatten_keys("."),
    "lock_": lambda td: td.lock_(),
    "unlock_": lambda td: td.unlock_(),
}


@settings(max_examples=83)
@given(st.data(), st.sampled_from(sorted(CONTEXTS)), st.booleans())
def test_contexts(data, name, lock):
    tree = data.draw(trees(("float32", "int64")))
    tree["names"] = None
    for entries in (tree["entries"], tree["entries"].get("n", {"entries": {}})["entries"]):
        entries.pop("s", None)
        entries.setdefault("a", np.ones(tree["batch_size"], "float32"))

    def action(side):
        td = side.build(tree)
        if lock:
            td.lock_()
        with CONTEXTS[name](td) as form:
            form.apply_(lambda x: x + 1)
            if not lock:
                keys = [key for key in set(form.keys()) if key[0] in "ab"]
                for key in keys:
                    form.set(f"new {key}", form.get(key) * 2)
        return td, td.is_locked

    same(action, f"with {name}, locked={lock}")


def test_state_dict_of_torch_loads():
    import tensordict

    import lite

    theirs = tensordict.TensorDict({"a": torch.arange(3), "n": {"b": torch.ones(3)}}, batch_size=[3])
    state = {name: np.asarray(value) for name, value in theirs.state_dict().items()}
    td = lite.TensorDict({"a": np.zeros(3, int), "n": {"b": np.zeros(3)}}, batch_size=[3])
    td.load_state_dict(state, from_flatten=True)
    np.testing.assert_array_equal(td["a"], np.arange(3))
    np.testing.assert_array_equal(td["n", "b"], np.ones(3))


def _small(td, name):
    """Values whose product neither overflows nor depends on the order of multiplication."""
    return td.apply(lambda x: x % 2 + 1, filter_empty=False) if name == "prod" else td


@settings(max_examples=33)
@given(st.data(), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.booleans())
def test_quantiles(data, q, keepdim):
    tree = data.draw(trees(("float32", "float64")))
    ndim = len(tree["batch_size"])
    dim = data.draw(st.one_of(st.none(), st.just("feature"), st.integers(-ndim - 1, ndim)))
    args = () if dim is None else (dim,) if dim == "feature" else (dim, keepdim)
    compare(lambda side: side.build(tree).quantile(q, *args), f"quantile{args}")


@settings(max_examples=20)
@given(trees(("float32", "float64")))
def test_norms(tree):
    tree["entries"]["c"] = np.ones(tree["batch_size"], "float32")  # without arrays the reference raises
    compare(lambda side: side.build(tree).norm(), "norm")


@settings(max_examples=50)
@given(st.data(), st.sampled_from(["sum", "mean", "std", "amax", "max", "prod"]), st.booleans())
def test_reduce_joins(data, name, features):
    tree = data.draw(trees(("float32",)))
    if features and name in ("sum", "mean", "std"):
        args = ("feature",)
    else:
        args = ()

    def action(side):
        out = getattr(_small(side.build(tree), name), name)(*args, reduce=True)
        return np.asarray(out)

    compare(action, f"{name}{args} reduce")


@settings(max_examples=50)
@given(st.data(), st.sampled_from([0.0, 2.0]), st.booleans())
def test_pads(data, value, objects):
    tree = data.draw(trees(("float32", "int64", "bool")))
    ndim = len(tree["batch_size"])
    if objects and ndim == 1:  # the reference cannot pad them in more dimensions
        tree["entries"]["l"] = list("uvw")[: tree["batch_size"][0]]
    size = data.draw(st.lists(st.integers(-1, 2), max_size=2 * ndim + 1))
    padded = zip(tree["batch_size"], size[::2], size[1::2], strict=False)
    assume(all(n + before + after > 0 for n, before, after in padded))  # a kernel's error there

    def action(side):
        out = side.build(tree).pad(size, value)
        out.names = None  # kept by lite and by tensordict 0.15
        return out

    compare(action, f"pad({size})")


@settings(max_examples=40)
@given(st.data(), st.booleans(), st.booleans())
def test_pad_sequences(data, inside, masks):
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rows = []
    for i, n in enumerate(lengths):
        shape = (n, 2) if inside else (2, n)
        entries = {"a": np.arange(2 * n, dtype="float32").reshape(shape) + i}
        entries["n"] = {"batch_size": shape[:1], "entries": {"b": np.ones((*shape, 3), "int64")}}
        rows.append({"batch_size": shape[:1], "entries": entries})

    def action(side):
        tds = [side.build(row) for row in rows]
        return side.lib.pad_sequence(tds, 0 if inside else 1, -1.0, return_mask=masks)

    compare(action, f"pad_sequence {lengths}")


def test_masks_of_a_padded_last_dimension():
    rows = [{"batch_size": (5,), "entries": {"a": np.ones((5, 2, n), "float32")}} for n in (1, 3)]
    compare(
        lambda side: side.lib.pad_sequence([side.build(row) for row in rows], -1, return_mask=True), "masks"
    )
