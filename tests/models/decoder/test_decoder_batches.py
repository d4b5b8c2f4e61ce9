"""A row of a batch is what it is alone, in every convention: ragged rows, generated, scored, cut."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models import decoder_graphs, real_models
from helpers.models.real_models import EXPECTED, open_model, tolerance
from helpers.models.responses import assert_same_responses
from helpers.tiers import standing_for_all
from numpy.typing import NDArray

from lite.models import GenerationConfig, OnnxDecoder, Padding, RewindableDecoder, generate, score

STANDING = [*real_models.STANDING, *decoder_graphs.STANDING]
OTHERS = [*sorted(EXPECTED.keys() - set(STANDING)), *decoder_graphs.OTHERS]
LENGTHS = [(3, 7, 1), (20, 3, 9, 14, 3, 17, 1, 6), (5,) * 3, (4, 40)]


class Model(NamedTuple):
    decoder: OnnxDecoder
    atol: float


@pytest.fixture
def model(name: str) -> Model:
    if name in EXPECTED:
        return Model(open_model(name), tolerance(name))
    return Model(decoder_graphs.make(name)[0], 5e-3 if "half" in name else 1e-5)


def texts(model: Model, lengths: Sequence[int], rng: np.random.Generator) -> list[NDArray[np.int64]]:
    return [rng.integers(0, model.decoder.vocab_size, length) for length in lengths]


@pytest.mark.parametrize(
    ("name", "lengths"),
    standing_for_all(
        [
            *((name, LENGTHS[0]) for name in STANDING),
            *((name, LENGTHS[i % 4]) for i, name in enumerate(OTHERS)),
        ],
        len(STANDING),
    ),
)
def test_generated(model: Model, lengths: Sequence[int], rng: np.random.Generator) -> None:
    """Log-probs are those of scoring, too."""
    decoder, prompts, samples = model.decoder, texts(model, lengths, rng), 2
    config = GenerationConfig(max_new_tokens=4, do_sample=True, temperature=0.8, eos_token_ids=(7,))
    seeds = np.arange(len(prompts) * samples, dtype=np.uint64)
    together = generate(decoder, prompts, config, seeds=seeds, num_samples=samples)
    for i, prompt in enumerate(prompts):
        own = slice(i * samples, (i + 1) * samples)
        alone = generate(decoder, [prompt], config, seeds=seeds[own], num_samples=samples)
        assert_same_responses(alone, together[own], atol=2 * model.atol)
    rows = [np.concatenate([prompts[i // samples], got.tokens]) for i, got in enumerate(together)]
    for got, row in zip(together, score(decoder, rows), strict=True):
        own = row[len(row) - len(got.tokens) :]
        np.testing.assert_allclose(own, got.log_probs, atol=max(1e-4, 2 * model.atol), rtol=0)


@pytest.mark.parametrize(
    "name", ["positions", "slots", "no cache", "static pair", "slots, limit", "genai-lfm2"]
)
def test_continued(model: Model, rng: np.random.Generator) -> None:
    """Rows with a past of different lengths take different numbers of tokens, again and again."""
    decoder, held = model.decoder, texts(model, (4, 1, 9), rng)
    decoder.prefill_rows(range(3), held)
    for lengths in ((2, 5, 1), (3, 3, 3), (1, 1, 4)):
        new = texts(model, lengths, rng)
        got = decoder.extend(range(3), new)
        held = [np.concatenate(pair) for pair in zip(held, new, strict=True)]
        for row, text in enumerate(held):
            ends = range(len(text) - lengths[row] + 1, len(text) + 1)
            alone = [decoder.prefill(3, text[:end]) for end in ends]
            np.testing.assert_allclose(got[row], alone, atol=2 * model.atol, rtol=0)


@pytest.mark.parametrize(
    "name", standing_for_all([*decoder_graphs.STANDING, *decoder_graphs.OTHERS], len(decoder_graphs.STANDING))
)
def test_cut_and_continued(name: str, rng: np.random.Generator) -> None:
    decoder, _, expected = decoder_graphs.make(name)
    atol = 2e-2 if "half" in name else 1e-4
    texts = [rng.integers(0, 23, length) for length in (12, 7, 9)]
    decoder.prefill_rows(range(3), texts)
    decoder.fork(0, 3)
    decoder.settle(3)
    decoder.decode([1, 2, 3], [0, 1, 2])
    held = [np.append(text, token) for text, token in zip(texts, (1, 2, 3), strict=True)]
    held.append(texts[0])
    for row, length in ((1, 4), (3, 10)):
        decoder.truncate(row, length)
        held[row] = held[row][:length]
    decoder.settle(1)
    new = [rng.integers(0, 23, length) for length in (2, 5, 1, 3)]
    logits = decoder.continue_rows(range(4), new)
    held = [np.concatenate(pair) for pair in zip(held, new, strict=True)]
    np.testing.assert_allclose(logits, [expected(row.tolist()) for row in held], atol=atol)
    for row in (2, 0):
        decoder.settle(row)
    logits = decoder.decode([4, 4, 4, 4])
    want = [expected([*row.tolist(), 4]) for row in held]
    np.testing.assert_allclose(logits, want, atol=atol)


@pytest.mark.usefixtures("only_new_garbage")
@pytest.mark.parametrize("name", real_models.STANDING)
def test_what_a_row_takes(name: str, rng: np.random.Generator) -> None:
    decoder = open_model(name)
    assert isinstance(decoder, RewindableDecoder)
    decoder.prefill_rows(range(4), [rng.integers(0, 500, 33)] * 4)
    if decoder.spec.cache:
        assert decoder.cache_bytes >= 4 * 33 * decoder.bytes_per_token
    else:
        assert decoder.bytes_per_token == 0
    if decoder.spec.padding in (Padding.LEFT, Padding.EQUAL):
        for row in (0, 1, 2):
            decoder.reset(row)
        size = decoder.settle(3)
        gc.collect()
        assert size == decoder.bytes_per_token * (decoder.spec.static_length or 33)
        assert size <= decoder.cache_bytes <= 2 * size  # rounded up


def test_bad_calls(rng: np.random.Generator) -> None:
    decoder = open_model("optimum-llama")
    decoder.prefill(0, [1, 2, 3])
    with pytest.raises(ValueError, match="ids must have one entry per row, got 2 for 1 rows"):
        decoder.continue_rows([0], [[1], [2]])
    raises(ValueError, "254 tokens after 3", decoder.continue_rows, [0], [np.ones(254, np.int64)])
    raises(IndexError, "rows must be between", decoder.settle, 7)
    assert decoder.lengths[0] == 3
    assert decoder.continue_rows([], []).shape == (0, decoder.vocab_size)
