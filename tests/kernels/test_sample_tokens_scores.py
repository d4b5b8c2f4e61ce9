"""What is drawn from in place of the model's logits: bias, masks of bits, scores of one's own, typical-p."""

from typing import Any

import numpy as np
from helpers import reference
from helpers.cases import raises
from helpers.kernels_under_test import SIMULATED, sample_tokens


def drawn(logits: Any, count: int = 300, **options: Any) -> set[int]:
    """Tokens of many draws from one row; of fewer in the simulator."""
    count = min(count, 10) if SIMULATED else count
    rows = np.broadcast_to(np.asarray(logits, np.float32), (count, len(logits)))
    return set(sample_tokens(rows, np.arange(count), **options)[0].tolist())


def bits(mask: np.ndarray) -> np.ndarray:
    words = np.zeros((len(mask), -(-mask.shape[1] // 32) * 32), bool)
    words[:, : mask.shape[1]] = mask
    return np.packbits(words, axis=1, bitorder="little").view(np.int32)


def test_bias_is_added_after_the_penalty() -> None:
    logits = np.array([[2.0, 1.5, -1.0], [2.0, 1.5, -1.0]], np.float32)
    bias = np.array([0, 0, 2]), np.array([1, 0]), np.array([0.2, -0.1])
    options: dict[str, Any] = {"temperature": 0, "repetition_penalty": 2.0, "previous": [[0], [0]]}
    tokens, log_probs = sample_tokens(logits, np.arange(2), bias=bias, **options)
    assert tokens.tolist() == [1, 1]
    np.testing.assert_allclose(log_probs, reference.token_log_probs(logits, tokens), rtol=1e-6)
    larger = np.array([0, 1, 1]), np.array([0]), np.array([0.6])
    assert sample_tokens(logits, np.arange(2), bias=larger, **options)[0].tolist() == [0, 1]
    small = np.array([[0.9, 0.5], [-0.4, -0.5]], np.float32)  # divided, and multiplied
    assert sample_tokens(small, np.arange(2), **options)[0].tolist() == [1, 1]


def test_bias_bans() -> None:
    logits = np.zeros((2, 3), np.float32)
    bias = np.array([0, 2, 3]), np.array([0, 2, 1]), np.full(3, -np.inf)
    for step in range(20):
        tokens, _ = sample_tokens(logits, np.arange(2), step=step, bias=bias)
        assert tokens[0] == 1
        assert tokens[1] != 1
    every = np.array([0, 0, 3]), np.arange(3), np.full(3, -np.inf)
    raises(ValueError, r"logits\[1\] has no token left", sample_tokens, logits, np.arange(2), bias=every)


def test_a_ban_hides_what_is_no_number() -> None:
    logits = np.array([[np.nan, 1.0, np.nan]], np.float32)
    bias = np.array([0, 2]), np.array([0, 2]), np.full(2, -np.inf)
    assert sample_tokens(logits, np.arange(1), bias=bias)[0].tolist() == [1]
    one = np.array([0, 1]), np.array([0]), np.array([-np.inf])
    raises(ValueError, r"logits\[0\] contains NaN", sample_tokens, logits, np.arange(1), bias=one)


def test_bias_of_a_token_twice_counts_twice() -> None:
    bias = np.array([0, 2]), np.array([1, 1]), np.array([1.0, 1.0])
    assert sample_tokens(np.array([[1.5, 0.0]], np.float32), np.arange(1), bias=bias, temperature=0)[0] == [1]


def test_bits_mask_as_booleans_do(rng: Any) -> None:
    for size in [1, 33] if SIMULATED else [1, 31, 32, 33, 64, 100]:
        rows = 2 if SIMULATED else 5
        logits = rng.normal(size=(rows, size)).astype(np.float32)
        mask = (rng.random((rows, size)) < 0.5) | (np.arange(size) == size // 2)
        for options in ({}, {"top_p": 0.8}):
            tokens, log_probs = sample_tokens(logits, np.arange(rows), mask=mask, **options)
            for words in (bits(mask), bits(mask).view(np.uint32)):
                again, scores = sample_tokens(logits, np.arange(rows), mask=words, **options)
                np.testing.assert_array_equal(again, tokens)
                np.testing.assert_array_equal(scores, log_probs)


def test_bits_beyond_the_vocabulary_mean_nothing() -> None:
    logits = np.zeros((1, 3), np.float32)
    words = np.array([[0b11111000]], np.uint32)
    raises(ValueError, r"logits\[0\] has no token left", sample_tokens, logits, np.arange(1), mask=words)
    assert sample_tokens(logits, np.arange(1), mask=words | 4)[0].tolist() == [2]


def test_scores_are_drawn_from_and_logits_scored(rng: Any) -> None:
    logits = rng.normal(size=(4, 50)).astype(np.float32)
    scores = rng.normal(size=(4, 50)) * 3
    tokens, log_probs = sample_tokens(logits, np.arange(4), scores=scores, top_k=5)
    expected, _ = sample_tokens(scores.astype(np.float32), np.arange(4), top_k=5)
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_allclose(log_probs, reference.token_log_probs(logits, tokens), rtol=1e-5)
    missing = logits.copy()
    missing[:, 0] = np.nan
    tokens, log_probs = sample_tokens(missing, np.arange(4), scores=scores, temperature=0)
    np.testing.assert_array_equal(tokens, scores.argmax(1))
    assert np.isnan(log_probs).all()


def test_penalty_and_bias_apply_to_scores() -> None:
    logits, scores = np.zeros((1, 3), np.float32), np.array([[4.0, 3.0, 0.0]], np.float32)
    options: dict[str, Any] = {"temperature": 0, "scores": scores}
    assert sample_tokens(logits, np.arange(1), **options)[0] == [0]
    assert sample_tokens(logits, np.arange(1), previous=[[0]], repetition_penalty=2.0, **options)[0] == [1]
    bias = np.array([0, 1]), np.array([2]), np.array([5.0])
    assert sample_tokens(logits, np.arange(1), bias=bias, **options)[0] == [2]


def test_typical_p(rng: Any) -> None:
    for size in [33] if SIMULATED else [1, 2, 33, 2100]:
        for typical_p in (0.0, 0.2, 0.9):
            for others in ({}, {"top_p": 0.8}, {"top_k": 20, "min_p": 0.1}):
                scores = (rng.normal(size=size) * 1.5).astype(np.float32)
                kept = reference.kept_tokens(scores, typical_p=typical_p, **others)
                tokens = drawn(scores, 300 if size < 100 else 10, typical_p=typical_p, **others)
                assert tokens <= kept
                if len(kept) <= 2 and size < 100 and not SIMULATED:
                    assert tokens == kept


def test_typical_p_may_drop_the_most_probable() -> None:
    scores = np.log([0.4, 0.15, 0.15, 0.15, 0.15])
    tokens = drawn(scores, typical_p=0.5)
    assert tokens <= {1, 2, 3, 4}
    assert SIMULATED or len(tokens) == 4


def test_errors_name_the_argument() -> None:
    for options, error, message in [
        ({"typical_p": 1.5}, ValueError, r"typical_p must be in \[0, 1\]"),
        ({"mask": np.ones((3, 2), np.int32)}, ValueError, r"mask must have the shape \(3, 1\)"),
        ({"mask": np.ones((3, 1), np.int64)}, TypeError, "mask must be boolean, or bits in int32 or uint32"),
        ({"scores": np.zeros((3, 5))}, ValueError, r"scores must have the shape of logits \(3, 4\)"),
        ({"scores": np.zeros((3, 4), int)}, TypeError, "scores must be float16"),
        ({"bias": np.zeros((3, 4))}, TypeError, r"bias must be a tuple \(offsets, ids, values\)"),
        ({"bias": ([0, 1], [0], [1.0])}, ValueError, r"bias must have offsets of the shape \(4,\)"),
        ({"bias": ([0, 0, 0, 1], [0], [1.0, 2.0])}, ValueError, "bias must have offsets .* as many values"),
        ({"bias": ([0, 1, 0, 1], [0], [1.0])}, ValueError, "bias offsets must rise from 0 to the 1 ids"),
        ({"bias": ([0, 0, 0, 2], [0], [1.0])}, ValueError, "bias offsets must rise from 0 to the 1 ids"),
        ({"bias": ([0, 0, 0, 1], [0.5], [1.0])}, TypeError, "bias offsets and ids must be integers"),
        ({"bias": ([0, 0, 0, 1], [0], [True])}, TypeError, "bias values must be numbers"),
        ({"bias": ([0, 0, 0, 1], [0], [np.inf])}, ValueError, "bias values must be finite or -inf"),
        ({"bias": ([0, 0, 0, 1], [0], [np.nan])}, ValueError, "bias values must be finite or -inf"),
        ({"bias": ([0, 0, 0, 1], [4], [1.0])}, ValueError, r"bias has ids outside .* logits\[2\]"),
        ({"bias": ([0, 0, 1, 1], [-1], [1.0])}, ValueError, r"bias has ids outside .* logits\[1\]"),
    ]:
        raises(error, message, sample_tokens, np.zeros((3, 4), np.float32), np.arange(3), **options)


def test_inputs_are_left_alone(rng: Any) -> None:
    logits, scores = rng.normal(size=(2, 3, 20)).astype(np.float32)
    mask = bits(rng.random((3, 20)) < 0.9)
    bias = np.arange(4), np.array([3, 4, 5]), np.array([1.0, -np.inf, 2.0], np.float32)
    arrays = [logits, scores, mask, *bias]
    copies = [a.copy() for a in arrays]
    for array in arrays:
        array.flags.writeable = False
    sample_tokens(logits, np.arange(3), scores=scores, mask=mask, bias=bias, typical_p=0.9, temperature=0.7)
    np.testing.assert_equal(arrays, copies)
