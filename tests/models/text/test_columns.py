"""Encoded texts padded, cut, as lists or arrays."""

from collections.abc import Callable

import numpy as np
from helpers.cases import raises

from lite.models.text.tokenizer import Tokenizer

Make = Callable[..., Tokenizer]


def test_pads_on_the_side_asked_for(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer()
    left = tokenizer(["Hi", "Hello"], padding=True, padding_side="left", return_tensors="np")
    np.testing.assert_array_equal(left["input_ids"], [[259, 259, 259, 39, 72], [39, 68, 75, 75, 78]])
    np.testing.assert_array_equal(left["attention_mask"], [[0, 0, 0, 1, 1], [1, 1, 1, 1, 1]])
    assert left["input_ids"].dtype == np.int64
    right = tokenizer(["Hi", "Hello"], padding="max_length", max_length=6, padding_side="right")
    assert right["input_ids"] == [[39, 72, 259, 259, 259, 259], [39, 68, 75, 75, 78, 259]]
    assert tokenizer(["Hello"], truncation=True, max_length=2)["input_ids"] == [[39, 68]]
    assert tokenizer("Hi", return_attention_mask=False) == {"input_ids": [39, 72]}
    assert tokenizer([], padding=True, return_tensors="np")["input_ids"].shape == (0, 0)


def test_offsets_of_filler_are_nowhere(byte_tokenizer: Make) -> None:
    out = byte_tokenizer()(["a", "ab"], padding=True, return_offsets_mapping=True)
    assert sorted(out["offset_mapping"][0]) == [(0, 0), (0, 1)]


def test_refuses_bad_options(byte_tokenizer: Make) -> None:
    cases: list[tuple[dict[str, str], str]] = [
        ({"padding": "widest"}, "padding must be"),
        ({"padding_side": "middle"}, "padding_side must be 'left' or 'right', got 'middle'"),
        ({"padding": "max_length"}, "max_length must be given"),
        ({"return_tensors": "pt"}, "return_tensors must be 'np'"),
        ({"return_tensors": "np"}, "rows of one length"),
    ]
    for options, message in cases:
        raises(ValueError, message, byte_tokenizer(), ["a", "ab"], **options)


def test_padding_needs_a_pad_token(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer(pad_token=None)
    assert tokenizer.pad_token is None
    assert tokenizer.pad_token_id is None
    raises(ValueError, "no pad_token", tokenizer, ["a", "ab"], padding=True)
