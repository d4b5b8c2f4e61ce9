"""The register of operations: what each gives in the model, and how random programs call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from helpers.fuzz.choices import Choices

OPERATIONS: dict[str, Callable[..., Any]] = {}
VIEWS: set[str] = set()  # results may share memory with what they were made of, as NumPy's views do
IN_PLACE: set[str] = set()  # these give the TensorDict itself, or nothing


class Var(NamedTuple):
    """Stands for a variable of the program among the arguments of a call."""

    at: int


class Call(NamedTuple):
    """One step of a program: an operation by name, and its arguments after the TensorDict."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}  # noqa: RUF012

    def __repr__(self) -> str:
        shown = [*map(repr, self.args), *(f"{key}={value!r}" for key, value in self.kwargs.items())]
        return f"{self.name}({', '.join(shown)})"


Plan = Callable[[Choices, list[Any], int], Call]
PLANS: list[Plan] = []


def operation(name: str = "", in_place: bool = False, view: bool = False) -> Callable[[Any], Any]:
    """Register what an operation gives: a function of a node of the model and its arguments."""

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        called = name or f.__name__
        OPERATIONS[called] = f
        if in_place:
            IN_PLACE.add(called)
        if view:
            VIEWS.add(called)
        return f

    return add


def calls(weight: int) -> Callable[[Plan], Plan]:
    """Register a function that chooses a call, given the variables and which of them to call it on."""

    def add(plan: Plan) -> Plan:
        PLANS.extend([plan] * weight)
        return plan

    return add
