"""The rewriting of graphs and their sessions, remembered."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lite._files.onnx.reader import Graph
from lite.models.decoder import opening
from lite.models.graph import session
from lite.models.wrapper import loading

# Functions of a graph's bytes, which take half of the time to open one.
_FUNCTIONS = ("with_limits_as_inputs", "replace_attention", "tried", "gather_before_projection")


def remembered() -> dict[str, Callable[..., Any]]:
    """The functions by which `lite.models.decoder.opening` rewrites a graph, each with a memory."""
    return {name: _remembering(getattr(opening, name)) for name in _FUNCTIONS}


def _remembering(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a graph's bytes, whatever was read of these before."""
    known: dict[Any, Any] = {}

    @functools.wraps(function)
    def remembered(*given: Any, **named: Any) -> Any:
        key = *(one for one in given if not isinstance(one, Graph | None)), *named.items()
        if key not in known:
            known[key] = function(*given, **named)
        return known[key]

    return remembered


def shared(open_session: Callable[..., Any]) -> Callable[..., Any]:
    """`open_session`, which gives the session of a model that it opened lately again: none has a state."""
    known: dict[Any, Any] = {}

    @functools.wraps(open_session)
    def opened(graph: Path, *, weights: Any = None, **how: Any) -> Any:
        if weights is not None:
            return open_session(graph, weights=weights, **how)
        key = (graph, *sorted(how.items()))
        file = graph.stat()
        key = *key, file.st_mtime_ns, file.st_size
        if key not in known:
            if len(known) == 16:
                del known[next(iter(known))]
            known[key] = open_session(graph, **how)
        return known[key]

    return opened


@pytest.fixture(scope="session", autouse=True)
def cheap_sessions() -> Iterator[None]:
    """What opening makes of a graph's bytes is made once, and no second thread spins."""
    with pytest.MonkeyPatch.context() as patch:
        for name, function in remembered().items():
            patch.setattr(opening, name, function)
        patch.setattr(opening, "open_session", shared(opening.open_session))
        for module in (session, loading):
            patch.setattr(module, "default_threads", lambda: 1)
        yield
