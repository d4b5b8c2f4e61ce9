"""Conv1d and Conv2d against a loop over windows."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.compared import assert_same

from lite import grad, nn, value_and_grad, vmap
from lite.kernels import backend
from lite.kernels.networks import convolution
from lite.nn.layers import convolution as layers
from lite.nn.layers import large_arrays


def by_hand(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int, pad: int, step: int) -> Any:
    """One image (C, H, W); weight (O, C, h, w)."""
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
    _, _, h, w = weight.shape
    rows = range(0, x.shape[1] - step * (h - 1), stride)
    columns = range(0, x.shape[2] - step * (w - 1), stride)
    windows = [[x[:, i : i + step * h : step, j : j + step * w : step] for j in columns] for i in rows]
    return np.einsum("ijchw,ochw->oij", np.array(windows), weight) + bias[:, None, None]


@each_case(("stride", "pad", "step"), [(1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 0, 1)])
def test_two_dimensions(rng: np.random.Generator, stride: int, pad: int, step: int) -> None:
    layer = nn.Conv2d(2, 3, (3, 2), stride, pad, step, rng=0)
    x = rng.normal(size=(2, 2, 7, 6)).astype(np.float32)
    expected = [by_hand(one, layer.weight.data, layer.bias.data, stride, pad, step) for one in x]
    np.testing.assert_allclose(layer(x), expected, rtol=1e-4, atol=1e-5)


def test_one_dimension_and_groups(rng: np.random.Generator) -> None:
    layer = nn.Conv1d(4, 2, 3, groups=2, rng=0)
    x = rng.normal(size=(1, 4, 6)).astype(np.float32)
    out = layer(x)
    for group in range(2):
        part = x[0, 2 * group : 2 * group + 2]
        weight = layer.weight.data[group]
        expected = [np.sum(weight * part[:, i : i + 3]) + layer.bias.data[group] for i in range(4)]
        np.testing.assert_allclose(out[0, group], expected, rtol=1e-4, atol=1e-6)


def test_valid_is_no_padding(rng: np.random.Generator) -> None:
    x = rng.normal(size=(1, 2, 6)).astype(np.float32)
    same = [nn.Conv1d(2, 3, 3, padding=pad, rng=0)(x) for pad in ("valid", 0)]
    np.testing.assert_array_equal(*same)
    lazy = nn.LazyConv1d(4, 3, groups=2)
    assert lazy(x).shape == (1, 4, 4)
    assert lazy.weight.shape == (4, 1, 3)


@each_case("mode, of_numpy", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_other_padding_is_numpy_s(mode: str, of_numpy: Any, rng: np.random.Generator) -> None:
    x, options = rng.normal(size=(2, 4, 6, 5)), {"stride": 2, "dilation": 2, "groups": 2}
    layer = nn.Conv2d(4, 6, 2, padding=(2, 1), padding_mode=mode, rng=0, **options)
    plain = nn.Conv2d(4, 6, 2, **options)
    plain.load_state_dict(layer.state_dict())
    wide = np.pad(x, [(0, 0), (0, 0), (2, 2), (1, 1)], mode=of_numpy)
    for dtype in (np.float32, np.float16):
        found, expected = layer.to(dtype)(x.astype(dtype)), plain.to(dtype)(wide.astype(dtype))
        np.testing.assert_allclose(found, expected, strict=True)


def test_channels_that_do_not_fit() -> None:
    raises(RuntimeError, "2", nn.Conv1d(2, 1, 1), np.zeros((1, 3, 5), np.float32))


@pytest.mark.compiled
@pytest.mark.parametrize("shape", [(3, 4, 12, 11), (3, 4, 30)], ids=["2d", "1d"])
def test_large_ones_run_compiled(rng: np.random.Generator, monkeypatch: Any, shape: tuple[int, ...]) -> None:
    kind = nn.Conv2d if len(shape) == 4 else nn.Conv1d
    layer, x = kind(4, 6, 3, stride=2, padding=1, groups=2, rng=0), rng.normal(size=shape).astype(np.float32)

    def found() -> list[Any]:
        traced = value_and_grad(lambda w, b, x: (layer._convolved(x, w, b) ** 3).sum(), argnums=(0, 1, 2))
        value, gradients = traced(layer.weight.data, layer.bias.data, x)
        return [layer(x), value, *gradients]

    monkeypatch.setattr(large_arrays, "_SOME", 1 << 60)
    expected = found()
    monkeypatch.setattr(large_arrays, "_MUCH", 0)
    seen = []
    monkeypatch.setattr(convolution, "_run", lambda *given, run=convolution._run: seen.append(run(*given)))
    assert_same(found(), expected, rtol=1e-4, atol=1e-5)
    # Twice forward and once back; nothing where there is no compiler and no library.
    assert len(seen) == (0 if backend() == "numpy" else 3)
    mapped = vmap(grad(lambda w, x: layer._convolved(x, w, None).sum()), (None, 0))(layer.weight.data, x)
    each = [grad(lambda w, one=one: layer._convolved(one, w, None).sum())(layer.weight.data) for one in x]
    np.testing.assert_allclose(mapped, each, rtol=1e-4, atol=1e-5)


@pytest.mark.compiled
def test_large_transposes_run_compiled(rng: np.random.Generator, monkeypatch: Any) -> None:
    layer, seen = nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2, rng=0), []
    x = rng.normal(size=(3, 4, 6, 5)).astype(np.float32)

    def found() -> list[Any]:
        return [layer(x), *value_and_grad(lambda x: (layer(x) ** 3).sum())(x)]

    monkeypatch.setattr(large_arrays, "_SOME", 1 << 60)
    expected = found()
    monkeypatch.setattr(large_arrays, "_MUCH", 0)
    how = layers._compiled_transpose
    monkeypatch.setattr(layers, "_compiled_transpose", lambda *given: seen.append(how(*given)) or seen[-1])
    assert_same(found(), expected, rtol=1e-3, atol=1e-4)
    assert sum(each is not None for each in seen) == (0 if backend() == "numpy" else 2)


@each_case(("stride", "pad", "step", "more"), [(1, 0, 1, 0), (2, 1, 1, 1), (3, 2, 2, 0), (4, 0, 1, 3)])
def test_transposes_undo_shapes_and_share_weights(stride: int, pad: int, step: int, more: int) -> None:
    """The transpose is the derivative of the convolution by its input, with the same weight."""
    layer = nn.ConvTranspose2d(2, 4, 3, stride, pad, more, 2, dilation=step, bias=False, rng=0)
    x, weight = np.random.default_rng(0).normal(size=(3, 2, 4, 5)).astype(np.float32), layer.weight.data
    out = layer(x)
    assert out.shape == (3, 4, *(stride * (n - 1) - 2 * pad + 2 * step + 1 + more for n in (4, 5)))
    forth = nn.Conv2d(4, 2, 3, stride, pad, step, groups=2, bias=False)
    expected = grad(lambda y: (forth._convolved(y, weight, None)[..., :4, :5] * x).sum())(np.zeros_like(out))
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(layer(x, output_size=out.shape[2:]), out)


def test_sizes_that_no_transpose_has() -> None:
    layer, x = nn.ConvTranspose1d(1, 1, 3, stride=2), np.zeros((1, 4), np.float32)
    raises(ValueError, r"output_size must be from \[9\] to \[10\], got \(11,\)", layer, x, output_size=[11])
    with pytest.raises(ValueError, match="padding_mode must be 'zeros', got 'reflect'"):
        nn.ConvTranspose1d(1, 1, 3, padding_mode="reflect")
    wrong: list[dict[str, Any]] = [{"output_padding": 2}, {"stride": 0}, {"padding": -1}, {"padding": 4}]
    for options in wrong:
        raises(RuntimeError, "got", nn.ConvTranspose1d(1, 1, 3, **options), x)
    raises(RuntimeError, "with in_channels=1 before the last 1; got", layer, np.zeros((2, 4), np.float32))
