"""Layers with stacked parameters under vmap: what a loop over the modules gives, without a loop."""

import numpy as np
import pytest

from lite import TensorDict, from_modules, nn, vmap

SIZE = 3  # sets of parameters
# class, arguments, options, shapes of inputs, options of the call
LAYERS = [
    ("Linear", (3, 4), {}, [(5, 3)], {}),
    ("Linear", (3, 4), {"bias": False}, [(3,)], {}),
    ("Bilinear", (2, 3, 4), {}, [(5, 2), (5, 3)], {}),
    ("LayerNorm", (4,), {}, [(5, 4)], {}),
    ("RMSNorm", (4,), {}, [(5, 4)], {}),
    ("BatchNorm1d", (4,), {}, [(5, 4)], {}),
    ("Conv1d", (2, 4, 3), {"padding": 1}, [(5, 2, 7)], {}),
    ("Conv1d", (2, 4, 3), {"padding": "same", "padding_mode": "reflect"}, [(2, 7)], {}),
    ("Conv2d", (2, 4, 3), {"stride": 2, "groups": 2}, [(5, 2, 7, 8)], {}),
    ("Conv2d", (2, 4, 1), {"bias": False}, [(2, 7, 8)], {}),
    ("MaxPool2d", (2,), {"padding": 1}, [(5, 2, 7, 8)], {}),
    ("MaxPool2d", (2,), {"return_indices": True, "ceil_mode": True}, [(2, 7, 8)], {}),
    ("AvgPool2d", (2,), {"padding": 1}, [(5, 2, 7, 8)], {}),
    ("RNNCell", (3, 4), {}, [(5, 3), (5, 4)], {}),
    ("GRUCell", (3, 4), {}, [(5, 3), (5, 4)], {}),
    ("GRUCell", (3, 4), {"bias": False}, [(3,)], {}),
    ("LSTMCell", (3, 4), {}, [(5, 3)], {}),
    ("RNN", (3, 4), {"nonlinearity": "relu"}, [(6, 5, 3)], {}),
    ("GRU", (3, 4), {"num_layers": 2, "bidirectional": True}, [(6, 5, 3)], {}),
    ("GRU", (3, 4), {"batch_first": True}, [(5, 6, 3), (1, 5, 4)], {}),
    ("LSTM", (3, 4), {"proj_size": 2, "num_layers": 2}, [(6, 3)], {}),
    ("MultiheadAttention", (8, 2), {}, [(6, 5, 8)] * 3, {}),
    (
        "MultiheadAttention",
        (8, 2),
        {"batch_first": True, "add_bias_kv": True},
        [(5, 6, 8)] * 3,
        {"need_weights": False},
    ),
    ("MultiheadAttention", (8, 2), {"kdim": 3, "add_zero_attn": True}, [(6, 8), (7, 3), (7, 8)], {}),
    (
        "MultiheadAttention",
        (8, 2),
        {},
        [(6, 5, 8)] * 3,
        {"attn_mask": np.triu(np.ones((6, 6), bool), 1), "key_padding_mask": np.eye(5, 6, dtype=bool)},
    ),
    ("TransformerEncoderLayer", (8, 2, 16), {}, [(6, 5, 8)], {}),
    ("TransformerEncoderLayer", (8, 2, 16), {"norm_first": True, "activation": "gelu"}, [(6, 8)], {}),
    ("TransformerDecoderLayer", (8, 2, 16), {"batch_first": True}, [(5, 6, 8), (5, 7, 8)], {}),
    ("Transformer", (8, 2, 1, 1, 16), {}, [(6, 5, 8), (4, 5, 8)], {}),
]
CASES = [
    pytest.param(case, mapped, id=f"{case[0]}-{i}-{mapped}")
    for i, case in enumerate(LAYERS)
    for mapped in ("parameters", "inputs", "both")
    if mapped == "inputs" or "Pool" not in case[0]  # which has no parameters
]


def build(case, rng):
    """Modules with parameters of their own, in float64 and evaluation mode."""
    name, args, options, *_ = case
    modules = [getattr(nn, name)(*args, **options).double().eval() for _ in range(SIZE)]
    for module in modules:
        for value in (*module.parameters(), *module.buffers()):
            if value.dtype.kind == "f":
                value[...] = rng.uniform(0.1, 1.0, value.shape)
    return modules


def arrays(value):
    """The arrays of a result: attention gives None in place of weights that nobody asked for."""
    return (
        tuple(leaf for item in value for leaf in arrays(item))
        if isinstance(value, tuple)
        else (value,) * (value is not None)
    )


def assert_same(got, parts):
    """A result against those of the single modules."""
    assert len(got) == len(arrays(parts[0]))
    for mine, *expected in zip(got, *map(arrays, parts), strict=True):
        np.testing.assert_allclose(mine, np.stack(expected), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("case", "mapped"), CASES)
def test_layers(rng, case, mapped):
    *_, shapes, call = case
    modules = build(case, rng)
    lead = () if mapped == "parameters" else (SIZE,)
    inputs = [rng.normal(size=(*lead, *shape)) for shape in shapes]
    if mapped == "inputs":
        out = vmap(lambda *x: arrays(modules[0](*x, **call)), (0,) * len(inputs))(*inputs)
        parts = [modules[0](*(x[i] for x in inputs), **call) for i in range(SIZE)]
    else:
        params = from_modules(*modules)

        def run(p, *x):
            with p.to_module(modules[0]):
                return arrays(modules[0](*x, **call))

        dims = (None if mapped == "parameters" else 0,) * len(inputs)
        before = modules[0].state_dict()
        out = vmap(run, (0, *dims))(params, *inputs)
        for key, value in modules[0].state_dict().items():
            np.testing.assert_array_equal(value, before[key])
        parts = [
            module(*(x if mapped == "parameters" else x[i] for x in inputs), **call)
            for i, module in enumerate(modules)
        ]
    assert_same(out, parts)


def test_embedding(rng):
    modules = [nn.Embedding(7, 3, rng=i) for i in range(SIZE)]
    x = rng.integers(0, 7, (5,))
    params = from_modules(*modules)

    def run(p, x):
        with p.to_module(modules[0]):
            return modules[0](x)

    np.testing.assert_array_equal(vmap(run, (0, None))(params, x), np.stack([m(x) for m in modules]))


def test_nested_maps(rng):
    """Over sets of parameters, and inside over inputs."""
    case = next(case for case in LAYERS if case[0] == "GRU")
    modules = build(case, rng)
    x = rng.normal(size=(2, 6, 5, 3))
    params = from_modules(*modules)

    def run(p, x):
        with p.to_module(modules[0]):
            return modules[0](x)[0]

    out = vmap(lambda p: vmap(lambda one: run(p, one))(x))(params)
    np.testing.assert_allclose(out, [[m(one)[0] for one in x] for m in modules], rtol=1e-10)


def test_ensemble_of_a_recurrent_policy(rng):
    cell = nn.TensorDictModule(nn.GRUCell(3, 4, rng=0), in_keys=["x", "h"], out_keys=["h"])
    ensemble = nn.EnsembleModule(cell, num_copies=SIZE, rng=0)
    td = TensorDict({"x": rng.normal(size=(5, 3)), "h": np.zeros((5, 4))}, batch_size=[5])
    out = ensemble(td)["h"]
    assert out.shape == (SIZE, 5, 4)
    for i in range(SIZE):
        with ensemble.params_td[i].to_module(cell):
            np.testing.assert_allclose(out[i], cell(td.clone())["h"], rtol=1e-6)
