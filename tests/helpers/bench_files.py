"""Files of bench/, which is no package: imported as its scripts import each other."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"


def imported(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A file of bench/ and those that it imports, rebuilt for one test."""
    monkeypatch.syspath_prepend(str(BENCH))
    for file in BENCH.glob("*.py"):
        monkeypatch.delitem(sys.modules, file.stem, raising=False)
    return import_module(name)
