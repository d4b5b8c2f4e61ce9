"""Commands run in this process, as `lite` runs them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from lite.cli import main


class Said(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """Lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the words of a command, which has to end with a status."""

    def call(words: list[str], status: int = 0) -> Said:
        assert main(words) == status
        return Said(*capsys.readouterr())

    return call
