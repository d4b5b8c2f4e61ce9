"""Graphs that choose rotary factors by length, and graphs with states: a text is what one run over it gives.

What is right comes from onnxruntime alone, which runs the file as it is, one text at a time.
"""

from functools import cache
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from helpers.models.real_models import MODELS
from helpers.tiers import standing_for_all
from numpy.typing import NDArray

from lite.models import GenerationConfig, OnnxDecoder, generate, score
from lite.models.decoder import decoder as decoder_module

LIMIT = 16
LIMITED = ["genai-phi3-longrope", "torch-phi3-longrope"]


@cache
def session(name: str) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(
        str(MODELS / name / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )


def run(name: str, ids: NDArray[np.int64], held: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
    """Logits after each of the new tokens (S, V), and the outputs that hold the text."""
    caches = [arg for arg in session(name).get_inputs() if arg.name.startswith("past")]
    empty = {4: (1, 1, 0, 16), 3: (1, 16, 2)}  # keys and values, states
    held = held or {arg.name: np.zeros(empty[len(arg.shape)], np.float32) for arg in caches}
    past = next(values.shape[2] for key, values in held.items() if key.endswith("key"))
    total = past + len(ids)
    feeds = {
        "input_ids": ids[None],
        "attention_mask": np.ones((1, total), np.int64),
        "position_ids": np.arange(past, total)[None],
        **held,
    }
    known = {arg.name for arg in session(name).get_inputs()}
    names = [arg.name for arg in session(name).get_outputs()]
    values = session(name).run(None, {key: value for key, value in feeds.items() if key in known})
    out = dict(zip(names, values, strict=True))
    pasts = {arg.name: out[_present(arg.name)] for arg in caches}
    return out["logits"][0], pasts


def _present(name: str) -> str:
    return name.replace("past_key_values", "present").replace("past.", "present.")


def wanted(name: str, text: NDArray[np.int64]) -> Any:
    """Logits of the token that follows a text."""
    return run(name, text)[0][-1]


OPENED = {
    "phi3 in place": ("genai-phi3-longrope", True),
    "lfm2": ("genai-lfm2", False),
    "phi3": ("torch-phi3-longrope", False),
    "lfm2 in place": ("genai-lfm2", True),
}


@pytest.fixture(params=standing_for_all(OPENED, 2))
def opened(request: pytest.FixtureRequest) -> tuple[str, OnnxDecoder]:
    """A model, with the cache in place or not."""
    name, in_place = OPENED[request.param]
    return name, OnnxDecoder(MODELS / name, num_threads=1, cache_in_place=in_place)


@pytest.fixture
def name(opened: tuple[str, OnnxDecoder]) -> str:
    return opened[0]


@pytest.fixture
def decoder(opened: tuple[str, OnnxDecoder]) -> OnnxDecoder:
    return opened[1]


def test_the_choice_matters(rng: np.random.Generator) -> None:
    """Where a text of more tokens shared its run with a shorter one, that got other logits."""
    text = rng.integers(0, 512, LIMIT)
    feeds = {"input_ids": text[None], "attention_mask": np.ones((1, LIMIT + 1), np.int64)}
    past = {
        arg.name: np.zeros((1, 1, 32, 16), np.float32)
        for arg in session(LIMITED[0]).get_inputs()
        if arg.name.startswith("past")
    }
    logits = session(LIMITED[0]).run(["logits"], {**feeds, **past})[0][0, -1]
    assert np.abs(logits - wanted(LIMITED[0], text)).max() > 0.1


def test_rows_in_any_order(name: str, decoder: OnnxDecoder, rng: np.random.Generator) -> None:
    """Rows that are read, continued, forked and cut on both sides of the limit, in rooms of any size."""
    texts = [rng.integers(0, 512, length) for length in (3, 40, LIMIT, 12)]
    for row, logits in enumerate(decoder.prefill_rows(range(4), texts)):
        np.testing.assert_allclose(logits, wanted(name, texts[row]), atol=2e-4)
    for _ in range(16):
        match rng.integers(4):
            case 0:
                source, target = (int(i) for i in rng.permutation(4)[:2])
                decoder.fork(source, target)
                texts[target] = texts[source]
            case 1:
                row = int(rng.integers(4))
                texts[row] = texts[row][: int(rng.integers(1, len(texts[row]) + 1))]
                decoder.truncate(row, len(texts[row]))
            case 2:
                rows = rng.permutation(4)[: rng.integers(1, 4)].tolist()
                new = [rng.integers(0, 512, rng.integers(1, 9)) for _ in rows]
                for row, more, logits in zip(rows, new, decoder.extend(rows, new), strict=True):
                    after = [wanted(name, np.append(texts[row], more[: i + 1])) for i in range(len(more))]
                    np.testing.assert_allclose(logits, after, atol=2e-4)
                    texts[row] = np.append(texts[row], more)
            case _:
                for _ in range(3):
                    tokens = rng.integers(0, 512, 4)
                    for row, logits in enumerate(decoder.decode(tokens)):
                        texts[row] = np.append(texts[row], tokens[row])
                        np.testing.assert_allclose(logits, wanted(name, texts[row]), atol=2e-4)
    assert decoder.lengths.tolist() == [len(text) for text in texts]


def test_long_prompts_in_chunks(name, decoder, rng, monkeypatch):
    monkeypatch.setattr(decoder_module, "MAX_CHUNK", 5)
    texts = [rng.integers(0, 512, length) for length in (40, 7, LIMIT + 1)]
    for text, logits in zip(texts, decoder.prefill_rows(range(3), texts), strict=True):
        np.testing.assert_allclose(logits, wanted(name, text), atol=2e-4)


@pytest.mark.depth
def test_generation_and_scores(name: str, decoder: OnnxDecoder, rng: np.random.Generator) -> None:
    """Samples, beams and scores of rows that begin on one side and end on the other."""
    prompts = [rng.integers(3, 512, length) for length in (3, 40, 10)]
    free: dict[str, Any] = {"max_new_tokens": 8, "eos_token_ids": ()}
    sampled = GenerationConfig(**free, do_sample=True)
    seeds = np.arange(6, dtype=np.uint64)
    responses = generate(decoder, prompts, sampled, num_samples=2, seeds=seeds)
    for i, response in enumerate(responses):
        prompt = prompts[i // 2]
        (alone,) = generate(decoder, [prompt], sampled, seeds=seeds[i : i + 1])
        np.testing.assert_array_equal(alone.tokens, response.tokens)
        text = np.concatenate([prompt, response.tokens])
        np.testing.assert_allclose(score(decoder, [text])[0][len(prompt) :], response.log_probs, atol=1e-4)
        for j in (0, 7):
            logits = wanted(name, text[: len(prompt) + j]).astype(np.float64)
            want = logits[response.tokens[j]] - np.log(np.exp(logits).sum())
            np.testing.assert_allclose(response.log_probs[j], want, atol=1e-4)
    (best, *_) = generate(decoder, prompts[2:], GenerationConfig(**free, num_beams=3))
    text = np.concatenate([prompts[2], best.tokens])
    np.testing.assert_allclose(score(decoder, [text])[0][10:], best.log_probs, atol=1e-4)


@pytest.mark.parametrize("name", LIMITED)
def test_without_reading_again(name: str, rng: np.random.Generator) -> None:
    """As in a loop over tokens, whose past stays as it is."""
    decoder = OnnxDecoder(MODELS / name, num_threads=1, reread=False)
    texts = [rng.integers(0, 512, length) for length in (LIMIT + 8, 10)]
    loops = []
    for text in texts:
        held, logits = None, []
        for token in text:
            out, held = run(name, np.array([token]), held)
            logits.append(out[-1])
        loops.append(np.array(logits))
    decoder.prefill_rows([0, 1], [text[:9] for text in texts])
    for i in range(9, LIMIT + 8):
        rows = [row for row, text in enumerate(texts) if len(text) > i]
        logits = decoder.decode([texts[row][i] for row in rows], rows)
        np.testing.assert_allclose(logits, [loops[row][i] for row in rows], atol=2e-4)
    decoder.acquire(4)
    for got, want in zip(decoder.extend([2, 3], texts), loops, strict=True):
        np.testing.assert_allclose(got, want, atol=2e-4)
    np.testing.assert_allclose(decoder.prefill(2, texts[0]), loops[0][-1], atol=2e-4)
    assert np.abs(loops[0][-1] - wanted(name, texts[0])).max() > 1e-2


def test_a_run_that_fails_leaves_the_row(name, decoder, rng, monkeypatch):
    text = rng.integers(0, 512, LIMIT + 1)
    decoder.prefill(0, text[:LIMIT])
    with monkeypatch.context() as patched:
        patched.setattr(decoder_module, "_in_chunks", _failing)
        with pytest.raises(RuntimeError, match="failed"):
            decoder.continue_rows([0], [text[LIMIT:]])
    assert decoder.lengths.tolist() == [LIMIT]
    np.testing.assert_allclose(decoder.decode(text[LIMIT:])[0], wanted(name, text), atol=2e-4)


def _failing(*args: Any) -> Any:
    raise RuntimeError("failed")
