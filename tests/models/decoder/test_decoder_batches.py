"""A row of a batch is what it is alone, in every convention: ragged rows, generated, continued and scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.models import decoder_graphs
from helpers.models.real_models import EXPECTED, MODELS, tolerance
from numpy.typing import NDArray

from lite.models import GenerationConfig, OnnxDecoder, full_logits, generate, score

pytest.importorskip("onnxruntime")
MORE = [(1, 2), (20, 3, 9, 14, 3, 17, 1, 6, 11, 2), (5,) * 3, (4, 40)]
LENGTHS = [(3, 7, 1, 7), *(pytest.param(lengths, marks=pytest.mark.grid) for lengths in MORE)]


class Model(NamedTuple):
    decoder: OnnxDecoder
    atol: float


def load(name: str) -> Model:
    if name in EXPECTED:
        return Model(OnnxDecoder(MODELS / name, num_threads=1), tolerance(name))
    return Model(decoder_graphs.make(name)[0], 5e-3 if "half" in name else 1e-5)


@pytest.fixture(params=[*sorted(EXPECTED), *sorted(decoder_graphs.GRAPHS)])
def model(request: pytest.FixtureRequest) -> Model:
    return load(request.param)


def texts(model: Model, lengths: Sequence[int], rng: np.random.Generator) -> list[NDArray[np.int64]]:
    return [rng.integers(0, model.decoder.vocab_size, length) for length in lengths]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_prompts(model: Model, lengths: Sequence[int], rng: np.random.Generator) -> None:
    decoder, prompts = model.decoder, texts(model, lengths, rng)
    together = decoder.prefill_rows(range(len(prompts)), prompts)
    for row, prompt in enumerate(prompts):
        decoder.reset(row)
        np.testing.assert_allclose(decoder.prefill(row, prompt), together[row], atol=model.atol, rtol=0)


@pytest.mark.parametrize("samples", [pytest.param(1, marks=pytest.mark.grid), 2])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_generated(model: Model, lengths: Sequence[int], samples: int, rng: np.random.Generator) -> None:
    decoder, prompts = model.decoder, texts(model, lengths, rng)
    config = GenerationConfig(max_new_tokens=6, do_sample=True, temperature=0.8, eos_token_ids=(7,))
    seeds = np.arange(len(prompts) * samples, dtype=np.uint64)
    together = generate(decoder, prompts, config, seeds=seeds, num_samples=samples)
    for i, prompt in enumerate(prompts):
        own = slice(i * samples, (i + 1) * samples)
        alone = generate(decoder, [prompt], config, seeds=seeds[own], num_samples=samples)
        for one, other in zip(alone, together[own], strict=True):
            np.testing.assert_allclose(one.log_probs, other.log_probs, atol=2 * model.atol, rtol=0)
            np.testing.assert_array_equal(one.tokens, other.tokens)
            assert one.finish_reason == other.finish_reason


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_scored(model: Model, lengths: Sequence[int], rng: np.random.Generator) -> None:
    decoder, rows = model.decoder, texts(model, lengths, rng)
    measures: list[Callable[..., Any]] = [score, full_logits]
    for measure in measures:
        for row, together in zip(rows, measure(decoder, rows), strict=True):
            (alone,) = measure(decoder, [row])
            np.testing.assert_allclose(alone, together, atol=2 * model.atol, rtol=0)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_scores_are_the_log_probs_of_generation(
    model: Model, lengths: Sequence[int], rng: np.random.Generator
) -> None:
    decoder, prompts = model.decoder, texts(model, lengths, rng)
    out = generate(decoder, prompts, GenerationConfig(max_new_tokens=5))
    scores = score(decoder, [np.concatenate([p, r.tokens]) for p, r in zip(prompts, out, strict=True)])
    for prompt, response, row in zip(prompts, out, scores, strict=True):
        np.testing.assert_allclose(row[len(prompt) :], response.log_probs, atol=max(1e-4, 2 * model.atol))


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
