"""Linear: values, shapes, stacked parameters, dtypes, initialisation."""

import itertools

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.central_differences import assert_gradients

from lite import grad, nn, vmap
from lite.nn.layers.linear import linear

F32 = np.float32


def layer(in_features=3, out_features=4, bias=True, **kwargs):
    return nn.Linear(in_features, out_features, bias, rng=0, **kwargs)


@each_case(("shape", "bias"), itertools.product([(3,), (0, 3), (5, 2, 3)], [True, None]))
def test_affine_map_of_the_last_dimension(shape, bias, rng):
    m = layer(bias=bias)
    x = rng.standard_normal(shape).astype(F32)
    expected = np.einsum("...i,oi->...o", x, m.weight.data)
    if bias:
        expected = expected + m.bias.data
    else:
        assert m.bias is None
    out = m(x)
    assert out.dtype == F32
    assert out.shape == (*shape[:-1], 4)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


@each_case("shape", [(2, 4), (4, 2), ()])
def test_wrong_last_dimension(shape):
    with pytest.raises(RuntimeError, match="in_features=3"):
        layer()(np.zeros(shape, dtype=F32))


def test_initial_values_follow_the_bound_and_the_seed():
    m = nn.Linear(16, 1000, rng=3)
    for p in m.parameters():
        assert np.abs(p.data).max() <= 0.25
        assert np.abs(p.data).max() > 0.24
        assert abs(p.data.mean()) < 0.02
    np.testing.assert_array_equal(nn.Linear(16, 1000, rng=3).weight, m.weight)
    generator = np.random.default_rng(0)
    first, second = nn.Linear(2, 2, rng=generator), nn.Linear(2, 2, rng=generator)
    assert (first.weight != second.weight).all()
    assert (nn.Linear(2, 2).weight != nn.Linear(2, 2).weight).all()


def test_reset_parameters_writes_in_place():
    m = layer()
    weight, old = m.weight.data, m.weight.data.copy()
    m.reset_parameters(1)
    assert m.weight.data is weight
    assert (weight != old).all()


def test_half_precision_computes_in_float32(rng):
    m = layer(256, 8)
    x = rng.standard_normal((4, 256)).astype(np.float16)
    reference = m.half().weight.data.astype(F32) @ x.astype(F32).T
    out = m(x)
    assert out.dtype == np.float16
    np.testing.assert_array_equal(out, (reference.T + m.bias.data.astype(F32)).astype(np.float16))


@each_case(
    ("x_dtype", "w_dtype", "expected"),
    [
        ("float32", "float16", "float32"),
        ("float64", "float32", "float64"),
        ("int64", "float32", "float32"),
        ("bool", "float16", "float16"),
        ("float32", "complex64", "complex64"),
        ("float64", "complex64", "complex128"),
        ("float32", "float64", "float64"),
    ],
)
def test_mixed_dtypes(x_dtype, w_dtype, expected):
    m = layer().to(dtype=w_dtype)
    assert m(np.ones((2, 3), dtype=x_dtype)).dtype == expected


def test_complex_parameters():
    m = nn.Linear(2, 2, bias=None, dtype=np.complex128, rng=0)
    assert (m.weight.data.imag != 0).all()
    np.testing.assert_allclose(
        m(np.ones((3, 2), dtype=np.complex128)), np.tile(m.weight.data.sum(-1), (3, 1))
    )


def test_dtype_by_default_dtype():
    import lite

    with lite.default_dtype(np.float64):
        assert layer().weight.dtype == np.float64
    assert layer().weight.dtype == np.float32


def test_biases_alone_are_mapped(rng):
    x, weight, biases = rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), rng.normal(size=(2, 4))
    out = vmap(lambda bias: linear(x, weight, bias))(biases)
    np.testing.assert_allclose(out, x @ weight.T + biases[:, None], rtol=1e-12)

    def of_all(weights):  # those of one layer and its rows, mapped one within the other, and biases
        return vmap(lambda w: vmap(lambda b: vmap(lambda x: linear(x[None], w, b))(x))(biases))(weights)

    weights = np.stack([weight, 2 * weight])
    expected = (x @ weights.swapaxes(1, 2))[:, None, :, None] + biases[:, None, None]
    np.testing.assert_allclose(of_all(weights), expected, rtol=1e-12)
    slopes = grad(lambda weights: of_all(weights).sum())(weights)
    np.testing.assert_allclose(slopes, np.broadcast_to(2 * x.sum(0), (2, 4, 3)), rtol=1e-12)


def test_gradients_of_one_row(rng):
    x, w = rng.normal(size=3), rng.normal(size=(2, 3))
    by_x, by_w = grad(lambda x, w: (linear(x, w, None) * [1.0, 2.0]).sum(), argnums=(0, 1))(x, w)
    np.testing.assert_allclose(by_x, [1.0, 2.0] @ w)
    np.testing.assert_allclose(by_w, np.outer([1.0, 2.0], x))
    assert repr(nn.Bilinear(1, 2, 3)) == "Bilinear(in1_features=1, in2_features=2, out_features=3, bias=True)"


def test_gradients_of_stacked_layers(rng):
    for shape in ((3,), (4, 3), (2, 4, 3)):
        for bias in ((2, 5), None):
            arrays = [rng.normal(size=size) for size in (shape, (2, 5, 3), bias) if size]
            out = linear(*arrays, *[None] * (3 - len(arrays)))
            alone = [
                linear(arrays[0][i] if len(shape) > 2 else arrays[0], arrays[1][i], None) for i in (0, 1)
            ]
            added = 0 if bias is None else arrays[2][:, None] if len(shape) > 1 else arrays[2]
            np.testing.assert_allclose(out, np.stack(alone) + added)
            assert_gradients(lambda *given: linear(*given, *[None] * (3 - len(given))), *arrays)
