"""Log-probs of given tokens: against the logits themselves, whatever the chunks and the batch."""

from typing import Any, cast

import numpy as np
import pytest
from helpers.cases import raises
from helpers.compared import assert_same
from helpers.models.real_models import open_model
from numpy.typing import NDArray

from lite.models import LoggedResponse, OnnxDecoder, ScoreBatches, full_logits, mismatch, score
from lite.models.decoder.scoring import score_with_alternatives


@pytest.fixture(params=["optimum-llama", "handmade-slots-int8"])
def decoder(request: pytest.FixtureRequest) -> OnnxDecoder:
    return open_model(request.param)


def by_hand(decoder: OnnxDecoder, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """One token at a time, in float64."""
    out = np.zeros(len(ids))
    (row,) = decoder.acquire(1)
    logits = decoder.prefill(row, ids[:1])
    for i, token in enumerate(ids[1:], 1):
        wide = logits.astype(np.float64)
        out[i] = wide[token] - wide.max() - np.log(np.exp(wide - wide.max()).sum())
        logits = decoder.decode([token], [row])[0]
    decoder.release([row])
    return out


def tolerance(decoder: OnnxDecoder) -> float:
    if decoder.spec.quantisation:
        return 0.1
    return 2e-5 if decoder.spec.cache_type in ("", "tensor(float)") else 5e-3  # rounded: a last bit may show


def test_ragged_rows(decoder: OnnxDecoder, rng: np.random.Generator) -> None:
    rows = [rng.integers(0, 512, length) for length in (7, 1, 60, 2, 31, 60, 4, 9, 12, 18)]
    out = score(decoder, rows)
    assert [len(row) for row in out] == [len(row) for row in rows]
    for ids, got in zip(rows, out, strict=True):
        assert got.dtype == np.float32
        assert got[0] == 0
        np.testing.assert_allclose(got, by_hand(decoder, ids), atol=tolerance(decoder), rtol=0)
    assert (decoder.lengths == 0).all()


def test_alternatives_are_the_best_of_the_logits(decoder: OnnxDecoder, rng: np.random.Generator) -> None:
    rows = [rng.integers(0, 512, length) for length in (7, 1, 25)]
    found = score_with_alternatives(decoder, rows, 3, temperature=2.0)
    logits = full_logits(decoder, rows)
    for got, want, each in zip(found, score(decoder, rows, temperature=2.0), logits, strict=True):
        np.testing.assert_allclose(got.log_probs, want, atol=tolerance(decoder), rtol=0)
        wide = each.astype(np.float64) / 2
        wide -= np.log(np.exp(wide - wide.max(1, keepdims=True)).sum(1, keepdims=True)) + wide.max(
            1, keepdims=True
        )
        best = np.sort(wide, 1)[:, ::-1][:, :3]
        best[0] = 0
        np.testing.assert_allclose(got.top_log_probs, best, atol=tolerance(decoder), rtol=0)
        assert got.top_ids[0].tolist() == [-1, -1, -1]
        of_ids = np.take_along_axis(wide[1:], got.top_ids[1:], 1)
        np.testing.assert_allclose(of_ids, best[1:], atol=tolerance(decoder), rtol=0)
    assert score_with_alternatives(decoder, rows[:1], 10**6)[0].top_ids.shape == (7, decoder.vocab_size)
    raises(ValueError, "count must be at least 1, got 0", score_with_alternatives, decoder, rows, 0)


def test_logits_that_are_no_numbers_have_no_alternatives() -> None:
    class Broken:
        """A model that says nothing of the second token."""

        vocab_size, rows_per_run, context_length = 4, 1, None

        def check_ids(self, ids: Any) -> NDArray[np.int64]:
            return np.asarray(ids, np.int64)

        def acquire(self, count: int) -> list[int]:
            return [0]

        def release(self, rows: list[int]) -> None: ...

        def reserve(self, length: int, rows: int) -> None: ...

        def chunk_length(self, rows: int) -> int:
            return 8

        def extend(self, rows: list[int], ids: list[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
            logits = np.zeros((len(ids[0]), 4), np.float32)
            logits[0, 2] = np.nan
            return [logits]

    (row,) = score_with_alternatives(cast(Any, Broken()), [np.array([0, 1, 2])], 2)
    np.testing.assert_array_equal(row.top_ids, [[-1, -1], [-1, -1], [0, 1]])
    np.testing.assert_allclose(row.top_log_probs[2], np.log([0.25, 0.25]), rtol=1e-6)
    np.testing.assert_array_equal(row.top_log_probs[:2], 0)


def test_chunks_do_not_matter(decoder, rng, monkeypatch):
    rows = [rng.integers(0, 512, length) for length in (13, 12, 25, 1, 5)]
    want = score(decoder, rows)
    monkeypatch.setattr("lite.models.decoder.decoder.MAX_CHUNK", 5)
    assert_same(score(decoder, rows), want, rtol=0, atol=tolerance(decoder))


def test_full_logits_are_those_each_token_was_drawn_from(decoder, rng):
    rows = [rng.integers(0, 512, length) for length in (9, 1, 20)]
    scores = score(decoder, rows)
    for ids, logits, want in zip(rows, full_logits(decoder, rows), scores, strict=True):
        assert logits.shape == (len(ids), 512)
        assert not logits[0].any()
        wide = logits[1:].astype(np.float64)
        got = wide[np.arange(len(ids) - 1), ids[1:]] - np.log(np.exp(wide).sum(-1))
        np.testing.assert_allclose(got, want[1:], atol=2e-5, rtol=0)


@pytest.mark.parametrize("decoder", ["optimum-llama"], indirect=True)
def test_the_decoder_scores_positions(decoder: OnnxDecoder, rng: np.random.Generator) -> None:
    ids = rng.integers(0, 512, 20)
    decoder.prefill(0, ids[:3])
    np.testing.assert_array_equal(decoder.score(ids, [3, 19, 0]), decoder.score(ids)[[3, 19, 0]])
    assert decoder.lengths[0] == 3


@pytest.mark.parametrize("decoder", ["optimum-llama"], indirect=True)
def test_bad_rows(decoder: OnnxDecoder) -> None:
    assert score(decoder, []) == []
    for row, message in (
        ([], "empty"),
        ([1, 999], "got 999"),
        (np.ones(258, np.int64), "258 tokens .* context of 256"),
        ([*[1] * 256, 999], "got 999"),
    ):
        with pytest.raises(ValueError, match=message):
            score(decoder, [np.array([1, 2]), np.array(row, np.int64)])
    assert (decoder.lengths == 0).all()


@pytest.mark.parametrize("decoder", ["optimum-llama"], indirect=True)
def test_a_token_behind_a_full_context_is_scored(decoder: OnnxDecoder, rng: np.random.Generator) -> None:
    """The last token is not read: a window of the whole context tells of the token behind it, too."""
    row = rng.integers(0, 512, 257)
    (found,), (logits,) = score(decoder, [row]), full_logits(decoder, [row])
    np.testing.assert_allclose(found[:256], score(decoder, [row[:256]])[0], atol=1e-5)
    last = decoder.prefill(0, row[:256]).astype(np.float64)
    np.testing.assert_allclose(logits[256], last, atol=1e-4)
    np.testing.assert_allclose(found[256], last[row[256]] - np.log(np.exp(last).sum()), atol=1e-5)
    (batch,) = ScoreBatches(decoder)({"prompt_ids": [row[:200]], "response_ids": [row[200:]]})["logprobs"]
    np.testing.assert_allclose(batch, found[200:], atol=1e-5)
    logged = [LoggedResponse(row[:200], row[200:], found[200:].astype(float))]
    assert mismatch(decoder, logged).estimates.max_abs < 1e-5


def test_equal_lengths_on_a_real_graph() -> None:
    """Rows of a mixed batch score as they do alone; nothing is seen across rows."""
    decoder = open_model("optimum-llama")
    rng = np.random.default_rng(0)
    rows = [rng.integers(3, decoder.vocab_size, n) for n in (4, 9, 4, 1, 9, 6)]
    together = score(decoder, rows, equal_lengths=True)
    for row, values, padded in zip(rows, together, score(decoder, rows), strict=True):
        np.testing.assert_allclose(values, score(decoder, [row])[0], atol=1e-5)
        np.testing.assert_allclose(values, padded, atol=1e-5)
        assert values[0] == 0
    assert_same(full_logits(decoder, rows, equal_lengths=True), full_logits(decoder, rows), atol=1e-4)
