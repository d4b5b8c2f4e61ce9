"""LLMMaskedCategorical: masks of positions and of tokens."""

import itertools
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite.nn.distributions import LLMMaskedCategorical

RNG = np.random.default_rng(0)
LOWEST = np.finfo(np.float32).min


def logits_of(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    out = RNG.normal(size=shape).astype(dtype)
    out.flags.writeable = False
    return out


def softmax(values: np.ndarray) -> np.ndarray:
    out = np.exp(values.astype(np.float64))
    return out / out.sum(-1, keepdims=True)


@each_case("batch", [(), (2,), (2, 3)])
def test_a_mask_of_positions(batch: tuple[int, ...]) -> None:
    logits = logits_of(*batch, 4, 7)
    mask = np.broadcast_to(np.array([False, True, True, False]), (*batch, 4))
    dist = LLMMaskedCategorical(logits, mask)
    assert (dist.batch_shape, dist.event_shape) == ((*batch, 4), (7,))
    assert dist.position_level_masking
    value = RNG.integers(0, 7, (*batch, 4))
    expected = np.log(np.take_along_axis(softmax(logits), value[..., None], -1)[..., 0])
    np.testing.assert_allclose(dist.log_prob(value), np.where(mask, expected, 0), rtol=1e-5)
    assert (dist.log_prob(value)[~mask] == 0).all()
    np.testing.assert_array_equal(dist.mode, np.where(mask, logits.argmax(-1), 0))
    probs = softmax(logits)
    entropy = -(probs * np.log(probs)).sum(-1)
    np.testing.assert_allclose(dist.entropy(), np.where(mask, entropy, 0), rtol=1e-5)
    assert (dist.entropy()[~mask] == 0).all()
    assert dist.sample((3, 2)).shape == dist.rsample((3, 2)).shape == (3, 2, *batch, 4)
    np.testing.assert_allclose(dist.probs, probs, rtol=1e-5)
    assert dist.logits is logits


@each_case(("batch", "dtype"), itertools.product([(), (2,), (2, 3)], [np.float32, np.float64]))
def test_a_mask_of_tokens(batch: Any, dtype: Any) -> None:
    logits = logits_of(*batch, 3, 6, dtype=dtype)
    mask = RNG.random((*batch, 3, 6)) < 0.6
    mask[..., 0, :] = True
    mask[..., 1, :] = False
    mask[..., 2, 0] = True
    dist = LLMMaskedCategorical(logits, mask)
    assert not dist.position_level_masking
    table = softmax(np.where(mask | ~mask.any(-1, keepdims=True), logits, -1e9))
    somewhere = mask.any(-1)
    for token in range(6):
        got = dist.log_prob(np.full((*batch, 3), token))
        np.testing.assert_allclose(got[..., 1], -np.log(6), rtol=1e-6)  # where nothing can be drawn
        can = mask[..., token]
        np.testing.assert_allclose(got[can], np.log(table[..., token][can]), rtol=1e-5, atol=1e-6)
        assert (got[somewhere & ~can] == np.finfo(dtype).min).all()
    np.testing.assert_array_equal(dist.mode, np.where(mask, logits, -np.inf).argmax(-1))
    plogp = np.where(mask, table * np.log(np.where(mask, table, 1)), 0)
    np.testing.assert_allclose(dist.entropy(), np.where(somewhere, -plogp.sum(-1), 0), rtol=1e-5, atol=1e-6)
    assert (dist.entropy()[..., 1] == 0).all()


def test_samples_respect_a_mask_of_tokens() -> None:
    mask = np.zeros((2, 3, 10), bool)
    mask[..., 4:7] = True
    dist = LLMMaskedCategorical(logits_of(2, 3, 10), mask)
    draws = dist.sample((200,), rng=0)
    assert set(np.unique(draws).tolist()) == {4, 5, 6}
    assert set(np.unique(dist.mode).tolist()) <= {4, 5, 6}


@each_case("ignore_index", [-100, -1, 999])
def test_ignore_index(ignore_index: int) -> None:
    for mask in (np.ones(3, bool), np.ones((3, 5), bool)):
        dist = LLMMaskedCategorical(logits_of(3, 5), mask, ignore_index=ignore_index)
        got = dist.log_prob(np.array([1, ignore_index, 2]))
        assert got[1] == 0
        assert (got[[0, 2]] < 0).all()
        assert dist.ignore_index == ignore_index


def test_tokens_at_masked_positions_are_not_looked_at() -> None:
    dist = LLMMaskedCategorical(logits_of(2, 5), np.array([True, False]))
    assert dist.log_prob(np.array([1, 12345]))[1] == 0
    raises(IndexError, "outside the vocabulary of 5", lambda: dist.log_prob(np.array([5, 0])))


def test_bad_logits_can_be_sampled() -> None:
    logits = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [-np.inf, 0, 0]], np.float32)
    dist = LLMMaskedCategorical(logits, np.ones(3, bool))
    draws = dist.sample((100,), rng=0)
    assert set(draws[:, 1].tolist()) == {0}
    assert set(draws[:, 2].tolist()) == {1, 2}
    assert np.isfinite(dist.entropy()).all()
    np.testing.assert_array_equal(dist.logits, logits)


def test_cache() -> None:
    dist = LLMMaskedCategorical(logits_of(2, 5), np.array([True, False]))
    masked, inner = dist.masked_logits, dist.masked_dist
    np.testing.assert_array_equal(masked[1], LOWEST)
    np.testing.assert_array_equal(masked[0], dist.logits[0])
    assert dist.masked_logits is masked
    assert dist.masked_dist is inner
    dist.clear_cache()
    assert dist.masked_logits is not masked
    assert dist.masked_dist is not inner


def test_masked_errors() -> None:
    logits = logits_of(2, 3, 5)
    with pytest.raises(
        ValueError, match=r"Mask shape \(2,\) must be either logits batch shape \(2, 3\).*\(2, 3, 5\)"
    ):
        LLMMaskedCategorical(logits, np.ones(2, bool))
    with pytest.raises(TypeError, match="mask must be boolean, got int64"):
        LLMMaskedCategorical(logits, np.ones((2, 3), np.int64))
    with pytest.raises(TypeError, match="logits must be floats, got int64"):
        LLMMaskedCategorical(np.ones((2, 3, 5), np.int64), np.ones((2, 3), bool))
    dist = LLMMaskedCategorical(logits, np.ones((2, 3), bool))
    raises(ValueError, "tokens must have the shape", lambda: dist.log_prob(np.zeros((2, 4), np.int64)))
    raises(TypeError, "tokens must be integers", lambda: dist.log_prob(np.zeros((2, 3))))


# -- LogProbDistribution -----------------------------------------------------------------------


def test_support() -> None:
    support = LLMMaskedCategorical(np.zeros((2, 3)), np.ones((2, 3), bool)).support
    np.testing.assert_array_equal(support.check(np.array([-1, 0, 2, 3])), [False, True, True, False])
