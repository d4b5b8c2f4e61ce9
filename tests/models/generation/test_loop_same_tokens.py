"""Same seed, same tokens: whatever is in the batch, kept from before, guessed, replaced or run again."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.models.real_models import STANDING, assert_same_response, open_model
from helpers.models.responses import assert_same_responses
from helpers.models.scripted_decoder import VOCABULARY, ScriptedDecoder
from helpers.tiers import standing_for_all
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.models import GenerationConfig, PrefixCache, generate, generate_each, stream

PIECES = [np.random.default_rng(i).integers(0, VOCABULARY, n) for i, n in enumerate((18, 20, 3, 1, 2))]


def darker(ids: Any, scores: Any) -> None:
    """A function of the user: what has just come is less likely."""
    scores[ids[-3:]] -= 1.5


def spelt(ids: Any) -> str:
    return "".join(chr(97 + int(i)) for i in ids)


prompts = st.lists(st.integers(0, len(PIECES) - 1), min_size=1, max_size=4).map(
    lambda which: np.concatenate([PIECES[i] for i in which])
)
configs = st.builds(
    GenerationConfig, max_new_tokens=st.integers(0, 12), do_sample=st.booleans(),
    temperature=st.sampled_from([0.4, 1.0, 2.0]), top_k=st.sampled_from([None, 5]),
    top_p=st.sampled_from([1.0, 0.8]), repetition_penalty=st.sampled_from([1.0, 1.3]),
    no_repeat_ngram_size=st.sampled_from([0, 0, 3]), min_new_tokens=st.sampled_from([0, 0, 4]),
    presence_penalty=st.sampled_from([0.0, 0.0, 0.7]),
    logits_processor=st.sampled_from([(), (), (darker,)]), sampled_log_probs=st.booleans(),
    logprobs=st.sampled_from([0, 0, 3]), kept_ids=st.booleans(),
    stop_sequences=st.sampled_from([(), (), ("cd", "q"), ("a",)]),
    eos_token_ids=st.sampled_from([(), (3, 9)]), prompt_lookup_num_tokens=st.sampled_from([None, 1, 4]),
    max_matching_ngram_size=st.sampled_from([1, 2, 3]), num_assistant_tokens=st.sampled_from([1, 3, 20]),
    num_beams=st.sampled_from([1, 1, 1, 3, 4]),
)  # fmt: skip
asked = st.lists(st.tuples(prompts, configs, st.booleans()), min_size=1, max_size=6)
calls = st.fixed_dictionaries(
    {
        "asked": asked,
        "seed": st.integers(0, 50),
        "num_samples": st.sampled_from([1, 1, 2, 3]),
        "max_rows": st.sampled_from([None, 1, 2, 3]),
        "cached": st.booleans(),
        "assisted": st.booleans(),
        "adapter": st.sampled_from([None, None, "tuned"]),
        "form": st.sampled_from(["generate", "each", "stream", "closed", "left", "failed"]),
    }
)


def alone(adapter: str | None, prompt: Any, config: GenerationConfig, seeds: Any) -> list[Any]:
    """The samples of a prompt, drawn one by one, or what is found in one search."""
    decoder = ScriptedDecoder(context_length=70)
    decoder.adapter = adapter
    plain = GenerationConfig(**{**vars(config), "prompt_lookup_num_tokens": None})
    if config.num_beams > 1:
        return generate(decoder, [prompt], plain, seeds=seeds, num_samples=len(seeds), decode_text=spelt)
    parts = [seeds[i : i + 1] for i in range(len(seeds))]
    return [generate(decoder, [prompt], plain, seeds=part, decode_text=spelt)[0] for part in parts]


@pytest.mark.depth
@settings(max_examples=20)
@given(
    program=st.lists(calls, min_size=1, max_size=4),
    rows_per_run=st.sampled_from([1, 8]),
    room=st.sampled_from([300, 1000, 10_000]),
)
def test_any_program(program: list[dict[str, Any]], rows_per_run: int, room: int) -> None:
    decoder = ScriptedDecoder(context_length=70, rows_per_run=rows_per_run)
    assistant = ScriptedDecoder(context_length=60, noise=0.6)
    cache = PrefixCache(decoder, room)
    chats: list[Any] = []
    for call in program:
        decoder.adapter = call["adapter"]
        texts, options, going_on = zip(*call["asked"], strict=True)
        texts = [
            np.append(chats[i % len(chats)], text[:3])[:70] if goes_on and chats else text[:70]
            for i, (text, goes_on) in enumerate(zip(texts, going_on, strict=True))
        ]
        if call["form"] in ("stream", "closed"):
            options = [replace(one, num_beams=1) for one in options]
        samples = call["num_samples"]
        count = len(texts) * samples
        seeds = np.arange(call["seed"], call["seed"] + count, dtype=np.uint64)
        more = {
            "seeds": seeds, "num_samples": samples, "prefix_cache": cache if call["cached"] else None,
            "assistant_model": assistant if call["assisted"] else None, "decode_text": spelt,
        }  # fmt: skip
        form, max_rows = call["form"], call["max_rows"]
        expected = [
            one
            for i, text in enumerate(texts)
            for one in alone(decoder.adapter, text, options[i], seeds[i * samples : (i + 1) * samples])
        ]
        chats = [np.append(text, one.tokens) for text, one in zip(texts, expected[::samples], strict=True)]
        if form == "failed":
            decoder.fail_in = 3
            with contextlib.suppress(RuntimeError):
                generate(decoder, texts, options, max_rows=max_rows, **more)
            decoder.fail_in = -1
        elif form == "left":
            each = generate_each(decoder, iter(texts), iter(options), max_rows=max_rows or 8, **more)
            next(each)
            each.close()
        elif form == "closed":
            steps = stream(decoder, texts, options, max_rows=max_rows, **more)
            next(steps, None)
            next(steps, None)
            steps.close()
        elif form == "stream":
            got: list[list[int]] = [[] for _ in range(count)]
            for step in stream(decoder, texts, options, max_rows=max_rows, **more):
                for row, token in zip(step.rows, step.tokens.tolist(), strict=True):
                    got[row].append(token)
            assert got == [response.tokens.tolist() for response in expected]
        elif form == "each":
            found = dict(generate_each(decoder, iter(texts), iter(options), max_rows=max_rows or 8, **more))
            assert len(found) == count
            assert_same_responses([found[i] for i in range(count)], expected)
        else:
            out = generate(decoder, texts, options, max_rows=max_rows, **more)
            assert_same_responses(out, expected)
        assert len(decoder.rows) == cache.rows
        assert cache.nbytes <= room
        assert not assistant.rows


@pytest.mark.parametrize("model", standing_for_all(STANDING))
def test_real_exports(model: str) -> None:
    """Programs of several calls on one decoder and cache, each response against itself alone."""
    decoder, assistant = (open_model(model) for _ in range(2))
    cache = PrefixCache(decoder, 40 * max(1, decoder.bytes_per_token) * 6)
    rng = np.random.default_rng(4)
    pieces = [rng.integers(3, 500, n) for n in (25, 17, 4, 1)]
    for _ in range(3):
        texts = [np.concatenate([pieces[i] for i in rng.integers(0, 4, 3)]) for _ in range(5)]
        options = [
            GenerationConfig(
                max_new_tokens=int(rng.integers(1, 12)), do_sample=bool(rng.integers(2)), temperature=0.9,
                prompt_lookup_num_tokens=[None, 4][rng.integers(2)], num_beams=[1, 1, 3][rng.integers(3)],
            )
            for _ in texts
        ]  # fmt: skip
        seeds = rng.integers(0, 2**60, 5).astype(np.uint64)
        out = generate(
            decoder, texts, options, seeds=seeds, max_rows=[None, 1, 3][rng.integers(3)],
            prefix_cache=[None, cache][rng.integers(2)],
            assistant_model=[None, assistant][rng.integers(2)],
        )  # fmt: skip
        for i, ours in enumerate(out):
            (theirs,) = generate(decoder, [texts[i]], options[i], seeds=seeds[i : i + 1])
            assert_same_response(model, ours, theirs)
    cache.clear()
    assert (decoder.lengths == 0).all()
