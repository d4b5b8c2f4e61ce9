"""Parameters of tests: those that stand for all, and the others, which are a grid."""

from collections.abc import Iterable
from typing import Any

import pytest


def standing_for_all(values: Iterable[Any], count: int = 1) -> list[Any]:
    """The values, those after the first `count` marked as a grid."""
    found = list(values)
    rest = (
        pytest.param(*(value if type(value) is tuple else (value,)), marks=pytest.mark.grid)
        for value in found[count:]
    )
    return [*found[:count], *rest]
