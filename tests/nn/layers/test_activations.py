"""ReLU, Tanh, SiLU."""

import numpy as np
import pytest
from helpers.cases import each_case

from lite import enable_grad, grad, nn, vmap


@each_case("dtype", ["float16", "float32", "float64", "int32"])
def test_relu(dtype):
    x = np.array([-2, 0, 3], dtype=dtype)
    out = nn.ReLU()(x)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, [0, 0, 3])
    np.testing.assert_array_equal(x, [-2, 0, 3])


def test_relu_keeps_nan_and_writes_in_place_when_told():
    x = np.array([np.nan, -1.0])
    assert nn.ReLU(inplace=True)(x) is x
    np.testing.assert_array_equal(x, [np.nan, 0.0])


@each_case(
    ("dtype", "shape"),
    [("float32", (3, 7000)), ("float64", (1 << 14,)), ("float32", (8193,)), ("int64", (9000,))],
)
def test_relu_of_many_numbers_in_blocks(dtype, shape):
    x = np.random.default_rng(0).normal(size=shape).astype(dtype) * 3
    if dtype != "int64":
        x.flat[[0, -1]] = np.nan, -1.0
    want = np.where(x < 0, 0, x)
    x.flags.writeable = False
    for given, expected in ((x, want), (x.T, want.T), (x[..., ::2], want[..., ::2])):
        out = nn.ReLU()(given)
        assert (out.dtype, out.flags.writeable) == (x.dtype, True)
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(ValueError, match="read-only"):
        nn.ReLU(inplace=True)(x)
    own = x.copy()
    assert nn.ReLU(inplace=True)(own) is own
    np.testing.assert_array_equal(own, want)


def test_in_place() -> None:
    for layer in (nn.ELU, nn.LeakyReLU, nn.Mish, nn.ReLU, nn.SiLU):
        x = np.linspace(-2, 2, 9)
        wanted = layer()(x)
        assert layer(inplace=True)(x) is x
        np.testing.assert_array_equal(x, wanted)
        assert "inplace" in repr(layer(inplace=True))
        assert "inplace" not in repr(layer())


def test_tanh():
    x = np.array([-1.0, 0.0, 2.0], dtype=np.float32)
    np.testing.assert_array_equal(nn.Tanh()(x), np.tanh(x))
    assert nn.Tanh()(np.array([1], dtype=np.int64)).dtype == np.float32


@each_case("size", [100, 1 << 14])  # by NumPy, by compiled code
def test_silu(size, rng):
    x = (rng.normal(size=size) * 20).astype(np.float32)
    x[:4] = -1e30, 1e30, np.inf, np.nan
    with np.errstate(over="ignore"):
        wide = x.astype(np.float64)
        expected = wide / (1 + np.exp(-wide))
    np.testing.assert_allclose(nn.SiLU()(x), expected, rtol=1e-6, atol=1e-30)
    written = x.copy()
    assert nn.SiLU(inplace=True)(written) is written
    np.testing.assert_array_equal(written, nn.SiLU()(x))
    np.testing.assert_array_equal(vmap(nn.SiLU())(x.reshape(4, -1)), nn.SiLU()(x).reshape(4, -1))


def test_in_place_with_a_gradient():
    def run(x):
        y = x * 2
        out = nn.ReLU(inplace=True)(y)
        assert out is y
        return (y * y).sum()

    np.testing.assert_array_equal(grad(run)(np.array([-1.0, 2.0])), [0, 16])


def test_slopes_that_rise_more_below_zero():
    x = np.array([-2.0, 3.0])
    for slope in (2.0, -0.5, 0.0, 1.0):
        np.testing.assert_array_equal(nn.LeakyReLU(slope)(x), [-2 * slope, 3])


def test_a_dimension_that_is_not_given():
    for shape, dim in (((4,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((1, 2, 3, 4), 1)):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        with pytest.warns(UserWarning, match=rf"takes dimension {dim} of an input of {len(shape)}"):
            found = nn.Softmax()(x)
        np.testing.assert_array_equal(found, nn.Softmax(dim)(x))
    for dim in (0, -1):
        assert nn.LogSoftmax(dim)(np.float64(3.0)) == 0
    with pytest.raises(IndexError, match="dim must be 0 or -1 for an input without dimensions, got 1"):
        nn.Softmax(1)(np.float64(3.0))


def test_gradients_where_the_slope_changes() -> None:
    """As torch: that of the lower side."""
    for layer, slope in ((nn.ReLU(), 0), (nn.LeakyReLU(0.1), 0.1), (nn.ELU(2.0), 2)):
        found = grad(lambda x, layer=layer: layer(x).sum())(np.float32([0, -1e-9, 1]))
        np.testing.assert_allclose(found, [slope, slope, 1], rtol=1e-6)
        np.testing.assert_array_equal(_gradient_of_a_parameter(layer, [0, -1e-9, 1]), found)


@each_case("layer", [nn.Sigmoid(), nn.SiLU(), nn.GELU(), nn.GELU("tanh")])
def test_gradients_far_below_zero(layer):
    np.testing.assert_array_equal(_gradient_of_a_parameter(layer, [-1000, -120]), [0, 0])


def _gradient_of_a_parameter(layer, values):
    p = nn.Parameter(np.float32(values))
    with enable_grad():
        loss = layer(p).sum()
    loss.backward()
    return p.grad
