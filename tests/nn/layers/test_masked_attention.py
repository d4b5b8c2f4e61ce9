"""Attention by masks: the keys that each query sees, and heads of keys that serve several of queries."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import value_and_grad
from lite.kernels.backends.choice import backend
from lite.nn._import.attention import grouped_attention
from lite.nn.layers.masked_attention import key_ranges, masked_attention

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
        ((2, 4, 64, 40), (2, 4, 9, 40), (2, 4, 9, 40)),
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
