"""Everything compiled ahead of time."""

import sys
from typing import Any

import pytest
from helpers.kernels.every_call import ENTRIES, answer, call_everything

import lite.kernels as k

pytestmark = pytest.mark.skipif(k.backend() != "numba", reason="Numba does not run the kernels")
numba = pytest.importorskip("numba")
Dispatcher = pytest.importorskip("numba.core.dispatcher").Dispatcher

from lite.kernels.backends import warmup  # noqa: E402
from lite.kernels.backends.choice import Choice  # noqa: E402
from lite.kernels.cpu import (  # noqa: E402
    flat_rows,
    layers,
    log_softmax,
    multistep_return,
    optimizers,
    returns,
    sample_tokens,
    sum_tree,
    token_log_probs,
)


@pytest.fixture
def signatures(monkeypatch):
    """What kernels are called with, as types that each are compiled for; nothing is compiled or computed."""
    seen: set[tuple[Any, ...]] = set()

    def watch(module: Any, name: str) -> None:
        def record(*args: Any) -> Any:
            seen.add((module.__name__, name, *map(numba.typeof, args)))
            return answer(module, args)

        monkeypatch.setattr(module, name, record)

    for module, name in ENTRIES:
        watch(module, name)
    return seen


def test_warmup_compiles_what_calls_need(signatures):
    k.warmup()
    warm = set(signatures)
    assert {tuple(signature[:2]) for signature in warm} == {(m.__name__, name) for m, name in ENTRIES}
    call_everything()
    assert signatures == warm


def test_all_kernels_are_watched():
    dispatchers = {
        (module, name)
        for module in (
            returns,
            multistep_return,
            log_softmax,
            sample_tokens,
            flat_rows,
            token_log_probs,
            layers,
            sum_tree,
            optimizers,
        )
        for name, found in vars(module).items()
        if isinstance(found, Dispatcher) and not found.targetoptions["no_cpython_wrapper"]
    }
    assert dispatchers == set(ENTRIES)


def test_progress_names_every_kernel(monkeypatch):
    told: list[tuple[str, int, int]] = []
    called: list[str] = []
    calls = [("a", lambda: called.append("a")), ("b", lambda: called.append("b"))]
    monkeypatch.setattr(warmup, "_calls", lambda: calls)
    warmup.warmup(progress=lambda *args: told.append((*args, len(called))))
    assert told == [("a", 0, 2, 0), ("b", 1, 2, 1)]
    assert called == ["a", "b"]


def test_all_names_are_different():
    names = [name for name, _ in warmup._calls()]
    assert len(set(names)) == len(names) > 40


@pytest.mark.parametrize("chosen", [Choice("prebuilt"), Choice("numpy")])
def test_there_is_nothing_to_compile_where_numba_does_not_run_the_kernels(monkeypatch, chosen):
    monkeypatch.setattr(warmup, "choice", lambda: chosen)
    monkeypatch.setattr(warmup, "_calls", None)
    k.warmup()


def test_without_numba_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(warmup, "choice", lambda: Choice("numpy", warning="slow"))
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ImportError, match="warmup needs Numba: `pip install numba`"):
        k.warmup()
