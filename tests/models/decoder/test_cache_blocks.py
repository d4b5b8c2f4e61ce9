"""Rows in blocks, for conventions without an export among the test models: on a fake session."""

from typing import Any

import numpy as np
import pytest
from helpers.models.decoder_graphs import VOCABULARY, FakeSession, config, make

from lite.models import GenerationConfig, OnnxDecoder, generate, score


@pytest.fixture(params=["positions", "no mask", "static"])
def graph(request: pytest.FixtureRequest) -> Any:
    return make(request.param)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, atol=5e-3)  # half logits


def test_generation_and_scores(graph: Any) -> None:
    decoder, _, want = graph
    prompts = [np.array([1, 2, 3]), np.array([4]), np.array([5, 6, 7, 8, 9])]
    out = generate(decoder, prompts, GenerationConfig(max_new_tokens=8, eos_token_ids=(11,)), num_samples=2)
    scores = score(decoder, [np.concatenate([prompts[i // 2], got.tokens]) for i, got in enumerate(out)])
    for i, (got, row) in enumerate(zip(out, scores, strict=True)):
        text = prompts[i // 2].tolist()
        for token, log_prob in zip(got.tokens, got.log_probs, strict=True):
            logits = want(text)
            assert token == logits.argmax()
            close(log_prob, logits.max() - np.log(np.exp(logits).sum()))
            text.append(int(token))
        close(row[len(prompts[i // 2]) :], got.log_probs)


def test_steady_rows_are_not_copied_about(graph: Any) -> None:
    """Between steps of the same rows no cache row moves, and each step is one run per bucket."""
    decoder, session, _ = graph
    decoder.prefill_rows(range(2), [[1, 2], [3, 4]])
    decoder.decode([5, 6])
    session.runs.clear()
    for step in range(5):
        decoder.decode([7, 8])
        run = [(1, 3 + step, 1)] * 2 if decoder.spec.one_row else [(2, 3 + step, 1)]
        assert session.runs == run
        session.runs.clear()


@pytest.mark.parametrize("name", ["positions", "pair", "static"])
def test_many_prompts_run_in_waves(name, rng, monkeypatch):
    """The activations of a run are bounded, however many rows there are."""
    monkeypatch.setattr("lite.models.decoder.decoder.MAX_TOKENS", 64)
    decoder, session, want = make(name)
    prompts = [rng.integers(0, VOCABULARY, length).tolist() for length in rng.integers(1, 30, 48)]
    logits = decoder.prefill_rows(range(48), prompts)
    assert all(rows * new <= 64 for rows, _, new in session.runs)
    assert len(session.runs) <= 48 or decoder.spec.one_token
    for row, prompt in enumerate(prompts):
        close(logits[row], want(prompt))
    for row, after in enumerate(decoder.decode([5] * 48)):
        close(after, want([*prompts[row], 5]))


def test_waves_hold_prompts_of_similar_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite.models.decoder.decoder.MAX_TOKENS", 24)
    decoder, session, _ = make("positions")
    decoder.prefill_rows(range(7), [[1] * length for length in (8, 2, 30, 7, 3, 8, 8)])
    assert session.runs == [(3, 0, 7), (3, 0, 8), (1, 0, 30)]
    session.runs.clear()
    decoder.decode([1] * 7)
    assert session.runs == [(7, 30, 1)]


def test_rows_of_one_length_share_a_run_where_ragged_rows_may_not() -> None:
    session = FakeSession(positions=False)
    decoder = OnnxDecoder(config(), session=session)
    decoder.prefill_rows(range(4), [[1, 2], [3, 4, 5], [6, 7], [8]])
    session.runs.clear()
    decoder.decode([1, 1, 1, 1])
    assert sorted(session.runs) == [(1, 1, 1), (1, 3, 1), (2, 2, 1)]


def test_the_vocabulary_must_be_known() -> None:
    session = FakeSession()
    session.get_outputs()[0].shape = ["b", "s", "v"]
    with pytest.raises(ValueError, match="vocabulary's size"):
        OnnxDecoder(config(), session=session)
