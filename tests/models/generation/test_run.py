"""Rows that end are replaced, and nothing of that shows in the responses."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.responses import assert_same_responses
from helpers.models.scripted_decoder import VOCABULARY, ScriptedDecoder

from lite.models import GenerationConfig, generate, generate_each, score, stream
from lite.models.generation import run
from lite.models.generation.speculation import Speculation

SAMPLED = GenerationConfig(max_new_tokens=12, do_sample=True, temperature=0.9, top_k=9, eos_token_ids=(3,))


def prompts(count: int, rng: np.random.Generator, vocabulary: int = VOCABULARY) -> list[Any]:
    return [rng.integers(0, vocabulary, rng.integers(1, 12)) for _ in range(count)]


def seeds(count: int) -> Any:
    return np.arange(50, 50 + count, dtype=np.uint64)


@pytest.mark.parametrize(("max_rows", "num_samples"), [(1, 1), (4, 3), (100, 1)])
def test_as_many_rows_as_are_allowed(max_rows: int, num_samples: int, rng: np.random.Generator) -> None:
    texts = prompts(9, rng)
    count = len(texts) * num_samples
    whole = generate(ScriptedDecoder(), texts, SAMPLED, seeds=seeds(count), num_samples=num_samples)
    decoder = ScriptedDecoder()
    few = generate(decoder, texts, SAMPLED, seeds=seeds(count), num_samples=num_samples, max_rows=max_rows)
    assert_same_responses(few, whole, atol=1e-6)
    assert decoder.most_rows == min(max_rows, count)
    assert not decoder.rows


def test_rows_that_end_are_replaced_at_once(rng: np.random.Generator) -> None:
    """Two rows, one long response beside many short ones: no step runs a row alone while others wait."""
    lengths = [20, 2, 3, 4, 5, 6]
    configs = [GenerationConfig(max_new_tokens=n) for n in lengths]
    decoder = ScriptedDecoder()
    generate(decoder, prompts(6, rng), configs, max_rows=2)
    assert decoder.steps == 19  # those of the longest: the others end within them


def test_each_response_as_it_ends(rng: np.random.Generator) -> None:
    texts, lengths = prompts(7, rng), [5, 1, 1, 3, 0, 1, 2]
    configs = [GenerationConfig(max_new_tokens=n) for n in lengths]
    out = list(generate_each(ScriptedDecoder(), iter(texts), iter(configs), max_rows=2))
    assert [number for number, _ in out] == [1, 2, 3, 4, 5, 6, 0]
    found = [response for _, response in sorted(out, key=lambda pair: pair[0])]
    assert_same_responses(found, generate(ScriptedDecoder(), texts, configs), atol=1e-6)


def test_a_later_prompt_may_ask_for_guesses(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Speculation] = []
    monkeypatch.setattr(run, "Speculation", lambda *args: made.append(Speculation(*args)) or made[0])
    config = GenerationConfig(max_new_tokens=3)
    configs = iter([config, config, replace(config, prompt_lookup_num_tokens=2)])
    list(generate_each(ScriptedDecoder(), iter(prompts(3, rng)), configs, max_rows=1))
    assert len(made) == 1


def test_prompts_are_asked_for_when_there_is_room(rng: np.random.Generator) -> None:
    asked = 0

    def endless() -> Iterator[Any]:
        nonlocal asked
        while True:
            asked += 1
            yield rng.integers(0, VOCABULARY, 5)

    decoder = ScriptedDecoder()
    config = GenerationConfig(max_new_tokens=3)
    out = generate_each(decoder, endless(), config, seeds=itertools.count(), max_rows=4)
    for taken, _ in enumerate(itertools.islice(out, 50)):
        assert asked <= taken + 2 * 4
    assert decoder.most_rows == 4
    out.close()
    assert not decoder.rows


def test_prompts_may_come_in_one_buffer(rng: np.random.Generator) -> None:
    texts = rng.integers(0, VOCABULARY, (6, 5))

    def written_over() -> Iterator[Any]:
        buffer = np.zeros(5, np.int64)
        for text in texts:
            buffer[:] = text
            yield buffer

    out = dict(
        generate_each(ScriptedDecoder(), written_over(), SAMPLED, seeds=itertools.count(50), max_rows=3)
    )
    theirs = generate(ScriptedDecoder(), list(texts), SAMPLED, seeds=seeds(6))
    assert_same_responses([out[number] for number in range(6)], theirs, atol=1e-6)


def test_without_seeds_responses_differ() -> None:
    config = GenerationConfig(max_new_tokens=30, do_sample=True, temperature=3.0)
    out = [r.tokens.tolist() for _, r in generate_each(ScriptedDecoder(), [[1, 2]] * 4, config)]
    assert len({tuple(tokens) for tokens in out}) == 4


def test_a_stream_of_few_rows(rng: np.random.Generator) -> None:
    texts = prompts(6, rng)
    whole = generate(ScriptedDecoder(), texts, SAMPLED, seeds=seeds(6))
    tokens: list[list[int]] = [[] for _ in texts]
    finished: dict[int, str] = {}
    for index, step in enumerate(stream(ScriptedDecoder(), texts, SAMPLED, seeds=seeds(6), max_rows=2)):
        assert step.index == index
        assert len(step.rows) <= 2
        for row, token in zip(step.rows, step.tokens.tolist(), strict=True):
            assert row not in finished
            tokens[row].append(token)
        finished |= step.finished
    assert tokens == [response.tokens.tolist() for response in whole]
    assert finished == {i: response.finish_reason for i, response in enumerate(whole)}


def test_a_failure_gives_the_rows_back(rng: np.random.Generator) -> None:
    decoder = ScriptedDecoder()
    decoder.fail_in = 7
    with pytest.raises(RuntimeError, match="the model fails"):
        generate(decoder, prompts(9, rng), SAMPLED, seeds=seeds(9), max_rows=3)
    assert not decoder.rows


def test_a_bad_prompt_is_met_when_it_is_its_turn() -> None:
    decoder = ScriptedDecoder()
    out = generate_each(decoder, [[1], [2], [], [3]], GenerationConfig(max_new_tokens=2), max_rows=1)
    assert [next(out)[0], next(out)[0]] == [0, 1]
    raises(ValueError, "prompt 2: ids must be tokens", next, out)
    assert not decoder.rows
    raises(ValueError, "prompt 1: ids must be tokens", generate, decoder, [[1], [], [2]], GenerationConfig())
    raises(ValueError, "row 1: ids must be tokens", score, decoder, [np.array([1]), np.array([], np.int64)])


def test_bad_arguments() -> None:
    decoder, config = ScriptedDecoder(), GenerationConfig(max_new_tokens=2)
    for call in (generate, generate_each):
        raises(ValueError, "max_rows must be at least 1, got 0", call, decoder, [[1]], config, max_rows=0)
    raises(ValueError, "num_samples must be at least 1", generate_each, decoder, [[1]], config, num_samples=0)
    raises(ValueError, "there is none for prompt 1", list, generate_each(decoder, [[1], [2]], [config]))
    few = generate_each(decoder, [[1], [2]], config, seeds=[4])
    raises(ValueError, "there is none for number 1", list, few)
    assert not decoder.rows
