"""MaxPool2d and AvgPool2d against torch's: all options, sizes that do not fit, NaN, infinities, ties."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parity.layers import matched, outcomes

from lite import nn


def one_or_two(low, high):
    number = st.integers(low, high)
    return number | st.tuples(number, number)


SHAPES = st.tuples(
    st.sampled_from([(), (0,), (1,), (2,)]), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9)
).map(lambda parts: (*parts[0], *parts[1:]))


def check(name, x, options):
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
    check("MaxPool2d", x, options)


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
    check("AvgPool2d", np.random.default_rng(0).normal(size=shape).astype(dtype), options)


def test_the_mean_of_integers_is_a_float():
    got = nn.AvgPool2d(2)(np.arange(4).reshape(1, 2, 2))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, [[[1.5]]])


@pytest.mark.parametrize(
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
    with pytest.raises(RuntimeError):
        getattr(torch.nn, name)(**options)(torch.from_numpy(x))
    with pytest.raises(RuntimeError, match=r"\d|zero"):
        getattr(nn, name)(**options)(x)
