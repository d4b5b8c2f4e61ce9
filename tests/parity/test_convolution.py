"""Convolutions and pooling against torch's: all options, sizes that do not fit, layouts, special numbers."""

import numpy as np
import pytest
import torch
from helpers.cases import each_case, raises
from hypothesis import assume, given
from hypothesis import strategies as st
from parity.layers import agree, matched, outcomes, pair

from lite import nn

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")


# torch says that 'same' with an even window copies its input
MODES = ["zeros", "reflect", "replicate", "circular"]


def one_or(dims, low, high):
    """A number, or one per dimension."""
    number = st.integers(low, high)
    return number | st.tuples(*[number] * dims)


@st.composite
def convolutions(draw, dims):
    """Channels, window, options; and the shape of an input, with or without batch."""
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels = [groups * draw(st.integers(1, 2)) for _ in range(2)]
    padding = draw(st.sampled_from(["same", "valid"]) | one_or(dims, 0, 3))
    options = {
        "stride": 1 if padding == "same" else draw(one_or(dims, 1, 3)), "padding": padding,
        "dilation": draw(one_or(dims, 1, 2)), "groups": groups, "bias": draw(st.booleans()),
        "padding_mode": draw(st.sampled_from(MODES)),
    }  # fmt: skip
    batch = draw(st.sampled_from([(), (0,), (1,), (3,)]))
    shape = (*batch, channels[0], *[draw(st.integers(1, 8)) for _ in range(dims)])
    return (*channels, draw(one_or(dims, 1, 3))), options, shape


@given(case=convolutions(1), dtype=st.sampled_from(["float32", "float64"]))
def test_conv1d(case, dtype):
    check("Conv1d", *case, dtype)


@given(case=convolutions(2), dtype=st.sampled_from(["float32", "float64"]))
def test_conv2d(case, dtype):
    check("Conv2d", *case, dtype)


@given(case=convolutions(2), more=one_or(2, 0, 2), dtype=st.sampled_from(["float32", "float64"]))
def test_conv_transpose2d(case, more, dtype):
    args, options, shape = case
    if isinstance(options["padding"], str):
        options["padding"] = 1
    options |= {"output_padding": more, "padding_mode": "zeros"}
    stride, pad, step, kernel, extra = (
        np.broadcast_to(n, 2)
        for n in (options["stride"], options["padding"], options["dilation"], args[2], more)
    )
    out = (np.array(shape[-2:]) - 1) * stride - 2 * pad + step * (kernel - 1) + 1 + extra
    assume(0 not in (*out, *shape))  # torch refuses some empty results, and checks less of empty batches
    check("ConvTranspose2d", args, options, shape, dtype)


@each_case(
    ("name", "size"), [("ConvTranspose1d", (8,)), ("ConvTranspose2d", (7, 8)), ("ConvTranspose2d", (9, 8))]
)
def test_sizes_of_a_transpose(rng, name, size):
    ours, theirs = pair(name, 3, 4, 3, stride=2, padding=1)
    x = rng.normal(size=(2, 3, *(4,) * len(size))).astype(np.float32)
    outcomes(lambda: ours(x, output_size=size), lambda: theirs(torch.from_numpy(x), output_size=size))


def check(name, args, options, shape, dtype):
    ours, theirs = pair(name, *args, dtype=dtype, **options)
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    outcomes(lambda: ours(x), lambda: theirs(torch.from_numpy(x)))


@pytest.mark.parametrize(("name", "shape"), [("Conv1d", (40, 8, 4001)), ("Conv2d", (33, 4, 50, 51))])
def test_large_inputs_go_in_blocks(rng, name, shape):
    ours, theirs = pair(name, shape[1], 3, 3, padding=1)
    agree(ours, theirs, rng.random(shape).astype(np.float32))


@each_case("layout", ["NHWC", "every second", "reversed", "read-only"])
def test_inputs_of_any_layout(rng, layout):
    ours, theirs = pair("Conv2d", 3, 4, 3)
    x = rng.normal(size=(2, 3, 8, 9)).astype(np.float32)
    given_array = {
        "NHWC": np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
        "every second": np.repeat(x, 2, axis=-1)[..., ::2],
        "reversed": np.ascontiguousarray(x[:, :, ::-1])[:, :, ::-1],
        "read-only": x.copy(),
    }[layout]
    given_array.flags.writeable = layout != "read-only"
    np.testing.assert_array_equal(given_array, x)
    agree(ours, theirs, given_array)


@each_case(
    ("name", "args", "options"),
    [
        ("Conv2d", (3, 4, 3), {"groups": 0}),
        ("Conv2d", (3, 4, 3), {"groups": 2}),
        ("Conv2d", (4, 3, 3), {"groups": 2}),
        ("Conv2d", (3, 4, 3), {"padding": "full"}),
        ("Conv2d", (3, 4, 3), {"padding": "same", "stride": 2}),
        ("Conv1d", (3, 4, 3), {"padding_mode": "mirror"}),
    ],
)
def test_errors_of_arguments(name, args, options):
    raises(ValueError, "", lambda: getattr(torch.nn, name)(*args, **options))
    raises(ValueError, "got", lambda: getattr(nn, name)(*args, **options))


def test_sizes_of_another_number_of_dimensions():
    raises(ValueError, r"kernel_size must be one number or 2, got \(1, 2, 3\)", nn.Conv2d, 1, 1, (1, 2, 3))


@each_case(
    ("name", "options", "shape"),
    [
        ("Conv2d", {}, (3,)),
        ("Conv2d", {}, (5, 5)),
        ("Conv2d", {}, (1, 2, 3, 5, 5)),
        ("Conv2d", {}, (2, 2, 5, 5)),
        ("Conv2d", {}, (2, 3, 2, 5)),
        ("Conv2d", {"stride": 0}, (2, 3, 5, 5)),
        ("Conv2d", {"dilation": 0}, (2, 3, 5, 5)),
        ("Conv2d", {"padding": -1}, (2, 3, 5, 5)),
        ("Conv2d", {"padding": 5, "padding_mode": "reflect"}, (2, 3, 5, 5)),
        ("Conv2d", {"padding": 6, "padding_mode": "circular"}, (2, 3, 5, 5)),
        ("Conv1d", {}, (3, 5, 5, 5)),
        ("Conv1d", {}, (3, 2)),
        ("Conv1d", {}, (2, 5)),
    ],
)
def test_errors_of_inputs(name, options, shape):
    ours, theirs = (getattr(library, name)(3, 4, 3, **options) for library in (nn, torch.nn))
    x = np.zeros(shape, np.float32)
    raises(RuntimeError, "", lambda: theirs(torch.from_numpy(x)))
    raises(RuntimeError, r"\d", lambda: ours(x))


def one_or_two(low, high):
    number = st.integers(low, high)
    return number | st.tuples(number, number)


SHAPES = st.tuples(
    st.sampled_from([(), (0,), (1,), (2,)]), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9)
).map(lambda parts: (*parts[0], *parts[1:]))


def check_pools(name, x, options):
    ours, theirs = matched(getattr(nn, name)(**options), getattr(torch.nn, name)(**options))
    outcomes(lambda: ours(x), lambda: theirs(torch.from_numpy(x)))


@given(
    shape=SHAPES,
    options=st.fixed_dictionaries(
        {
            "kernel_size": one_or_two(1, 4), "stride": st.none() | one_or_two(1, 4),
            "padding": one_or_two(0, 2), "dilation": one_or_two(1, 3), "return_indices": st.booleans(),
            "ceil_mode": st.booleans(),
        }
    ),
    values=st.sampled_from(["normal", "ties", "special", "int64", "float64", "float16"]),
)  # fmt: skip
def test_max_pool(shape, options, values):
    rng = np.random.default_rng(0)
    if values == "ties":
        x = rng.integers(-1, 2, shape).astype(np.float32)
    elif values == "special":
        x = rng.choice([np.nan, -np.inf, np.inf, 0.0], shape, p=[0.05, 0.6, 0.05, 0.3]).astype(np.float32)
    elif values == "normal":
        x = rng.normal(size=shape).astype(np.float32)
    else:
        x = (10 * rng.normal(size=shape)).astype(values)
    check_pools("MaxPool2d", x, options)


@given(
    shape=SHAPES,
    options=st.fixed_dictionaries(
        {
            "kernel_size": one_or_two(1, 4),
            "stride": st.none() | one_or_two(1, 4),
            "padding": one_or_two(0, 2),
            "ceil_mode": st.booleans(),
            "count_include_pad": st.booleans(),
            "divisor_override": st.sampled_from([None, None, 3, -2]),
        }
    ),
    dtype=st.sampled_from(["float32", "float64", "float16"]),
)
def test_avg_pool(shape, options, dtype):
    check_pools("AvgPool2d", np.random.default_rng(0).normal(size=shape).astype(dtype), options)


def test_the_mean_of_integers_is_a_float():
    got = nn.AvgPool2d(2)(np.arange(4).reshape(1, 2, 2))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, [[[1.5]]])


@each_case(
    ("name", "options", "shape"),
    [
        ("MaxPool2d", {"kernel_size": 2}, (4,)),
        ("MaxPool2d", {"kernel_size": 2}, (1, 2, 3, 4, 5)),
        ("MaxPool2d", {"kernel_size": 2}, (2, 0, 4, 4)),
        ("MaxPool2d", {"kernel_size": 2}, (2, 3, 0, 4)),
        ("MaxPool2d", {"kernel_size": 5}, (2, 3, 4, 4)),
        ("MaxPool2d", {"kernel_size": 2, "padding": 2}, (2, 3, 4, 4)),
        ("MaxPool2d", {"kernel_size": 2, "padding": -1}, (2, 3, 4, 4)),
        ("MaxPool2d", {"kernel_size": 0}, (2, 3, 4, 4)),
        ("MaxPool2d", {"kernel_size": 2, "stride": 0}, (2, 3, 4, 4)),
        ("MaxPool2d", {"kernel_size": 2, "dilation": 0}, (2, 3, 4, 4)),
        ("MaxPool2d", {"kernel_size": (2, 2, 2)}, (2, 3, 4, 4)),
        ("AvgPool2d", {"kernel_size": 5}, (2, 3, 4, 4)),
        ("AvgPool2d", {"kernel_size": 3, "padding": 2}, (2, 3, 4, 4)),
        ("AvgPool2d", {"kernel_size": 2, "divisor_override": 0}, (2, 3, 4, 4)),
        ("AvgPool2d", {"kernel_size": 2}, (1, 1, 1, 4, 4)),
    ],
)
def test_errors(name, options, shape):
    x = np.zeros(shape, np.float32)
    raises(RuntimeError, "", lambda: getattr(torch.nn, name)(**options)(torch.from_numpy(x)))
    raises(RuntimeError, r"\d|zero", lambda: getattr(nn, name)(**options)(x))
