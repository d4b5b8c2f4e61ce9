"""Options of each row: what they change, and what they cannot."""

from typing import Any

import pytest

from lite.models import GenerationConfig
from lite.models.wrapper.row_options import options_of_rows

CALL = GenerationConfig(max_new_tokens=9, eos_token_ids=(3,))


def test_rows_change_what_the_call_says() -> None:
    first, second = options_of_rows(CALL, [{}, {"max_tokens": 2, "temperature": 0.5}], 2)
    assert first == CALL
    assert (second.max_new_tokens, second.temperature, second.greedy) == (2, 0.5, False)
    assert second.eos_token_ids == (3,)
    assert options_of_rows(CALL, None, 3) == [CALL] * 3
    assert options_of_rows(CALL, [], 0) == []


def test_all_rows_are_told_as_much() -> None:
    rows = [{"logprobs": 2}, {"logprobs": 4, "kept_ids": True}, {"entropy": True}, {}]
    for one in options_of_rows(CALL, rows, 4):
        assert (one.logprobs, one.kept_ids, one.entropy, one.sampled_log_probs) == (4, True, True, False)


def test_what_is_refused() -> None:
    cases: list[tuple[Any, type[Exception], str]] = [
        ([{}], ValueError, "row_options must be one per row, got 1 for 2 rows"),
        ({"top_k": 3}, TypeError, "row_options must be a list of mappings"),
        ([{}, None], TypeError, "row_options must be a list of mappings"),
        ([{}, {"top_p": 2}], ValueError, r"row_options\[1\]: top_p must be between 0 and 1, got 2"),
        ([{"top_p": "a"}, {}], TypeError, r"row_options\[0\]: top_p must be a number"),
        ([{}, {"n": 2, "seed": 1}], ValueError, r"row_options\[1\]: n, seed must be the same for all rows"),
    ]
    for rows, error, message in cases:
        with pytest.raises(error, match=message):
            options_of_rows(CALL, rows, 2)
