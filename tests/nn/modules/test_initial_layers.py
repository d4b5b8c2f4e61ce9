"""What all layers with parameters do alike: seeds, copies, pickles, no data on "meta", inputs untouched."""

import copy
import pickle

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.compared import assert_same

from lite import nn

LAYERS = [
    ("Linear", (3, 4), {}, [(5, 3)]),
    ("Bilinear", (2, 3, 4), {}, [(5, 2), (5, 3)]),
    ("Conv2d", (2, 4, 3), {"groups": 2, "padding": "same"}, [(5, 2, 7, 8)]),
    ("LSTMCell", (3, 4), {}, [(5, 3)]),
    ("GRU", (3, 4), {"num_layers": 2, "bidirectional": True}, [(6, 5, 3)]),
    ("LSTM", (3, 4), {"proj_size": 2}, [(6, 5, 3)]),
    ("MultiheadAttention", (8, 2), {"kdim": 3, "vdim": 4, "add_bias_kv": True},
        [(6, 5, 8), (7, 5, 3), (7, 5, 4)]),
    ("Transformer", (8, 2, 2, 1, 16), {}, [(6, 5, 8), (7, 5, 8)]),
]  # fmt: skip


def flat(value):
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, tuple) else [value]


def cases():
    """What makes a layer, and its inputs."""
    for name, args, options, shapes in LAYERS:

        def make(name=name, args=args, options=options, **more):
            return getattr(nn, name)(*args, **options, **more).eval()

        rng = np.random.default_rng(0)
        yield make, [rng.normal(size=shape).astype(np.float32) for shape in shapes]


@each_case(("make", "inputs"), cases())
def test_seeds(make, inputs):
    assert_same(make(rng=0)(*inputs), make(rng=0)(*inputs))
    one, two = make(rng=0).state_dict(), make(rng=1).state_dict()
    drawn = [key for key, value in one.items() if value.std() > 0 and "norm" not in key]
    assert drawn
    for key in drawn:
        assert not np.array_equal(one[key], two[key]), key


@each_case(("make", "inputs"), cases())
def test_copies_and_pickles(make, inputs):
    layer = make(rng=0)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert_same(other(*inputs), layer(*inputs))
        for a, b in zip(other.parameters(), layer.parameters(), strict=True):
            assert not np.shares_memory(a.data, b.data)


@each_case(("make", "inputs"), cases())
def test_meta(make, inputs):
    layer, empty = make(rng=0), make(device="meta")
    assert all(p.is_meta for p in empty.parameters())
    empty.load_state_dict(layer.state_dict(), assign=True)
    assert_same(empty(*inputs), layer(*inputs))


def test_sizes_that_are_no_integers():
    for make in (nn.Linear, nn.Embedding, nn.MLP):
        for size in ((4,), 4.0, "4"):
            with pytest.raises(TypeError, match=r"sizes of a layer must be integers, .* the shape .*4"):
                make(size, 2)


@each_case(("make", "inputs"), cases())
def test_dtype(make, inputs):
    layer = make(dtype=np.float64)
    assert all(p.dtype == np.float64 for p in layer.parameters())
    assert flat(layer(*inputs))[0].dtype == np.float64
    assert flat(layer.float()(*inputs))[0].dtype == np.float32


@each_case(("make", "inputs"), cases())
def test_inputs_and_parameters_are_left_as_they_were(make, inputs):
    layer = make(rng=0)
    before = [x.copy() for x in inputs]
    state = {key: value.copy() for key, value in layer.state_dict().items()}
    for x in inputs:
        x.flags.writeable = False
    for p in layer.parameters():
        p.data.flags.writeable = False
    assert_same(layer(*inputs), layer(*inputs))
    assert_same(tuple(inputs), tuple(before))
    assert_same(tuple(layer.state_dict().values()), tuple(state.values()))
