"""Many small cases in one test; pytest takes 3 ms for each test of its own."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

Test = Callable[..., None]


@contextmanager
def noting(*case: Any) -> Iterator[None]:
    """Adds the case to what is raised inside; for loops, and methods, where `each_case` does not go."""
    try:
        yield
    except BaseException as error:
        error.add_note("case: " + ", ".join(map(_shown, case))[:500])
        raise


def raises(error: Any, match: str, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
    """`pytest.raises` around one call, in one line; any message fits an empty `match`."""
    with pytest.raises(error, match=match or None):
        call(*args, **kwargs)


def _shown(value: Any) -> str:
    if isinstance(value, FunctionType):
        return f"{value.__name__} of line {value.__code__.co_firstlineno}"
    return repr(value)


def each_case(names: str | Sequence[str], cases: Iterable[Any], ids: Any = None) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`; an error has a note that names its case.

    Each case has a folder, patches and random numbers of its own, if the test asks for `tmp_path`,
    `monkeypatch` and `rng`. A case that is skipped skips the test when all others have run.
    """
    arguments = re.findall(r"\w+", names) if isinstance(names, str) else list(names)
    rows = [case if len(arguments) > 1 else (case,) for case in cases]
    assert rows

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            skipped = None
            for number, row in enumerate(rows):
                case = dict(zip(arguments, row, strict=True))
                with pytest.MonkeyPatch.context() as patch, noting(number, _name(ids, number, row) or case):
                    try:
                        test(**_of_a_case(fixtures, number, patch), **case)
                    except pytest.skip.Exception as reason:
                        skipped = skipped or reason
            if skipped:
                raise skipped

        kept = [value for name, value in signature.parameters.items() if name not in arguments]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate


def _of_a_case(fixtures: dict[str, Any], number: int, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    own = dict(fixtures)
    for name, value in fixtures.items():
        if name == "tmp_path" and isinstance(value, Path):
            own[name] = value / str(number)
            own[name].mkdir()
        elif isinstance(value, pytest.MonkeyPatch):
            own[name] = patch
        elif isinstance(value, np.random.Generator):
            own[name] = copy.deepcopy(value)
    return own


def _name(ids: Any, number: int, row: Sequence[Any]) -> str:
    if callable(ids):
        return "-".join(str(ids(value)) for value in row)
    return str(list(ids)[number]) if ids else ""
