"""Log-probs of choices: those of the whole rows, from one run of each prompt."""

from typing import Any

import numpy as np
import pytest
from helpers.models.decoder_graphs import VOCABULARY, make
from helpers.models.real_models import open_model

from lite.models import OnnxDecoder, score, score_choices

NAMES = ["optimum-llama", "handmade-slots-int8"]


def rows_of(rng: np.random.Generator, size: int, *lengths: int) -> list[np.ndarray]:
    return [rng.integers(0, size, length) for length in lengths]


def check(decoder: Any, prompts: list[np.ndarray], choices: Any, lists: list[Any], atol: float) -> None:
    got = score_choices(decoder, prompts, choices)
    assert got.log_probs.shape == (len(prompts), max(map(len, lists)))
    for i, (prompt, own) in enumerate(zip(prompts, lists, strict=True)):
        want = score(decoder, [np.concatenate([prompt, choice]) for choice in own])
        for j, (choice, row) in enumerate(zip(own, want, strict=True)):
            part = got.token_log_probs[i][j]
            assert (part.dtype, part.shape) == (np.float32, (len(choice),))
            np.testing.assert_allclose(part, row[len(prompt) :], atol=atol, rtol=0)
            assert got.log_probs[i, j] == part.sum(dtype=np.float64)
        assert (got.log_probs[i, len(own) :] == -np.inf).all()
        weights = np.exp(got.log_probs[i] - got.log_probs[i].max())
        np.testing.assert_allclose(got.probabilities[i], weights / weights.sum(), rtol=1e-12)
    assert (decoder.lengths == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_equal_the_scores_of_whole_rows(name: str, rng: np.random.Generator) -> None:
    decoder = open_model(name)
    prompts = rows_of(rng, 512, 5, 1, 30, 12, 12, 30, 7, 2, 9, 3)
    choices = rows_of(rng, 512, 1, 2, 9, 1)
    check(decoder, prompts, choices, [choices] * 10, 0.1 if decoder.spec.quantisation else 1e-4)


@pytest.mark.grid
@pytest.mark.parametrize("name", ["slots", "pair", "gather", "no cache"])
def test_on_every_kind_of_graph(name: str, rng: np.random.Generator) -> None:
    decoder, _, _ = make(name)
    prompts = rows_of(rng, VOCABULARY, 4, 7, 2)
    lists = [rows_of(rng, VOCABULARY, *lengths) for lengths in ((1, 3), (2, 2, 1), (3, 5, 1, 4))]
    check(decoder, prompts, lists, lists, 1e-5)
    plain = [[choice.tolist() for choice in own] for own in lists]
    check(decoder, prompts, plain, lists, 1e-5)


def check_relative(decoder: Any, prompts: list[np.ndarray], choices: Any, atol: float) -> None:
    whole = score_choices(decoder, prompts, choices)
    got = score_choices(decoder, prompts, choices, relative=True)
    np.testing.assert_allclose(got.probabilities, whole.probabilities, atol=atol)
    odds = (scores.log_probs - scores.log_probs[:, :1] for scores in (got, whole))
    np.testing.assert_allclose(*odds, atol=atol, rtol=0)
    for own, other, prompt_choices in zip(
        got.token_log_probs,
        whole.token_log_probs,
        choices if np.ndim(choices[0][0]) else [choices] * len(prompts),
        strict=True,
    ):
        firsts = {int(choice[0]): part[0] for choice, part in zip(prompt_choices, own, strict=True)}
        np.testing.assert_allclose(sum(np.exp(value) for value in firsts.values()), 1, rtol=1e-5)
        for part, theirs in zip(own, other, strict=True):
            np.testing.assert_allclose(part[1:], theirs[1:], atol=atol, rtol=0)
    assert (decoder.lengths == 0).all()


@pytest.mark.grid
@pytest.mark.parametrize("name", ["half cache", "slots with gather", "no cache"])
def test_relative_scores_on_every_kind_of_graph(name: str, rng: np.random.Generator) -> None:
    decoder, _, _ = make(name)
    prompts = rows_of(rng, VOCABULARY, 4, 7, 2)
    lists = [rows_of(rng, VOCABULARY, *lengths) for lengths in ((1, 3), (2, 2, 1), (3, 5, 1, 4))]
    for own in lists:
        check_relative(decoder, prompts, own, 1e-5)


def test_relative_scores_read_no_other_rows(rng: np.random.Generator, monkeypatch: Any) -> None:
    """Of a float32 graph no logits are computed for the choices' first tokens."""
    decoder = open_model("optimum-llama")
    prompts = rows_of(rng, 512, 5, 9, 20)
    expected = score_choices(decoder, prompts, [[5], [6]]).probabilities
    monkeypatch.setattr(OnnxDecoder, "prefill_rows", None)
    got = score_choices(decoder, prompts, [[5], [6]], relative=True)
    np.testing.assert_allclose(got.probabilities, expected, rtol=1e-4)


def test_choices_of_two_tokens_decode_together(rng: np.random.Generator) -> None:
    decoder, session, _ = make("slots")
    prompts, choices = rows_of(rng, VOCABULARY, 6), rows_of(rng, VOCABULARY, *[2] * 5)
    check(decoder, prompts, choices, [choices], 1e-5)
    session.runs.clear()
    score_choices(decoder, prompts, choices)
    assert len(session.runs) == 2  # the prompt, and five rows of one token


def test_a_prompt_runs_once(rng: np.random.Generator, monkeypatch: Any) -> None:
    decoder, session, _ = make("slots")
    (prompt,) = rows_of(rng, VOCABULARY, 9)
    reserved: list[tuple[int, int]] = []
    monkeypatch.setattr(decoder, "reserve", lambda *size: reserved.append(size))
    score_choices(decoder, [prompt], [[1], [2], [3]])
    assert [(batch, new) for batch, _, new in session.runs] == [(1, 9)]
    session.runs.clear()
    score_choices(decoder, [prompt], [[1, 4, 5], [2, 6, 7]])
    assert [(batch, new) for batch, _, new in session.runs] == [(1, 9), (1, 2), (1, 2)]
    assert [length for length, _ in reserved] == [9, 11]  # the last token of a choice is not read


def test_nothing_to_score() -> None:
    decoder, _, _ = make("slots")
    got = score_choices(decoder, [], [[1], [2]])
    assert got.token_log_probs == []
    assert got.log_probs.shape == got.probabilities.shape == (0, 0)


def test_errors_name_the_argument() -> None:
    cases: list[tuple[Any, Any, str]] = [
        ([[1]], [], "choices must be a list of at least one choice"),
        ([[1]], "yes", "choices must be a list of at least one choice, got 'yes'"),
        ([[1]], ["yes", "no"], "choices must hold arrays of token ids, one per choice, got 'yes'"),
        ([[1]], [1, 2], "choices must hold arrays of token ids, one per choice, got 1"),
        ([[1]], [[1], []], r"choices\[1\] of prompt 0 must be at least one token id"),
        ([[1]], [[1], [99]], r"choices\[1\] of prompt 0: ids must be between 0 and 22"),
        ([[1]], [[1], [-1]], r"choices\[1\] of prompt 0: ids must be between 0 and 22"),
        ([[1]], [[1], [0.5]], r"choices\[1\] of prompt 0 must be .*float64"),
        ([[1], [2]], [[[1]]], "choices must be one list for all prompts or 2 lists, got 1"),
        ([[1], [2]], [[[1]], []], r"choices\[1\] must hold at least one choice"),
        ([[]], [[1]], "ids must"),
        ([[1, 99]], [[1]], "ids must be between 0 and 22"),
        ([[1] * 60], [[1] * 5, [1] * 6], r"choices\[1\] of prompt 0: .*context"),
    ]
    for prompts, choices, words in cases:
        decoder, session, _ = make("slots")
        with pytest.raises(ValueError, match=words):
            score_choices(decoder, prompts, choices)
        assert not session.runs, prompts
        assert (decoder.lengths == 0).all(), prompts
