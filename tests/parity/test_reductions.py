"""Reductions, scans and padding of random trees against tensordict."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from parity.compare import compare

pytestmark = pytest.mark.filterwarnings("ignore")

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


def same(action, tree, where):
    compare(action, where)


def _small(td, name):
    """Values whose product neither overflows nor depends on the order of multiplication."""
    return td.apply(lambda x: x % 2 + 1, filter_empty=False) if name == "prod" else td


@settings(max_examples=100)
@given(st.data(), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.booleans())
def test_quantiles(data, q, keepdim):
    tree = data.draw(trees(("float32", "float64")))
    ndim = len(tree["batch_size"])
    dim = data.draw(st.one_of(st.none(), st.just("feature"), st.integers(-ndim - 1, ndim)))
    args = () if dim is None else (dim,) if dim == "feature" else (dim, keepdim)
    same(lambda side: side.build(tree).quantile(q, *args), tree, f"quantile{args}")


@settings(max_examples=60)
@given(trees(("float32", "float64")))
def test_norms(tree):
    tree["entries"]["c"] = np.ones(tree["batch_size"], "float32")  # without arrays the reference raises
    same(lambda side: side.build(tree).norm(), tree, "norm")


@settings(max_examples=150)
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

    same(action, tree, f"{name}{args} reduce")


@settings(max_examples=150)
@given(st.data(), st.sampled_from([0.0, 2.0]), st.booleans())
def test_pads(data, value, objects):
    tree = data.draw(trees(("float32", "int64", "bool")))
    ndim = len(tree["batch_size"])
    if objects and ndim == 1:  # the reference cannot pad them in more dimensions
        tree["entries"]["l"] = list("uvw")[: tree["batch_size"][0]]
    size = data.draw(st.lists(st.integers(-1, 2), max_size=2 * ndim + 1))
    padded = zip(tree["batch_size"], size[::2], size[1::2], strict=False)
    assume(all(n + before + after > 0 for n, before, after in padded))  # a kernel's error there
    same(lambda side: side.build(tree).pad(size, value), tree, f"pad({size})")


@settings(max_examples=120)
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

    same(action, {}, f"pad_sequence {lengths}")
