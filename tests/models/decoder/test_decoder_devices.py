"""Decoders on a GPU, with stand-ins for the session, its memory and the driver."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from helpers.models import decoder_graphs
from helpers.models.real_models import MODELS
from helpers.models.responses import assert_same_responses
from helpers.models.stand_in_gpu import DeviceValue, HostRuntime, check_steps, gpu, on_gpu
from helpers.simulator import gpu_found
from helpers.tiers import standing_for_all

from lite.models import (
    GenerationConfig,
    OnnxDecoder,
    PrefixCache,
    embedded_model_path,
    full_logits,
    generate,
    score,
    score_choices,
)

__all__ = ["gpu"]  # a fixture


@pytest.fixture(
    params=standing_for_all(["positions", "slots", "pair", "static", "slots, state", "half cache"], 2)
)
def pair(request: pytest.FixtureRequest, gpu: HostRuntime) -> Any:
    """The same graph on the GPU and on the CPU."""
    decoder, _, after = decoder_graphs.make(request.param)
    return on_gpu(request.param, decoder.config)[0], decoder, after


def test_steps_between_everything_else(pair: Any, gpu: HostRuntime, rng: np.random.Generator) -> None:
    decoder, _, after = pair
    check_steps(decoder, rng, 6, after)
    assert type(decoder.decode([1], [0])) is np.ndarray
    assert {"copy", "synchronise"} <= set(gpu.calls)  # rows were moved by the driver


def test_generated_and_scored_as_on_the_cpu(pair: Any) -> None:
    decoder, other, _ = pair
    prompts = [np.array([1, 2, 3]), np.array([4]), np.array([5, 6, 7, 8, 9])]
    config = GenerationConfig(max_new_tokens=7, do_sample=True, eos_token_ids=(11,))
    seeds = np.arange(6, dtype=np.uint64)
    ours, theirs = (generate(d, prompts, config, seeds=seeds, num_samples=2) for d in (decoder, other))
    assert_same_responses(ours, theirs, atol=5e-3)
    for function in (score, full_logits):
        for one, two in zip(function(decoder, prompts), function(other, prompts), strict=True):
            assert type(one) is np.ndarray
            np.testing.assert_allclose(one, two, atol=5e-3)


@pytest.mark.parametrize("name", ["positions", "slots"])
def test_a_conversation_that_grows(gpu: HostRuntime, name: str) -> None:
    other, _, _ = decoder_graphs.make(name)
    decoder, _ = on_gpu(name, other.config)
    config = GenerationConfig(max_new_tokens=4, do_sample=True)
    text, cache = list(range(1, 20)), PrefixCache(decoder, 10**6)
    for turn in range(3):
        seeds = np.array([turn], np.uint64)
        (one,) = generate(decoder, [text], config, seeds=seeds, prefix_cache=cache)
        (two,) = generate(other, [text], config, seeds=seeds)
        np.testing.assert_array_equal(one.tokens, two.tokens)
        text += [*one.tokens.tolist(), 5, 6]
    assert cache.hits == 2


def test_memory_of_the_gpu_is_given_back(gpu: HostRuntime) -> None:
    decoder, _ = on_gpu("slots", decoder_graphs.config(["GroupQueryAttention"]))
    decoder.prefill(0, [1, 2, 3])
    assert sum(DeviceValue.there.values()) == decoder.cache_bytes > 0
    del decoder
    assert DeviceValue.there == {}


def test_beams_and_choices_are_those_of_the_cpu(gpu: HostRuntime) -> None:
    """They look at all logits, so these are copied to the host."""
    other, _, _ = decoder_graphs.make("positions")
    decoder, _ = on_gpu("positions", other.config)
    config = GenerationConfig(max_new_tokens=5, num_beams=3)
    ours, theirs = (generate(d, [[1, 2, 3], [4]], config) for d in (decoder, other))
    assert_same_responses(ours, theirs, atol=5e-3)
    one, two = (score_choices(d, [[1, 2]], [[3, 4], [5, 6]]).log_probs for d in (decoder, other))
    np.testing.assert_allclose(one, two, atol=5e-3)
    assert "fetch" in gpu.calls


@pytest.mark.parametrize("name", ["no cache, half logits"])
def test_graphs_without_a_cache(gpu: HostRuntime, name: str) -> None:
    other, _, after = decoder_graphs.make(name)
    decoder, _ = on_gpu(name, other.config)
    decoder.prefill_rows([0, 1], [[1, 2, 3], [4]])
    got = decoder.decode_unchecked(np.array([5, 6]), [1, 0])
    np.testing.assert_allclose(got, [after([4, 5]), after([1, 2, 3, 6])], atol=5e-3)


def test_on_a_gpu() -> None:
    """Not with stand-ins: it needs a GPU build of onnxruntime and a GPU."""
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers() or not gpu_found():
        pytest.skip("needs a GPU, and onnxruntime's build for it")
    for path, graphs in ((embedded_model_path(), False), (MODELS / "handmade-slots-half", True)):
        check_on_a_gpu(path, graphs)


def check_on_a_gpu(path: Path, cuda_graphs: bool) -> None:
    prompts, seeds = [[10, 20, 30], [40]], np.arange(4, dtype=np.uint64)
    cpu, plain = OnnxDecoder(path), OnnxDecoder(path, device="cuda")
    captured = OnnxDecoder(path, device="cuda", cuda_graphs=True) if cuda_graphs else plain
    for options in (
        {},
        {"temperature": 0.8, "top_p": 0.9},
        {"temperature": 1.0, "logprobs": 2, "kept_ids": True, "top_p": 0.9},
        {"temperature": 0.7, "prompt_lookup_num_tokens": 3, "max_matching_ngram_size": 1},
    ):
        config = GenerationConfig.from_kwargs({"max_new_tokens": 40, **options})
        theirs = generate(cpu, prompts, config, seeds=seeds, num_samples=2)
        for decoder in (plain, captured, captured):  # the second time what was captured is replayed
            ours = generate(decoder, prompts, config, seeds=seeds, num_samples=2)
            for one, two in zip(ours, theirs, strict=True):
                same = int((np.cumsum(one.tokens != two.tokens) == 0).sum())
                assert same > 4  # sums are rounded otherwise, so a draw may fall beside a bound
                np.testing.assert_allclose(one.log_probs[:same], two.log_probs[:same], atol=1e-2)
                if one.details is not None and two.details is not None:
                    entropies = one.details.entropy[:same], two.details.entropy[:same]
                    np.testing.assert_allclose(*entropies, atol=1e-2)
    rows = [np.arange(1, 40), np.array([5, 6])]
    for one, two in zip(score(plain, rows), score(cpu, rows), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-2)
