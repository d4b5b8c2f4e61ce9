"""stack, cat, lazy_stack and maybe_dense_stack against tensordict on random trees."""

import numpy as np
import pytest
from helpers.compared import on_both
from helpers.parity_trees import array, same
from hypothesis import given, settings
from hypothesis import strategies as st

compared = on_both(same)


pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


@st.composite
def lists(draw, differing):
    """Dense trees of one batch size; with `differing`, some leaf, key or batch size may differ."""
    size = draw(st.sampled_from([(), (2,), (1,), (3, 2)]))
    nested, text = draw(st.booleans()), draw(st.booleans())
    kind = draw(st.sampled_from(["shape", "key", "nested shape", "nested key", "size"])) if differing else ""
    trees = []
    for i in range(draw(st.integers(1, 3))):
        odd = kind if i else ""
        here = (*size[:-1], size[-1] + 1) if odd == "size" and size else size
        entries = {"a": array((*here, 3 if odd == "shape" else 2), i)}
        if nested or "nested" in kind:
            inner = {"c": array((*here, 3 if odd == "nested shape" else 1), 20 + i)}
            if odd == "nested key":
                inner["d"] = array(here, 30)
            entries["n"] = ("dense", here, inner)
        if text:
            entries["s"] = draw(st.sampled_from(["x", "y"]))
        if odd == "key":
            entries["b"] = array(here, 40)
        trees.append(("dense", here, entries))
    return trees


def combined(function, trees, dim, names=False):
    def action(side):
        tds = [side.build(tree) for tree in trees]
        if names:
            for td in tds:
                td.names = ["x", "y", "z"][: td.ndim]
        return getattr(side.library.TensorDict, function)(tds, dim)

    return action


@settings(max_examples=150)
@given(st.data(), st.sampled_from(["stack", "lazy_stack", "maybe_dense_stack"]))
def test_stacks_of_different(data, function):
    trees = data.draw(lists(differing=True))
    same(combined(function, trees, data.draw(st.integers(0, len(trees[0][1])))))


@settings(max_examples=150)
@given(st.data(), st.booleans(), st.booleans())
def test_cat(data, differing, names):
    trees = data.draw(lists(differing=differing))
    ndim = len(trees[0][1])
    same(combined("cat", trees, data.draw(st.integers(0, max(ndim - 1, 0))), names))


@pytest.mark.parametrize(
    "dtypes", [("int32", "int64"), ("float32", "float64"), ("bool", "uint8"), ("int16", "float32")]
)
@pytest.mark.parametrize("function", ["stack", "cat"])
@compared
def test_promotion(side, dtypes, function):
    tds = [side.library.TensorDict({"a": side.leaf(np.ones(2, dtype))}, [2]) for dtype in dtypes]
    return str(getattr(side.library.TensorDict, function)(tds, 0)["a"].dtype).removeprefix("torch.")


BAD = {
    "stack sizes": lambda side: side.library.TensorDict.stack([empty(side, 2), empty(side, 3)]),
    "cat keys": lambda side: side.library.TensorDict.cat(
        [side.build(("dense", (1,), {"a": array((1,), 0)})), side.build(("dense", (1,), {}))]
    ),
    "cat range": lambda side: side.library.TensorDict.cat([empty(side, 2)], 1),
    "maybe dense ndim": lambda side: side.library.TensorDict.maybe_dense_stack([empty(side), empty(side, 1)]),
}


def empty(side, *size):
    return side.library.TensorDict({}, batch_size=size)


@pytest.mark.parametrize("name", BAD)
def test_errors(name):
    same(BAD[name])
