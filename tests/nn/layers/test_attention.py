"""MultiheadAttention against the formula, written out for each head."""

import math

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import nn
from lite.nn.layers import masked_attention


def by_hand(layer: nn.MultiheadAttention, x: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Self-attention of x (L, E), where position i may look at j if allowed[i, j]."""
    size, heads = x.shape[1], layer.num_heads
    q, k, v = np.split(x @ layer.in_proj_weight.data.T + layer.in_proj_bias.data, 3, -1)
    out = np.zeros_like(x)
    for h in range(heads):
        part = slice(h * size // heads, (h + 1) * size // heads)
        scores = q[:, part] @ k[:, part].T / math.sqrt(size // heads)
        weights = np.where(allowed, np.exp(scores), 0)
        out[:, part] = weights / weights.sum(-1, keepdims=True) @ v[:, part]
    return out @ layer.out_proj.weight.data.T + layer.out_proj.bias.data


def test_masks(rng: np.random.Generator) -> None:
    layer = nn.MultiheadAttention(8, 2, rng=0)
    x = rng.normal(size=(5, 8)).astype(np.float32)
    later = np.triu(np.ones((5, 5), bool), 1)
    out, _ = layer(x, x, x, attn_mask=later)
    np.testing.assert_allclose(out, by_hand(layer, x, ~later), rtol=1e-4, atol=1e-6)
    padded = np.array([False, False, False, True, True])
    out, _ = layer(x, x, x, key_padding_mask=padded)
    np.testing.assert_allclose(out, by_hand(layer, x, np.tile(~padded, (5, 1))), rtol=1e-4, atol=1e-6)
    later[0] = True  # what sees nothing is NaN beside weights, and else nothing but the bias
    for weighted, nothing in ((True, np.nan), (False, layer.out_proj.bias.data)):
        out, _ = layer(x, x, x, attn_mask=later, need_weights=weighted)
        np.testing.assert_array_equal(out[0], np.broadcast_to(nothing, 8))
        assert np.isfinite(out[1:]).all()


def test_batches_in_parts_are_what_they_are_whole(rng, monkeypatch):
    layer = nn.MultiheadAttention(8, 2, batch_first=True, rng=0)
    x, padded = rng.normal(size=(5, 3, 8)).astype(np.float32), np.arange(15).reshape(5, 3) % 4 == 1
    masks = [{}, {"attn_mask": np.triu(np.ones((3, 3), bool), 1)}, {"key_padding_mask": padded}]
    whole = [layer(x, x, x, need_weights=False, **mask)[0] for mask in masks]
    monkeypatch.setattr(masked_attention, "BLOCK", 40)  # scores of two elements
    for mask, expected in zip(masks, whole, strict=True):
        np.testing.assert_allclose(layer(x, x, x, need_weights=False, **mask)[0], expected, 1e-5, 1e-6)


@each_case(
    ("batch", "mask", "error"),
    [
        ((), (5, 4), RuntimeError),
        ((), (3, 5, 5), AssertionError),  # as in torch, of inputs without a batch
        ((3,), (5, 4), RuntimeError),
        ((3,), (3, 5, 5), RuntimeError),
        ((3,), (5,), AssertionError),
    ],
)
def test_masks_of_other_shapes_are_refused(batch, mask, error):
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True), np.zeros((*batch, 5, 8), np.float32)
    with pytest.raises(error, match="attn_mask must have shape"):
        layer(x, x, x, attn_mask=np.zeros(mask, bool))


def test_inputs_that_do_not_fit() -> None:
    net, x, bare = nn.MultiheadAttention(4, 2), np.zeros((3, 2, 4)), np.zeros((3, 4))
    for inputs in ((x[None],) * 3, (x, bare, x), (x, x, bare), (bare, x, x)):
        raises(AssertionError, "must all have 3 dimensions", net, *inputs)
    raises(RuntimeError, "is_causal says what attn_mask is", net, x, x, x, is_causal=True)
    for other in (x[:2], x[..., :3]):
        raises(AssertionError, "key and value must agree", net, x, x, other)
    raises(RuntimeError, "agree in the batch dimension 1", net, x, x[:, :1], x[:, :1])
    raises(AssertionError, "the last dimension of query must be 4", net, x[..., :3], x, x)
    assert nn.MultiheadAttention(4, 2, vdim=3)(x, x, x[..., :3])[0].shape == x.shape
