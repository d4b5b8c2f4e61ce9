"""Conv1d and Conv2d against torch's: all options, sizes that do not fit, other dtypes, strides in memory."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parity.layers import agree, outcomes, pair

from lite import nn

# torch says that 'same' with an even window copies its input
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
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
        "stride": 1 if padding == "same" else draw(one_or(dims, 1, 3)),
        "padding": padding,
        "dilation": draw(one_or(dims, 1, 2)),
        "groups": groups,
        "bias": draw(st.booleans()),
        "padding_mode": draw(st.sampled_from(MODES)),
    }
    batch = draw(st.sampled_from([(), (0,), (1,), (3,)]))
    shape = (*batch, channels[0], *[draw(st.integers(1, 8)) for _ in range(dims)])
    return (*channels, draw(one_or(dims, 1, 3))), options, shape


@given(case=convolutions(1), dtype=st.sampled_from(["float32", "float64"]))
def test_conv1d(case, dtype):
    check("Conv1d", *case, dtype)


@given(case=convolutions(2), dtype=st.sampled_from(["float32", "float64"]))
def test_conv2d(case, dtype):
    check("Conv2d", *case, dtype)


def check(name, args, options, shape, dtype):
    ours, theirs = pair(name, *args, dtype=dtype, **options)
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    outcomes(lambda: ours(x), lambda: theirs(torch.from_numpy(x)))


@pytest.mark.parametrize(("name", "shape"), [("Conv1d", (40, 8, 4001)), ("Conv2d", (33, 4, 50, 51))])
def test_large_inputs_go_in_blocks(rng, name, shape):
    ours, theirs = pair(name, shape[1], 3, 3, padding=1)
    agree(ours, theirs, rng.random(shape).astype(np.float32))


@pytest.mark.parametrize("layout", ["NHWC", "every second", "reversed", "read-only"])
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


@pytest.mark.parametrize(
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
    with pytest.raises(ValueError):
        getattr(torch.nn, name)(*args, **options)
    with pytest.raises(ValueError, match="got"):
        getattr(nn, name)(*args, **options)


def test_sizes_of_another_number_of_dimensions():
    with pytest.raises(ValueError, match=r"kernel_size must be one number or 2, got \(1, 2, 3\)"):
        nn.Conv2d(1, 1, (1, 2, 3))


@pytest.mark.parametrize(
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
    with pytest.raises(RuntimeError):
        theirs(torch.from_numpy(x))
    with pytest.raises(RuntimeError, match=r"\d"):
        ours(x)
