"""What goes to another process from a notebook, whose functions and classes no process can import."""

import pickle
import sys
from types import ModuleType

import pytest

from lite._processes.workers import pickled

CELL = """
class Counter:
    start = 3

def count(k):
    return Counter.start + k
"""


def test_what_a_notebook_defines_goes_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cloudpickle")
    notebook = ModuleType("__main__")
    exec(CELL, notebook.__dict__)
    with monkeypatch.context() as there:
        there.setitem(sys.modules, "__main__", notebook)
        sent = pickled((notebook.count, notebook.Counter()))
        notebook.__file__ = "script.py"  # which a process imports
        assert b"script" not in pickled(notebook.count)
        assert len(pickled(notebook.count)) < 60
    count, counter = pickle.loads(sent)
    assert count(4) == 7
    assert counter.start == 3


def test_a_notebook_without_cloudpickle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    assert pickle.loads(pickled(len)) is len
