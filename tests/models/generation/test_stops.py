"""Texts that end a response."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lite.models.generation.stops import has_stopped


def decode(ids: Any) -> str:
    return bytes(int(i) for i in ids).decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("abcEND", ["END"], True),
        ("abcEN", ["END"], False),
        ("x" * 50 + "stop", ["no", "stop"], True),
        ("ü", ["ü"], True),
        ("stop" + "x" * 50, ["stop"], False),  # its end is what is looked at
    ],
)
def test_has_stopped(text: str, stops: list[str], expected: bool) -> None:
    seen: list[int] = []

    def counting(ids: Any) -> str:
        seen.append(len(ids))
        return decode(ids)

    tokens = np.frombuffer(text.encode(), np.uint8).astype(np.int64)
    assert has_stopped(tokens, stops, counting) is expected
    assert seen[0] <= max(len(stop.encode()) for stop in stops) + 8
