"""Wrappers of one model with different adapters: each runs with its own, in turn, also in copies."""

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from helpers.models.handmade_exports import ADAPTERS, NAMES, adapter, logits
from helpers.models.real_models import EXPECTED, MODELS

from lite import TensorDict
from lite.models import GenerationConfig, OnnxDecoder, OnnxWrapper, PrefixCache, Tokens, generate

FOLDER = MODELS / "handmade-lora"
FILES = {name: FOLDER / f"{name}.onnx_adapter" for name in ADAPTERS}
PROMPTS = np.array([EXPECTED["handmade-lora"]["greedy"][0]["prompt"]] * 2)


def answer(wrapper: OnnxWrapper) -> tuple[list[int], Any]:
    td = wrapper(TensorDict({"tokens": Tokens(prompt=PROMPTS, batch_size=[2])}, batch_size=[2]))
    return td["tokens", "response"][0].tolist(), td["log_probs", "response"][0]


def want(name: str | None) -> tuple[list[int], np.ndarray]:
    """Greedy tokens and their log-probs, by the formulas."""
    ids, chosen = PROMPTS[0].tolist(), []
    for _ in range(4):
        row = logits(ids, NAMES["handmade-lora"], None if name is None else adapter(name))[-1]
        ids.append(int(row.argmax()))
        chosen.append(row.max() - np.log(np.exp(row).sum()))
    return ids[-4:], np.array(chosen)


@pytest.fixture
def wrapper() -> OnnxWrapper:
    return OnnxWrapper(
        FOLDER, input_mode="tokens", pad_output=True, inplace=False,
        generate_kwargs={"max_new_tokens": 4, "do_sample": False}, adapters=FILES, adapter="formal",
    )  # fmt: skip


def check(made: OnnxWrapper, name: str | None) -> None:
    tokens, log_probs = answer(made)
    assert tokens == want(name)[0]
    np.testing.assert_allclose(log_probs, want(name)[1], atol=1e-4)


def test_wrappers_of_one_model_take_turns(wrapper: OnnxWrapper) -> None:
    others = {name: wrapper.get_new_version(adapter=name) for name in ("casual", None)}
    assert all(other.model is wrapper.model for other in others.values())
    for _ in range(2):
        check(wrapper, "formal")
        for name, other in others.items():
            check(other, name)
    assert wrapper.model.adapter is None  # as it was before


def test_the_decoder_has_no_adapter_in_other_threads(wrapper: OnnxWrapper) -> None:
    """A service scores, or streams, by the decoder while a wrapper answers with an adapter."""
    before, found = wrapper.model.score(PROMPTS[0]), []

    def meanwhile(_: Any, scores: Any) -> Any:
        with ThreadPoolExecutor(1) as other:
            found.append(other.submit(wrapper.model.score, PROMPTS[0]).result())
        return scores

    options = {"max_new_tokens": 4, "do_sample": False, "logits_processor": [meanwhile]}
    check(wrapper.get_new_version(generate_kwargs=options), "formal")
    np.testing.assert_array_equal(found, [before] * 8)


@pytest.mark.depth
def test_in_many_threads(wrapper: OnnxWrapper) -> None:
    made = [wrapper.get_new_version(adapter=name, batching=True) for name in (*ADAPTERS, None)] * 6
    with ThreadPoolExecutor(8) as pool:
        for (tokens, _), name in zip(pool.map(answer, made), (*ADAPTERS, None) * 6, strict=True):
            assert tokens == want(name)[0]


def test_kept_prefixes_are_those_of_the_adapter(wrapper: OnnxWrapper) -> None:
    """A prefix read under another adapter would be found again, and give wrong tokens."""
    made = {name: wrapper.get_new_version(adapter=name, prefix_cache=2**20) for name in (*ADAPTERS, None)}
    for _ in range(2):
        for name, one in made.items():
            check(one, name)
    decoder = wrapper.model
    cache = PrefixCache(decoder, 2**20)
    prompt, config = np.tile(PROMPTS[0], 5), GenerationConfig(max_new_tokens=3)
    for name in (*ADAPTERS, None) * 2:
        decoder.adapter = name
        fresh, kept = (generate(decoder, [prompt], config, prefix_cache=each)[0] for each in (None, cache))
        np.testing.assert_array_equal(fresh.tokens, kept.tokens)
        np.testing.assert_allclose(fresh.log_probs, kept.log_probs, atol=1e-5)
    assert (cache.hits, cache.misses) == (3, 3)
    cache.clear()


def test_in_several_sessions(wrapper: OnnxWrapper) -> None:
    for name in (*ADAPTERS, None):
        check(wrapper.get_new_version(adapter=name, sessions=2), name)


def test_the_decoders_own_adapter_stays(wrapper: OnnxWrapper) -> None:
    wrapper.model.adapter = "casual"
    check(wrapper, "formal")
    assert wrapper.model.adapter == "casual"
    check(wrapper.get_new_version(adapter=None), None)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_copies(wrapper: OnnxWrapper, copied: Callable[[OnnxWrapper], OnnxWrapper]) -> None:
    check(copied(wrapper), "formal")
    check(copied(wrapper).get_new_version(adapter="casual"), "casual")


def test_names_that_are_none(wrapper: OnnxWrapper, scripted_model: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"adapter must be None or .*'formal', 'casual'\), got 'rude'"):
        wrapper.get_new_version(adapter="rude")
    with pytest.raises(ValueError, match="none was given"):
        OnnxWrapper(scripted_model(), input_mode="tokens", adapter="formal")
    with pytest.raises(ValueError, match=r"adapters=.* is for a model given as a path"):
        OnnxWrapper(OnnxDecoder(FOLDER), input_mode="tokens", adapters=FILES)


def test_a_file_while_the_model_is_open(wrapper: OnnxWrapper) -> None:
    plain = wrapper.get_new_version(model=OnnxDecoder(FOLDER), adapter=None, adapters=None)
    check(plain, None)
    plain.use_adapter("new", FILES["casual"])
    check(plain, "casual")
    plain.use_adapter("new", str(FILES["formal"]))
    check(plain, "formal")
    check(plain.get_new_version(adapter=None), None)


def test_another_model_begins_without_adapters(wrapper: OnnxWrapper) -> None:
    other = wrapper.get_new_version(model=MODELS / "handmade-no-cache")
    assert other.model.adapters == ()
    assert len(answer(other)[0]) == 4
