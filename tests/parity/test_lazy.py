"""Lazy stacks, and functions that combine TensorDicts, against tensordict on random trees."""

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.compared import on_both
from helpers.parity_trees import array, same
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


KEYS = ["a", "b", "n", "s", ("n", "c"), "only", "missing"]
FORMS = [
    {"as_list": True},
    {"as_padded_tensor": True},
    {"as_padded_tensor": True, "padding_side": "left", "padding_value": -1},
]


@st.composite
def stacks(draw, ragged=None, exclusive=None):
    """A tree for `Side.build`: a lazy stack, its leaf `b` ragged or not, `only` in the first part or not."""
    size = draw(st.sampled_from([(), (2,), (1,), (3, 2), (2, 1)]))
    ragged = draw(st.booleans()) if ragged is None else ragged
    exclusive = draw(st.booleans()) if exclusive is None else exclusive
    nested, text = draw(st.booleans()), draw(st.booleans())
    parts = []
    for i in range(draw(st.integers(1, 3))):
        tail = (draw(st.integers(1, 3)),) if ragged else ()
        entries = {"a": array((*size, 2), i), "b": array(size + tail, 10 + i)}
        if nested:
            entries["n"] = ("dense", size, {"c": array((*size, 1), 20 + i), "d": array(size + tail, 30 + i)})
        if text:
            entries["s"] = f"text {i}"
        if exclusive and i == 0:
            entries["only"] = array(size, 40)
        parts.append(("dense", size, entries))
    return ("lazy", draw(st.integers(0, len(size))), parts)


def shape(tree):
    size, dim = tree[2][0][1], tree[1]
    return (*size[:dim], len(tree[2]), *size[dim:])


@settings(max_examples=33)
@given(st.data())
def test_padding_in_place(data):
    tree = data.draw(stacks())
    counts = [data.draw(st.integers(0, 2)) for _ in range(2 * data.draw(st.integers(1, len(shape(tree)))))]
    inside = data.draw(st.booleans())

    def padded(side):
        td = side.build(tree)
        td = side.lib.TensorDict({"m": td}, batch_size=td.batch_size[:1]) if inside else td
        node = td.get("m") if inside else None
        out = td.pad(counts[:2] if inside else counts, 5, inplace=True)
        return [out is td, not inside or out.get("m") is node, out]

    same(padded)


@settings(max_examples=50)
@given(st.data())
def test_keys(data):
    tree = data.draw(stacks())
    first, second = data.draw(st.sampled_from(KEYS)), data.draw(st.sampled_from(KEYS))
    value = array((*shape(tree), 3), 77)
    action = data.draw(
        st.sampled_from(
            [
                lambda side, td: td.select(first, second),
                lambda side, td: td.select(first, second, strict=False),
                lambda side, td: td.exclude(first, second),
                lambda side, td: td.rename_key_(first, "new"),
                lambda side, td: td.set("new", side.leaf(value)),
                lambda side, td: td.set(("n", "new"), side.leaf(value)),
                lambda side, td: td.set("a", side.leaf(value)),
                lambda side, td: td.update({"a": side.leaf(value), "n": {"z": side.leaf(value)}}),
                lambda side, td: td.del_(first),
                lambda side, td: td.get(first, "default") if first not in ("b", "n") else None,
                lambda side, td: sorted(td.keys(True, True), key=str),
                lambda side, td: first in td.keys(True),
                lambda side, td: td.empty(),
                lambda side, td: td.is_empty(),
            ]
        )
    )
    same(lambda side: action(side, side.build(tree)))


@settings(max_examples=20)
@given(stacks(ragged=True), st.sampled_from(FORMS), st.sampled_from(["b", ("n", "d"), "missing"]))
def test_ragged_forms(tree, form, key):
    tree = ("lazy", 0, [("dense", (), {k: _row(v) for k, v in e.items()}) for _, _, e in tree[2]])
    same(lambda side: side.build(tree).get(key, **form))
    nested = ("lazy", 0, [tree, tree])
    same(lambda side: side.build(nested).get(key, as_list=True))
    same(lambda side: side.build(nested).get_item_shape("b"))


@settings(max_examples=33)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.booleans()), min_size=1, max_size=3))
def test_where_of_ragged_rows(rows):
    """Each row, its arrays and nodes, is that of one side: rows of one are not broadcast, as arrays are."""
    lengths, others, mask = zip(*rows, strict=True)

    def tree(sizes, start):
        parts = []
        for i, n in enumerate(sizes):
            node = ("dense", (n,), {"c": array((n, 2), start + i)})
            parts.append(("dense", (), {"a": array((n,), start + i), "b": array((), i), "n": node, "s": "x"}))
        return ("dense", (len(rows),), {"m": ("lazy", 0, parts)})

    def chosen(side):
        td, other = side.build(tree(lengths, 0)), side.build(tree(others, 40))
        return [td.where(side.leaf(np.array(mask)), other)["m"][i] for i in range(len(rows))]

    same(chosen)


def _row(value):
    """The first element of an entry's batch, so that only the feature dimension is left."""
    if isinstance(value, np.ndarray):
        return value.reshape(-1, value.shape[-1])[0] if value.ndim else value
    return ("dense", (), {k: _row(v) for k, v in value[2].items()}) if isinstance(value, tuple) else value


BAD = {
    "no items": lambda side: side.lib.lazy_stack([]),
    "different ndim": lambda side: side.build(("lazy", 0, [("dense", (), {}), ("dense", (1,), {})])),
    "different devices": lambda side: side.lib.lazy_stack(
        [side.lib.TensorDict({}), side.lib.TensorDict({}, device="cpu")]
    ),
    "missing key": lambda side: side.build(ROW)["missing"],
    "ragged": lambda side: side.build(ROW)["b"],
    "ragged dense": lambda side: side.build(ROW).to_tensordict(),
    "exclusive to_dict": lambda side: side.build(ROW).to_dict(),
    "exclusive flatten_keys": lambda side: side.build(ROW).flatten_keys(),
    "exclusive set_": lambda side: side.build(ROW).set_("only", side.leaf(np.zeros(2))),
    "exclusive rename": lambda side: side.build(ROW).rename_key_("only", "x"),
    "wrong size": lambda side: side.build(ROW).set("x", side.leaf(np.zeros(3))),
    "out of range": lambda side: side.build(ROW)[2],
    "locked": lambda side: side.build(ROW).lock_().set("x", side.leaf(np.zeros(2))),
    "locked append": lambda side: side.build(ROW).lock_().append(side.lib.TensorDict({})),
    "unlock part": lambda side: side.build(ROW).lock_()[0].unlock_(),
    "append other size": lambda side: side.build(ROW).append(side.lib.TensorDict({}, [2])),
    "batch size": lambda side: setattr(side.build(ROW), "batch_size", [1]),
    "view": lambda side: side.build(GRID).view(3, 2),
}
ROW = (
    "lazy",
    0,
    [("dense", (), {"b": array((1,), 0), "only": array((), 1)}), ("dense", (), {"b": array((2,), 0)})],
)
GRID = ("lazy", 0, [("dense", (3,), {"a": array((3,), i)}) for i in range(2)])


compared = on_both(same)


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
        return getattr(side.lib.TensorDict, function)(tds, dim)

    return action


@settings(max_examples=50)
@given(st.data(), st.sampled_from(["stack", "lazy_stack", "maybe_dense_stack"]))
def test_stacks_of_different(data, function):
    trees = data.draw(lists(differing=True))
    same(combined(function, trees, data.draw(st.integers(0, len(trees[0][1])))))


@each_case("dtypes", [("int32", "int64"), ("float32", "float64"), ("bool", "uint8"), ("int16", "float32")])
@each_case("function", ["stack", "cat"])
@compared
def test_promotion(side, dtypes, function):
    tds = [side.lib.TensorDict({"a": side.leaf(np.ones(2, dtype))}, [2]) for dtype in dtypes]
    return str(getattr(side.lib.TensorDict, function)(tds, 0)["a"].dtype).removeprefix("torch.")


BAD |= {
    "stack sizes": lambda side: side.lib.TensorDict.stack([empty(side, 2), empty(side, 3)]),
    "cat keys": lambda side: side.lib.TensorDict.cat(
        [side.build(("dense", (1,), {"a": array((1,), 0)})), side.build(("dense", (1,), {}))]
    ),
    "cat range": lambda side: side.lib.TensorDict.cat([empty(side, 2)], 1),
    "maybe dense ndim": lambda side: side.lib.TensorDict.maybe_dense_stack([empty(side), empty(side, 1)]),
}


def empty(side, *size):
    return side.lib.TensorDict({}, batch_size=size)


@each_case("name", BAD)
def test_errors(name):
    same(BAD[name])
