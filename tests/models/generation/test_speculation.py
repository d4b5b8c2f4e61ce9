"""Guessed tokens save runs and show in nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.responses import assert_same_responses
from helpers.models.scripted_decoder import VOCABULARY, ScriptedDecoder

from lite.models import GenerationConfig, generate, stream
from lite.models.generation.speculation import Lookup, Speculation

GREEDY = GenerationConfig(max_new_tokens=40)
SAMPLED = replace(GREEDY, do_sample=True, temperature=0.4, repetition_penalty=1.1)
CONFIGS = [GREEDY, SAMPLED, replace(GREEDY, eos_token_ids=(3, 4)), replace(SAMPLED, top_p=0.9)]
STOPS = replace(GREEDY, stop_sequences=("<7><", "><2>"))


def looking(config: GenerationConfig, count: int = 5, size: int = 2) -> GenerationConfig:
    return replace(config, prompt_lookup_num_tokens=count, max_matching_ngram_size=size)


def text(ids: Any) -> str:
    return "".join(f"<{i}>" for i in ids)


def ask(decoder: Any, config: Any, count: int = 1, assistant: Any = None, **options: Any) -> list[Any]:
    rng = np.random.default_rng(3)
    prompts = [rng.integers(0, VOCABULARY, 5 + i) for i in range(count)]
    seeds = np.arange(count * options.get("num_samples", 1), dtype=np.uint64)
    return generate(
        decoder, prompts, config, seeds=seeds, decode_text=text, assistant_model=assistant, **options
    )


def same(ours: list[Any], theirs: list[Any]) -> None:
    assert_same_responses(ours, theirs)
    assert all(0 <= one.accepted <= one.drafted for one in ours)


@pytest.mark.parametrize("config", [*CONFIGS, STOPS], ids=range(5))
def test_lookup_changes_nothing(config: GenerationConfig) -> None:
    decoder, count = ScriptedDecoder(rows_per_run=8), 2
    same(ask(decoder, looking(config), count), ask(ScriptedDecoder(), config, count))
    assert not decoder.rows


@pytest.mark.parametrize(
    ("config", "max_rows"), list(zip([*CONFIGS, STOPS], [1, 3, None, 3, 1], strict=True)), ids=range(5)
)
def test_an_assistant_changes_nothing(config: GenerationConfig, max_rows: int | None) -> None:
    decoder, assistant = ScriptedDecoder(rows_per_run=8), ScriptedDecoder(noise=0.6)
    config = replace(config, num_assistant_tokens=4)
    ours = ask(decoder, config, 2, assistant, num_samples=2, max_rows=max_rows)
    same(ours, ask(ScriptedDecoder(), config, 2, num_samples=2))
    assert not decoder.rows
    assert not assistant.rows


def test_runs_are_saved() -> None:
    plain, decoder, drafted = (ScriptedDecoder(noise=0.1) for _ in range(3))
    config = replace(GREEDY, max_new_tokens=80)
    ask(plain, config)
    assert plain.steps == 79
    (ours,) = ask(decoder, looking(config, 10))
    assert ours.accepted > 40
    (assisted,) = ask(drafted, config, 1, ScriptedDecoder(noise=0.2))
    assert assisted.accepted > 50
    for model, response in ((decoder, ours), (drafted, assisted)):
        runs = model.steps + (model.run_tokens - 5 - response.drafted)
        assert runs == 79 - response.accepted


def test_samples_are_guessed_under_their_seed() -> None:
    """The draws of both models are coupled, so an assistant that agrees is right however hot it is."""
    config = replace(GREEDY, do_sample=True, temperature=1.5, num_assistant_tokens=4)
    decoder = ScriptedDecoder()
    (response,) = ask(decoder, config, 1, ScriptedDecoder())
    assert response.accepted == response.drafted > 10


def test_nothing_is_guessed_where_it_does_not_pay() -> None:
    """Where nothing is right, few guesses are made; many rows that run one by one are not guessed for."""
    config = looking(replace(GREEDY, do_sample=True, temperature=50.0, max_new_tokens=300), 10, 1)
    decoder = ScriptedDecoder(context_length=None)
    (response,) = ask(decoder, config)
    assert response.drafted < 90
    many = ask(ScriptedDecoder(), looking(GREEDY, 10), 12)
    assert sum(response.drafted for response in many) == 0
    one = ask(ScriptedDecoder(chunk=1), looking(GREEDY, 10))
    assert one[0].drafted == 0


def test_some_rows_look_up_and_others_do_not() -> None:
    configs = [looking(SAMPLED), SAMPLED, replace(GREEDY, max_new_tokens=3), looking(GREEDY, 3, 1)]
    decoder = ScriptedDecoder(rows_per_run=8)
    ours = ask(decoder, configs, 4)
    same(ours, ask(ScriptedDecoder(), [SAMPLED, SAMPLED, configs[2], GREEDY], 4))
    assert ours[1].drafted == ours[2].drafted == 0
    assert ours[0].drafted
    assert ours[3].drafted


def test_a_context_that_fills_up() -> None:
    for context in (8, 9, 13, 20):
        config = replace(GREEDY, max_new_tokens=100)
        same(
            ask(ScriptedDecoder(context_length=context), looking(config, 10), 3),
            ask(ScriptedDecoder(context_length=context), config, 3),
        )
        assistant = ScriptedDecoder(context_length=context - 4)
        same(
            ask(ScriptedDecoder(context_length=context), config, 3, assistant),
            ask(ScriptedDecoder(context_length=context), config, 3),
        )


def test_a_stream_gives_guessed_tokens_one_by_one() -> None:
    (whole,) = ask(ScriptedDecoder(), GREEDY)
    prompt = np.random.default_rng(3).integers(0, VOCABULARY, 5)
    steps = list(stream(ScriptedDecoder(), [prompt], looking(GREEDY)))
    assert [step.index for step in steps] == list(range(40))
    assert [step.tokens.tolist() for step in steps] == [[token] for token in whole.tokens]
    assert [step.finished for step in steps if step.finished] == [{0: "length"}]


def test_a_failure_gives_the_rows_back() -> None:
    for fail_in in range(1, 12):
        decoder, assistant = ScriptedDecoder(), ScriptedDecoder()
        (decoder if fail_in % 2 else assistant).fail_in = fail_in
        with pytest.raises(RuntimeError, match="the model fails"):
            ask(decoder, GREEDY, 2, assistant)
        assert not decoder.rows
        assert not assistant.rows


def test_bad_arguments() -> None:
    class Small(ScriptedDecoder):
        vocab_size = 7

    class Stiff:
        rows_per_run, vocab_size = 1, VOCABULARY

    decoder, message = (
        ScriptedDecoder(),
        "assistant_model must have the vocabulary of the model, 23 tokens, got 7",
    )
    raises(ValueError, message, ask, decoder, GREEDY, 1, Small())
    message = r"assistant_model must have the interface of .*Stiff lacks some of it"
    raises(TypeError, message, Speculation, decoder, Stiff(), 1)
    raises(TypeError, "decoder must have the interface of", Speculation, Stiff(), None, 1)
    for name in ("prompt_lookup_num_tokens", "max_matching_ngram_size", "num_assistant_tokens"):
        assert getattr(GenerationConfig.from_kwargs({name: 3}), name) == 3
        message = f"{name} must be an integer of at least 1, got 0"
        raises(ValueError, message, GenerationConfig.from_kwargs, {name: 0})


def test_what_is_looked_up() -> None:
    lookup = Lookup(2)
    lookup.read(np.array([1, 2, 3, 1, 2, 4, 5, 1]))
    np.testing.assert_array_equal(lookup.find(2), [2, 4])  # of 1, the last time
    lookup.read(np.array([1, 2, 3, 1, 2, 4, 5, 1, 2]))
    np.testing.assert_array_equal(lookup.find(3), [4, 5, 1])  # of 1 2
    lookup.read(np.array([1, 2, 3, 1, 2, 4, 5, 1, 2, 9]))
    assert len(lookup.find(3)) == 0
    repeating = Lookup(3)
    repeating.read(np.array([7, 8, 7, 8, 7, 8]))
    np.testing.assert_array_equal(repeating.find(5), [7, 8, 7, 8, 7])
