"""Decoders on a GPU, with stand-ins for the session, its memory and the driver: no GPU has run them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.models import decoder_graphs
from helpers.models.decoder_graphs import BLOCKS, SLOTS
from helpers.models.stand_in_gpu import DeviceSession, DeviceValue, HostRuntime, gpu

from lite.models import GenerationConfig, OnnxDecoder, generate, score

__all__ = ["gpu"]  # a fixture


@pytest.fixture(params=sorted([*BLOCKS, *SLOTS]))
def pair(request: pytest.FixtureRequest, gpu: HostRuntime) -> Any:
    """The same graph on the GPU and on the CPU."""
    options = decoder_graphs.GRAPHS[request.param].options
    decoder, _, after = decoder_graphs.make(request.param)
    session = DeviceSession(**options)
    return OnnxDecoder(decoder.config, session=session, device="cuda:1"), decoder, after


def test_steps_between_everything_else(pair: Any, gpu: HostRuntime, rng: np.random.Generator) -> None:
    decoder, _, after = pair
    texts = [rng.integers(0, decoder.vocab_size, length).tolist() for length in (4, 2, 7)]
    decoder.prefill_rows(range(3), texts)
    for turn in range(8):
        rows = rng.permutation(3)[: rng.integers(1, 4)].tolist()
        for _ in range(3):
            tokens = rng.integers(0, decoder.vocab_size, len(rows))
            logits = decoder.decode_unchecked(tokens, rows)
            for row, token, got in zip(rows, tokens, logits, strict=True):
                texts[row].append(int(token))
                np.testing.assert_allclose(got, after(texts[row]), atol=5e-3)
        if turn % 3 == 0:
            decoder.fork(1, 2)
            texts[2] = list(texts[1])
        elif turn % 3 == 1:
            decoder.truncate(0, 3)
            texts[0] = texts[0][:3]
    assert not np.shares_memory(logits, decoder.decode_unchecked(np.array([1]), [0]))
    assert {"copy", "synchronise"} <= set(gpu.calls)  # rows were moved by the driver


def test_generated_and_scored_as_on_the_cpu(pair: Any) -> None:
    decoder, other, _ = pair
    prompts = [np.array([1, 2, 3]), np.array([4]), np.array([5, 6, 7, 8, 9])]
    config = GenerationConfig(max_new_tokens=7, do_sample=True, eos_token_ids=(11,))
    seeds = np.arange(6, dtype=np.uint64)
    ours, theirs = (generate(d, prompts, config, seeds=seeds, num_samples=2) for d in (decoder, other))
    for one, two in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.tokens, two.tokens)
        np.testing.assert_allclose(one.log_probs, two.log_probs, atol=5e-3)
    for one, two in zip(score(decoder, prompts), score(other, prompts), strict=True):
        np.testing.assert_allclose(one, two, atol=5e-3)


def test_memory_of_the_gpu_is_given_back(gpu: HostRuntime) -> None:
    decoder_config = decoder_graphs.make("slots")[0].config
    options = decoder_graphs.GRAPHS["slots"].options
    decoder = OnnxDecoder(decoder_config, session=DeviceSession(**options), device="cuda:1")
    decoder.prefill(0, [1, 2, 3])
    assert sum(DeviceValue.there.values()) == decoder.cache_bytes > 0
    del decoder
    assert DeviceValue.there == {}
