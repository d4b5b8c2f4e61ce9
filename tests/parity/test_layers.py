"""Layers against torch's, with the same weights: values, state-dict keys, repr, errors."""

import numpy as np
import pytest
import torch
from helpers.cases import each_case, raises
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.layers import RTOL, agree, pair

from lite import nn

# name, constructor arguments, shape of the features at the end of the input
POINTWISE = [
    ("ReLU", {}),
    ("LeakyReLU", {}),
    *(("LeakyReLU", {"negative_slope": slope}) for slope in (-0.5, 0.2, 2.0)),
    ("ELU", {}), ("ELU", {"alpha": 0.5}), ("CELU", {"alpha": 0.5}), ("SELU", {}),
    ("GELU", {}), ("GELU", {"approximate": "tanh"}), ("SiLU", {}),
    ("Tanh", {}), ("Sigmoid", {}), ("Softplus", {}),
    ("Softplus", {"beta": 2.0, "threshold": 3.0}),
    ("Softmax", {"dim": -1}),
    ("LogSoftmax", {"dim": 0}),
    ("Identity", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), POINTWISE)
@settings(max_examples=10)
@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    dtype=st.sampled_from(sorted(RTOL)),
    scale=st.sampled_from([0.1, 1.0, 20.0, 1e4]),
)
def test_pointwise(name, options, shape, dtype, scale):
    x = (np.random.default_rng(0).normal(size=shape) * scale).astype(dtype)
    ours, theirs = pair(name, **options)
    agree(ours, theirs, x, rtol=RTOL[dtype] * (20 if scale == 1e4 else 1))


@each_case(("dtype", "scale"), zip(sorted(RTOL), [1.0, 10.0, 0.1], strict=True))
@each_case("name", [name for name in POINTWISE if name[0] in ("GELU", "SiLU")])
def test_large_arrays(rng, name, dtype, scale):
    """What compiled code computes."""
    x = (rng.normal(size=(16, 1 << 12)) * scale).astype(dtype)
    ours, theirs = pair(name[0], **name[1])
    agree(ours, theirs, x, rtol=RTOL[dtype] * (2 if scale == 10.0 else 1))  # torch's own error


@each_case(("name", "options"), [case for case in POINTWISE if "oftmax" not in case[0]])
@each_case("dtype", ["float32", "float64"])
def test_pointwise_of_special_numbers(name, options, dtype):
    x = np.array([np.nan, 1e30, -1e30, 100.0, -100.0, 0.0, 1e-30, -1e-30, -np.inf], dtype)
    ours, theirs = pair(name, **options)
    agree(ours, theirs, x, rtol=RTOL[dtype])
    if name != "GELU":  # torch's is NaN there, the limit is inf
        agree(ours, theirs, np.array([np.inf], dtype), rtol=RTOL[dtype])


@each_case("name", ["ReLU", "LeakyReLU", "ELU", "SiLU"])
def test_pointwise_in_place(rng, name):
    x = rng.normal(size=5).astype(np.float32)
    expected = getattr(nn, name)()(x.copy())
    ours = getattr(nn, name)(inplace=True)
    assert repr(ours) == repr(getattr(torch.nn, name)(inplace=True))
    assert ours(x) is x
    np.testing.assert_array_equal(x, expected)


@each_case("name", ["Softmax", "LogSoftmax"])
@each_case("shape", [(), (3,), (2, 3), (2, 3, 4), (2, 3, 4, 5)])
@pytest.mark.filterwarnings("ignore:Implicit dimension choice:UserWarning")
def test_softmax_without_dim(rng, name, shape):
    x = np.asarray(rng.normal(size=shape).astype(np.float32))
    theirs = getattr(torch.nn, name)()
    with pytest.warns(UserWarning, match="without dim takes dimension"):
        got = getattr(nn, name)()(x)
    np.testing.assert_allclose(got, theirs(torch.from_numpy(x)).numpy(), rtol=1e-5)
    raises(IndexError, "dim must be", lambda: getattr(nn, name)(7)(x))


@settings(max_examples=13)
@given(
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    dims=st.tuples(st.integers(-5, 4), st.integers(-5, 4)),
)
def test_flatten(shape, dims):
    x = np.zeros(shape, np.float32)
    ours, theirs = nn.Flatten(*dims), torch.nn.Flatten(*dims)
    assert repr(ours) == repr(theirs)
    try:
        expected = tuple(theirs(torch.from_numpy(x)).shape)
    except (IndexError, RuntimeError) as err:
        raises(type(err), "", lambda: ours(x))
    else:
        assert ours(x).shape == expected


@each_case(
    "options",
    [
        {"num_cells": [5, 6]},
        {"num_cells": 5, "depth": 2},
        {"depth": 1},
        {},
        {"num_cells": [5], "activate_last_layer": True, "bias_last_layer": False},
        {"num_cells": [5], "single_bias_last_layer": True},
        {"num_cells": [5], "dropout": 0.2, "norm_class": "LayerNorm", "norm_kwargs": {"normalized_shape": 5}},
        {"num_cells": [5], "activation_class": "ELU", "activation_kwargs": {"alpha": 0.3}},
        {"num_cells": [5], "out_features": (2, 3)},
        {"num_cells": [5, 4], "layer_kwargs": [{"bias": False}, {}, {}]},
    ],
)
def test_mlp(rng, options):
    modules = pytest.importorskip("torchrl.modules", reason="needs the parity extra: torchrl")

    def build(library, mlp):
        given = {
            key: getattr(library, value) if key.endswith("_class") else value
            for key, value in options.items()
        }
        if "layer_kwargs" in given:
            given["layer_kwargs"] = [dict(each) for each in given["layer_kwargs"]]  # torchrl empties them
        return mlp(in_features=3, **({"out_features": 2} | given)).eval()

    theirs, ours = build(torch.nn, modules.MLP), build(nn, nn.MLP)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    x = rng.normal(size=(4, 3)).astype(np.float32)
    agree(ours, theirs, x)
    agree(ours, theirs, x[:, :1], x[:, 1:])


INITIAL = [
    *(("Linear", (16, 4000), {}), ("Bilinear", (9, 30, 200), {}), ("Embedding", (4000, 8), {})),
    *(("Conv1d", (30, 400, 3), {}), ("Conv2d", (12, 400, (2, 3)), {})),
    *((name, (30, 100), {}) for name in ("RNN", "GRU", "LSTM", "RNNCell", "GRUCell", "LSTMCell")),
    *(("MultiheadAttention", (64, 4), o) for o in ({"add_bias_kv": True}, {"kdim": 20, "vdim": 30})),
]


@each_case(("name", "args", "options"), INITIAL)
def test_initial_values_have_torchs_distribution(name, args, options):
    quantiles = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]
    ours, theirs = getattr(nn, name)(*args, rng=0, **options), getattr(torch.nn, name)(*args, **options)
    for key, value in theirs.state_dict().items():
        mine = ours.state_dict()[key]
        found, expected = (np.quantile(x, quantiles) for x in (mine, value.numpy()))
        tolerance = 10 * float(value.std()) / np.sqrt(mine.size)
        np.testing.assert_allclose(found, expected, atol=tolerance, err_msg=key)
