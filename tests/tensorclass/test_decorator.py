"""Classes that `@tensorclass` makes tensorclasses."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lite import tensorclass


def test_super_works_below_the_decorator():
    class Base:
        def name(self) -> str:
            return "base"

    @tensorclass
    class Derived(Base):
        x: Any = None

        def name(self) -> str:
            return "derived " + super().name()

    assert Derived(x=1).name() == "derived base"


@tensorclass(frozen=True, nocast=True)
class Both:
    a: Any

    def twice(self) -> Any:
        return self.a * 2


def test_decorator_with_options() -> None:
    made = Both(a=3)
    assert made.twice() == 6
    assert Both.__name__ == "Both"
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.a = 4
