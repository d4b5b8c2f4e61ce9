"""MLP: which layers it is made of."""

from functools import partial

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import nn


def test_layers() -> None:
    net = nn.MLP(3, 2, num_cells=[5, 4], activation_class=nn.ReLU)
    assert [type(layer).__name__ for layer in net] == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert [layer.out_features for layer in net if isinstance(layer, nn.Linear)] == [5, 4, 2]
    x = np.ones((7, 3), np.float32)
    expected = x
    for layer in net:
        expected = layer(expected)
    np.testing.assert_array_equal(net(x), expected)


def test_several_inputs_are_joined_and_outputs_shaped() -> None:
    net = nn.MLP(3, (2, 4), depth=1, num_cells=np.int64(5))
    assert net(np.ones((7, 1), np.float32), np.ones((7, 2), np.float32)).shape == (7, 2, 4)


def test_a_width_needs_a_depth() -> None:
    raises(RuntimeError, "depth must be given", nn.MLP, 3, 2, num_cells=4)


@each_case("given", ["relu", nn.ReLU(), np.tanh])
def test_an_activation_in_place_of_its_class(given: object) -> None:
    for make in (partial(nn.MLP, 3, 2, num_cells=[4]), partial(nn.ConvNet, 3)):
        raises(TypeError, r"activation_class must be a class such as nn\.ReLU", make, activation_class=given)
    assert nn.MLP(3, 2, num_cells=[4], activation_class=lambda: np.tanh)(np.ones(3)).shape == (2,)


@each_case(("layer", "lazy"), [(nn.Linear, "LazyLinear"), (nn.NoisyLinear, "NoisyLazyLinear")])
def test_a_first_layer_finds_out_its_size(layer: type[nn.Module], lazy: str) -> None:
    net = nn.MLP(None, 2, num_cells=[4], layer_class=layer, activation_class=nn.ReLU)
    assert [type(part).__name__ for part in net] == [lazy, "ReLU", layer.__name__]
    assert net(np.ones((7, 3), np.float32)).shape == (7, 2)
    assert [type(part) for part in net] == [layer, nn.ReLU, layer]
    for other in (nn.Conv1d, nn.Bilinear):
        raises(KeyError, "has no lazy form", nn.MLP, None, 2, layer_class=other)


def test_one_bias_at_the_end_and_dropout() -> None:
    net = nn.MLP(3, 2, num_cells=[4], single_bias_last_layer=True, dropout=0.5).eval()
    net[-1].bias.data[...] = 7.0
    x = np.ones((5, 3), np.float32)
    np.testing.assert_allclose(net(x), np.tanh(net[0](x)) @ net[3].weight.data.T + 7, rtol=1e-6)
    assert net[1].p == 0.5
    assert type(net * 2) is nn.Sequential


@pytest.mark.parametrize("in_features", [3, None])
def test_a_seed_repeats_weights_and_dropout(in_features: int | None) -> None:
    x = np.ones((4, 3), np.float32)
    one, same, other = (nn.MLP(in_features, 2, num_cells=[8, 8], dropout=0.5, rng=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one(x), same(x))
    assert not np.array_equal(one(x), other(x))
    for a, b in zip(one.parameters(), same.parameters(), strict=True):
        np.testing.assert_array_equal(a.data, b.data)
