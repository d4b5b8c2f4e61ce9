"""What draws tell of the distribution that they were drawn from, against float64."""

from typing import Any

import numpy as np
import pytest
from helpers import reference

from lite.kernels import DrawDetails, sample_tokens
from lite.kernels.backends.choice import backend
from lite.kernels.sampling_plan import SamplingPlan

COMPILED = backend() != "numpy"
SIZES = [1, 32, 33, 300, 2049]


def packed(mask: np.ndarray) -> np.ndarray:
    """Booleans as bits in words of 32, the lowest first."""
    rows, size = mask.shape
    words = np.zeros((rows, -(-size // 32) * 32), bool)
    words[:, :size] = mask
    return np.packbits(words, axis=1, bitorder="little").view(np.int32)


def detailed(logits: Any, seeds: Any = (0,), **options: Any) -> tuple[np.ndarray, np.ndarray, DrawDetails]:
    return sample_tokens(logits, np.asarray(seeds), details=True, kept_ids=True, **options)


def kept_of(details: DrawDetails, row: int, size: int) -> np.ndarray:
    assert details.kept_offsets is not None
    assert details.kept_ids is not None
    ids = details.kept_ids[details.kept_offsets[row] : details.kept_offsets[row + 1]]
    return ids if len(ids) else np.arange(size)


@pytest.mark.parametrize("case", range(12) if COMPILED else [2, 5, 6])
def test_numbers_are_those_of_float64(case: int) -> None:
    for size in (SIZES[case % len(SIZES)], 33):
        rng = np.random.default_rng([case, size])
        logits = (rng.normal(size=(2, size)) * rng.choice([0.3, 1, 3, 8])).astype(np.float32)
        temperature = float(rng.choice([0.5, 1.0, 1.0, 1.7]))
        filters: dict[str, Any] = {
            "top_k": int(rng.choice([0, 0, 5, 2500])),
            "top_p": float(rng.choice([1.0, 1.0, 0.9, 0.5])),
            "min_p": float(rng.choice([0.0, 0.0, 0.03])),
            "typical_p": float(rng.choice([1.0, 1.0, 0.9, 0.3])),
        }
        mask = np.ones((2, size), bool)
        given: dict[str, Any] = {}
        if case % 3 == 1:
            mask = (rng.random((2, size)) < 0.6) | (np.arange(size) == size // 2)
            given["mask"] = mask if case % 2 else packed(mask)
        bias, previous = np.zeros((2, size), np.float32), np.full((2, 3), -1)
        if case % 4 == 2:
            ids = [rng.choice(size, min(size, 5), replace=False) for _ in range(2)]
            values = [np.where((i != size // 2) & (rng.random(len(i)) < 0.4), -np.inf, 1.5) for i in ids]
            for r in range(2):
                bias[r, ids[r]] = values[r]
            given["bias"] = np.cumsum([0, *map(len, ids)]), np.concatenate(ids), np.concatenate(values)
            previous = rng.integers(0, size, (2, 3))
            given |= {"previous": previous, "repetition_penalty": 1.3}
        tokens, log_probs, details = detailed(
            logits, [case, size], temperature=temperature, top_n=min(size, 3), **filters, **given
        )
        for r in range(2):
            penalty = given.get("repetition_penalty", 1.0)
            scores = reference.processed_scores(logits[r], previous[r], penalty, bias[r])
            kept, mass, drawn_from = reference.draw_details(
                scores, mask[r] & np.isfinite(bias[r]), temperature, **filters
            )
            np.testing.assert_array_equal(kept_of(details, r, size), kept)
            assert tokens[r] in kept
            np.testing.assert_allclose(details.kept_log_mass[r], mass, rtol=0, atol=2e-6)
            np.testing.assert_allclose(details.sampled_log_probs[r], drawn_from[tokens[r]], rtol=0, atol=2e-6)
            model = reference.log_softmax(logits[r])
            np.testing.assert_allclose(details.entropy[r], reference.entropy(logits[r]), rtol=0, atol=1e-6)
            best = np.argsort(-logits[r], kind="stable")[: min(size, 3)]
            np.testing.assert_array_equal(details.top_ids[r], best)
            np.testing.assert_allclose(details.top_log_probs[r], model[best], rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(log_probs[r], model[tokens[r]], rtol=1e-6, atol=1e-6)


def test_sampled_is_the_raw_log_prob_at_that_temperature_less_the_mass() -> None:
    """The identity a scorer uses, of many tokens, to 1e-6."""
    for temperature in (0.3, 1.4):
        rng = np.random.default_rng(5)
        rows, size = (100, 3000) if COMPILED else (20, 2100)
        logits = (rng.normal(size=(rows, size)) * rng.uniform(0.5, 8, (rows, 1))).astype(np.float32)
        plan = SamplingPlan(
            (rows, size), np.arange(rows), temperature=temperature, top_p=rng.choice([0.5, 0.95, 1.0], rows),
            top_k=rng.choice([0, 40], rows), details=True, kept_ids=True,
        )  # fmt: skip
        raw = reference.log_softmax(logits, temperature)
        row = np.arange(rows)
        for step in range(4):
            tokens, _, details = plan.draw(logits, step)
            assert details is not None
            assert details.kept_offsets is not None
            assert details.kept_ids is not None
            np.testing.assert_allclose(
                details.sampled_log_probs, raw[row, tokens] - details.kept_log_mass, rtol=0, atol=1e-6
            )
            counts = np.diff(details.kept_offsets)
            some = counts > 0
            chosen = np.exp(raw[np.repeat(row, counts), details.kept_ids])
            mass = np.add.reduceat(chosen, details.kept_offsets[:-1][some])
            np.testing.assert_allclose(details.kept_log_mass[some], np.log(mass), rtol=0, atol=1e-6)
            np.testing.assert_array_equal(details.kept_log_mass[~some], 0.0)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"temperature": 0}, {"top_p": 0.9}, {"top_k": 7}, {"typical_p": 0.5, "temperature": 2},
    ],
)  # fmt: skip
def test_details_change_no_draw(rng: Any, options: dict[str, Any]) -> None:
    logits = rng.normal(size=(6, 2100)).astype(np.float32)
    tokens, log_probs = sample_tokens(logits, np.arange(6), **options)
    again, scores, _ = sample_tokens(logits, np.arange(6), details=True, top_n=4, **options)
    np.testing.assert_array_equal(tokens, again)
    np.testing.assert_array_equal(log_probs, scores)


def test_a_row_does_not_depend_on_its_batch(rng: Any) -> None:
    logits = (rng.normal(size=(5, 3000)) * 2).astype(np.float32)
    options = {"top_p": 0.9, "temperature": 0.8, "top_n": 3}
    tokens, _, together = detailed(logits, range(5), **options)
    token, _, alone = detailed(logits[3:4], [3], **options)
    assert token[0] == tokens[3]
    for name in ("sampled_log_probs", "kept_log_mass", "entropy", "top_ids", "top_log_probs"):
        np.testing.assert_array_equal(getattr(alone, name)[0], getattr(together, name)[3])
    np.testing.assert_array_equal(kept_of(alone, 0, 3000), kept_of(together, 3, 3000))


def test_at_temperature_zero_the_token_is_the_distribution() -> None:
    logits = np.array([[0, 3, 3, 1], [2, 1, 0, 0]], np.float32)
    tokens, _, details = detailed(logits, [1, 2], temperature=0)
    np.testing.assert_array_equal(details.sampled_log_probs, 0.0)
    np.testing.assert_array_equal(details.kept_log_mass, 0.0)
    np.testing.assert_array_equal(details.kept_offsets, [0, 1, 2])
    np.testing.assert_array_equal(details.kept_ids, tokens)
    np.testing.assert_allclose(details.entropy, reference.entropy(logits), rtol=1e-6)


def test_where_nothing_is_dropped_nothing_is_listed() -> None:
    logits = np.zeros((2, 40), np.float32)
    _, _, details = detailed(logits, [1, 2], temperature=0.7, top_p=[1.0, 0.5])
    np.testing.assert_array_equal(details.kept_offsets, [0, 0, 20])
    np.testing.assert_array_equal(details.kept_ids, np.arange(20, 40))
    np.testing.assert_allclose(details.kept_log_mass, np.log([1, 0.5]), atol=1e-7)
    np.testing.assert_allclose(details.sampled_log_probs, -np.log([40, 20]), rtol=1e-6)


def test_one_token_left() -> None:
    logits = np.array([[1.0, 2.0, 3.0]], np.float32)
    tokens, _, details = detailed(logits, mask=np.array([[True, False, False]]))
    np.testing.assert_array_equal(tokens, 0)
    np.testing.assert_allclose(details.sampled_log_probs, 0, atol=1e-30)
    np.testing.assert_allclose(details.kept_log_mass[0], reference.log_softmax(logits)[0, 0], atol=1e-6)
    np.testing.assert_array_equal(details.kept_ids, [0])


def test_a_vocabulary_of_one() -> None:
    tokens, log_probs, details = detailed(np.array([[5.0]], np.float32), top_p=0.5, top_n=1)
    for numbers in (tokens, log_probs, details.top_ids, details.top_log_probs, details.entropy):
        np.testing.assert_allclose(numbers, np.zeros_like(numbers), atol=1e-30)
    np.testing.assert_allclose([details.sampled_log_probs, details.kept_log_mass], 0, atol=1e-30)
    assert details.kept_ids is not None
    assert details.kept_ids.size == 0


def test_missing_and_infinite_logits() -> None:
    inf, nan = np.inf, np.nan
    logits = np.array([[nan, 0, 0, -inf], [inf, 1, inf, 0], [-inf, 0, 0, -inf]], np.float32)
    mask = np.array([[False, True, True, True], [True] * 4, [True] * 4])
    tokens, log_probs, details = detailed(logits, [1, 2, 3], mask=mask, top_n=3)
    assert set(tokens) <= {0, 1, 2}
    np.testing.assert_allclose(log_probs, [nan, -np.log(2), -np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(details.entropy, [nan, np.log(2), np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(details.sampled_log_probs, -np.log([2, 2, 2]), rtol=1e-6)
    np.testing.assert_allclose(details.kept_log_mass[1:], 0, atol=1e-7)
    np.testing.assert_array_equal(details.top_ids[1:], [[0, 2, 1], [1, 2, 0]])
    half = -np.log(2)
    np.testing.assert_allclose(details.top_log_probs[1:], [[half, half, -inf]] * 2, rtol=1e-6)
    assert np.isnan(details.top_log_probs[0]).all()


def test_equal_scores_of_a_large_vocabulary() -> None:
    """More ties than are listed; of these top-p keeps the last."""
    logits = np.zeros((2, 10000), np.float32)
    logits[1, ::2] = -1
    _, _, details = detailed(logits, [1, 2], top_p=0.25)
    np.testing.assert_array_equal(kept_of(details, 0, 10000), np.arange(7500, 10000))
    share = 0.25 * (1 + np.exp(-1))  # of the higher half
    np.testing.assert_array_equal(
        kept_of(details, 1, 10000), np.arange(1, 10000, 2)[-int(np.ceil(5000 * share)) :]
    )
    _, _, details = detailed(logits, [1, 2], top_k=3, typical_p=0.5)
    np.testing.assert_array_equal(np.diff(details.kept_offsets), [0, 5000])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types(rng: Any, dtype: str) -> None:
    kind = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype) if dtype == "bfloat16" else dtype)
    logits = rng.normal(size=(5, 40)).astype(kind)
    _, _, details = detailed(logits, range(5), top_k=7, top_n=2)
    _, _, expected = detailed(logits.astype(np.float32), range(5), top_k=7, top_n=2)
    for name in DrawDetails.__slots__:
        np.testing.assert_array_equal(getattr(details, name), getattr(expected, name))


def test_no_rows() -> None:
    tokens, _, details = detailed(np.zeros((0, 5), np.float32), np.zeros(0, np.int64), top_n=2)
    assert tokens.shape == details.entropy.shape == (0,)
    assert details.top_ids.shape == (0, 2)
    np.testing.assert_array_equal(details.kept_offsets, [0])


def test_what_is_asked_for_needs_details() -> None:
    logits = np.zeros((1, 3), np.float32)
    for options in ({"kept_ids": True}, {"top_n": 2}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} needs details=True"):
            sample_tokens(logits, np.arange(1), **options)
    with pytest.raises(ValueError, match="top_n must be from 0 to the vocabulary of 3, got 4"):
        sample_tokens(logits, np.arange(1), details=True, top_n=4)
    _, _, details = sample_tokens(logits, np.arange(1), details=True)
    assert details.kept_offsets is details.kept_ids is details.top_ids is details.top_log_probs is None
