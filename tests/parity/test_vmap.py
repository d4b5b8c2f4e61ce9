"""vmap against torch.vmap and a loop: random programs, arguments, errors, TensorDicts, modules."""

import numpy as np
import pytest
import tensordict
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import nn as reference

import lite
from lite import nn, vmap

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


# Steps on matrices (3, 3): for NumPy, and for torch. Each takes the values so far.
STEPS = [
    (lambda x, y: x + y, lambda x, y: x + y),
    (lambda x, y: x * y[0], lambda x, y: x * y[0]),
    (lambda x, y: x @ y, lambda x, y: x @ y),
    (lambda x, y: (x @ y[:, 0])[:, None] + y, lambda x, y: (x @ y[:, 0])[:, None] + y),
    (lambda x, y: np.tanh(x) - y, lambda x, y: torch.tanh(x) - y),
    (lambda x, y: np.maximum(x, y), lambda x, y: torch.maximum(x, y)),
    (lambda x, y: np.where(x > y, x, 0.5 * y), lambda x, y: torch.where(x > y, x, 0.5 * y)),
    (lambda x, y: x.sum(0) + y, lambda x, y: x.sum(0) + y),
    (lambda x, y: x - x.mean(1, keepdims=True) + y, lambda x, y: x - x.mean(1, keepdim=True) + y),
    (lambda x, y: x.max(1)[:, None] - y, lambda x, y: x.max(1).values[:, None] - y),
    (lambda x, y: np.sort(x, 0) + y.T, lambda x, y: torch.sort(x, 0).values + y.T),
    (lambda x, y: np.cumsum(x, 1) * y, lambda x, y: torch.cumsum(x, 1) * y),
    (lambda x, y: np.einsum("ij,kj->ki", x, y), lambda x, y: torch.einsum("ij,kj->ki", x, y)),
    (lambda x, y: np.concatenate([x[1:], y[:1]]), lambda x, y: torch.cat([x[1:], y[:1]])),
    (lambda x, y: np.stack([x[0], y[1], x[2]], 1), lambda x, y: torch.stack([x[0], y[1], x[2]], 1)),
    (lambda x, y: x.reshape(-1)[:3] + y, lambda x, y: x.reshape(-1)[:3] + y),
    (lambda x, y: x.swapaxes(0, 1)[[2, 0, 1]] - y, lambda x, y: x.transpose(0, 1)[[2, 0, 1]] - y),
    (lambda x, y: x[x[0].argmax()] + y, lambda x, y: x.index_select(0, x[0].argmax()[None]) + y),
    (
        lambda x, y: np.take_along_axis(x, y.argsort(1), 1),
        lambda x, y: torch.take_along_dim(x, y.argsort(1), 1),
    ),
    (
        lambda x, y: np.linalg.solve(y @ y.T + 4 * np.eye(3), x),
        lambda x, y: torch.linalg.solve(y @ y.T + 4 * torch.eye(3, dtype=y.dtype), x),
    ),
    (lambda x, y: x / (1 + np.linalg.norm(y, axis=1)), lambda x, y: x / (1 + torch.linalg.norm(y, dim=1))),
    (lambda x, y: np.clip(x, -0.5, None) + np.tril(y), lambda x, y: torch.clip(x, -0.5) + torch.tril(y)),
    (lambda x, y: np.roll(x, 1, 0) + np.flip(y, 1), lambda x, y: torch.roll(x, 1, 0) + torch.flip(y, (1,))),
    (lambda x, y: np.exp(-np.abs(x)) + y.std(0), lambda x, y: torch.exp(-x.abs()) + y.std(0, correction=0)),
]


def program(steps, which):
    def run(x, y):
        for k in steps:
            x, y = y, STEPS[k][which](x, y)
        return x, y

    return run


@settings(max_examples=50)
@given(
    steps=st.lists(st.integers(0, len(STEPS) - 1), min_size=1, max_size=6),
    dims=st.sampled_from([(0, 0), (0, None), (None, 0), (1, 2), (-1, None), (2, 0)]),
    out_dims=st.sampled_from([0, 1, -1, (0, 2)]),
    nested=st.sampled_from([None, (0, 0), (0, None), (None, 0)]),
    seed=st.integers(0, 2**16),
)
def test_random_programs(steps, dims, out_dims, nested, seed):
    if None in dims:
        out_dims = 0  # for another one torch expands a result that is not mapped in the wrong place
    rng = np.random.default_rng(seed)
    args = []
    for position, dim in enumerate(dims):
        shape = [3, 3]
        if dim is not None:
            shape.insert(dim % 3, 4)
        if nested is not None and nested[position] is not None:
            shape.insert(0, 2)
        args.append(rng.standard_normal(shape))
    mine, theirs = (map_(program(steps, k), dims, out_dims) for k, map_ in enumerate((vmap, torch.vmap)))
    if nested is not None:
        mine, theirs = vmap(mine, nested), torch.vmap(theirs, nested)
    kept = [arg.copy() for arg in args]
    got = mine(*args)
    expected = theirs(*[torch.from_numpy(arg) for arg in args])
    for g, e in zip(got, expected, strict=True):
        assert g.shape == tuple(e.shape)
        # Both lose digits in long chains of products, by the size of what they hold.
        np.testing.assert_allclose(g, e.numpy(), rtol=1e-6, atol=1e-6 * max(1.0, float(e.abs().max())))
    np.testing.assert_equal(args, kept)


# Each step takes a TensorDict of batch (2,) with "a" (2, 3) and "n"/"b" (2, 3), and an array (2, 3);
# it leaves such a TensorDict.
TD_STEPS = {
    "set": lambda td, x: td.set("a", td["a"] * 2 + x),
    "set nested": lambda td, x: td.set(("n", "b"), td["n", "b"] - x),
    "item": lambda td, x: td.update({"c": td["a"][..., 0] + 0}),
    "new node": lambda td, x: td.set(("m", "deep", "c"), x + td["a"]),
    "add": lambda td, x: td + 1,
    "multiply": lambda td, x: td * td,
    "by rows": lambda td, x: td * x[:, 0] + x.sum(),
    "apply": lambda td, x: td.apply(lambda v: v / 2 - 1),
    "named_apply": lambda td, x: td.named_apply(lambda name, v: v + len(name), nested_keys=False),
    "in place": lambda td, x: td.apply_(lambda v: v * 3),
    "replace": lambda td, x: td.replace(a=td["a"].sum(-1)[..., None] + x),
    "select": lambda td, x: td.select("a", ("n", "b")),
    "exclude": lambda td, x: td.exclude("c", "m"),
    "rename": lambda td, x: td.copy().rename_key_("a", "z").rename_key_("z", "a"),
    "flatten": lambda td, x: td.flatten_keys(".").unflatten_keys("."),
    "index": lambda td, x: td[[1, 0]],
    "slice": lambda td, x: td[:1].expand(2).clone(),
    "unsqueeze": lambda td, x: td.unsqueeze(0).squeeze(0),
    "reshape": lambda td, x: td.reshape(1, 2).reshape(2),
    "repeat": lambda td, x: td[[1, 1]],
    "clone": lambda td, x: td.clone().set("a", x + 0),
    "update": lambda td, x: td.update({"a": x + 0, "n": {"b": x * x}}),
    "pop": lambda td, x: td.set("a", td.pop("a") + 1),
    "clamp": lambda td, x: td.clamp(-1, 1),
    "abs": lambda td, x: td.abs(),
    "exp": lambda td, x: td.clamp(-2, 2).exp(),
    "node": lambda td, x: td.set("n", td["n"] * 2),
    "where": lambda td, x: td.where(td["a"].sum(-1) * 0 == 0, td * 0),
    "shape": lambda td, x: td.set("a", td["a"] + float(td.batch_size[0])),
}


def td_program(names):
    def run(td, x):
        for name in names:
            td = TD_STEPS[name](td, x)
        return td

    return run


def pair(mapped, seed):
    rng = np.random.default_rng(seed)
    batch = (4, 2) if mapped else (2,)
    a, b = rng.standard_normal((*batch, 3)), rng.standard_normal((*batch, 3))
    mine = lite.TensorDict({"a": a.copy(), "n": lite.TensorDict({"b": b.copy()}, batch)}, batch)
    node = tensordict.TensorDict({"b": torch.from_numpy(b.copy())}, batch)
    return mine, tensordict.TensorDict({"a": torch.from_numpy(a.copy()), "n": node}, batch)


def assert_same_entries(got, expected):
    assert tuple(got.batch_size) == tuple(expected.batch_size)
    keys = set(expected.keys(True, True))
    assert set(got.keys(True, True)) == keys
    for key in keys:
        value = expected.get(key).numpy()
        scale = max(1.0, float(np.abs(value[np.isfinite(value)]).max(initial=0)))
        assert got.get(key).dtype == value.dtype
        np.testing.assert_allclose(got.get(key), value, rtol=1e-9, atol=1e-9 * scale)


@settings(max_examples=50)
@given(
    names=st.lists(st.sampled_from(sorted(TD_STEPS)), min_size=1, max_size=6),
    mapped=st.sampled_from([(True, True), (True, False), (False, True)]),
    seed=st.integers(0, 2**16),
)
def test_programs(names, mapped, seed):
    mine, theirs = pair(mapped[0], seed)
    x = np.random.default_rng(seed + 1).standard_normal((4, 2, 3) if mapped[1] else (2, 3))
    kept = mine.clone()
    dims = tuple(0 if on else None for on in mapped)
    run = td_program(names)
    got = vmap(run, dims)(mine, x.copy())
    rows = [
        run(
            theirs[k].clone() if mapped[0] else theirs.clone(),
            torch.from_numpy((x[k] if mapped[1] else x).copy()),
        )
        for k in range(4)
    ]
    assert_same_entries(got, tensordict.stack(rows))
    assert list(mine.keys(True, True)) == list(kept.keys(True, True))
    if "in place" not in names:  # which writes into the arrays that it is given
        assert (mine == kept).all()


LAYERS = ["Linear", "Tanh", "ReLU", "LayerNorm", "Softmax", "Flatten"]


def network(lib, names):
    makers = {
        "Linear": lambda: lib.Linear(3, 3),
        "LayerNorm": lambda: lib.LayerNorm(3),
        "Softmax": lambda: lib.Softmax(-1),
        "Flatten": lambda: lib.Flatten(-1),
    }
    return lib.Sequential(*[makers.get(name, getattr(lib, name))() for name in names], lib.Linear(3, 2))


@settings(max_examples=20)
@given(
    names=st.lists(st.sampled_from(LAYERS), max_size=4),
    batch=st.sampled_from([(), (1,), (5,), (2, 5)]),
    mapped=st.booleans(),
    nested=st.booleans(),
    lazy=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_modules(names, batch, mapped, nested, lazy, seed):
    """Stacked parameters of TensorDictModules, on inputs that are shared or not; also a map within a map."""
    if "Flatten" in names and not batch:
        batch = (5,)
    torch.manual_seed(seed)
    theirs = [network(torch.nn, names) for _ in range(3)]
    mine = [network(nn, names) for _ in range(3)]
    for module, source in zip(mine, theirs, strict=True):
        source.double()
        module.double().load_state_dict({name: value.numpy() for name, value in source.state_dict().items()})
    x = np.random.default_rng(seed).standard_normal(((3,) if mapped else ()) + batch + (3,))

    def run(lib, map_, modules, td, from_modules):
        module = lib.TensorDictModule(modules[0], ["x"], ["y"])

        def call(params, td):
            with params.to_module(modules[0]):
                return module(td)

        each = map_(call, (0, 0 if mapped else None))
        if nested and not mapped and batch:
            each = map_(map_(call, (0, None)), (None, 0))
        return each(from_modules(*modules, lazy_stack=lazy), td)

    size = x.shape[:-1]
    got = run(nn, vmap, mine, lite.TensorDict({"x": x}, size), lite.from_modules)
    with torch.no_grad():
        td = tensordict.TensorDict({"x": torch.from_numpy(x)}, size)
        expected = run(reference, torch.vmap, theirs, td, tensordict.from_modules)
    assert tuple(got.batch_size) == tuple(expected.batch_size)
    assert set(got.keys()) == set(expected.keys())
    for key in ("x", "y"):
        np.testing.assert_allclose(got[key], expected[key].numpy(), rtol=1e-8, atol=1e-10)
