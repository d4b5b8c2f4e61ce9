"""Decoders on NumPy: the tokens and scores of onnxruntime on every export, from caches written in place."""

import pickle
from typing import Any

import numpy as np
import pytest
from helpers.models.real_models import EXPECTED, MODELS, assert_same_response, open_model
from helpers.tiers import standing_for_all

from lite.models import GenerationConfig, OnnxDecoder, OnnxWrapper, generate
from lite.models.decoder.conventions import Padding

NAMES = sorted(EXPECTED, key="optimum-llama".__ne__)
SAMPLED = {"do_sample": True, "temperature": 0.8, "top_k": 40}


@pytest.fixture(scope="module")
def opened() -> dict[str, OnnxDecoder]:
    return {}


@pytest.fixture
def decoder(name: str, opened: dict[str, OnnxDecoder]) -> OnnxDecoder:
    if name not in opened:
        opened[name] = OnnxDecoder(MODELS / name, runtime="numpy")
    return opened[name].sibling()


def atol(name: str) -> float:
    """How far scores may be apart: the one computes in float16, or a last bit makes a step of a rounding."""
    return {"handmade-slots-half": 0.02, "genai-qwen2-int4": 0.02}.get(name, 1e-4)


@pytest.mark.parametrize(
    ("name", "options"), standing_for_all(list(zip(NAMES, [SAMPLED, {}] * 10, strict=False)), 2)
)
def test_the_tokens_of_onnxruntime(name: str, decoder: OnnxDecoder, options: dict[str, Any]) -> None:
    other = open_model(name)
    assert (decoder.runtime, other.runtime) == ("numpy", "onnxruntime")
    assert decoder.spec == other.spec
    prompts = [case["prompt"] for case in EXPECTED[name]["greedy"]]
    config = GenerationConfig(max_new_tokens=10, **options)
    seeds = np.arange(2 * len(prompts), dtype=np.uint64)
    ours, theirs = (generate(one, prompts, config, seeds=seeds, num_samples=2) for one in (decoder, other))
    for got, want in zip(ours, theirs, strict=True):
        if name == "genai-qwen2-int4":
            assert_same_response(name, got, want)
            continue
        np.testing.assert_array_equal(got.tokens, want.tokens)
        np.testing.assert_allclose(got.log_probs, want.log_probs, atol=atol(name))


@pytest.mark.parametrize("name", standing_for_all(["optimum-llama", "genai-lfm2", "exporter-llama-static"]))
def test_rows_that_grow_fork_and_are_cut(name: str, decoder: OnnxDecoder, rng: np.random.Generator) -> None:
    """A cache that grows is copied, and what lies behind the end of a row is read by nobody."""
    other, ids = open_model(name), rng.integers(0, 512, 60)
    logits = []
    for one in (decoder, other):
        one.prefill_rows([0, 1], [ids[:40], ids[40:43]])
        one.fork(0, 2)
        one.truncate(0, 5)
        logits.append([one.decode(ids[50:53], [2, 0, 1]), *one.extend([1, 0], [ids[43:50], ids[43:44]])])
        logits[-1] += [one.decode(ids[53:56]), one.score(ids[:30])]
    for got, want in zip(*logits, strict=True):
        np.testing.assert_allclose(got, want, atol=20 * atol(name), rtol=0)


@pytest.mark.parametrize("name", ["handmade-slots-int8", "optimum-llama"])
def test_a_step_writes_into_the_cache_where_it_is(name: str, decoder: OnnxDecoder) -> None:
    assert decoder.spec.padding is Padding.SLOTS
    decoder.prefill(0, [1, 2, 3])
    cache: Any = decoder._cache
    before = [buffer.view().copy() for buffer in cache._buffers]
    pointers = [buffer.pointer for buffer in cache._buffers]
    decoder.decode([4], [0])
    spec, changes = decoder.spec, set()
    assert [buffer.pointer for buffer in cache._buffers] == pointers
    for buffer, old in zip(cache._buffers, before, strict=True):
        changed = (buffer.view() != old)[: cache._count * spec.num_heads * cache._capacity * _size(decoder)]
        changes |= set(
            np.flatnonzero(changed.reshape(-1, cache._capacity, _size(decoder)).any((0, 2))).tolist()
        )
    assert changes == {3}  # one position, of all heads and layers


def _size(decoder: OnnxDecoder) -> int:
    return decoder.bytes_per_token // (len(decoder.spec.cache) * decoder.spec.num_heads)


def test_a_wrapper_says_what_runs_it_and_goes_elsewhere_with_it() -> None:
    policy = OnnxWrapper(MODELS / "optimum-llama", runtime="numpy", generate=False, input_mode="tokens")
    assert policy.model.runtime == "numpy"
    assert pickle.loads(pickle.dumps(policy)).model.runtime == "numpy"
    assert OnnxWrapper(MODELS / "optimum-llama", runtime="numpy", sessions=2).model.runtime == "numpy"
    with pytest.raises(ValueError, match="runtime='numpy' is for a model given as a path"):
        OnnxWrapper(policy.model, runtime="numpy", generate=False, input_mode="tokens")
    with pytest.raises(ValueError, match="runtime='numpy' is for a model that is opened"):
        OnnxDecoder(None, session=policy.model.session, runtime="numpy")
    given = OnnxDecoder(policy.model.config, session=policy.model.session)
    assert given.runtime == "numpy"


def test_adapters() -> None:
    folder = MODELS / "handmade-lora"
    files = {name: folder / f"{name}.onnx_adapter" for name in ("formal", "casual")}
    scores = []
    for runtime in ("numpy", "onnxruntime"):
        decoder, own = OnnxDecoder(folder, adapters=files, runtime=runtime), []
        for name in (None, "formal", "casual", "formal"):
            decoder.adapter = name
            own.append(decoder.score([3, 1, 4, 1, 5, 9]))
        scores.append(own)
    np.testing.assert_allclose(*scores, atol=1e-5)
    assert not np.allclose(scores[0][1], scores[0][2], atol=1e-2)


def test_what_numpy_lacks_is_refused() -> None:
    cases: list[dict[str, Any]] = [{"device": "cuda"}, {"num_threads": 2}, {"cuda_graphs": True}]
    for options in cases:
        with pytest.raises(ValueError, match=f"{next(iter(options))}=.* needs onnxruntime"):
            OnnxDecoder(MODELS / "handmade-lora", runtime="numpy", **options)
