"""Scores under the distribution that was really sampled from: temperatures and recorded supports."""

from typing import Any

import numpy as np
import pytest
from helpers.models.decoder_graphs import VOCABULARY, make
from helpers.models.real_models import open_model
from numpy.typing import NDArray

from lite.models import OnnxDecoder, full_logits, score, score_details

Support = tuple[NDArray[np.int64], NDArray[np.int32]]


@pytest.fixture(params=["optimum-llama", "handmade-no-cache"])
def decoder(request: pytest.FixtureRequest) -> OnnxDecoder:
    return open_model(request.param)


def record(tokens: NDArray[np.int64], last: int, size: int, rng: np.random.Generator) -> Support:
    """Random kept ids of the last tokens; of some of them none were recorded."""
    parts = []
    for token in tokens[len(tokens) - last :]:
        kept = np.flatnonzero(rng.random(size) < rng.choice([0.01, 0.3]))
        parts.append(np.union1d(kept, token) if rng.random() < 0.7 else np.empty(0, np.int64))
    offsets = np.cumsum([0, *map(len, parts)])
    return offsets, np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int32)


def by_hand(
    logits: NDArray[Any], tokens: NDArray[np.int64], temperature: float, support: Support | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-probs and log-masses in float64, of logits whose entry j is the model's before token j."""
    scores, masses = np.zeros(len(tokens)), np.zeros(len(tokens))
    offsets, ids = (np.zeros(1, np.int64), np.zeros(0, np.int32)) if support is None else support
    unknown = len(tokens) - (len(offsets) - 1)
    for j in range(1, len(tokens)):
        x = logits[j].astype(np.float64) / temperature
        log_p = x - x.max() - np.log(np.exp(x - x.max()).sum())
        kept = ids[offsets[j - unknown] : offsets[j - unknown + 1]] if j >= unknown else []
        masses[j] = np.log(np.exp(log_p[kept]).sum()) if len(kept) else 0.0
        scores[j] = log_p[tokens[j]] - masses[j]
    return scores, masses


def cases(
    size: int, rng: np.random.Generator
) -> tuple[list[NDArray[np.int64]], NDArray[Any], list[Support | None]]:
    rows = [rng.integers(0, size, length) for length in (7, 1, 40, 12, 12, 3)]
    temperatures = np.array([1.0, 0.5, 0.7, 1.0, 1.6, 2.0])
    last = [4, 1, 40, 11, 0, None]
    supports = [None if n is None else record(row, n, size, rng) for row, n in zip(rows, last, strict=True)]
    return rows, temperatures, supports


def test_equals_the_definition(decoder: OnnxDecoder, rng: np.random.Generator) -> None:
    rows, temperatures, supports = cases(decoder.vocab_size, rng)
    atol = 0.1 if decoder.spec.quantisation else 1e-4
    logits = full_logits(decoder, rows)
    got = score(decoder, rows, temperature=temperatures, supports=supports)
    details = score_details(decoder, rows, temperature=temperatures, supports=supports)
    plain = score(decoder, rows)
    for i, row in enumerate(rows):
        scores, masses = by_hand(logits[i], row, float(temperatures[i]), supports[i])
        assert got[i].dtype == np.float32
        np.testing.assert_allclose(got[i], scores, atol=atol, rtol=0)
        np.testing.assert_allclose(details[i].sampled_log_probs, got[i], atol=1e-5, rtol=0)
        np.testing.assert_allclose(details[i].kept_log_mass, masses, atol=atol, rtol=0)
        np.testing.assert_allclose(details[i].log_probs, plain[i], atol=1e-5, rtol=0)
        log_p = logits[i][1:].astype(np.float64)
        log_p -= np.log(np.exp(log_p).sum(-1, keepdims=True))
        np.testing.assert_allclose(
            details[i].entropy[1:], -(np.exp(log_p) * log_p).sum(-1), atol=10 * atol, rtol=0
        )
        assert not any(part[0] for part in details[i])
    assert (decoder.lengths == 0).all()


@pytest.mark.parametrize("name", ["gather", "slots", "no cache"])
def test_a_row_scores_the_same_in_any_company(name: str, rng: np.random.Generator) -> None:
    decoder, _, _ = make(name)
    rows, temperatures, supports = cases(VOCABULARY, rng)
    together = score_details(decoder, rows, temperature=temperatures, supports=supports)
    for i, row in enumerate(rows):
        (alone,) = score_details(decoder, [row], temperature=temperatures[i], supports=[supports[i]])
        for part, one in zip(together[i], alone, strict=True):
            np.testing.assert_allclose(part, one, atol=1e-12, rtol=0)


def test_a_token_that_could_not_be_drawn() -> None:
    decoder, _, _ = make("gather")
    rows = [np.array([1, 2, 3])]
    support = np.array([0, 2, 3]), np.array([4, 5, 3])
    (got,) = score(decoder, rows, supports=[support])
    assert got.tolist() == [0.0, -np.inf, got[2]]
    assert got[2] > -1e-6


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"temperature": np.nan}, ValueError, "temperature must be positive and finite, got nan"),
    ({"temperature": 0.0}, ValueError, "temperature must be positive and finite, got 0.0"),
    ({"temperature": [1.0, np.inf]}, ValueError, "temperature must be positive and finite, got inf"),
    ({"temperature": [1.0]}, ValueError, "temperature must be one number or one for each of 2 rows"),
    ({"temperature": "1"}, TypeError, "temperature must be a number"),
    ({"supports": [None]}, ValueError, "supports must be one per row, 2, or None; got 1"),
    ({"supports": [None, ([0] * 4, [])]}, ValueError, r"supports\[1\] is of 3 tokens, but the row has 2"),
    ({"supports": [None, ([0, 1], [99])]}, ValueError, r"ids of supports\[1\] has 99 for row 0"),
    ({"supports": [None, ([0, 1], [-1])]}, ValueError, r"ids of supports\[1\] has -1"),
    ({"supports": [None, ([0, 2], [3, 3])]}, ValueError, r"ids of supports\[1\] has 3 twice"),
    ({"supports": [None, ([0, 2], [3])]}, ValueError, r"offsets of supports\[1\] must ascend from 0"),
    ({"supports": [None, ([], [3])]}, ValueError, r"offsets of supports\[1\] must be 1"),
    ({"supports": [None, [1, 2, 3]]}, TypeError, r"supports\[1\] must be a pair \(offsets, ids\)"),
    ({"supports": [None, ([0, 1], [0.5])]}, TypeError, r"ids of supports\[1\] must be integers"),
]


def test_errors_name_the_argument() -> None:
    for arguments, error, words in WRONG:
        decoder, session, _ = make("gather")
        for function in (score, score_details):
            with pytest.raises(error, match=words):
                function(decoder, [np.array([1, 2, 3]), np.array([4, 5])], **arguments)
        assert not session.runs, arguments
        assert (decoder.lengths == 0).all(), arguments
