"""Rows in slots of shared buffers, on a real GroupQueryAttention graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.models import decoder_graphs
from helpers.models.real_models import open_model

from lite.models import OnnxDecoder, score
from lite.models.decoder.slots import shares_prompts


@pytest.fixture
def slots() -> OnnxDecoder:
    return open_model("genai-llama-fp32")


@pytest.mark.parametrize(
    ("lengths", "runs"),
    [
        ([8] * 32, [(32, 8)]),
        ([300] * 2, [(1, 300), (1, 300)]),  # as many tokens as fill a run
        ([8, 30, 8, 31, 9], [(3, 9), (2, 31)]),  # rows of similar length
        ([2, 14, 27], [(2, 14), (1, 27)]),  # 12 tokens of filler cost as much as a run, 13 more
    ],
)
def test_prompts_share_runs(lengths, runs, rng):
    decoder, session, expected = decoder_graphs.make("slots with gather")
    decoder._placed = replace(decoder._placed, context_length=512)
    decoder._empty(1)
    texts = [rng.integers(0, 23, length) for length in lengths]
    logits = decoder.prefill_rows(range(len(texts)), texts)
    assert [(rows, new) for rows, _, new in session.runs] == runs
    np.testing.assert_allclose(logits, [expected(text.tolist()) for text in texts], atol=1e-5)
    session.runs.clear()
    decoder.decode([3] * len(texts))
    assert len(session.runs) == 1


def test_only_equally_long_rows_or_none_share_runs() -> None:
    cases: list[tuple[str, list[tuple[int, int]]]] = [
        ("slots, single row", [(1, 5), (1, 4), (1, 5)]),
        ("slots, state", [(2, 5), (1, 4)]),  # filler would be in the states
        ("slots, last logits only", [(2, 5), (1, 4)]),  # of a shorter row they are those of filler
        ("slots, logits to keep", [(2, 5), (1, 4)]),
    ]
    for name, runs in cases:
        decoder, session, expected = decoder_graphs.make(name)
        texts = [[1, 2, 3, 4, 5], [5, 6, 7, 8], [9, 10, 11, 12, 13]]
        logits = decoder.prefill_rows(range(3), texts)
        assert sorted((rows, new) for rows, _, new in session.runs) == sorted(runs), name
        np.testing.assert_allclose(logits, [expected(text) for text in texts], atol=1e-5)


def test_rows_whose_results_others_would_change_are_alone() -> None:
    decoder, *_ = decoder_graphs.make("slots")
    placed = decoder._placed
    assert shares_prompts(placed)
    assert not shares_prompts(replace(placed, spec=replace(placed.spec, quantisation="MatMulInteger")))
    assert not shares_prompts(replace(placed, device="cuda"))


def test_a_quantised_prompt_is_the_same_to_the_bit_in_any_batch(rng: np.random.Generator) -> None:
    """What the cache holds is told by the logits of a step of the same rows."""
    decoder = open_model("genai-qwen2-int4")
    texts = [rng.integers(0, 500, length) for length in (8, 3, 1, 8, 2, 8, 1)]
    decoder.prefill_rows(range(7), texts)
    together = decoder.decode([7] * 7)
    for row, text in enumerate(texts):
        decoder.prefill(row, text)
    np.testing.assert_array_equal(decoder.decode([7] * 7), together)


def test_scores_share_runs(rng: np.random.Generator) -> None:
    decoder, session, _ = decoder_graphs.make("slots with gather")
    rows = [rng.integers(0, 23, length) for length in (8, 30, 8, 8, 30)]
    together = score(decoder, rows)
    assert sorted((count, new) for count, _, new in session.runs) == [
        (2, 29),
        (3, 7),
    ]  # the last tokens are not read
    for row, scores in zip(rows, together, strict=True):
        np.testing.assert_allclose(score(decoder, [row])[0], scores, atol=1e-5)


def test_many_rows_go_on_by_few_tokens_in_steps() -> None:
    cases: list[tuple[int, list[tuple[int, int]]]] = [(2, [(6, 1), (6, 1)]), (4, [(1, 4)] * 6)]
    for length, runs in cases:
        decoder, session, expected = decoder_graphs.make("slots with gather")
        texts = [list(range(3 + row)) for row in range(6)]
        decoder.prefill_rows(range(6), texts)
        for every in (False, True):
            session.runs.clear()
            new = [[row, 7, 5, 3][:length] for row in range(6)]
            texts = [text + more for text, more in zip(texts, new, strict=True)]
            if every:
                for text, logits in zip(texts, decoder.extend(range(6), new), strict=True):
                    want = [expected(text[: len(text) - length + 1 + at]) for at in range(length)]
                    np.testing.assert_allclose(logits, want, atol=1e-5, err_msg=str(length))
            else:
                logits = decoder.continue_rows(range(6), new)
                np.testing.assert_allclose(logits, list(map(expected, texts)), atol=1e-5)
            assert [(rows, count) for rows, _, count in session.runs] == runs, length
