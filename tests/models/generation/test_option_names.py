"""Options by the names and in the spellings of other libraries."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lite.models import GenerationConfig
from lite.models.generation.grammar import Grammar
from lite.models.generation.option_names import _INSTEAD, _LACKING, IGNORED

SPELLINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"stop": "a"}, {"stop_sequences": ("a",)}),
    ({"stop_strings": ["a", "b"]}, {"stop_sequences": ("a", "b")}),
    ({"max_completion_tokens": 7}, {"max_new_tokens": 7}),
    ({"logprobs": True, "top_logprobs": 4}, {"logprobs": 4}),
    ({"guided_json": {"type": "object"}}, {"grammar": Grammar("json", '{"type": "object"}')}),
    ({"guided_regex": "a+"}, {"grammar": Grammar("regex", "a+")}),
    ({"guided_grammar": "start: A"}, {"grammar": Grammar("lark", "start: A")}),
    ({"guided_choice": ["a+", "b"]}, {"grammar": Grammar("regex", r"a\+|b")}),
    ({"stop_token_ids": [7, 8]}, {"eos_token_ids": (1, 7, 8)}),
    ({"stop_token_ids": [7], "eos_token_id": 5}, {"eos_token_ids": (5, 7)}),
    ({"suppress_tokens": np.array([3, 4])}, {"suppress_tokens": (3, 4)}),
    ({"max_tokens": None, "max_new_tokens": 5}, {"max_new_tokens": 5}),
    ({"top_k": 0}, {"top_k": None}),  # off, though the model has one
    ({"top_k": -1}, {"top_k": None}),
    ({"min_p": -1}, {"min_p": 0.0, "do_sample": True}),
    # forms and bounds of lite's own
    ({"max_tokens": 20, "max_new_tokens": 10, "n": 3, "num_beams": 3, "num_return_sequences": 2},
        {"max_new_tokens": 20, "num_return_sequences": 3, "num_beams": 3}),
    ({"top_p": 0}, {"top_p": 0, "do_sample": True}),
    ({"top_p": 1}, {"top_p": 1, "do_sample": True}),
    ({"top_k": 10**30}, {"top_k": 2**31, "do_sample": True}),  # which fits the kernel
    ({"pad_token_id": 0}, {"pad_token_id": 0}),
    ({"eos_token_id": 5}, {"eos_token_ids": (5,)}),
    ({"eos_token_id": [5, 6]}, {"eos_token_ids": (5, 6)}),
    ({"eos_token_id": np.array([5, 6])}, {"eos_token_ids": (5, 6)}),
    ({"eos_token_id": []}, {"eos_token_ids": ()}),
    ({"stop_sequences": "end"}, {"stop_sequences": ("end",)}),
    ({"stop_sequences": ["a", "b"]}, {"stop_sequences": ("a", "b")}),
]  # fmt: skip


def test_names_and_spellings_of_other_libraries() -> None:
    for given, own in SPELLINGS:
        base = GenerationConfig(eos_token_ids=(1,), top_k=50)
        before = dict(given)
        assert GenerationConfig.from_kwargs(given, base) == replace(base, **own), given
        assert given.keys() == before.keys()


def test_no_option_of_another_library_is_ignored() -> None:
    """Whatever changes the tokens that transformers or vLLM give works here, or raises."""
    assert not IGNORED & {"top_k", *_INSTEAD, *_LACKING}
    for name in (*_INSTEAD, *_LACKING):
        with pytest.raises(ValueError, match=f"{name}=.* is not an option of lite"):
            GenerationConfig.from_kwargs({name: 7})


def test_what_does_it_here_is_said() -> None:
    for name, instead in {
        "streamer": "the argument streamer of lite.models.generate, or lite.models.stream",
        "stopping_criteria": "stop_sequences, or lite.models.stream, which may be closed at any token",
        "max_time": "lite.models.stream, which may be closed at any token",
        "guided_whitespace_pattern": '"x-guidance": {"whitespace_flexible": false} in the schema',
    }.items():
        with pytest.raises(ValueError, match=re.escape(f"{name}=7 is not an option of lite; use {instead}")):
            GenerationConfig.from_kwargs({name: 7})
