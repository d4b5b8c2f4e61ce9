"""Rows kept after a call: less is read, and nothing else changes."""

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.real_models import assert_same_response, open_model
from helpers.models.scripted_decoder import VOCABULARY, ScriptedDecoder
from numpy.typing import NDArray

from lite.models import GenerationConfig, PrefixCache, generate, stream

CONFIG = GenerationConfig(max_new_tokens=6, do_sample=True, temperature=0.7)


def text(rng: np.random.Generator, length: int) -> NDArray[np.int64]:
    return rng.integers(0, VOCABULARY, length)


def ask(
    decoder: Any, prompts: list[Any], cache: PrefixCache | None = None, **options: Any
) -> list[list[int]]:
    seeds = np.arange(len(prompts) * options.get("num_samples", 1), dtype=np.uint64)
    config = options.pop("config", CONFIG)
    out = generate(decoder, prompts, config, seeds=seeds, prefix_cache=cache, **options)
    return [response.tokens.tolist() for response in out]


def test_a_conversation_is_read_once(rng: np.random.Generator) -> None:
    decoder = ScriptedDecoder()
    cache = PrefixCache(decoder, 10_000)
    chat = text(rng, 20)
    read = 0
    for turn in range(5):
        decoder.run_tokens = 0
        (response,) = ask(decoder, [chat], cache)
        assert [response] == ask(ScriptedDecoder(), [chat])
        assert decoder.run_tokens == (20 if turn == 0 else 1 + 4)  # the last token was never run
        read += len(chat)
        chat = np.concatenate([chat, response, text(rng, 4)])
    assert cache.state() == {"hits": 4, "misses": 1, "tokens_reused": read - 20 - 4 * 5, "rows": 1,
                             "nbytes": 10 * (len(chat) - 4 - 1)}  # fmt: skip
    assert len(decoder.rows) == 1
    cache.clear()
    assert not decoder.rows
    assert cache.rows == cache.nbytes == 0


@pytest.mark.parametrize("max_rows", [None, 1, 2])
def test_another_turn_instead(max_rows: int | None, rng: np.random.Generator) -> None:
    """A prompt that leaves the conversation early gets a copy; the conversation stays."""
    decoder = ScriptedDecoder()
    cache = PrefixCache(decoder, 10_000)
    chat = text(rng, 30)
    (response,) = ask(decoder, [chat], cache)
    others = [np.append(chat[:20], text(rng, 3)), np.append(chat[:25], text(rng, 3)), chat]
    decoder.run_tokens = 0
    assert ask(decoder, others, cache, max_rows=max_rows) == ask(ScriptedDecoder(), others)
    assert decoder.run_tokens <= 3 + 3 + 1
    decoder.run_tokens = 0
    ask(decoder, [np.concatenate([chat, response, [1]])], cache)
    assert decoder.run_tokens == 2
    assert len(decoder.rows) == cache.rows


def test_samples_are_kept_and_found(rng: np.random.Generator) -> None:
    decoder = ScriptedDecoder()
    cache = PrefixCache(decoder, 10_000)
    prompt = text(rng, 20)
    out = ask(decoder, [prompt], cache, num_samples=3)
    assert out == ask(ScriptedDecoder(), [prompt], num_samples=3)
    assert cache.rows == 3
    longer = [np.concatenate([prompt, tokens, [2]]) for tokens in out]
    decoder.run_tokens = 0
    assert ask(decoder, longer, cache, num_samples=2) == ask(ScriptedDecoder(), longer, num_samples=2)
    assert decoder.run_tokens == 3 * 2


def test_what_was_used_longest_ago_goes_first(rng: np.random.Generator) -> None:
    decoder = ScriptedDecoder()
    one = GenerationConfig(max_new_tokens=1)  # rows of 20 tokens are left: 200 bytes
    chats = [text(rng, 20) for _ in range(4)]
    cache = PrefixCache(decoder, 650)
    for chat in (*chats[:3], np.append(chats[0][:19], 1), chats[3]):
        ask(decoder, [chat], cache, config=one)
        assert cache.nbytes <= 650
    assert [cache.longest(np.append(chat, 1)) > 15 for chat in chats] == [True, False, False, True]
    few = PrefixCache(decoder, 10_000, max_rows=2)
    ask(decoder, chats, few, config=one)
    assert few.rows == 2
    none = PrefixCache(decoder, 199)
    ask(decoder, chats, none, config=one)
    assert none.rows == 0
    cache.clear()
    few.clear()
    assert not decoder.rows


def test_adapters_do_not_mix(rng: np.random.Generator) -> None:
    decoder, chat = ScriptedDecoder(), text(rng, 30)
    cache = PrefixCache(decoder, 10_000)
    plain = ask(decoder, [chat], cache)
    decoder.adapter = "tuned"
    tuned = ask(decoder, [chat], cache)
    assert cache.hits == 0
    assert tuned != plain
    assert ask(decoder, [chat], cache) == tuned
    decoder.adapter = None
    assert ask(decoder, [chat], cache) == plain
    assert cache.hits == 2
    steps = stream(decoder, [text(rng, 30)], CONFIG, prefix_cache=cache)
    next(steps)
    decoder.adapter = "tuned"  # while a response is written
    rows = cache.rows
    list(steps)
    assert cache.rows == rows


def test_rows_of_older_values_of_an_adapter_are_given_back(rng: np.random.Generator) -> None:
    decoder, chat = ScriptedDecoder(), text(rng, 30)
    cache = PrefixCache(decoder, 10_000)
    decoder.adapter, decoder.adapter_version = "tuned", 0
    said = ask(decoder, [chat], cache)
    decoder.adapter_version = 1
    assert cache.longest(np.append(chat, 7)) == 0
    assert ask(decoder, [chat], cache) == said
    assert (cache.hits, cache.rows) == (0, 1)
    steps = stream(decoder, [text(rng, 30)], CONFIG, prefix_cache=cache)
    next(steps)
    decoder.adapter_version = 2  # while a response is written
    rows = cache.rows
    list(steps)
    assert cache.rows == rows


def test_after_a_failure(rng: np.random.Generator) -> None:
    decoder = ScriptedDecoder()
    cache = PrefixCache(decoder, 10_000)
    chats = [text(rng, 30) for _ in range(3)]
    said = ask(decoder, chats, cache)
    longer = [np.concatenate([chat, tokens, [2]]) for chat, tokens in zip(chats, said, strict=True)]
    for fail_in in (1, 3):
        decoder.fail_in = fail_in
        raises(RuntimeError, "the model fails", lambda: ask(decoder, longer, cache))
        assert len(decoder.rows) == cache.rows
    assert ask(decoder, longer, cache) == ask(ScriptedDecoder(), longer)
    assert len(decoder.rows) == cache.rows


def test_a_full_context(rng: np.random.Generator) -> None:
    decoder = ScriptedDecoder(context_length=32)
    cache = PrefixCache(decoder, 10_000)
    chat = text(rng, 29)
    (said,) = ask(decoder, [chat], cache)
    assert len(said) == 3
    full = np.append(chat, said)
    assert ask(decoder, [full, full[:31]], cache) == ask(
        ScriptedDecoder(context_length=32), [full, full[:31]]
    )
    raises(ValueError, "context", lambda: ask(decoder, [np.append(full, 1)], cache))
    assert len(decoder.rows) == cache.rows


def test_a_closed_stream_keeps_what_had_ended(rng: np.random.Generator) -> None:
    decoder = ScriptedDecoder()
    cache = PrefixCache(decoder, 10_000)
    configs = [GenerationConfig(max_new_tokens=n) for n in (1, 9)]
    steps = stream(decoder, [text(rng, 20), text(rng, 20)], configs, prefix_cache=cache)
    next(steps)
    next(steps)
    steps.close()
    assert cache.rows == len(decoder.rows) == 1


@pytest.mark.usefixtures("only_new_garbage")
def test_a_cache_that_is_gone_leaves_no_rows(rng: np.random.Generator) -> None:
    decoder = ScriptedDecoder()
    cache = PrefixCache(decoder, 10_000)
    ask(decoder, [text(rng, 20)], cache)
    del cache
    gc.collect()
    ask(decoder, [text(rng, 20)])
    assert not decoder.rows


def test_bad_arguments() -> None:
    decoder = ScriptedDecoder()
    for error, message, given, options in (
        (TypeError, "decoder must have the interface of lite", (object(), 100), {}),
        (ValueError, "max_bytes must be an integer of at least 0, got -1", (decoder, -1), {}),
        (TypeError, r"max_bytes must be an integer, got 1000000\.0", (decoder, 1e6), {}),
        (ValueError, "max_rows must be an integer of at least 0, got True", (decoder, 1), {"max_rows": True}),
    ):
        raises(error, message, PrefixCache, *given, **options)
    other = PrefixCache(decoder, 100)
    raises(ValueError, "prefix_cache must be one of this decoder", ask, ScriptedDecoder(), [[1]], other)


@pytest.mark.depth
def test_threads_share_a_cache(rng: np.random.Generator) -> None:
    decoder = open_model("genai-llama-fp32")
    cache = PrefixCache(decoder, 40 * decoder.bytes_per_token * 3)
    header = rng.integers(0, 500, 20)

    def chat(number: int) -> list[list[int]]:
        own = np.append(header, [number])
        said = []
        for turn in range(3):
            (tokens,) = ask(decoder, [own], cache)
            said.append(tokens)
            own = np.concatenate([own, tokens, [turn]])
        return said

    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(chat, range(6)))
    cache.clear()
    assert (decoder.lengths == 0).all()
    assert together == [chat(number) for number in range(6)]
    assert cache.nbytes <= cache.max_bytes


@pytest.mark.parametrize("model", ["optimum-llama", "handmade-no-cache"])
def test_real_exports(model: str, rng: np.random.Generator) -> None:
    decoder = open_model(model)
    cache = PrefixCache(decoder, 2**24)
    chats = [rng.integers(0, 500, 20 + i) for i in range(3)]
    config = GenerationConfig(max_new_tokens=8)
    for _ in range(3):
        with_cache = generate(decoder, chats, config, prefix_cache=cache)
        for ours, theirs in zip(with_cache, generate(decoder, chats, config), strict=True):
            assert_same_response(model, ours, theirs)
        chats = [
            np.concatenate([chat, response.tokens, rng.integers(0, 500, 3)])
            for chat, response in zip(chats, with_cache, strict=True)
        ]
    if decoder.bytes_per_token:
        assert cache.hits == 6
        assert cache.rows == 3
    else:
        assert cache.state() == {"hits": 0, "misses": 9, "tokens_reused": 0, "rows": 0, "nbytes": 0}
    cache.clear()
    assert (decoder.lengths == 0).all()
