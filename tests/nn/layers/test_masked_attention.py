"""Attention by masks: the keys that each query sees, and heads of keys that serve several of queries."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.peaks import peak_of

from lite import jacrev, nn, value_and_grad
from lite.kernels.backends.choice import backend
from lite.nn._import.attention import grouped_attention
from lite.nn.layers import masked_attention as in_blocks
from lite.nn.layers.masked_attention import ScoreRule, attention_in_blocks, key_ranges, masked_attention
from lite.nn.layers.row_attention import Seen

SHAPE = (2, 3, 4, 5)  # of scores
EYE = np.eye(4, 5, dtype=np.bool_)
HALF = np.arange(5) < 3


def hiding(shown: Any, low: float = -np.inf) -> Any:
    return np.where(shown, 0, low).astype(np.float32)


@each_case(
    ("masks", "first", "last"),
    [
        ([EYE], np.arange(4), np.arange(4) + 1),
        ([hiding(HALF)], 0, 3),
        ([hiding(HALF, -1e4), np.zeros((4, 1), np.float32)], 0, 3),
        ([HALF, hiding(np.arange(5) > 0)], 1, 3),
        ([HALF & (np.arange(2) > 0)[:, None, None, None]], 0, np.array([0, 3])[:, None, None]),
        ([np.ones((4, 5), np.bool_)], 0, 5),
    ],
)
def test_masks_are_ranges_of_keys(masks: Any, first: Any, last: Any) -> None:
    ranges = key_ranges(masks, True)
    assert ranges is not None
    assert ranges.length == SHAPE[-1]
    for found, wanted in zip(ranges.seen, (first, last), strict=True):
        np.testing.assert_array_equal(*np.broadcast_arrays(np.broadcast_to(found, SHAPE[:-1]), wanted))


@each_case(
    "mask",
    [
        np.arange(5) % 2 == 0,
        hiding(HALF, -9e3),
        np.full(5, np.nan, np.float32),
        np.zeros(5, np.int64),
        np.zeros((), np.float32),
        np.zeros(3, np.float32),
        None,
    ],
)
def test_other_masks_are_none(mask: Any) -> None:
    assert key_ranges([mask, np.ones(5, np.bool_)], True) is None


def test_queries_that_see_nothing_are_zeros_or_none() -> None:
    assert key_ranges([EYE & (np.arange(5) > 0)], False) is None
    assert key_ranges([EYE & (np.arange(5) > 0)], True) is not None


@pytest.mark.compiled
@pytest.mark.skipif(backend() == "numpy", reason="nothing is compiled")
@pytest.mark.parametrize("shared", [(2, 1), (1, 1)])
def test_heads_share_keys(shared: Any) -> None:
    rng = np.random.default_rng(0)
    q = rng.normal(size=(2, 2, 3, 100, 32)).astype(np.float32)
    k, v = (rng.normal(size=(2, *shared, 100, 32)).astype(np.float32) for _ in range(2))
    mask = hiding(np.tril(np.ones((100, 100), np.bool_)), -1e30)
    back = rng.normal(size=q.shape).astype(np.float32)

    def plainly(q: Any, k: Any, v: Any) -> Any:
        k, v = (np.broadcast_to(x, (2, 2, 3, 100, 32)).reshape(2, 6, 100, 32) for x in (k, v))
        return grouped_attention(q.reshape(2, 6, 100, 32), k, v, 0.2, mask).reshape(back.shape)

    def of(fn: Any) -> Any:
        return value_and_grad(lambda parts: (fn(*parts) * back).sum())([q, k, v])

    (value, grads), (wanted, expected) = (
        of(lambda q, k, v: masked_attention(q, k, v, 0.2, key_ranges([mask], False))),
        of(plainly),
    )
    np.testing.assert_allclose(value, wanted, rtol=1e-4)
    for a, b in zip(grads, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5 * np.abs(b).max())


@each_case(
    ("q", "k", "v"),
    [
        ((2, 4, 64, 48), (2, 3, 9, 48), (2, 3, 9, 48)),
        ((2, 4, 64, 48), (2, 4, 9, 48), (2, 4, 9, 32)),
        ((8, 64, 48), (2, 4, 9, 48), (2, 4, 9, 48)),
        ((2, 4, 64, 48), (2, 2, 9, 48), (2, 2, 9, 48)),
        ((2, 2, 4, 64, 48), (2, 1, 4, 9, 48), (2, 1, 4, 9, 48)),
        ((512, 48), (9, 48), (9, 48)),
        ((2, 4, 2, 48), (2, 4, 9, 48), (2, 4, 9, 48)),
    ],
)
def test_other_shapes_are_none(q: Any, k: Any, v: Any) -> None:
    parts = [np.zeros(shape, np.float32) for shape in (q, k, v)]
    assert masked_attention(*parts, 1.0, None) is None  # type: ignore[misc, arg-type]


FIRST, LAST = np.maximum(np.arange(6) - 3, 0)[None], np.minimum(np.arange(6) + 2, 5)[None]
SEEN = Seen(np.broadcast_to(FIRST, (2, 6)), np.broadcast_to(LAST, (2, 6)))


def formula(q: Any, k: Any, v: Any, bias: Any, rule: ScoreRule) -> Any:
    """In functions of NumPy, whole."""
    scores = np.matmul(q, np.swapaxes(k, -1, -2))
    if rule.softcap:
        scores = rule.softcap * np.tanh(scores / rule.softcap)
    if rule.seen is not None:
        keys, (first, last) = np.arange(k.shape[-2]), (x[..., None] for x in rule.seen)
        scores = scores + np.where((keys >= first) & (keys < last), 0, rule.low)
    scores = scores if bias is None else scores + bias
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.matmul(powers / powers.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("block", [7, 40, 1 << 19])
@each_case(
    ("shared", "bias", "rule"),
    [
        (3, None, ScoreRule()),
        (1, (5,), ScoreRule()),
        (1, (6, 5), ScoreRule(softcap=0.7)),
        (1, (2, 3, 1, 5), ScoreRule(0.0, SEEN, -1e30)),
        (3, (3, 6, 1), ScoreRule(2.0, SEEN)),
    ],
)
def test_blocks_give_what_the_whole_gives(
    block: int, shared: int, bias: Any, rule: ScoreRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_blocks, "BLOCK", block)
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=shape) for shape in ((2, 3, 6, 4), (2, shared, 5, 4), (2, shared, 5, 7))]
    if bias is not None:
        parts.append(rng.normal(size=bias))
    back = rng.normal(size=(2, 3, 6, 7))
    if rule.seen is not None:
        rule = rule._replace(seen=Seen(*(x[:, None] for x in rule.seen)))

    def given(parts: Any) -> Any:
        return [*parts, None][:4]

    def of(fn: Any) -> Any:
        return value_and_grad(lambda parts: (fn(*given(parts), rule) * back).sum())(parts)

    (value, grads), (wanted, expected) = of(attention_in_blocks), of(formula)
    np.testing.assert_allclose(value, wanted)
    for a, b in zip(grads, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    np.testing.assert_allclose(attention_in_blocks(*given(parts), rule), formula(*given(parts), rule))
    first, *others = parts
    np.testing.assert_allclose(
        *(
            jacrev(lambda q, fn=fn: fn(*given([q, *others]), rule)[0, 0, 1])(first)
            for fn in (attention_in_blocks, formula)
        ),
        atol=1e-12,
    )


def test_neither_passes_hold_all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_blocks, "BLOCK", 1 << 13)
    layer = nn.MultiheadAttention(16, 2, rng=0, batch_first=True)
    x, bias = np.zeros((4, 256, 16), np.float32), np.zeros((256, 256), np.float32)

    def loss(x: Any) -> Any:
        return layer(x, x, x, need_weights=False, attn_mask=bias)[0].sum()

    scores = 4 * 2 * 256 * 256 * 4
    assert peak_of(loss, x) < scores / 4
    assert peak_of(value_and_grad(loss), x) < scores / 2
