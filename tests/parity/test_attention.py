"""MultiheadAttention against torch's: all options, masks, rows that may see nothing, wrong shapes.

torch has several implementations, which it chooses by mode and layout; the one that does not depend on them
is the reference here (without `torch_fast_path`), and the others agree with it where no row is empty.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parity.layers import agree, assert_agree, matched, pair, to_torch, torch_fast_path

from lite import nn

pytestmark = pytest.mark.filterwarnings("ignore:Support for mismatched:UserWarning")


@pytest.fixture(scope="module", autouse=True)
def one_path():
    with torch_fast_path(False):
        yield


def attention(*args, dtype="float32", **options):
    """Both layers, with parameters around zero."""
    ours, theirs = nn.MultiheadAttention(*args, **options), torch.nn.MultiheadAttention(*args, **options)
    return matched(ours, theirs, dtype, low=-0.5)


def mask(rng, shape, kind, dtype, empty):
    """A mask in which rows have a key to see, unless `empty`."""
    if kind is None:
        return None
    hidden = rng.random(shape) < (0.6 if empty else 0.3)
    if not empty:
        hidden[..., 0] = False
    if kind == "bool":
        return hidden
    return np.where(hidden, -np.inf, rng.normal(size=shape)).astype(dtype)


@st.composite
def cases(draw, empty):
    heads, size = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    options = {
        "bias": draw(st.booleans()),
        "add_bias_kv": draw(st.booleans()) and not empty,
        "add_zero_attn": draw(st.booleans()) and not empty,
        "kdim": draw(st.sampled_from([None, 3])),
        "vdim": draw(st.sampled_from([None, 5])),
        "batch_first": draw(st.booleans()),
    }
    batch = draw(st.sampled_from([None, 1, 2, 3]))
    lengths = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    masks = [draw(st.sampled_from([None, "bool", "float"])) for _ in range(2)]
    call = {"need_weights": draw(st.booleans()), "average_attn_weights": draw(st.booleans())}
    return (heads * size, heads), options, batch, lengths, masks, draw(st.booleans()), call


def check(case, dtype, empty):
    (size, heads), options, batch, (length, keys), (padding, pairs), per_head, call = case
    rng = np.random.default_rng(0)
    ours, theirs = attention(size, heads, dtype=dtype, **options)

    def array(n, width):
        shape = (n,) if batch is None else (batch, n) if options["batch_first"] else (n, batch)
        return rng.normal(size=(*shape, width)).astype(dtype)

    inputs = array(length, size), array(keys, options["kdim"] or size), array(keys, options["vdim"] or size)
    shape = (length, keys) if not per_head else ((batch or 1) * heads, length, keys)
    call["attn_mask"] = mask(rng, shape, pairs, dtype, empty)
    # torch pads the mask of keys before it compares its size
    call["key_padding_mask"] = mask(rng, (keys,) if batch is None else (batch, keys), padding, dtype, empty)
    agree(ours, theirs, *inputs, **call)


@given(case=cases(empty=False), dtype=st.sampled_from(["float32", "float64"]))
def test_attention(case, dtype):
    check(case, dtype, empty=False)


@given(case=cases(empty=True), dtype=st.sampled_from(["float32", "float64"]))
def test_rows_that_see_nothing(case, dtype):
    check(case, dtype, empty=True)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_self_attention_by_all_of_torchs_implementations(rng, training, batch_first, need_weights, masked):
    ours, theirs = attention(8, 2, batch_first=batch_first)
    ours.train(training), theirs.train(training)
    x = rng.normal(size=(3, 5, 8)).astype(np.float32)
    length = 5 if batch_first else 3
    hidden = np.triu(np.ones((length, length), bool), 1) if masked else None
    with torch.no_grad(), torch_fast_path(True):
        tensor = torch.from_numpy(x)
        expected = theirs(tensor, tensor, tensor, need_weights=need_weights, attn_mask=to_torch(hidden))
    assert_agree(ours(x, x, x, need_weights=need_weights, attn_mask=hidden), expected)


@pytest.mark.parametrize("need_weights", [False, True])
def test_the_causal_hint(rng, need_weights):
    ours, theirs = attention(8, 2)
    x = rng.normal(size=(5, 3, 8)).astype(np.float32)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    agree(ours, theirs, x, x, x, attn_mask=causal, is_causal=True, need_weights=need_weights)


def test_dropout_of_weights(rng):
    x = rng.normal(size=(50, 2, 8)).astype(np.float32)
    one, two = (nn.MultiheadAttention(8, 2, dropout=0.5, rng=0) for _ in range(2))
    out, weights = one(x, x, x, average_attn_weights=False)
    assert abs((weights == 0).mean() - 0.5) < 0.05
    np.testing.assert_array_equal(two(x, x, x)[0], out)
    one.eval(), two.eval()
    np.testing.assert_array_equal(one(x, x, x)[0], two(x, x, x)[0])
    without = nn.MultiheadAttention(8, 2, rng=0)(x, x, x)[0]
    np.testing.assert_allclose(one(x, x, x)[0], without, rtol=1e-6)
    ours, theirs = pair("MultiheadAttention", 8, 2, dropout=1.0)  # all zeros: nothing is left to chance
    agree(ours, theirs, x, x, x)


@pytest.mark.parametrize(
    ("args", "error"), [((0, 1), ValueError), ((4, 0), ValueError), ((4, 3), AssertionError)]
)
def test_errors_of_arguments(args, error):
    with pytest.raises(error):
        torch.nn.MultiheadAttention(*args)
    with pytest.raises(error, match="got"):
        nn.MultiheadAttention(*args)


B, F = bool, np.float32


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        (((4,), (4,), (4,)), {}),
        (((1, 2, 3, 4),) * 3, {}),
        (((5, 2, 4), (5, 4), (5, 4)), {}),
        (((5, 4), (5, 2, 4), (5, 2, 4)), {}),
        (((5, 2, 4), (6, 2, 4), (7, 2, 4)), {}),
        (((5, 2, 4), (6, 3, 4), (6, 3, 4)), {}),
        (((5, 2, 3), (5, 2, 4), (5, 2, 4)), {}),
        (((5, 2, 4),) * 3, {"attn_mask": ((5, 6), B)}),
        (((5, 2, 4),) * 3, {"attn_mask": ((2, 5, 5), B)}),
        (((5, 2, 4),) * 3, {"attn_mask": ((5,), B)}),
        (((5, 2, 4),) * 3, {"attn_mask": ((5, 5), int)}),
        (((5, 4),) * 3, {"attn_mask": ((3, 5, 5), B)}),
        (((5, 2, 4),) * 3, {"key_padding_mask": ((5,), B)}),
        (((5, 2, 4),) * 3, {"key_padding_mask": ((5, 2), B)}),
        (((5, 2, 4),) * 3, {"key_padding_mask": ((2, 6), F)}),
        (((5, 2, 4),) * 3, {"key_padding_mask": ((2, 5), int)}),
        (((5, 4),) * 3, {"key_padding_mask": ((1, 5), B)}),
        (((5, 2, 4),) * 3, {"is_causal": True}),
    ],
)
def test_errors_of_inputs(shapes, options):
    ours, theirs = pair("MultiheadAttention", 4, 2)
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    call = {key: np.zeros(*value) if isinstance(value, tuple) else value for key, value in options.items()}
    with pytest.raises((AssertionError, RuntimeError)) as expected:
        theirs(*map(to_torch, arrays), **to_torch(call))
    with pytest.raises(expected.type, match="got"):
        ours(*arrays, **call)
