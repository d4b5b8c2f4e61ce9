"""Log-probs among the tokens that rows were drawn from, against the definition in float64."""

import numpy as np
import pytest
from helpers import reference
from helpers.cases import raises
from helpers.tiers import standing_for_all

from lite.kernels import entropy, token_log_probs, token_scores

INF = np.inf


def make(rng, rows, size, dtype=np.float32, scale=3.0, empty=True):
    """Logits, tokens in their rows' supports, temperatures, and supports: some rows have none."""
    logits = (rng.normal(size=(rows, size)) * scale).astype(dtype)
    tokens = rng.integers(0, size, rows)
    parts = []
    for row in range(rows):
        chosen = rng.permutation(size)[: rng.integers(1, size + 1)]
        parts.append(np.union1d(chosen, tokens[row]) if row % 3 or not empty else np.empty(0, int))
    offsets = np.cumsum([0, *map(len, parts)])
    support = offsets, np.concatenate(parts).astype(np.int32)
    return logits, tokens, rng.uniform(0.3, 2.0, rows), support


def by_hand(logits, tokens, temperatures, support):
    """Log-probs in the restricted distribution, and the log of its mass."""
    offsets, ids = support
    scores, masses = np.zeros(len(tokens)), np.zeros(len(tokens))
    for row, token in enumerate(tokens):
        kept = ids[offsets[row] : offsets[row + 1]]
        full = reference.log_softmax(logits[row], temperatures[row])
        inside = np.isin(np.arange(logits.shape[1]), kept) if len(kept) else np.ones(logits.shape[1], bool)
        masses[row] = np.log(np.exp(full[inside]).sum()) if len(kept) else 0.0
        scores[row] = full[token] - masses[row] if inside[token] else -INF
    return scores, masses


@pytest.mark.parametrize("dtype", standing_for_all(["float32", "float64", "bfloat16"], 2))
def test_equals_the_definition(rng, dtype):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype) if dtype == "bfloat16" else dtype)
    for size in (1, 7, 300, 5000):
        logits, tokens, temperatures, support = make(rng, 7, size, dtype)
        scores, masses = by_hand(logits.astype(np.float64), tokens, temperatures, support)
        got = token_scores(logits, tokens, temperature=temperatures, support=support)
        np.testing.assert_allclose(got.sampled_log_probs, scores, rtol=0, atol=1e-6)
        np.testing.assert_allclose(got.kept_log_mass, masses, rtol=0, atol=1e-6)
        wide = logits.astype(np.float64)
        np.testing.assert_allclose(got.log_probs, reference.token_log_probs(wide, tokens), rtol=0, atol=1e-6)
        np.testing.assert_allclose(got.entropy, reference.entropy(wide), rtol=0, atol=1e-5)
        alone = token_log_probs(logits, tokens, temperature=temperatures, support=support)
        assert alone.dtype == (np.float64 if dtype == np.float64 else np.float32)
        np.testing.assert_array_equal(alone, got.sampled_log_probs.astype(alone.dtype))


def test_identity_with_the_mass(rng):
    """The contract: what was left out is the whole difference, to 1e-6."""
    logits, tokens, temperatures, support = make(rng, 100, 1000, scale=4.0)
    got = token_scores(logits, tokens, temperature=temperatures, support=support)
    whole = token_scores(logits, tokens, temperature=temperatures)
    assert not whole.kept_log_mass.any()
    np.testing.assert_allclose(
        got.sampled_log_probs, whole.sampled_log_probs - got.kept_log_mass, rtol=0, atol=1e-6
    )


def test_a_row_does_not_depend_on_the_others(rng):
    logits, tokens, temperatures, support = make(rng, 8, 3000)
    together = token_scores(logits, tokens, temperature=temperatures, support=support)
    offsets, ids = support
    for row in range(8):
        kept = ids[offsets[row] : offsets[row + 1]]
        alone = token_scores(
            logits[row], tokens[row], temperature=temperatures[row], support=([0, len(kept)], kept)
        )
        for part, one in zip(together, alone, strict=True):
            np.testing.assert_array_equal(part[row], one)


def test_without_a_support_they_are_the_plain_numbers(rng):
    logits, tokens, _, _ = make(rng, 5, 600)
    got = token_scores(logits, tokens)
    plain = token_log_probs(logits, tokens)
    np.testing.assert_array_equal(got.log_probs.astype(np.float32), plain)
    np.testing.assert_array_equal(got.sampled_log_probs, got.log_probs)
    np.testing.assert_array_equal(got.entropy.astype(np.float32), entropy(logits))
    one = token_scores(logits, tokens, temperature=0.5)
    np.testing.assert_array_equal(one.log_probs, got.log_probs)
    np.testing.assert_array_equal(
        one.sampled_log_probs.astype(np.float32), token_log_probs(logits, tokens, temperature=0.5)
    )


def test_rows_on_threads_are_the_same(rng):
    logits, tokens, temperatures, support = make(rng, 60, 2000)
    got = token_scores(logits, tokens, temperature=temperatures, support=support)
    scores, masses = by_hand(logits, tokens, temperatures, support)
    np.testing.assert_allclose(got.sampled_log_probs, scores, rtol=0, atol=1e-6)
    np.testing.assert_allclose(got.kept_log_mass, masses, rtol=0, atol=1e-6)


def test_a_token_that_could_not_be_drawn(rng):
    logits = rng.normal(size=(2, 5)).astype(np.float32)
    got = token_scores(logits, np.array([3, 0]), support=([0, 2, 4], [0, 1, 0, 2]))
    assert got.sampled_log_probs[0] == -INF
    assert np.isfinite([got.log_probs, got.kept_log_mass]).all()
    assert np.isfinite(got.sampled_log_probs[1])


def test_the_order_of_ids_does_not_matter(rng):
    logits = rng.normal(size=(2, 9)).astype(np.float32)
    tokens = np.array([3, 0])
    ordered = token_scores(logits, tokens, support=([0, 3, 5], [1, 3, 8, 0, 2]))
    mixed = token_scores(logits, tokens, support=([0, 3, 5], [8, 1, 3, 2, 0]))
    for one, other in zip(ordered, mixed, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_extreme_logits():
    logits = np.array(
        [[0, -INF, -INF], [INF, 1, INF], [np.nan, 0, 0], [-INF] * 3, [0, 1, np.nan]], np.float32
    )
    support = [0, 2, 4, 6, 8, 10], [1, 2, 1, 2, 1, 2, 0, 1, 0, 1]
    got = token_scores(logits, np.array([1, 2, 1, 0, 0]), support=support)
    expected = [-INF, 0.0, -np.log(2), -INF, -np.log1p(np.e)]
    np.testing.assert_allclose(got.sampled_log_probs, expected, rtol=1e-6)
    np.testing.assert_allclose(got.kept_log_mass, [-INF, np.log(0.5), np.nan, -INF, np.nan], rtol=1e-6)


def test_positions_that_do_not_count(rng):
    logits, tokens, _, _ = make(rng, 4, 9)
    tokens[1], tokens[2] = -100, 99
    support = [0, 0, 3, 4, 4], [0, 1, 2, 5]
    got = token_scores(logits, tokens, np.array([True, True, False, True]), support=support)
    for part in got:
        assert not part[1:3].any()
        assert part[[0]].any() or part is got.kept_log_mass


def test_batches_of_any_shape(rng):
    logits = rng.normal(size=(2, 3, 6)).astype(np.float32)
    tokens = rng.integers(0, 6, (2, 3))
    support = np.arange(7), tokens.reshape(-1)
    got = token_scores(logits, tokens, support=support)
    assert {part.shape for part in got} == {(2, 3)}
    np.testing.assert_allclose(got.sampled_log_probs, 0.0, atol=1e-12)  # there was one choice
    np.testing.assert_allclose(got.kept_log_mass, got.log_probs, atol=1e-7)
    empty = token_scores(logits[:0], tokens[:0], support=([0], []))
    assert {part.shape for part in empty} == {(0, 3)}


def test_errors_name_the_argument():
    for support, error, words in [
        (([0, 1], [0]), ValueError, "offsets of support must be 3, one more than there are rows, got 2"),
        (([0, 2, 1], [0]), ValueError, "must ascend from 0 to the number of ids, 1"),
        (([0, 1, 2], [0]), ValueError, "must ascend"),
        (([1, 1, 1], [0]), ValueError, "must ascend"),
        (([0, 1, 2], [0, 4]), IndexError, "ids of support has 4 for row 1, .* vocabulary of 4"),
        (([0, 1, 2], [-1, 0]), IndexError, "ids of support has -1 for row 0"),
        (([0, 0, 3], [2, 1, 2]), ValueError, "ids of support has 2 twice for row 1"),
        (([0, 1, 2], [0.5, 1]), TypeError, "ids of support must be integers, got float64"),
        (([0.0, 1, 2], [0, 1]), TypeError, "offsets of support must be integers"),
        (([0, 1, 2], [[0, 1]]), ValueError, "ids of support must have one dimension"),
        (np.zeros(3, int), TypeError, r"support must be a pair \(offsets, ids\), got ndarray"),
    ]:
        logits, tokens = np.zeros((2, 4), np.float32), np.zeros(2, int)
        for function in (token_log_probs, token_scores):
            raises(error, words, function, logits, tokens, support=support)


def test_other_errors(rng):
    logits, tokens, _, support = make(rng, 3, 4)
    with pytest.raises(ValueError, match="mask must have the shape of the positions"):
        token_scores(logits, tokens, np.ones((3, 4), bool), support=support)
    raises(IndexError, r"tokens\[1\] is 4", token_scores, logits, np.array([0, 4, 0]), support=support)


def test_inputs_are_left_alone(rng):
    logits, tokens, temperatures, (offsets, ids) = make(rng, 3, 20)
    ids = ids[::-1].copy()[::-1]
    given = (logits, tokens, temperatures, offsets, ids)
    before = [array.copy() for array in given]
    for array in given:
        array.flags.writeable = False
    token_scores(logits, tokens, temperature=temperatures, support=(offsets, ids))
    np.testing.assert_equal(given, before)
