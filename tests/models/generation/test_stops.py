"""Texts that end a response."""

from typing import Any

import numpy as np
from helpers.models.sentencepiece import sentencepiece

from lite.models.generation.stops import has_stopped


def decode(ids: Any) -> str:
    return bytes(int(i) for i in ids).decode("utf-8", "replace")


def test_has_stopped() -> None:
    cases: list[tuple[str, list[str], bool]] = [
        ("abcEND", ["END"], True),
        ("abcEN", ["END"], False),
        ("x" * 50 + "stop", ["no", "stop"], True),
        ("ü", ["ü"], True),
        ("stop" + "x" * 50, ["stop"], False),  # its end is what is looked at
    ]
    for text, stops, expected in cases:
        seen: list[int] = []

        def counting(ids: Any, seen: list[int] = seen) -> str:
            seen.append(len(ids))
            return decode(ids)

        tokens = np.frombuffer(text.encode(), np.uint8).astype(np.int64)
        assert has_stopped(tokens, stops, counting) is expected, text
        assert seen[0] <= max(len(stop.encode()) for stop in stops) + 8, text


def test_the_space_that_a_response_begins_with_counts() -> None:
    """It is of the response, as in transformers, though a decoder leaves it out at the start of a text."""
    tokenizer = sentencepiece()
    cases = [("▁und", [" u"], True), ("no", [" n"], False), ("▁", [" "], True), ("no no", ["nono"], False)]
    for pieces, stops, expected in cases:  # one token is no two of its kind
        tokens = np.array(tokenizer.convert_tokens_to_ids(pieces.split()))
        assert has_stopped(tokens[:1], stops, tokenizer.decode) is expected, pieces
