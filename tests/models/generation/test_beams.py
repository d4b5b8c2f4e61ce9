"""Beam search: what it says of each response, on which rows it runs, and what ends it."""

import itertools
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.real_models import open_model
from helpers.models.responses import assert_same_responses
from helpers.models.scripted_decoder import VOCABULARY, ScriptedDecoder
from helpers.models.table_model import TableModel

from lite.models import GenerationConfig, PrefixCache, generate, generate_each, score_details, stream

PROMPT = [1, 2, 3]


def of(**options: Any) -> GenerationConfig:
    return GenerationConfig.from_kwargs({"num_beams": 3, "max_new_tokens": 6, **options})


def log_probs(model: TableModel, prompt: list[int], tokens: Any) -> np.ndarray:
    """Raw log-probs of a response, one by one."""
    ids, out = list(prompt), []
    for token in tokens:
        logits = model.logits(ids).astype(np.float64)
        out.append(logits[token] - np.log(np.exp(logits).sum()))
        ids.append(int(token))
    return np.array(out)


def test_log_probs_and_score() -> None:
    for penalty in (1.0, 0.0, -1.0):
        model = TableModel.random(0)
        found = generate(model, [PROMPT], of(length_penalty=penalty, eos_token_id=0), num_samples=3)
        assert len({tuple(one.tokens.tolist()) for one in found}) == 3, penalty
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True), penalty
        for one in found:
            expected = log_probs(model, PROMPT, one.tokens)
            np.testing.assert_allclose(one.log_probs, expected, atol=1e-5, err_msg=str(penalty))
            np.testing.assert_allclose(one.score, expected.sum() / len(one.tokens) ** penalty, rtol=1e-5)
            assert one.finish_reason == ("eos" if one.tokens[-1] == 0 else "length"), penalty


def test_wide_beams_find_the_most_probable_response() -> None:
    model = TableModel.random(1, vocab_size=4)
    (best,) = generate(model, [PROMPT], of(num_beams=64, max_new_tokens=4, length_penalty=0.0))
    every = list(itertools.product(range(4), repeat=4))
    scores = [log_probs(model, PROMPT, tokens).sum() for tokens in every]
    assert tuple(best.tokens.tolist()) == every[int(np.argmax(scores))]
    np.testing.assert_allclose(best.score, max(scores), rtol=1e-5)


def test_log_probs_are_of_the_model_whatever_is_banned() -> None:
    model = TableModel.random(2)
    options = {"no_repeat_ngram_size": 1, "repetition_penalty": 1.5, "sequence_bias": {(4,): 3.0}}
    (found,) = generate(model, [PROMPT], of(**options))
    np.testing.assert_allclose(found.log_probs, log_probs(model, PROMPT, found.tokens), atol=1e-5)
    assert found.score != pytest.approx(found.log_probs.sum() / 6, abs=1e-3)
    assert len({*PROMPT, *found.tokens.tolist()}) == 9


def test_rows_are_copied_only_for_beams_that_part() -> None:
    logits = np.full((1, 8), -20.0, np.float32)  # one path is far ahead: two beams follow it at each step
    model = TableModel(logits + np.arange(8, dtype=np.float32) * 4)
    generate(model, [PROMPT], of(num_beams=2, max_new_tokens=5))
    assert model.runs == [2] * 4
    assert model.forks <= 4
    assert not model.rows


def test_rows_at_a_time() -> None:
    cases: list[tuple[int | None, list[int]]] = [(None, [9, 9]), (7, [6, 6, 3, 3]), (1, [3] * 6)]
    for max_rows, expected in cases:
        model, prompts = TableModel.random(3), [PROMPT, [4], [5, 6]]
        found = generate(model, prompts, of(max_new_tokens=3), max_rows=max_rows)
        assert model.runs == expected, max_rows
        for prompt, one in zip(prompts, found, strict=True):
            (alone,) = generate(model, [prompt], of(max_new_tokens=3))
            np.testing.assert_array_equal(one.tokens, alone.tokens, err_msg=str(max_rows))


def test_beams_beside_other_prompts() -> None:
    """They share runs, which a search or a response that is over leaves."""
    model = TableModel.random(4)
    prompts, seeds = [PROMPT, [4], [5, 6]], np.arange(6, dtype=np.uint64)
    drawn, found = GenerationConfig(max_new_tokens=5, do_sample=True), of(max_new_tokens=3)
    together = generate(model, prompts, [drawn, found, drawn], num_samples=2, seeds=seeds)
    assert model.runs == [7, 7, 4, 4]
    for i, own in enumerate([drawn, found, drawn]):
        alone = generate(model, prompts[i : i + 1], own, num_samples=2, seeds=seeds[2 * i : 2 * i + 2])
        assert_same_responses(together[2 * i : 2 * i + 2], alone)


def test_a_search_that_has_enough_ends() -> None:
    """At once, where no beam is better now, or where none can become so up to the longest response."""
    for probs, early, runs in (
        ([0.35, 0.4, 0.25], True, 1),
        ([0.35, 0.4, 0.25], False, 5),
        ([0.6, 0.3, 0.1], False, 1),
        ([0.6, 0.3, 0.1], "never", 4),
    ):
        model = TableModel(np.log(np.array([probs], np.float32)))
        generate(model, [PROMPT], of(num_beams=2, eos_token_id=0, early_stopping=early))
        assert len(model.runs) == runs, (probs, early)


# -- beams that are drawn ------------------------------------------------------------------------

DRAWN: dict[str, Any] = {"do_sample": True, "temperature": 1.3, "top_k": 7, "eos_token_id": 0}


def test_draws_follow_the_seed_whatever_the_batch() -> None:
    model = TableModel.random(9)
    prompts, seeds = [PROMPT, [4], PROMPT, [5, 6]], np.array([3, 1, 4, 1, 3, 1, 5, 9], np.uint64)
    together = generate(model, prompts, of(**DRAWN), num_samples=2, seeds=seeds)
    for max_rows in (1, 4, 7):
        again = generate(model, prompts, of(**DRAWN), num_samples=2, seeds=seeds, max_rows=max_rows)
        assert_same_responses(again, together)
    for i, prompt in enumerate(prompts):
        alone = generate(model, [prompt], of(**DRAWN), num_samples=2, seeds=seeds[2 * i : 2 * i + 2])
        assert_same_responses(alone, together[2 * i : 2 * i + 2])
    found = [generate(model, [PROMPT], of(**DRAWN), seeds=np.array([seed]))[0] for seed in range(20)]
    assert len({tuple(one.tokens.tolist()) for one in found}) > 5


@pytest.mark.depth
def test_beams_are_drawn_from_all_continuations_without_replacement() -> None:
    """Four are drawn in one step, of which the best two go on: as often as those are the best of four."""
    logits = np.log(np.array([[0.3, 0.25, 0.2, 0.12, 0.08, 0.05]], np.float32))
    model, pairs, expected = TableModel(logits), np.zeros((6, 6)), np.zeros((6, 6))
    config = of(num_beams=2, max_new_tokens=1, do_sample=True)
    for seed in range(800):
        one, two = generate(model, [PROMPT], config, num_samples=2, seeds=np.array([seed, 0]))
        pairs[one.tokens[0], two.tokens[0]] += 1
    for drawn in itertools.permutations(range(6), 4):
        probs = np.exp(logits[0, list(drawn)])
        best = tuple(sorted(drawn)[:2])  # tokens of small numbers are the likely ones
        expected[best] += np.prod(probs / (1 - np.cumsum(probs) + probs))
    np.testing.assert_allclose(expected.sum(), 1, rtol=1e-6)
    np.testing.assert_allclose(pairs / 800, expected, atol=4 * 0.5 / 800**0.5)


def test_drawn_beams_end_where_they_are_among_the_best() -> None:
    """In whatever order they were drawn, which are all four here."""
    model = TableModel(np.log(np.array([[0.4, 0.3, 0.2, 0.1]], np.float32)))
    for eos, ends in ((1, True), (2, False)):
        config = of(num_beams=2, max_new_tokens=2, do_sample=True, eos_token_id=eos, length_penalty=-1.0)
        for one in generate(model, [PROMPT] * 6, config, seeds=np.arange(6)):
            assert (one.tokens.tolist() == [eos]) is ends


def test_a_temperature_of_0_is_a_search() -> None:
    model = TableModel.random(6)
    drawn = generate(model, [PROMPT], of(do_sample=True, temperature=0.0))
    assert_same_responses(drawn, generate(model, [PROMPT], of()))


# -- what is known of tokens ---------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {"logprobs": 3, "sampled_log_probs": True, "kept_ids": True, "entropy": True}


def test_details_are_those_of_scoring() -> None:
    """Scores at the temperature, of what was kept, are what the beams say."""
    cases: list[dict[str, Any]] = [
        {},
        {"no_repeat_ngram_size": 1},
        {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "bad_words_ids": [[4], [2, 5]]},
        {"do_sample": True, "top_k": 4, "eos_token_id": 0},
    ]
    for options in cases:
        model, warmth = TableModel.random(11), options.get("temperature", 1.0)
        found = generate(model, [PROMPT, [7]], of(**EVERYTHING, **options), num_samples=3, seeds=np.arange(6))
        for i, one in enumerate(found):
            prompt, known = [PROMPT, [7]][i // 3], one.details
            (scored,) = score_details(
                model,
                [np.concatenate([prompt, one.tokens])],
                temperature=warmth,
                supports=[(known.kept_offsets, known.kept_ids)],
            )
            for name, ours in (
                ("log_probs", one.log_probs),
                ("sampled_log_probs", known.sampled_log_probs),
                ("kept_log_mass", known.kept_log_mass),
                ("entropy", known.entropy),
            ):
                np.testing.assert_allclose(
                    getattr(scored, name)[len(prompt) :], ours, atol=1e-5, err_msg=name
                )
            if "no_repeat_ngram_size" in options:
                assert (known.kept_log_mass < 0).all(), options
            assert known.top_ids.shape == known.top_log_probs.shape == (len(one.tokens), 3), options
            for t in range(len(one.tokens)):
                logits = model.logits([*prompt, *one.tokens[:t].tolist()])
                assert known.top_ids[t].tolist() == np.argsort(-logits, kind="stable")[:3].tolist(), options
                assert (known.top_log_probs[t] >= one.log_probs[t] - 1e-6).sum() >= (
                    one.tokens[t] in known.top_ids[t]
                )


def test_fewer_responses_than_beams() -> None:
    logits = np.full((1, 5), -np.inf, np.float32)
    logits[:, [1, 2]] = 0.0, 1.0  # two responses of one token are all that there is
    found = generate(TableModel(logits), [PROMPT], of(max_new_tokens=1, **EVERYTHING), num_samples=3)
    assert [one.tokens.tolist() for one in found] == [[2], [1], []]
    assert found[2].score == -np.inf
    assert [len(one.details.entropy) for one in found] == [1, 1, 0]
    assert found[2].details.kept_offsets.tolist() == [0]
    assert found[2].details.top_ids.shape == (0, 3)


# -- beside other rows, and from call to call ----------------------------------------------------


def test_each_search_as_it_ends() -> None:
    model = TableModel.random(3)
    configs = [of(max_new_tokens=6), GenerationConfig(max_new_tokens=2), of(num_beams=2, max_new_tokens=3)]
    prompts = [PROMPT, [4], [5, 6]]
    out = list(generate_each(model, iter(prompts), iter(configs), num_samples=2, max_rows=7))
    assert [number for number, _ in out] == [2, 3, 4, 5, 0, 1]
    found = [one for _, one in sorted(out, key=lambda pair: pair[0])]
    assert_same_responses(found, generate(model, prompts, configs, num_samples=2))
    assert not model.rows


def test_a_search_of_more_beams_than_rows_is_alone() -> None:
    model = TableModel.random(3)
    configs = [GenerationConfig(max_new_tokens=4), of(num_beams=5, max_new_tokens=3)] * 2
    out = dict(generate_each(model, [PROMPT, [4], [5], [6]], configs, max_rows=2))
    assert model.runs == [1] * 3 + [5] * 2 + [1] * 3 + [5] * 2
    found = [out[number] for number in range(4)]
    assert_same_responses(found, generate(model, [PROMPT, [4], [5], [6]], configs))


def test_a_prefix_is_read_once(rng: np.random.Generator) -> None:
    decoder = ScriptedDecoder(context_length=200)
    cache = PrefixCache(decoder, 10_000)
    chat = rng.integers(0, VOCABULARY, 40)
    for turn in range(3):
        before = decoder.run_tokens
        found = generate(decoder, [chat], of(), num_samples=2, prefix_cache=cache)
        theirs = generate(ScriptedDecoder(context_length=200), [chat], of(), num_samples=2)
        assert_same_responses(found, theirs)
        if turn:
            assert decoder.run_tokens - before <= 4  # what is new, and the last token
        assert len(decoder.rows) == cache.rows
        chat = np.concatenate([chat, found[0].tokens, [turn, 1, 2]])
    assert cache.rows == 1
    assert cache.hits == 2


def test_texts_end_responses() -> None:
    model = TableModel.random(5)
    decode = lambda ids: "".join(chr(97 + i) for i in ids)  # noqa: E731
    plain = generate(model, [PROMPT], of(), num_samples=3)
    stop = decode(plain[0].tokens[1:3])
    found = generate(model, [PROMPT], of(stop_sequences=[stop]), num_samples=3, decode_text=decode)
    ended = [one for one in found if one.finish_reason == "stop"]
    assert ended
    assert all(decode(one.tokens).endswith(stop) for one in ended)
    assert all(stop not in decode(one.tokens) for one in found if one.finish_reason != "stop")


def test_no_room_for_a_response() -> None:
    (found,) = generate(TableModel.random(0), [PROMPT], of(max_new_tokens=0))
    assert (found.tokens.tolist(), found.finish_reason) == ([], "length")


def test_what_is_refused() -> None:
    model, unknown = TableModel.random(0), TableModel(np.array([[0, 1, np.nan, 2]], np.float32))
    for decoder, options, message in (
        (model, {"bad_words_ids": [[12]]}, "bad_words_ids must hold ids below 12"),
        (model, {"stop_sequences": ["a"]}, "stop_sequences need decode_text"),
        (unknown, {}, "logits contain NaN"),
        (model, {"logit_bias": dict.fromkeys(range(12), -np.inf)}, "must leave one of the 12 tokens"),
    ):
        raises(ValueError, message, generate, decoder, [PROMPT], of(**options))
    message = "num_samples must be at most num_beams, got 4 and 3"
    raises(ValueError, message, generate, model, [PROMPT], of(), num_samples=4)
    raises(ValueError, "num_beams must be 1", stream, model, [PROMPT], of())


@pytest.mark.parametrize("name", ["optimum-llama", "handmade-no-cache"])
def test_real_exports(name: str) -> None:
    """Each beam's log-probs are those that the same tokens get when they are scored."""
    decoder = open_model(name)
    prompts = [np.array([3, 4, 5]), np.array([6, 7]), np.array([8, 9, 10, 11])]
    found = generate(decoder, prompts, of(max_new_tokens=5), num_samples=2)
    for i, one in enumerate(found):
        prompt = prompts[i // 2]
        scored = decoder.score(np.concatenate([prompt, one.tokens]))[len(prompt) :]
        np.testing.assert_allclose(one.log_probs, scored, atol=1e-3)
    alone = [
        one for prompt in prompts for one in generate(decoder, [prompt], of(max_new_tokens=5), num_samples=2)
    ]
    assert_same_responses(found, alone, atol=1e-4)
