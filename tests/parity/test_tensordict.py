"""Random programs on random nested TensorDicts, against tensordict."""

import copy
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from parity.compare import LITE, TORCH, as_lite_repr, assert_outcomes, assert_same, outcome, plain

import lite

pytestmark = pytest.mark.filterwarnings("ignore")

# LITE_FUZZ_EXAMPLES runs more, with new seeds each time.
EXAMPLES = int(os.environ.get("LITE_FUZZ_EXAMPLES", "0"))
DTYPES = ("float32", "int64", "bool", "float64", "int32", "uint8")
SIZES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
FEATURES = st.sampled_from([(), (2,), (1,), (2, 3)])


def leaf(shape, dtype, seed):
    drawn = np.random.default_rng(seed).integers(-3 if dtype[0] != "u" else 0, 4, shape)
    return np.asarray(drawn > 0 if dtype == "bool" else drawn, dtype=dtype)


@st.composite
def trees(draw, batch_size=None, depth=2):
    size = draw(SIZES) if batch_size is None else batch_size
    entries = {}
    for key in draw(st.permutations(["a", "b", "c", "n", "s"]))[: draw(st.integers(0, 5))]:
        if key == "n":
            if depth:
                inner = size + draw(st.sampled_from([(), (), (2,)]))
                entries[key] = draw(trees(batch_size=inner, depth=depth - 1))
        elif key == "s":
            entries[key] = draw(st.sampled_from(["text", "other"]))
        else:
            dtype = draw(st.sampled_from(DTYPES))
            entries[key] = leaf(size + draw(FEATURES), dtype, draw(st.integers(0, 99)))
    tree = {"batch_size": size, "entries": entries}
    if batch_size is None:
        tree["lock"] = draw(st.integers(0, 3)) == 0
        if size and draw(st.integers(0, 2)) == 0:
            tree["names"] = ["x", "y", "z"][: len(size)]
    return tree


def seeded_tree(size, seed, depth=1):
    """A second operand; drawn from one number because its details matter less."""
    rng = np.random.default_rng(seed)
    entries = {}
    for key in rng.permutation(["a", "b", "c", "n", "s"])[: rng.integers(0, 6)].tolist():
        if key == "n" and depth:
            entries[key] = seeded_tree(size, seed + 1, depth - 1)
        elif key == "s":
            entries[key] = "text"
        elif key != "n":
            feature = ((), (2,), (1,), (2, 3))[rng.integers(4)]
            entries[key] = leaf(size + feature, DTYPES[rng.integers(len(DTYPES))], seed)
    return {"batch_size": size, "entries": entries}


@st.composite
def indices(draw, size):
    """An index that is right most of the time."""
    items = []
    for n in size[: draw(st.integers(0, len(size)))]:
        kind = draw(st.sampled_from(["int", "slice", "list", "mask", "none", "all"]))
        if kind == "int":
            items.append(draw(st.integers(-n - 1, n)))
        elif kind == "slice":
            items.append(
                slice(draw(st.integers(0, n)), draw(st.integers(0, n + 1)), draw(st.sampled_from([None, 2])))
            )
        elif kind == "list" and n:
            items.append(np.array(draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=3))))
        elif kind == "mask":
            items.append(np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool))
        elif kind == "none":
            items.append(None)
        else:
            items.append(slice(None))
    arrays = [i for i, item in enumerate(items) if isinstance(item, np.ndarray)]
    for i in arrays[1:]:  # several index arrays would have to broadcast
        items[i] = slice(None)
    if draw(st.integers(0, 4)) == 0:
        items.append(Ellipsis)
    return tuple(items) if len(items) != 1 or draw(st.booleans()) else items[0]


KEYS = st.sampled_from(["a", "b", "c", "n", "s", "zz", ("n", "a"), ("n", "b"), ("n", "zz"), ("n", "n", "a")])
NUMBERS = st.sampled_from([0, 1, 2, -1, 0.5, True])


def arrays(td):
    """Without the entries that tensordict's operators do not skip."""
    return td.exclude("s", ("n", "s"), ("n", "n", "s"))


def renames(td, key, other):
    """Leave out what tensordict gets wrong: no check of the batch size, a node moved below itself."""
    old, new = (k if isinstance(k, tuple) else (k,) for k in (key, other))
    return td.batch_dims == td.get("n", td).batch_dims and new[: len(old)] != old


def nested_in(key, other):
    """Whether one key is above the other, where tensordict's select depends on their order."""
    a, b = (k if isinstance(k, tuple) else (k,) for k in (key, other))
    return a != b and a[: min(len(a), len(b))] == b[: min(len(a), len(b))]


def _plain_meta(td):
    """Without names and lock, which tensordict's bitwise operators lose."""
    out = td.copy()
    _forget_names(out)
    return out


def _forget_names(td):
    """Node by node: tensordict hands `names = None` down one level only."""
    td.names = None
    for entry in td.values():
        if hasattr(entry, "keys"):
            _forget_names(entry)


def has_arrays(td):
    """Whether tensordict takes its normal paths, which fail without an array."""
    return any(hasattr(value, "dtype") and hasattr(value, "ndim") for value in td.values(True, True))


def _numeric(td):
    """Leaves of one floating dtype, for functions that promote integers differently."""
    return td.float()


def _set(td, key, value):
    td[key] = value
    return td


def _delete(td, key):
    del td[key]
    return td


def _size(td, size):
    td.batch_size = size
    return td


def _names(td, names):
    td.names = names
    return td


@st.composite
def steps(draw, size):
    """A step of a program: its text, and a function of (library side, TensorDict)."""
    ndim = len(size)
    dim = st.integers(-ndim - 1, ndim)
    d, d2, key, other, x = draw(dim), draw(dim), draw(KEYS), draw(KEYS), draw(NUMBERS)
    first, last = sorted(draw(st.integers(0, max(0, ndim - 1))) for _ in range(2))
    index = draw(indices(size))
    seed = draw(st.integers(0, 999))
    mask = leaf(size, "bool", seed)
    new = leaf(size + draw(FEATURES), DTYPES[seed % len(DTYPES)], seed)
    tree = seeded_tree(size, seed)
    sizes = draw(SIZES)
    order = draw(st.permutations(range(len(size))))
    strict = draw(st.booleans())
    table = {
        f"td[{index!r}]": lambda s, td: td[s.index(index)],
        f"td[{index!r}] = {x}": lambda s, td: (
            _set(td.select("a").double(), s.index(index), float(x)) if "a" in td and size else td
        ),
        f"td[{index!r}] = td[{index!r}]": lambda s, td: (
            _set(td, s.index(index), td[s.index(index)].clone())
            if index != () and size and has_arrays(td)
            else td
        ),
        f"reshape{sizes}": lambda s, td: td.reshape(sizes) if has_arrays(td) else td,
        "reshape(-1)": lambda s, td: td.reshape(-1) if 0 not in td.batch_size else td,
        "reshape(1, -1, 1)": lambda s, td: td.reshape(1, -1, 1) if 0 not in td.batch_size else td,
        f"unsqueeze({d})": lambda s, td: td.unsqueeze(d),
        f"squeeze({d})": lambda s, td: td.squeeze(d),
        # tensordict cannot squeeze away all dims of a batch that has names, or arrays without features
        "squeeze()": lambda s, td: td.squeeze() if not size or any(n != 1 for n in size) else td,
        f"transpose({d},{d2})": lambda s, td: td.transpose(d, d2),
        f"permute({order})": lambda s, td: td.permute(*order) if order else td,
        f"flatten({first},{last})": lambda s, td: td.flatten(first, last) if first != last else td,
        f"expand({(2, *size)})": lambda s, td: td.expand(2, *size),
        f"unbind({d})": lambda s, td: td.unbind(d),
        f"split(2,{d})": lambda s, td: td.split(2, d) if 0 not in size else td,
        f"chunk(2,{d})": lambda s, td: td.chunk(2, d) if 0 not in size else td,
        f"get({key!r})": lambda s, td: td.get(key),
        f"get_default({key!r})": lambda s, td: td.get(key, 7),
        f"td[{key!r}]": lambda s, td: td[key],
        f"set({key!r})": lambda s, td: td.set(key, s.leaf(new.copy())),
        f"set({key!r}, inplace)": lambda s, td: (
            td.set(key, s.leaf(new.copy()), inplace=True) if "s" not in key else td
        ),
        "set('s', 'new')": lambda s, td: td.set("s", "new"),
        f"del {key!r}": lambda s, td: _delete(td, key),
        f"pop({key!r})": lambda s, td: td.pop(key),
        f"pop({key!r}, None)": lambda s, td: td.pop(key, None),
        f"rename({key!r},{other!r})": lambda s, td: (
            td.rename_key_(key, other) if renames(td, key, other) else td
        ),
        f"rename_safe({key!r},{other!r})": lambda s, td: (
            td.rename_key_(key, other, safe=True) if renames(td, key, other) else td
        ),
        f"select({key!r},{other!r},{strict})": lambda s, td: (
            td.select(key, other, strict=strict) if not nested_in(key, other) else td
        ),
        f"exclude({key!r},{other!r})": lambda s, td: td.exclude(key, other),
        "flatten_keys": lambda s, td: td.flatten_keys("."),
        "flatten_unflatten": lambda s, td: td.flatten_keys(".").unflatten_keys("."),
        f"contains({key!r})": lambda s, td: key in td,
        "keys": lambda s, td: sorted(map(str, td.keys(True, True))),
        "nested keys": lambda s, td: sorted(map(str, td.clone().filter_empty_().keys(True))),
        "empty": lambda s, td: td.empty(),
        "empty(recurse)": lambda s, td: arrays(td).empty(recurse=True),
        "is_empty": lambda s, td: td.is_empty(),
        "clone": lambda s, td: td.clone(),
        "copy": lambda s, td: td.copy(),
        "lock_": lambda s, td: td.lock_(),
        "unlock_": lambda s, td: td.unlock_(),
        "clear": lambda s, td: td.clear(),
        "update": lambda s, td: td.update(s.build(tree)),
        "update(inplace)": lambda s, td: td.update(arrays(s.build(tree)), inplace=True),
        "update(dict)": lambda s, td: td.update({"a": s.leaf(new.copy()), "n": {"q": s.leaf(new.copy())}}),
        f"batch_size={sizes}": lambda s, td: _size(td, sizes),
        "auto_batch_size_": lambda s, td: td.auto_batch_size_(),
        "names": lambda s, td: _names(td, ["u", None, "w"][: td.ndim]),
        "names wrong": lambda s, td: _names(td, ["u"] * (td.ndim + 1)) if td.ndim else td,
        f"+ {x}": lambda s, td: td.double() + x if has_arrays(td) else td,
        f"{x} - td": lambda s, td: float(x) - td.double() if has_arrays(td) else td,
        f"* {x}": lambda s, td: td.double() * x if has_arrays(td) else td,
        "/ 2": lambda s, td: td.double() / 2 if has_arrays(td) else td,
        "** 2": lambda s, td: td.double() ** 2 if has_arrays(td) else td,
        "td + td": lambda s, td: td.double() + td.double() if has_arrays(td) else td,
        "td * other": lambda s, td: td.double() * s.build(tree).double() if has_arrays(td) else td,
        "td == td": lambda s, td: td == td.clone(),
        "td == other": lambda s, td: td == s.build(tree),
        f"td == {x}": lambda s, td: td == x,
        f"td < {x}": lambda s, td: arrays(td.double()) < x if has_arrays(td) else td,
        "-td": lambda s, td: -td.double() if has_arrays(td) else td,
        "abs": lambda s, td: abs(td.double()) if has_arrays(td) else td,
        "exp": lambda s, td: _numeric(td).exp() if has_arrays(td) else td,
        "sigmoid": lambda s, td: _numeric(td).sigmoid() if has_arrays(td) else td,
        "add_": lambda s, td: td.add_(1) if has_arrays(td) else td,
        "td + rows": lambda s, td: (
            (td.double() + s.leaf(leaf(size, "float64", 3))).copy() if has_arrays(td) and size else td
        ),
        "isnan": lambda s, td: _numeric(td).isnan() if has_arrays(td) else td,
        "bool": lambda s, td: td.bool(),
        "& | ~": lambda s, td: _plain_meta(td.bool() & td.bool()) if has_arrays(td) else td,
        "all": lambda s, td: td.all(),
        f"all({d})": lambda s, td: arrays(td.bool()).all(dim=d),
        "any": lambda s, td: td.any(),
        "clamp": lambda s, td: td.double().clamp(-1, 1).unlock_() if has_arrays(td) else td,
        "apply": lambda s, td: td.apply(lambda leaf: leaf + leaf),
        "apply(None)": lambda s, td: td.apply(lambda leaf: None),
        "apply(None, filter)": lambda s, td: td.apply(lambda leaf: None, filter_empty=True),
        "apply(None, keep)": lambda s, td: td.apply(lambda leaf: None, filter_empty=False),
        "apply(other)": lambda s, td: arrays(td).apply(lambda a, b: b, s.build(tree)),
        "apply(other, default)": lambda s, td: td.apply(
            lambda a, b: a if b is None else b, s.build(tree), default=None
        ),
        "named_apply": lambda s, td: td.named_apply(
            lambda k, leaf: leaf if "a" in k else None, nested_keys=True
        ),
        "apply_": lambda s, td: td.apply_(lambda leaf: leaf * 0) if not td.is_locked else td,
        "masked_fill": lambda s, td: td.masked_fill(s.leaf(mask.copy()), 1) if size else td,
        "where": lambda s, td: td.where(s.leaf(mask.copy()), 0) if size else td,
        "masked_select": lambda s, td: _plain_meta(td).masked_select(s.leaf(mask.copy())) if size else td,
        "zero_": lambda s, td: td.zero_(),
        "new_zeros": lambda s, td: td.exclude("s", ("n", "s")).new_zeros(*sizes) if sizes else td,
        "to_dict": lambda s, td: td.to_dict(),
        "to_tensordict": lambda s, td: td.to_tensordict(),
        "contiguous": lambda s, td: td.contiguous(),
        "stack": lambda s, td: s.lib.TensorDict.stack([td, td.clone()], 0) if size else td,
        "float": lambda s, td: td.float(),
        "numel": lambda s, td: td.numel() if 0 not in td.batch_size else 0,
        "repr": lambda s, td: repr(td) if s is LITE else as_lite_repr(repr(td)),
    }
    name = draw(st.sampled_from(sorted(table)))
    return name, table[name]


@settings(
    max_examples=EXAMPLES or 400,
    deadline=None,
    derandomize=not EXAMPLES,
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_programs_give_the_same_results(data):
    tree = data.draw(trees())
    ours, theirs = LITE.build(tree), TORCH.build(tree)
    for _ in range(data.draw(st.integers(1, 4))):
        name, step = data.draw(steps(tuple(theirs.batch_size)))
        note(name)
        before = copy.deepcopy(plain(ours))
        got, expected = _run(step, LITE, ours), _run(step, TORCH, theirs)
        assert_outcomes(got, expected, name)
        if got[1] is None:
            assert_outcomes((ours, None), (theirs, None), f"self after {name}")
        else:
            assert_same(plain(ours), before, f"self after the error of {name}")
            return  # tensordict may have changed part of itself before it raised
        if isinstance(got[0], lite.TensorDictBase):
            ours, theirs = got[0], expected[0]
            if not in_step(ours, theirs):
                return


def in_step(ours, theirs):
    """False where tensordict lost something that the comparison forgives: lock, names, empty nodes."""
    state, other = (ours.is_locked, ours.names), (theirs.is_locked, theirs.names)
    return state == other and repr(ours) == as_lite_repr(repr(theirs))


def _run(step, side, td):
    return outcome(lambda: step(side, td))
