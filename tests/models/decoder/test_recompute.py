"""Rows of graphs without a cache: which rows share a run and how often a row runs."""

import numpy as np
import pytest
from helpers.models.decoder_graphs import VOCABULARY, FakeSession, make

from lite.models import GenerationConfig, full_logits, generate, score

Sizes = list[tuple[int, int]]


def sizes(session: FakeSession) -> Sizes:
    """(rows, tokens) of the runs since the last call."""
    found = [(rows, new) for rows, past, new in session.runs]
    assert all(past == 0 for _, past, _ in session.runs)
    session.runs.clear()
    return found


def test_ragged_rows_share_a_run() -> None:
    decoder, session, _ = make("no cache")
    sizes(session)
    decoder.prefill_rows(range(3), [[1, 2], [3], [4, 5, 6]])
    assert sizes(session) == [(3, 3)]
    decoder.decode([7, 8, 9])
    assert sizes(session) == [(3, 4)]


def test_rows_of_one_length_share_a_run_of_last_logits() -> None:
    for name in ("no cache, last logits only", "no cache, logits to keep"):
        decoder, session, _ = make(name)
        sizes(session)
        decoder.prefill_rows(range(4), [[1, 2], [3], [4, 5], [6, 7, 8]])
        assert sorted(sizes(session)) == [(1, 1), (1, 3), (2, 2)], name


def test_scoring_runs_each_row_once() -> None:
    for name in ("no cache", "no cache, gather", "no cache, logits to keep"):
        decoder, session, _ = make(name)
        sizes(session)
        rows = [np.arange(length) % VOCABULARY for length in (9, 40, 64)]
        score(decoder, rows)
        assert sizes(session) == [(3, 63)], name
        full_logits(decoder, rows, equal_lengths=True)
        assert sizes(session) == [(1, 8), (1, 39), (1, 63)], name


def test_generation_runs_each_row_once_a_token() -> None:
    decoder, session, _ = make("no cache")
    sizes(session)
    generate(decoder, [[1, 2], [3, 4, 5]], GenerationConfig(max_new_tokens=3), num_samples=2)
    assert sizes(session) == [(2, 3), (4, 4), (4, 5)]


def test_runs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In tokens, and in the bytes of their logits: fewer where only some of them are computed."""
    monkeypatch.setattr("lite.models.decoder.recompute.MAX_TOKENS", 12)
    decoder, session, _ = make("no cache")
    sizes(session)
    prompts = [[1] * length for length in (3, 20, 2, 4, 4, 6)]
    decoder.prefill_rows(range(6), prompts)
    assert sizes(session) == [(3, 4), (2, 6), (1, 20)]
    monkeypatch.setattr("lite.models.decoder.recompute.MAX_LOGITS_BYTES", 4 * VOCABULARY * 8)
    decoder.prefill_rows(range(6), prompts)
    assert sizes(session) == [(2, 3), (2, 4), (1, 6), (1, 20)]
    decoder, session, _ = make("no cache, gather")
    sizes(session)
    decoder.prefill_rows(range(6), prompts)
    assert sizes(session) == [(3, 4), (2, 6), (1, 20)]


def test_long_scores_run_in_chunks_where_that_saves_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite.models.decoder.decoder.MAX_LOGITS_BYTES", 4 * VOCABULARY * 24)
    rows = [np.arange(length) % VOCABULARY for length in (30, 60)]
    scores = []
    for name, runs in (("no cache", [(1, 29), (1, 59)]), ("no cache, gather", [(1, 24), (1, 29), (1, 24)])):
        decoder, session, _ = make(name)
        sizes(session)
        scores.append(score(decoder, rows))
        assert sizes(session)[: len(runs)] == runs
    for one, other in zip(*scores, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
