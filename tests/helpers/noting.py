"""Which of many small cases in one test fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any


@contextmanager
def noting(*case: Any) -> Iterator[None]:
    """Adds the case to what is raised inside, as the name of a parametrized test has it."""
    try:
        yield
    except BaseException as error:
        error.add_note("case: " + ", ".join(map(_shown, case))[:500])
        raise


def _shown(value: Any) -> str:
    if isinstance(value, FunctionType):
        return f"{value.__name__} of line {value.__code__.co_firstlineno}"
    return repr(value)
