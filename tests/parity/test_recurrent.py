"""RNN, LSTM, GRU and their cells against torch's: all options, states, wrong shapes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parity.layers import agree, assert_agree, outcomes, pair, to_torch

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
        ours,
        theirs,
        x,
        *rest,
        rtol=1e-4 if options.get("nonlinearity") == "relu" and dtype == "float32" else None,
    )


@pytest.mark.parametrize("name", LAYERS)
def test_the_repr_shows_what_is_not_the_default(name):
    options = {"num_layers": 2, "bias": False, "batch_first": True, "dropout": 0.5, "bidirectional": True}
    ours, _ = pair(name, 3, 4, **options)
    assert [len(group) for group in ours.all_weights] == [2] * 4
    if name == "LSTM":
        pair(name, 3, 4, proj_size=2)


def test_gru_cell_of_the_documentation():
    cell = nn.GRUCell(2, 2)
    weights = {
        "weight_ih": [
            [-0.005293981, 0.37932289],
            [-0.58198076, -0.52038747],
            [-0.27234524, 0.18961589],
            [-0.01401003, 0.5606575],
            [-0.06275152, 0.18710934],
            [-0.21369693, -0.13899271],
        ],
        "weight_hh": [
            [-0.67553341, -0.46830416],
            [-0.29148576, 0.02619376],
            [0.2795442, 0.42428017],
            [-0.47937673, -0.30791873],
            [0.25683329, 0.58717293],
            [-0.1455227, 0.5291363],
        ],
        "bias_ih": [-0.11397384, 0.07482187, 0.64026839, -0.65596199, -0.44515052, -0.17901486],
        "bias_hh": [-0.27563018, 0.61094081, -0.45833221, -0.32550448, -0.4940134, -0.66224861],
    }
    cell.load_state_dict({key: np.array(value, np.float32) for key, value in weights.items()})
    out = cell(np.array([0.5, -1.0], np.float32), np.array([0.1, 0.2], np.float32))
    np.testing.assert_allclose(out, [-0.27709949, -0.3895936], rtol=1e-6)


@pytest.mark.parametrize("name", ["GRU", "LSTM"])
def test_half_precision(rng, name):
    # torch rounds at every step
    ours, theirs = pair(name, 3, 4, dtype="float16")
    agree(ours, theirs, rng.normal(size=(5, 2, 3)).astype(np.float16), rtol=2e-2)


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


def test_dropout_of_one_layer_warns():
    with pytest.warns(UserWarning, match="dropout comes between layers"):
        nn.GRU(2, 3, dropout=0.5)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    "options",
    [
        {"input_size": 0},
        {"hidden_size": 0},
        {"num_layers": 0},
        {"dropout": 1.5},
        {"dropout": True},
        {"bias": 1},
        {"batch_first": None},
        {"input_size": 2.0},
    ],
)
def test_errors_of_arguments(name, options):
    given_options = {"input_size": 2, "hidden_size": 3} | options
    with pytest.raises((ValueError, TypeError)) as theirs:
        getattr(torch.nn, name)(**given_options)
    with pytest.raises(theirs.type, match="got"):
        getattr(nn, name)(**given_options)


def test_errors_of_arguments_of_one_class():
    for size in (3, -1):
        with pytest.raises(ValueError, match="proj_size must be in"):
            nn.LSTM(2, 3, proj_size=size)
    for name in ("RNN", "RNNCell"):
        with pytest.raises(ValueError, match="nonlinearity must be 'tanh' or 'relu', got 'gelu'"):
            getattr(nn, name)(2, 3, nonlinearity="gelu")
    with pytest.raises(ValueError, match="hx must be a tuple of the states h and c, got 1"):
        nn.LSTM(2, 3)(np.zeros((4, 2), np.float32), (np.zeros((1, 3), np.float32),))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    ("x", "h"),
    [
        ((2,), None),
        ((2, 2, 2, 2), None),
        ((5, 4, 3), None),
        ((0, 4, 2), None),
        ((5, 3), None),
        ((5, 4, 2), (1, 3)),
        ((5, 2), (1, 4, 3)),
        ((5, 4, 2), (1, 5, 3)),
        ((5, 4, 2), (2, 4, 3)),
        ((5, 4, 2), (1, 4, 4)),
        ((5, 2), (2, 3)),
    ],
)
def test_errors_of_inputs(name, x, h):
    ours, theirs = pair(name, 2, 3)
    arrays = (np.zeros(x, np.float32),)
    if h is not None:
        arrays += (state(np.random.default_rng(0), name, [h, h], np.float32),)
    outcomes_must_fail(ours, theirs, arrays)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(
    ("x", "h"),
    [
        ((), None),
        ((5, 4, 2), None),
        ((5, 3), None),
        ((5, 2), (4, 3)),
        ((5, 2), (5, 4)),
        ((5, 2), (1, 5, 3)),
        ((2,), (4,)),
        ((2,), (1, 3)),
    ],
)
def test_errors_of_inputs_of_cells(name, x, h):
    ours, theirs = pair(name, 2, 3)
    arrays = (np.zeros(x, np.float32),)
    if h is not None:
        arrays += (state(np.random.default_rng(0), name, [h, h], np.float32),)
    outcomes_must_fail(ours, theirs, arrays)


def outcomes_must_fail(ours, theirs, arrays):
    with pytest.raises((RuntimeError, ValueError)):
        theirs(*map(to_torch, arrays))
    outcomes(lambda: ours(*arrays), lambda: theirs(*map(to_torch, arrays)))


@pytest.mark.parametrize("name", [*CELLS, *LAYERS])
def test_initial_values_have_torchs_distribution(name):
    ours, theirs = getattr(nn, name)(30, 100, rng=0), getattr(torch.nn, name)(30, 100)
    for key, value in theirs.state_dict().items():
        mine, quantiles = ours.state_dict()[key], [0.05, 0.25, 0.5, 0.75, 0.95]
        np.testing.assert_allclose(
            np.quantile(mine, quantiles),
            np.quantile(value.numpy(), quantiles),
            atol=9 * float(value.std()) / np.sqrt(mine.size),
            err_msg=key,
        )


def test_a_layer_is_its_cell_step_by_step(rng):
    layer, cell = nn.GRU(3, 4, rng=0), nn.GRUCell(3, 4)
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in layer.state_dict().items()})
    x, h, outs = rng.normal(size=(6, 2, 3)).astype(np.float32), None, []
    for step in x:
        h = cell(step, h)
        outs.append(h)
    assert_agree(layer(x), (torch.from_numpy(np.stack(outs)), torch.from_numpy(h[None])))
