"""Which calls of layers are one node."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.cases import each_case
from helpers.central_differences import results_of
from helpers.layer_cases import CASES, Case

import lite
from lite import TensorDict, nn, stack, vmap
from lite._transforms.grad.array import TracedArray
from lite.nn.layers.recorded import is_recorded
from lite.nn.values.entries import detached


def test_plain_arrays_behind_traced_ones() -> None:
    x = np.ones((2, 3))

    def asked(y: Any) -> Any:
        assert type(y) is TracedArray
        assert is_recorded(x, y, None)
        assert is_recorded(y)
        assert not is_recorded(x, None)
        return y.sum()

    lite.grad(asked)(x)


def test_arrays_of_maps() -> None:
    found = []

    def inside(y: Any) -> Any:
        found.append(is_recorded(y))
        return (y * y).sum()

    x = np.ones((2, 3))
    vmap(lite.grad(inside))(x)  # maps behind traced arrays
    lite.grad(lambda y: vmap(inside)(y).sum())(x)  # traced arrays behind maps
    assert found == [False, False]


def nodes(out: Any) -> int:
    """How many computations are behind a result."""
    seen, pending = set(), [out.node]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        vjp = node.vjp
        pending += [parent for parent, _ in node.parents or ()]
        pending += list(vjp.nodes) if vjp is not None else []
    return len([node for node in seen if node.parents or node.vjp is not None])


def test_a_network_is_one_node_per_layer() -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 8), nn.Softmax(-1))
    with lite.enable_grad():
        assert nodes(net(np.ones((4, 3), np.float32))) == 5
        gru = nn.GRU(3, 4)
        assert nodes(gru(np.ones((9, 2, 3), np.float32))[0]) == 1
        image = np.ones((2, 3, 8, 8), np.float32)
        layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(3))
        assert nodes(layers(image)) == 4


# Layers with derivatives of their own; the others are made of these, and have their turn all at once below.
OWN = {
    *("Bilinear", "Embedding with padding", "LayerNorm", "RMSNorm of a vector", "BatchNorm1d"),
    *("SiLU", "GELU", "Softplus", "LogSoftmax", "Conv1d of a sequence", "Conv1d by groups", "Conv2d"),
    *("MaxPool2d", "AvgPool2d", "RNNCell", "GRUCell without bias", "LSTMCell of a vector", "RNN", "LSTM"),
    *("GRU of a sequence", "MultiheadAttention with more keys", "TransformerEncoderLayer, norm first"),
}
WITH_PARAMETERS = [case for case in CASES if case.title in OWN]


def problem(case: Case) -> tuple[Callable[..., Any], Any]:
    """A number of parameters and inputs, and parameters."""
    layer, rng = case.make(nn), np.random.default_rng(0)
    for parameter in layer.parameters():
        parameter.data = rng.uniform(-0.4, 0.6, parameter.shape)
    for buffer in layer.buffers():
        if buffer.dtype.kind == "f":
            buffer[...] = rng.uniform(0.1, 1, buffer.shape)
    options = case.call_options(np.float64)

    def loss(params: Any, *inputs: Any) -> Any:
        with params.unflatten_keys(".").to_module(layer):
            out = layer(*inputs, **options)
        weights = np.random.default_rng(1)
        total: Any = 0.0
        for x in out if isinstance(out, tuple) else (out,):
            for part in x if isinstance(x, tuple) else (x,):
                if part is not None and part.dtype.kind == "f":
                    total = total + (part * weights.standard_normal(part.shape)).sum()
        return total

    return loss, TensorDict(dict(layer.named_parameters())).data.clone()


def assert_same(got: Any, expected: Any, i: int) -> None:
    for key, value in expected.items():
        np.testing.assert_allclose(got[key][i], value, rtol=1e-7, atol=1e-9, err_msg=key)


@each_case("case", WITH_PARAMETERS, ids=lambda case: case.title)
def test_gradients_of_each_sample(case: Case) -> None:
    loss, params = problem(case)
    samples = [case.arrays(np.float64, seed) for seed in (0, 5)]
    stacked = [np.stack(column) for column in zip(*samples, strict=True)]
    each = vmap(lite.grad(loss), (None, *(0 for _ in stacked)))(params, *stacked)
    for i, sample in enumerate(samples):
        assert_same(each, lite.grad(loss)(params, *sample), i)


@each_case("case", WITH_PARAMETERS)
def test_gradients_of_several_sets_of_parameters(case: Case) -> None:
    loss, params = problem(case)
    arrays = case.arrays(np.float64)
    sets = [params, params.apply(lambda x: x + 0.1)]

    def all_sets(stacked: Any) -> Any:
        return vmap(loss, (0, *(None for _ in arrays)))(stacked, *arrays).sum()

    found = lite.grad(all_sets)(stack(sets))
    for i, one in enumerate(sets):
        assert_same(found, lite.grad(loss)(one, *arrays), i)


EVERY = [case for case in CASES if "training" not in case.title and "max_norm" not in case.title]


@each_case(("case", "dtype"), itertools.product(EVERY, [np.float16, np.float32]))
def test_values_are_those_without_gradients(case: Case, dtype: Any) -> None:
    layer, arrays, options = case.make(nn).eval(), case.arrays(dtype), case.call_options(dtype)
    expected = results_of(layer.to(dtype)(*arrays, **options))
    with lite.enable_grad():
        found = results_of(layer(*arrays, **options))
    for mine, other in zip(found, expected, strict=True):
        # Sums of half precision near 0 differ by two units of their terms: with the C library's tanh, or
        # where compiled code was loaded between the two.
        atol = 2e-3 if dtype is np.float16 else 1e-4
        np.testing.assert_allclose(detached(mine), other, rtol=1e-3, atol=atol, strict=True)


@each_case("case", EVERY)
def test_all_ways_back_at_once(case: Case) -> None:
    """What a gradient is multiplied with may be mapped where values are not: by parameters and inputs."""
    layer, arrays = case.make(nn).eval(), case.arrays(np.float64)
    options = case.call_options(np.float64)
    layer(*arrays, **options)  # gives lazy parameters their shapes
    params = TensorDict.from_module(layer.double()).data
    args = [params, *arrays]
    places = [0] if any(leaf.dtype.kind == "f" for leaf in params.values(True, True)) else []
    places += [i for i, x in enumerate(args) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]

    def some_results(*chosen: Any) -> Any:
        given = dict(zip(places, chosen, strict=True))
        params, *inputs = [given.get(i, x) for i, x in enumerate(args)]
        with params.to_module(layer):
            out = layer(*inputs, **options)
        return np.concatenate([part.reshape(-1)[:3] for part in results_of(out)])

    chosen = [args[i] for i in places]
    out, pull = lite.vjp(some_results, *chosen)
    rows = vmap(pull)(np.eye(out.size))
    for i, one in enumerate(np.eye(out.size)):
        for got, expected in zip(rows, pull(one), strict=True):
            if isinstance(expected, TensorDict):
                assert_same(got.flatten_keys("."), expected.flatten_keys("."), i)
            else:
                np.testing.assert_allclose(got[i], expected, rtol=1e-7, atol=1e-9)


@each_case("case", EVERY)
def test_gradients_of_gradients(case: Case) -> None:
    """By parameters and inputs, along a direction, beside the difference of gradients."""
    loss, params = problem(case)
    args = [params, *case.arrays(np.float64)]
    places = [i for i, x in enumerate(args) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    places = places if params.is_empty() else [0, *places]
    gradient, rng, step = lite.grad(loss, tuple(places)), np.random.default_rng(3), 1e-6

    def leaves(parts: Any) -> list[Any]:
        return [leaf for x in parts for leaf in (x.values(True, True) if isinstance(x, TensorDict) else [x])]

    ways = [
        x.apply(lambda leaf: rng.uniform(0.5, 1.5, leaf.shape))
        if isinstance(x, TensorDict)
        else rng.uniform(0.5, 1.5, x.shape)
        for x in (args[i] for i in places)
    ]

    def slope(*args: Any) -> Any:
        return sum((g * way).sum() for g, way in zip(leaves(gradient(*args)), leaves(ways), strict=True))

    second = lite.grad(lambda *args: slope(*args) + 0 * loss(*args), tuple(places))(*args)
    sides = []
    for sign in (step, -step):
        moved = list(args)
        for place, way in zip(places, ways, strict=True):
            moved[place] = moved[place] + way * sign
        sides.append(slope(*moved))
    found = sum((g * way).sum() for g, way in zip(leaves(second), leaves(ways), strict=True))
    np.testing.assert_allclose(found, (sides[0] - sides[1]) / (2 * step), rtol=1e-4, atol=1e-5)
