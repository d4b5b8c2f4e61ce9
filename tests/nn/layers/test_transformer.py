"""Transformer layers are their parts, and stacks are their layers."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import nn

X = np.random.default_rng(0).normal(size=(5, 2, 8)).astype(np.float32)


def test_a_layer_is_attention_and_a_network() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, rng=0).eval()
    x = layer.norm1(X + layer.self_attn(X, X, X)[0])
    expected = layer.norm2(x + layer.linear2(np.maximum(layer.linear1(x), 0)))
    np.testing.assert_allclose(layer(X), expected, rtol=1e-5, atol=1e-6)


def test_normalised_first() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, norm_first=True, rng=0).eval()
    normed = layer.norm1(X)
    x = X + layer.self_attn(normed, normed, normed)[0]
    expected = x + layer.linear2(np.maximum(layer.linear1(layer.norm2(x)), 0))
    np.testing.assert_allclose(layer(X), expected, rtol=1e-5, atol=1e-6)


def test_stacks_and_both_together() -> None:
    net = nn.Transformer(8, 2, 2, 1, 16, rng=0).eval()
    memory = net.encoder.norm(net.encoder.layers[1](net.encoder.layers[0](X)))
    expected = net.decoder.norm(net.decoder.layers[0](X, memory))
    np.testing.assert_allclose(net(X, X), expected, rtol=1e-5, atol=1e-6)


def test_the_mask_of_what_comes_later() -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.dtype == np.float32
    assert nn.Transformer.generate_square_subsequent_mask(3, dtype=np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.isinf(mask), np.triu(np.ones((3, 3), bool), 1))
    with pytest.raises(RuntimeError, match="'relu', 'gelu' or a function, got 'sin'"):
        nn.TransformerEncoderLayer(8, 2, activation="sin")


def test_batches_that_differ() -> None:
    net = nn.Transformer(4, 1, 1, 1, 8, batch_first=True)
    for src, tgt in (((3, 2, 4), (5, 2, 4)), ((3, 2, 4), (2, 2, 4))):
        raises(RuntimeError, "agree in the batch dimension 0", net, np.zeros(src), np.zeros(tgt))


def test_matrices_are_drawn_anew_and_vectors_stay() -> None:
    net = nn.Transformer(8, 2, 1, 1, 16, rng=0)
    before = {name: array.copy() for name, array in net.state_dict().items()}
    net.reset_parameters(1)
    for name, array in net.state_dict().items():
        if array.ndim > 1:
            limit = (6 / sum(array.shape)) ** 0.5
            assert 0.8 * limit < np.abs(array).max() <= limit, name
        assert np.array_equal(array, before[name]) == (array.ndim == 1), name
