"""LayerNorm by compiled code and by NumPy; what BatchNorm takes and keeps."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.central_differences import assert_gradients

from lite import TensorDict, default_dtype, grad, nn
from lite.nn.layers import large_arrays as _compiled
from lite.nn.layers.large_arrays import LARGE

pytestmark = pytest.mark.compiled


def layer(rng, shape, **options):
    made = nn.LayerNorm(shape, **options)
    for value in made.parameters():
        value.data[...] = rng.normal(size=value.shape)
    return made


def test_gradients(rng):
    x = rng.normal(size=(4, 6, 3))
    with default_dtype(np.float64):
        norms = [nn.LayerNorm((6, 3)), nn.RMSNorm(3), nn.GroupNorm(2, 6), nn.BatchNorm1d(6)]
        norms.append(nn.BatchNorm1d(6).eval())
    for norm in norms:
        names, params = zip(*norm.named_parameters(), strict=True)

        def of_all(x, *values, norm=norm, names=names):
            with TensorDict(dict(zip(names, values, strict=True))).to_module(norm):
                return norm(x)

        assert_gradients(of_all, x, *[rng.normal(size=param.shape) for param in params])


@pytest.mark.parametrize(
    ("shape", "options", "batch"),
    [((64,), {}, LARGE // 16), ((4, 16), {"bias": False}, LARGE // 16)]
    + [((5,), {"elementwise_affine": False}, 40_000)],  # for several threads
)
def test_compiled_layer_norm(rng, shape, options, batch, monkeypatch):
    norm = layer(rng, shape, **options)
    x = (rng.normal(size=(batch, *shape)) * 3 + 10).astype(np.float32)
    x.flags.writeable = False
    wide = x.reshape(batch, -1).astype(np.float64)
    wide = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + norm.eps)
    expected = wide.reshape(x.shape) * (1 if norm.weight is None else norm.weight.data)
    expected += 0 if norm.bias is None else norm.bias.data
    got = norm(x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(_compiled, "_kernels", lambda name: None)
    np.testing.assert_allclose(norm(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("affine", [True, False])
def test_compiled_rms_norm_and_its_gradients(rng, affine, monkeypatch):
    norm = nn.RMSNorm((4, 16), 1e-2, elementwise_affine=affine)
    params = TensorDict.from_module(norm).data.apply(lambda a: a * rng.normal(size=a.shape).astype(a.dtype))
    x, weights = rng.normal(size=(2, LARGE // 64, 4, 16)).astype(np.float32)

    def loss(x, params):
        with params.to_module(norm):
            return np.sum(norm(x) * weights)

    def found():
        of_x, *of_params = grad(loss, argnums=(0, 1) if affine else (0,))(x, params)
        with params.to_module(norm):
            return [norm(x), of_x, *[of["weight"] for of in of_params]]

    compiled = found()
    monkeypatch.setattr(_compiled, "_kernels", lambda name: None)
    for one, other in zip(compiled, found(), strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean((1, 2), keepdims=True) + 1e-2)
    np.testing.assert_allclose(compiled[0], expected * params["weight"] if affine else expected, rtol=1e-4)


def test_stacked_weights_are_left_to_numpy(rng):
    norm = layer(rng, 4)
    x = rng.normal(size=(2, LARGE, 4)).astype(np.float32)
    plain = (norm(x) - norm.bias.data) / norm.weight.data
    weights, biases = rng.normal(size=(2, 2, 1, 4)).astype(np.float32)
    with TensorDict(weight=weights, bias=biases).to_module(norm):
        np.testing.assert_allclose(norm(x), plain * weights + biases, rtol=1e-3, atol=1e-4)


def test_rows_of_other_layouts_and_infinities(rng):
    x = rng.normal(size=(64, LARGE)).astype(np.float32)
    x[3, 5] = np.inf
    x[7, 9] = np.nan
    norm = nn.LayerNorm(64)
    got = norm(x.T)
    assert np.isnan(got[[5, 9]]).all()
    assert np.isfinite(np.delete(got, [5, 9], 0)).all()
    for small_norm in (norm, nn.RMSNorm(64)):
        small = small_norm(x.T[:6])  # by NumPy, without a warning
        assert np.isnan(small[5]).any()
        assert np.isfinite(small[:5]).all()


def test_state_dicts_of_version_1():
    """Which had no count of batches: it stays what it is."""
    layer = nn.BatchNorm1d(2)
    layer(np.ones((3, 2), np.float32))
    state = layer.state_dict()
    old = {name: value for name, value in state.items() if name != "num_batches_tracked"}
    assert layer.load_state_dict(old) == ([], [])
    assert layer.num_batches_tracked == 1
    state.pop("num_batches_tracked")  # which says that it is of version 2
    raises(RuntimeError, "num_batches_tracked", lambda: layer.load_state_dict(state))
    empty = nn.BatchNorm1d(2, device="meta")
    empty.load_state_dict(old, assign=True)
    assert empty.num_batches_tracked == 0


@each_case("tracked", [True, False])
def test_one_value_per_channel_has_no_statistics(tracked):
    norm = nn.BatchNorm1d(2, track_running_stats=tracked)
    for training in (True, False):
        for shape in ((1, 2), (1, 2, 1)):
            x = np.ones(shape, np.float32)
            if training or not tracked:
                raises(ValueError, "more than 1 value per channel when training", norm.train(training), x)
            else:
                np.testing.assert_allclose(norm.eval()(x), x, rtol=1e-4)
    np.testing.assert_array_equal(norm.train()(np.ones((1, 2, 2))), np.zeros((1, 2, 2)))
    assert not tracked or norm.num_batches_tracked == 1  # the refused inputs were not counted


def test_dimensions_of_inputs():
    for layer, shape, message in (
        (nn.BatchNorm1d(2), (2, 2, 2, 2), "expected 2D or 3D input .got 4D"),
        (nn.BatchNorm2d(2), (2, 2, 2), "expected 4D input .got 3D"),
    ):
        raises(ValueError, message, layer, np.ones(shape, np.float32))


def test_groups_are_channels_side_by_side(rng):
    layer = nn.GroupNorm(2, 4)
    layer.weight.data[...], layer.bias.data[...] = rng.normal(size=(2, 4))
    x = rng.normal(size=(3, 4, 5)) * 2 + 1
    for n, group in ((0, slice(0, 2)), (2, slice(2, 4))):
        part = x[n, group]
        expected = (part - part.mean()) / np.sqrt(part.var() + 1e-5)
        expected = expected * layer.weight.data[group, None] + layer.bias.data[group, None]
        np.testing.assert_allclose(layer(x)[n, group], expected, rtol=1e-6)
    raises(ValueError, "num_channels must be divisible by num_groups=3, got 4", lambda: nn.GroupNorm(3, 4))
    raises(ValueError, "num_groups must be at least 1, got 0", lambda: nn.GroupNorm(0, 4))
    for shape in ((4,), (2, 3, 4)):
        raises(RuntimeError, "dimension 1 must be num_channels=4", layer, np.ones(shape))
