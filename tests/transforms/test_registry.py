"""The table of rules, which any interpreter can have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lite._transforms.registry import Registry, default, name_of, parameters


def test_three_ways_to_register_a_rule() -> None:
    registry = Registry()

    @registry.rule(np.sum, np.prod)
    def reduced(context: str, x: Any) -> Any:
        return context, x

    @registry.composed(np.mean)
    def mean(x: Any) -> Any:
        return "composed", x

    @registry.rules_of(np.sort, np.flip)
    def make(function: Any) -> Any:
        return lambda context, x: (context, function, x)

    rules = registry.rules
    assert rules[np.sum]("level", 1) == rules[np.prod]("level", 1) == ("level", 1)
    assert rules[np.mean]("level", 1) == ("composed", 1)
    assert [rules[f]("level", 1)[1] for f in (np.sort, np.flip)] == [np.sort, np.flip]
    assert Registry().rules == {}


def test_signatures_and_names() -> None:
    assert parameters(np.flip) == ("m", "axis")
    assert default(np.sort, "axis") == -1
    assert default(np.sort, "a") is None
    assert default(np.sort, "nothing") is None


@pytest.mark.parametrize(
    ("function", "name"), [(np.linalg.det, "numpy.linalg.det"), (np.add, "numpy.add"), (np.sum, "numpy.sum")]
)
def test_name_of(function: Any, name: str) -> None:
    assert name_of(function) == name
