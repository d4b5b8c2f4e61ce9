"""Attention, transformer layers and stacks against torch's: all options, masks, wrong shapes."""

import inspect

import numpy as np
import pytest
import torch
from helpers.cases import each_case, raises
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.layers import agree, matched, pair, to_torch, torch_fast_path

from lite import nn

pytestmark = [
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning"),
    pytest.mark.filterwarnings("ignore:Support for mismatched:UserWarning"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def one_path():
    with torch_fast_path(False):
        yield


@st.composite
def options(draw):
    return {
        "activation": draw(st.sampled_from(["relu", "gelu", "SiLU", "function"])),
        "layer_norm_eps": draw(st.sampled_from([1e-5, 1e-2])),
        "batch_first": draw(st.booleans()),
        "norm_first": draw(st.booleans()),
        "bias": draw(st.booleans()),
    }


def build(library, name, *args, activation="relu", **more):
    if activation == "SiLU":
        activation = library.SiLU()
    elif activation == "function":
        activation = np.tanh if library is nn else torch.tanh
    out = getattr(library, name)(*args, activation=activation, **more)
    return keep_activation(out) if library is torch.nn else out


def keep_activation(module):
    """Undo what torch does to copies of decoder layers: they forget an activation that is a module."""
    for layer in module.modules():
        if "activation" in layer._modules:
            layer.__dict__.pop("activation", None)
    return module


def inputs(rng, batch_first, batch, *lengths, size=6):
    """Sequences of these lengths, in the order of dimensions asked for."""
    for n in lengths:
        shape = (n,) if batch is None else (batch, n) if batch_first else (n, batch)
        yield rng.normal(size=(*shape, size)).astype(np.float32)


def masks(rng, batch, kinds, rows, columns):
    """An attention mask (rows, columns) and one for the columns; the first column is always seen."""
    out = []
    for kind, shape in zip(
        kinds, [(rows, columns), (columns,) if batch is None else (batch, columns)], strict=True
    ):
        hidden = rng.random(shape) < 0.4
        hidden[..., 0] = False
        numbers = np.where(hidden, -np.inf, rng.normal(size=shape)).astype(np.float32)
        out.append({None: None, "bool": hidden, "float": numbers}[kind])
    return out


KINDS = st.tuples(*[st.sampled_from([None, "bool", "float"])] * 2)
BATCH = st.sampled_from([None, 1, 3])


@given(given_options=options(), batch=BATCH, kinds=KINDS, training=st.booleans())
def test_encoder_layer(given_options, batch, kinds, training):
    rng = np.random.default_rng(0)
    ours, theirs = matched(
        *(
            build(library, "TransformerEncoderLayer", 6, 2, 8, 0.0, **given_options)
            for library in (nn, torch.nn)
        ),
        low=-0.5,
    )
    ours.train(training), theirs.train(training)
    (x,) = inputs(rng, given_options["batch_first"], batch, 5)
    attention, padding = masks(rng, batch, kinds, 5, 5)
    agree(ours, theirs, x, src_mask=attention, src_key_padding_mask=padding)


@given(given_options=options(), batch=BATCH, kinds=KINDS, memory_kinds=KINDS)
def test_decoder_layer(given_options, batch, kinds, memory_kinds):
    rng = np.random.default_rng(0)
    ours, theirs = matched(
        *(
            build(library, "TransformerDecoderLayer", 6, 3, 8, 0.0, **given_options)
            for library in (nn, torch.nn)
        ),
        low=-0.5,
    )
    tgt, memory = inputs(rng, given_options["batch_first"], batch, 4, 5)
    tgt_mask, tgt_padding = masks(rng, batch, kinds, 4, 4)
    memory_mask, memory_padding = masks(rng, batch, memory_kinds, 4, 5)
    call = {"tgt_mask": tgt_mask, "memory_mask": memory_mask}
    agree(
        ours, theirs, tgt, memory, **call, tgt_key_padding_mask=tgt_padding,
        memory_key_padding_mask=memory_padding,
    )  # fmt: skip


@settings(max_examples=10)
@given(given_options=options(), batch=BATCH, kinds=KINDS, norm=st.booleans(), training=st.booleans())
def test_stacks(given_options, batch, kinds, norm, training):
    rng = np.random.default_rng(0)

    def stacks(library):
        last = library.LayerNorm(6) if norm else None
        encoder = build(library, "TransformerEncoderLayer", 6, 2, 8, 0.0, **given_options)
        decoder = build(library, "TransformerDecoderLayer", 6, 2, 8, 0.0, **given_options)
        return (
            library.TransformerEncoder(encoder, 2, last, enable_nested_tensor=False),
            keep_activation(library.TransformerDecoder(decoder, 3, last)),
        )

    (encoder, decoder), (their_encoder, their_decoder) = stacks(nn), stacks(torch.nn)
    x, y = inputs(rng, given_options["batch_first"], batch, 5, 4)
    attention, padding = masks(rng, batch, kinds, 5, 5)
    for ours, theirs in ((encoder, their_encoder), (decoder, their_decoder)):
        matched(ours, theirs, low=-0.5)
        ours.train(training), theirs.train(training)
    agree(encoder, their_encoder, x, attention, padding)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    agree(decoder, their_decoder, y, x, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=padding)


def test_padded_positions_of_torchs_nested_tensors(rng):
    """torch leaves them out; the others are the same."""
    ours, theirs = (
        library.TransformerEncoder(library.TransformerEncoderLayer(6, 2, 8, batch_first=True), 2)
        for library in (nn, torch.nn)
    )
    matched(ours, theirs, low=-0.5)
    ours.eval(), theirs.eval()
    x = rng.normal(size=(2, 5, 6)).astype(np.float32)
    padding = np.arange(5) >= np.array([[5], [3]])
    with torch.no_grad(), torch_fast_path(True):
        expected = theirs(torch.from_numpy(x), src_key_padding_mask=torch.from_numpy(padding)).numpy()
    got = ours(x, src_key_padding_mask=padding)
    np.testing.assert_allclose(got[~padding], expected[~padding], rtol=1e-5, atol=1e-6)
    assert (expected[padding] == 0).all()
    assert (got[padding] != 0).all()


@settings(max_examples=10)
@given(given_options=options(), batch=BATCH, training=st.booleans())
def test_transformer(given_options, batch, training):
    rng = np.random.default_rng(0)
    ours, theirs = matched(
        *(build(library, "Transformer", 6, 2, 1, 2, 8, 0.0, **given_options) for library in (nn, torch.nn)),
        low=-0.5,
    )
    ours.train(training), theirs.train(training)
    src, tgt = inputs(rng, given_options["batch_first"], batch, 5, 4)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    _, padding = masks(rng, batch, (None, "bool" if training else None), 5, 5)
    call = {"tgt_mask": causal, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    agree(ours, theirs, src, tgt, **call)


def test_custom_encoder_and_decoder(rng):
    def build_custom(library):
        layer = library.TransformerEncoderLayer(6, 2, 8, 0.0)
        return library.Transformer(
            6, 2, 1, 1, 8, 0.0,
            custom_encoder=library.TransformerEncoder(layer, 1, enable_nested_tensor=False),
        )  # fmt: skip

    ours, theirs = matched(build_custom(nn), build_custom(torch.nn))
    agree(ours, theirs, *inputs(rng, False, 3, 5, 4))


@pytest.mark.parametrize("dtype", [None, "float64", "float16"])
def test_square_subsequent_mask(dtype):
    got = nn.Transformer.generate_square_subsequent_mask(4, dtype=dtype)
    expected = torch.nn.Transformer.generate_square_subsequent_mask(4, dtype=dtype and getattr(torch, dtype))
    assert got.dtype.name == (dtype or "float32")
    np.testing.assert_array_equal(got, expected.numpy())


def test_defaults_are_torchs():
    defaults = [inspect.signature(library.Transformer).parameters for library in (nn, torch.nn)]
    for name in (
        "d_model",
        "nhead",
        "num_encoder_layers",
        "num_decoder_layers",
        "dim_feedforward",
        "dropout",
    ):
        assert defaults[0][name].default == defaults[1][name].default
    sizes = {"d_model": 64, "num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": 256}
    ours, theirs = nn.Transformer(**sizes, rng=0), torch.nn.Transformer(**sizes)
    assert repr(ours) == repr(theirs)
    assert {k: v.shape for k, v in ours.state_dict().items()} == {
        k: tuple(v.shape) for k, v in theirs.state_dict().items()
    }
    for key, value in theirs.state_dict().items():
        mine = ours.state_dict()[key]
        np.testing.assert_allclose(mine.std(), float(value.std()), rtol=0.2, atol=1e-6, err_msg=key)


def test_unknown_activation():
    raises(RuntimeError, "", lambda: torch.nn.TransformerEncoderLayer(4, 2, activation="tanh"))
    with pytest.raises(RuntimeError, match="activation must be 'relu', 'gelu' or a function, got 'tanh'"):
        nn.TransformerEncoderLayer(4, 2, activation="tanh")


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


@each_case(("args", "error"), [((0, 1), ValueError), ((4, 0), ValueError), ((4, 3), AssertionError)])
def test_errors_of_arguments(args, error):
    raises(error, "", lambda: torch.nn.MultiheadAttention(*args))
    raises(error, "got", lambda: nn.MultiheadAttention(*args))


B, F = bool, np.float32


@each_case(
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
    raises(expected.type, "got", lambda: ours(*arrays, **call))
