"""Options of generation: renaming, checks in the reference's order, defaults of the model."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite.models import GenerationConfig, ModelConfig
from lite.models.generation.grammar import Grammar

GREEDY = "When do_sample=False (greedy decoding), temperature must be 0. Got temperature="


def of(**kwargs: Any) -> GenerationConfig:
    return GenerationConfig.from_kwargs(kwargs)


def model(**sampling: Any) -> ModelConfig:
    return ModelConfig(graph=Path(), directory=Path(), eos_token_ids=(2,), pad_token_id=3, sampling=sampling)


CHECKS: list[tuple[dict[str, Any], str]] = [
    ({"do_sample": False, "temperature": 0.5}, f"{GREEDY}0.5"),
    ({"do_sample": False, "temperature": -1}, f"{GREEDY}-1"),
    ({"temperature": -0.1}, "Temperature must be non-negative, got -0.1"),
    ({"top_p": 1.5}, "top_p must be between 0 and 1, got 1.5"),
    ({"top_p": -0.5}, "top_p must be between 0 and 1, got -0.5"),
    ({"top_k": -2}, "top_k must be positive, or 0 or -1 for all tokens, got -2"),
    ({"min_p": -0.5}, "min_p must be between 0 and 1, got -0.5"),
    ({"suppress_tokens": 3}, "suppress_tokens must hold ids, got 3"),
    ({"suppress_tokens": [-1]}, "suppress_tokens must be an integer of at least 0, got -1"),
    ({"stop": "a", "stop_sequences": "b"}, "stop is another name of stop_sequences: give one of them"),
    ({"stop": "a", "stop_strings": "b"}, "stop_strings is another name of stop_sequences"),
    ({"guided_json": "{}", "grammar": {"regex": "a"}}, "guided_json is another name of grammar"),
    ({"guided_choice": "a"}, "grammar: 'choice' must be at least one text in a list, got 'a'"),
    ({"guided_choice": 3}, "grammar: 'choice' must be at least one text in a list, got 3"),
    ({"guided_choice": []}, "grammar: 'choice' must be at least one text in a list, got []"),
    ({"guided_choice": {"a"}}, "grammar: 'choice' must be at least one text in a list, got {'a'}"),
    ({"guided_choice": ["a", 3]}, "grammar: 'choice' must be at least one text in a list, got ['a', 3]"),
    ({"ignore_eos": True}, "ignore_eos=True is not an option of lite; use eos_token_id=[]"),
    ({"penalty_alpha": 0.6}, "penalty_alpha=0.6 is not an option of lite"),
    ({"include_stop_str_in_output": False}, "include_stop_str_in_output=False is not an option of lite; use"),
    ({"repetition_penalty": 0}, "repetition_penalty must be positive, got 0"),
    ({"num_beams": 0}, "num_beams must be an integer of at least 1, got 0"),
    ({"num_beams": 2, "n": 3}, "num_return_sequences must be at most num_beams, got 3 and 2"),
    ({"early_stopping": "soon"}, "early_stopping must be True, False or 'never', got 'soon'"),
    ({"length_penalty": float("inf")}, "length_penalty must be finite"),
    ({"min_new_tokens": 65}, "min_new_tokens must be at most max_new_tokens, got 65 and 64"),
    ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size must be an integer of at least 0"),
    ({"bad_words_ids": [[]]}, "bad_words_ids must hold runs of at least one id"),
    ({"bad_words_ids": [3]}, "bad_words_ids must hold runs of ids, got 3"),
    ({"bad_words_ids": 3}, "bad_words_ids must hold runs of ids, got 3"),
    ({"logit_bias": 3}, "logit_bias must map ids to numbers, got 3"),
    ({"bad_words_ids": [[-1]]}, "bad_words_ids must be an integer of at least 0, got -1"),
    ({"typical_p": 0}, "typical_p must be above 0 and at most 1, got 0"),
    ({"presence_penalty": 3}, "presence_penalty must be between -2 and 2, got 3"),
    ({"frequency_penalty": -3}, "frequency_penalty must be between -2 and 2, got -3"),
    ({"logit_bias": {3: float("inf")}}, "logit_bias must be less than infinite, in float32, got inf"),
    ({"logit_bias": {"three": 1.0}}, "an id in logit_bias must be an integer of at least 0, got 'three'"),
    ({"kept_ids": "x"}, "kept_ids must be True or False, got 'x'"),
    ({"do_sample": "x"}, "do_sample must be True or False, got 'x'"),
    ({"entropy": [1]}, "entropy must be True or False, got [1]"),
    ({"sampled_log_probs": np.ones(2)}, "sampled_log_probs must be True or False"),
    ({"grammar": {"regexp": "yes"}, "eos_token_id": 1}, "grammar must hold one of 'json', 'regex'"),
    ({"grammar": {"regexp": "a", "flags": "i"}, "eos_token_id": 1}, "grammar must hold one of"),
    ({"logit_bias": [3]}, "logit_bias must map ids to numbers, got 3"),
    ({"sequence_bias": {(): 1.0}}, "sequence_bias must hold runs of at least one id"),
    ({"sequence_bias": {(1,): "a"}}, "sequence_bias must map ids to numbers"),
    ({"logprobs": -1}, "logprobs must be an integer of at least 0, got -1"),
    ({"grammar": "yes|no", "eos_token_id": 1}, "grammar must be {'json': schema}"),
    ({"grammar": {"regex": "yes|no"}}, "grammar needs an eos_token_id"),
    ({"top_p": 2, "top_k": 0}, "top_p must be between 0 and 1"),
    ({"max_new_tokens": -1}, "max_new_tokens must be an integer of at least 0, got -1"),
    ({"max_new_tokens": 2.5}, "max_new_tokens must be an integer"),
    ({"n": 0}, "num_return_sequences must be an integer of at least 1, got 0"),
    ({"min_p": 2}, "min_p must be between 0 and 1"),
    ({"temperature": float("nan")}, "temperature must be finite"),
    ({"eos_token_id": -3}, "eos_token_id must be an integer of at least 0"),
    ({"stop_sequences": [""]}, "stop_sequences must be non-empty strings"),
    ({"stop_sequences": 5}, "stop_sequences must be non-empty strings, got 5"),
    ({"max_new_tokens": np.array([5, 7])}, "max_new_tokens must be an integer"),
    ({"logit_bias": {3: 1e300}}, "logit_bias must be less than infinite, in float32, got 1e+300 for 3"),
]


def test_checks() -> None:
    for kwargs, message in CHECKS:
        with pytest.raises(ValueError) as error:
            of(**kwargs)
        assert str(error.value).startswith(message), kwargs


def test_unknown_options_warn_and_are_ignored() -> None:
    with pytest.warns(UserWarning, match="top_z, typo"):
        assert of(typo=1, top_z=3, max_new_tokens=5) == GenerationConfig(max_new_tokens=5)


def test_options_without_meaning_here_are_silent() -> None:
    assert of(num_beams=1, length_penalty=1.0, early_stopping=False, logprobs=True) == GenerationConfig()
    assert of(output_scores=True, output_logits=True, return_dict_in_generate=True) == GenerationConfig()
    assert of(num_beam_groups=1, max_time=None, ignore_eos=False, guidance_scale=1.0) == GenerationConfig()


def test_options_that_name_ids_in_any_form() -> None:
    config = of(
        logit_bias={"3": 1, 4: -100.0},
        sequence_bias=[[[1, 2], 0.5]],
        bad_words_ids=np.array([[1, 2], [3, 4]]),
        min_tokens=2,
    )
    assert config.logit_bias == ((3, 1.0), (4, -100.0))
    assert config.sequence_bias == (((1, 2), 0.5),)
    assert config.bad_words_ids == ((1, 2), (3, 4))
    assert of(logit_bias=[[3, 1], [4, 2], [3, 5]]).logit_bias == ((3, 5.0), (4, 2.0))  # as of a mapping
    assert of(logit_bias={4: -1e300}).logit_bias == ((4, -np.inf),)  # what float32 makes of it
    assert config.min_new_tokens == 2
    assert hash(config) == hash(GenerationConfig.from_kwargs({}, config))
    for name in ("logit_bias", "sequence_bias", "bad_words_ids"):
        with pytest.raises(ValueError, match=f"{name} must hold ids below 1 "):
            replace(GenerationConfig(), **{name: getattr(config, name)}).check(1)
    config.check(5)


def test_generation_checks_what_the_constructor_does_not() -> None:
    with pytest.raises(ValueError, match="num_return_sequences must be at most num_beams"):
        GenerationConfig(num_beams=2, num_return_sequences=3).check(5)
    with pytest.raises(ValueError, match="grammar needs an eos_token_id"):
        GenerationConfig(grammar=Grammar("regex", "a")).check(5)


def test_bans_of_everything() -> None:
    cases: list[dict[str, Any]] = [
        {"logit_bias": {0: -np.inf, 1: -np.inf, 2: -np.inf}},
        {"bad_words_ids": [[0], [1]], "sequence_bias": {(2,): -np.inf}},
        {"bad_words_ids": [[0], [1]], "eos_token_id": 2, "min_new_tokens": 1},
    ]
    for options in cases:
        with pytest.raises(ValueError, match=r"logit_bias.*bad_words_ids.*must leave one of the 3 tokens"):
            of(**options).check(3)
        of(**options).check(4)


def test_bans_that_leave_a_token() -> None:
    of(bad_words_ids=[[0], [1], [2]], eos_token_id=2).check(3)  # an end is no word
    of(logit_bias={0: -np.inf, 1: -np.inf, 2: -9.0}).check(3)
    of(sequence_bias={(0, 1): -np.inf, (1,): -np.inf, (2,): -np.inf}).check(3)


def test_functions() -> None:
    assert of(logits_processor=print).logits_processor == (print,)
    assert of(logits_processor=[print, len]).logits_processor == (print, len)
    for given in (["f"], 5):
        with pytest.raises(TypeError, match="logits_processor must be a function or several of them"):
            of(logits_processor=given)


def test_grammars() -> None:
    cases: list[tuple[Any, Grammar]] = [
        ({"json": '{"type": "object"}'}, Grammar("json", '{"type": "object"}')),
        ({"json": {"type": "object"}}, Grammar("json", '{"type": "object"}')),
        ({"type": "object"}, Grammar("json", '{"type": "object"}')),
        ({"type": "array", "regex": 3}, Grammar("json", '{"type": "array", "regex": 3}')),
        ({"regex": "a+"}, Grammar("regex", "a+")),
        ({"lark": "start: A"}, Grammar("lark", "start: A")),
        (Grammar("regex", "a", "{}"), Grammar("regex", "a", "{}")),
    ]
    for given, meant in cases:
        assert of(grammar=given, eos_token_id=1).grammar == meant, given


SAMPLES: list[tuple[dict[str, Any], bool]] = [
    ({}, True), ({"do_sample": True}, False), ({"do_sample": True, "temperature": 0}, True),
    ({"do_sample": False}, True), ({"temperature": 0.0}, True), ({"temperature": 0.7}, False),
    ({"top_k": 5}, False), ({"top_p": 0.5, "do_sample": False}, True), ({"n": 4}, False), ({"n": 1}, True),
    ({"n": 4, "temperature": 0.0}, True), ({"n": 4, "num_beams": 4}, True),
    ({"n": 4, "num_beams": 4, "top_k": 9}, False), ({"typical_p": 0.5}, False),
    ({"temperature": None, "do_sample": False}, True),
]  # fmt: skip


def test_when_it_samples() -> None:
    for kwargs, greedy in SAMPLES:
        assert of(**kwargs).greedy is greedy, kwargs


def test_defaults_of_the_model_fill_in() -> None:
    defaults = model(do_sample=True, temperature=0.7, top_p=0.9)
    config = GenerationConfig.from_kwargs({"top_p": 0.5}, defaults)
    assert (config.temperature, config.top_p, config.greedy) == (0.7, 0.5, False)
    assert (config.eos_token_ids, config.pad_token_id) == ((2,), 3)
    assert GenerationConfig.from_kwargs({"do_sample": False}, defaults).greedy
    assert GenerationConfig.from_kwargs({"temperature": 0}, defaults).greedy


@pytest.mark.parametrize(
    ("sampling", "own", "told"),
    [
        ({"do_sample": False, "temperature": 0.7}, {"temperature": 0.7}, ""),
        ({"do_sample": True, "top_k": 0, "top_p": 0.8}, {"do_sample": True, "top_p": 0.8}, ""),
        ({"do_sample": True, "top_k": -1, "top_p": 0.8}, {"do_sample": True, "top_p": 0.8}, ""),
        ({"min_p": -1, "temperature": 0.5}, {"temperature": 0.5}, ""),
        ({"top_p": 3, "top_k": 7}, {"top_k": 7}, "top_p must be between 0 and 1, got 3"),
        ({"temperature": 10**400, "top_k": 8}, {"top_k": 8}, "int too large"),
        ({"temperature": "hot", "top_k": 9}, {"top_k": 9}, "temperature must be a number, got 'hot'"),
        ({"num_beams": 3, "early_stopping": True}, {"num_beams": 3, "early_stopping": True}, ""),
        ({"stop_strings": ["x"], "min_new_tokens": 2}, {"stop_sequences": ("x",), "min_new_tokens": 2}, ""),
        ({"bad_words_ids": [[1, 2]]}, {"bad_words_ids": ((1, 2),)}, ""),
        ({"suppress_tokens": [4]}, {"suppress_tokens": (4,)}, ""),
        ({"sequence_bias": [[[1, 2], -1.0]]}, {"sequence_bias": (((1, 2), -1.0),)}, ""),
        ({"penalty_alpha": 0.6, "top_k": 4}, {"top_k": 4}, "penalty_alpha=0.6 is not an option of lite"),
        (
            {"unheard_of": 1, "kept_ids": True},
            {},
            "unheard_of is not an option of.*; kept_ids is not an option",
        ),
        ({"num_return_sequences": 4}, {}, "num_return_sequences is not an option of lite for models"),
        ({"max_new_tokens": 5, "min_new_tokens": 9}, {"max_new_tokens": 5}, "min_new_tokens=9 is more than"),
        ({"max_length": 20}, {}, "max_length=20 is not an option of lite; use max_new_tokens"),
        ({"max_length": 4096, "num_return_sequences": 1, "transformers_version": "4"}, {}, ""),
        ({"diversity_penalty": 0.0, "num_beam_groups": 1, "use_cache": True}, {}, ""),
    ],
)
def test_each_field_of_a_file_is_read_on_its_own(sampling, own, told, recwarn):
    config = replace(model(**sampling), context_length=512, directory=Path(f"of-{sorted(sampling.items())}"))
    for _ in range(2):
        read = GenerationConfig.from_kwargs({}, config)
        assert read == replace(GenerationConfig(eos_token_ids=(2,), pad_token_id=3), **own)
    said = [str(warning.message) for warning in recwarn]
    assert len(said) == (1 if told else 0)  # once
    assert re.search(told, "".join(said))


def test_no_number() -> None:
    for value in ("hot", [1.0], {}, np.array([0.5, 0.7])):
        for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty"):
            raises(TypeError, f"{name} must be a number, got", of, **{name: value})


def test_filler_is_an_id() -> None:
    for wrong in (-1, 1.5):
        raises(
            (TypeError, ValueError), "pad_token_id must be an integer of at least 0", of, pad_token_id=wrong
        )
