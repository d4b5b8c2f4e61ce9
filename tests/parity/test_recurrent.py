"""RNN, LSTM, GRU and their cells against torch's: all options, states, wrong shapes."""

import numpy as np
import pytest
import torch
from helpers.cases import each_case
from hypothesis import given
from hypothesis import strategies as st
from parity.layers import agree, pair

from lite import nn

CELLS = ["RNNCell", "GRUCell", "LSTMCell"]
LAYERS = ["RNN", "GRU", "LSTM"]
DTYPES = st.sampled_from(["float32", "float64"])


def state(rng, name, shapes, dtype):
    """One state, or for an LSTM two."""
    arrays = tuple(rng.normal(size=shape).astype(dtype) for shape in shapes)
    return arrays if name.startswith("LSTM") else arrays[0]


@pytest.mark.parametrize("name", CELLS)
@given(
    batch=st.sampled_from([(), (0,), (1,), (5,)]),
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    bias=st.booleans(),
    relu=st.booleans(),
    given_state=st.booleans(),
    dtype=DTYPES,
)
def test_cells(name, batch, sizes, bias, relu, given_state, dtype):
    rng = np.random.default_rng(0)
    options = {"nonlinearity": "relu"} if relu and name == "RNNCell" else {}
    ours, theirs = pair(name, *sizes, bias=bias, dtype=dtype, **options)
    x = rng.normal(size=(*batch, sizes[0])).astype(dtype)
    rest = (state(rng, name, [(*batch, sizes[1])] * 2, dtype),) if given_state else ()
    agree(ours, theirs, x, *rest)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
@pytest.mark.parametrize("name", LAYERS)
@given(data=st.data(), dtype=DTYPES)
def test_layers(name, data, dtype):
    rng = np.random.default_rng(0)
    size, hidden, layers = (data.draw(st.integers(1, n)) for n in (4, 5, 3))
    options = {
        "num_layers": layers,
        "bias": data.draw(st.booleans()),
        "batch_first": data.draw(st.booleans()),
        "bidirectional": data.draw(st.booleans()),
    }
    width = hidden
    if name == "LSTM" and hidden > 1:
        options["proj_size"] = data.draw(st.integers(0, hidden - 1))
        width = options["proj_size"] or hidden
    if name == "RNN":
        options["nonlinearity"] = data.draw(st.sampled_from(["tanh", "relu"]))
    ours, theirs = pair(name, size, hidden, dtype=dtype, **options)
    time, batch = data.draw(st.integers(1, 6)), data.draw(st.sampled_from([None, 1, 4]))
    leading = (time,) if batch is None else (batch, time) if options["batch_first"] else (time, batch)
    x = rng.normal(size=(*leading, size)).astype(dtype)
    rest = ()
    if data.draw(st.booleans()):
        count = layers * (1 + options["bidirectional"])
        middle = () if batch is None else (batch,)
        rest = (state(rng, name, [(count, *middle, width), (count, *middle, hidden)], dtype),)
    # relu grows without bound, and with it the rounding errors
    agree(
        ours, theirs, x, *rest,
        rtol=1e-4 if options.get("nonlinearity") == "relu" and dtype == "float32" else None,
    )  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_the_repr_shows_what_is_not_the_default(name):
    options = {"num_layers": 2, "bias": False, "batch_first": True, "dropout": 0.5, "bidirectional": True}
    ours, _ = pair(name, 3, 4, **options)
    assert [len(group) for group in ours.all_weights] == [2] * 4
    if name == "LSTM":
        pair(name, 3, 4, proj_size=2)


@pytest.mark.parametrize("name", LAYERS)
def test_dropout_between_layers(rng, name):
    x = rng.normal(size=(5, 2, 3)).astype(np.float32)
    one, two = (getattr(nn, name)(3, 4, num_layers=2, dropout=0.5, rng=0) for _ in range(2))
    first, second = one(x)[0], one(x)[0]
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(two(x)[0], first)
    np.testing.assert_array_equal(one.eval()(x)[0], two.eval()(x)[0])
    ours, theirs = pair(name, 3, 4, num_layers=2, dropout=1.0)  # all zeros: nothing is left to chance
    agree(ours, theirs, x)


@each_case("name", LAYERS)
@each_case(
    "options",
    [
        {"input_size": 0}, {"hidden_size": 0}, {"num_layers": 0}, {"dropout": 1.5}, {"dropout": True},
        {"bias": 1}, {"batch_first": None}, {"input_size": 2.0},
    ],
)  # fmt: skip
def test_errors_of_arguments(name, options):
    given_options = {"input_size": 2, "hidden_size": 3} | options
    with pytest.raises((ValueError, TypeError)) as theirs:
        getattr(torch.nn, name)(**given_options)
    with pytest.raises(theirs.type, match="got"):
        getattr(nn, name)(**given_options)
