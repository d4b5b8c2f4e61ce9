"""Everything compiled ahead of time."""

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
from helpers.kernels.every_call import ENTRIES, answer, call_everything

import lite.kernels as k

pytestmark = pytest.mark.skipif(k.backend() != "numba", reason="Numba does not run the kernels")
numba = pytest.importorskip("numba")
Dispatcher = pytest.importorskip("numba.core.dispatcher").Dispatcher

from lite.kernels import cpu  # noqa: E402
from lite.kernels.backends import warmup  # noqa: E402
from lite.kernels.backends.choice import Choice  # noqa: E402


def test_warmup_compiles_what_calls_need(monkeypatch):
    warm: set[tuple[Any, ...]] = set()
    called: set[tuple[Any, ...]] = set()

    class Recorder:
        """A kernel that notes the types it is compiled for and called with; nothing is computed."""

        def __init__(self, module: Any, name: str) -> None:
            self.module, self.name = module, (module.__name__, name)

        def compile(self, types: tuple[Any, ...]) -> None:
            warm.add((*self.name, *types))

        def __call__(self, *args: Any) -> Any:
            called.add((*self.name, *map(numba.typeof, args)))
            return answer(self.module, args)

    for module, name in ENTRIES:
        monkeypatch.setattr(module, name, Recorder(module, name))
    k.warmup()
    call_everything()
    assert {signature[:2] for signature in warm} == {(m.__name__, name) for m, name in ENTRIES}
    assert called == warm


def test_all_kernels_are_watched():
    modules = [import_module(f"lite.kernels.cpu.{found.name}") for found in iter_modules(cpu.__path__)]
    dispatchers = {
        (module, name)
        for module in modules
        for name, found in vars(module).items()
        if isinstance(found, Dispatcher)
        and found.py_func.__module__ == module.__name__
        and not found.targetoptions["no_cpython_wrapper"]
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
