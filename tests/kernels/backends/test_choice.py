"""Which backend runs the kernels, and how the choice is forced."""

import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.cases import raises

import lite.kernels
from lite.kernels.backends import choice, prebuilt


@pytest.fixture
def decide(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`decide(library=..., numba=..., **environment)`: a choice rebuilt, with what is installed made up."""

    def decide(library: Any = None, numba: bool = True, **environment: str) -> choice.Choice:
        for name in ("LITE_KERNELS", "NUMBA_DISABLE_JIT"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        levels: list[Any] = []

        def find(level: str | None, reasons: list[str]) -> Any:
            levels.append(level)
            return library

        monkeypatch.setattr(prebuilt, "find", find)
        monkeypatch.setattr(choice, "_numba_is_here", lambda: numba)
        return choice.choice.__wrapped__()

    return decide


LIBRARY = prebuilt.Library(Path("kernels.so"), "x86-64-v3", "0" * 12)


def test_a_library_then_numba_then_numpy(decide: Any) -> None:
    assert decide(LIBRARY) == ("prebuilt", LIBRARY, None)
    assert decide(None) == ("numba", None, None)
    last = decide(None, numba=False)
    assert last.backend == "numpy"
    for remedy in ("pip install numba", "python -m lite.kernels.prebuild --wheel"):
        assert remedy in last.warning


def test_no_remedy_is_named_where_there_is_none(decide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "emscripten")
    assert decide(None, numba=False) == ("numpy", None, None)


def test_the_environment_decides(decide: Any) -> None:
    for wanted in ["prebuilt", "numba", "numpy"]:
        chosen = decide(LIBRARY, LITE_KERNELS=wanted)
        assert chosen == (wanted, LIBRARY if wanted == "prebuilt" else None, None)


def test_the_switch_of_numba_is_one_here(decide: Any) -> None:
    assert decide(LIBRARY, NUMBA_DISABLE_JIT="1") == ("numpy", None, None)
    assert decide(LIBRARY, NUMBA_DISABLE_JIT="0").backend == "prebuilt"
    assert decide(LIBRARY, NUMBA_DISABLE_JIT="1", LITE_KERNELS="prebuilt").backend == "prebuilt"


def test_what_is_not_here_cannot_be_forced(decide: Any) -> None:
    for wanted, here, says in [
        ("prebuilt", {}, "python -m lite.kernels.prebuild --wheel"),
        ("prebuilt:x86-64-v3", {}, "LITE_KERNELS=prebuilt:x86-64-v3"),
        ("numba", {"numba": False}, "pip install numba"),
        ("numba", {"NUMBA_DISABLE_JIT": "1"}, "NUMBA_DISABLE_JIT"),
    ]:
        raises(ImportError, says, decide, None, LITE_KERNELS=wanted, **here)


def test_another_name_is_refused(decide: Any) -> None:
    for wanted in ["fast", "numba:x86-64-v3"]:
        raises(ValueError, f"LITE_KERNELS must be .* got '{wanted}'", decide, LIBRARY, LITE_KERNELS=wanted)


def test_the_choice_is_public() -> None:
    assert lite.kernels.backend() == choice.choice().backend
