"""What a response holds while it is written."""

import numpy as np
import pytest

from lite.models import GenerationConfig
from lite.models.generation.response import Response


def _response(tokens: int, room: int = 100) -> Response:
    config = GenerationConfig(max_new_tokens=tokens)
    return Response(0, np.array([5, 6]), config, np.uint64(1), room)


def test_tokens_follow_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite.models.generation.response.RESERVED", 2)
    response = _response(9)
    for token in range(9):
        response.append(token)
    np.testing.assert_array_equal(response.tokens, np.arange(9))
    np.testing.assert_array_equal(response.ids, [5, 6, *range(9)])
    assert response.count == response.limit == 9


def test_the_room_limits_it() -> None:
    for room, limit in ((100, 9), (6, 4), (2, 0), (1, -1)):
        assert _response(9, room).limit == limit, room
