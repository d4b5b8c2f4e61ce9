"""vmap against torch.vmap: random programs, arguments, errors, TensorDicts and modules."""

import numpy as np
import pytest
import tensordict
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lite
from lite import vmap

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


@settings(max_examples=150)
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
    for arg, before in zip(args, kept, strict=True):
        np.testing.assert_array_equal(arg, before)


@pytest.mark.parametrize(
    ("in_dims", "out_dims", "make", "fn"),
    [
        ([0], 0, lambda lib: (lib(3, 2),), lambda x: x),
        (0, 0, lambda lib: (), lambda: 1),
        ((0, 0), 0, lambda lib: (lib(3, 2),), lambda x: x),
        (("x",), 0, lambda lib: (lib(3, 2),), lambda x: x),
        ((0, 0), 0, lambda lib: (lib(3, 2), 3.0), lambda x, y: x),
        ((2,), 0, lambda lib: (lib(3, 2),), lambda x: x),
        ((-3,), 0, lambda lib: (lib(3, 2),), lambda x: x),
        ((None,), 0, lambda lib: (lib(3, 2),), lambda x: x),
        (0, 0, lambda lib: (lib(3, 2), lib(4, 2)), lambda x, y: x),
        (0, 0, lambda lib: (lib(3, 2),), lambda x: 3),
        (0, 0, lambda lib: (lib(3, 2),), lambda x: None),
        (0, (0, 0), lambda lib: (lib(3, 2),), lambda x: x),
        (0, None, lambda lib: (lib(3, 2),), lambda x: x),
    ],
)
def test_errors_are_of_the_same_class(in_dims, out_dims, make, fn):
    with pytest.raises(ValueError):
        torch.vmap(fn, in_dims, out_dims)(*make(torch.ones))
    with pytest.raises(ValueError):
        vmap(fn, in_dims, out_dims)(*make(lambda *shape: np.ones(shape)))


@pytest.mark.parametrize(
    "fn", [lambda x: x if x.sum() > 0 else -x, lambda x: float(x[0]) * x, lambda x: x[0].item() * x]
)
def test_refusals_are_of_the_same_class(fn):
    with pytest.raises(RuntimeError):
        torch.vmap(fn)(torch.ones(3, 2))
    with pytest.raises(RuntimeError):
        vmap(fn)(np.ones((3, 2)))


def both(entries, batch, **kwargs):
    mine = lite.TensorDict({k: v.copy() for k, v in entries.items()}, batch_size=batch, **kwargs)
    arrays = {k: torch.from_numpy(v.copy()) for k, v in entries.items()}
    return mine, tensordict.TensorDict(arrays, batch_size=batch, **kwargs)


def assert_same(got, expected):
    assert got.batch_size == tuple(expected.batch_size)
    assert got.names == expected.names or got.names == [None] * got.ndim
    assert set(got.keys(True, True)) == set(expected.keys(True, True))
    for key in got.keys(True, True):
        np.testing.assert_allclose(got.get(key), expected.get(key).numpy(), rtol=1e-6)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("out_dim", [0, 1])
def test_tensordicts(dim, out_dim):
    entries = {"a": np.random.default_rng(0).standard_normal((3, 4, 2))}
    mine, theirs = both(entries, [3, 4])

    def fn(td):
        td["b"] = td["a"] * 2 + 1
        return td

    assert_same(vmap(fn, dim, out_dim)(mine), torch.vmap(fn, dim, out_dim)(theirs))
    assert list(mine.keys()) == list(theirs.keys()) == ["a"]
    # There a negative dimension counts those of each entry, and what is set does not fit.
    np.testing.assert_array_equal(
        vmap(fn, dim - 2, out_dim - 2)(mine)["b"], vmap(fn, dim, out_dim)(mine)["b"]
    )


def test_names():
    mine, theirs = both({"a": np.ones((3, 4))}, [3, 4], names=["t", "e"])
    for dim in (0, 1):
        expected = torch.vmap(lambda td: td, dim)(theirs).names
        assert vmap(lambda td: td, dim)(mine).names == expected


@pytest.mark.parametrize("lock", [False, True])
def test_writes_on_lazy_stacks(lock):
    def fn(td):
        td["b"] = td["a"] + 1
        return td

    mine = lite.lazy_stack([lite.TensorDict(a=np.full(2, float(i))) for i in range(3)])
    theirs = tensordict.lazy_stack([tensordict.TensorDict(a=torch.full((2,), float(i))) for i in range(3)])
    if lock:
        mine.lock_()
        theirs.lock_()
        with pytest.raises(RuntimeError):
            torch.vmap(fn)(theirs)
        with pytest.raises(RuntimeError):
            vmap(fn)(mine)
        return
    got, expected = vmap(fn)(mine), torch.vmap(fn)(theirs)
    np.testing.assert_array_equal(got["b"], expected["b"].numpy())
    assert list(mine.keys()) == list(theirs.keys()) == ["a"]
