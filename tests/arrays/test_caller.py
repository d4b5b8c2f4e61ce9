"""The line of the caller's code in messages and warnings."""

import linecache
import warnings
from pathlib import Path

import numpy as np
import pytest

from lite._arrays.caller import caller_line, warn


def test_the_innermost_line_outside_of_lite_numpy_and_python() -> None:
    asked = np.frompyfunc(lambda _: caller_line(), 1, 1)
    assert f"({Path(__file__)}, line 14: " in asked(np.zeros(1))[0]


@pytest.mark.parametrize("file", ["<string>", "<ipython-input-1-0123>", "/home/lite/numpy/os.py"])
@pytest.mark.parametrize("scope", [{}, {"__name__": "__main__"}, {"__name__": "litesome.lite"}])
def test_code_of_a_notebook_and_of_exec_is_the_callers(file: str, scope: dict[str, object]) -> None:
    here = {**scope, "caller_line": caller_line, "warn": warn}
    with pytest.warns(UserWarning, match="look") as found:
        exec(compile("line = caller_line()\nwarn('look')", file, "exec"), here)
    assert here["line"] == f" ({file}, line 1)"
    assert [(one.filename, one.lineno) for one in found] == [(file, 2)]


@pytest.mark.parametrize("name", ["lite.nn.layers", "numpy", "contextlib", "dataclasses"])
def test_code_of_lite_and_of_python_is_passed_over(name: str) -> None:
    here = {"__name__": name, "caller_line": caller_line}
    exec("line = caller_line()", here)
    assert here["line"] == f' ({__file__}, line 31: exec("line = caller_line()", here))'


def test_a_warning_points_there_and_is_shown_once() -> None:
    asked = np.frompyfunc(lambda _: warn("look", RuntimeWarning), 1, 1)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        asked(np.zeros(3))
    (one,) = found
    assert (one.category, one.filename, str(one.message)) == (RuntimeWarning, __file__, "look")
    assert 'warn("look"' in linecache.getline(one.filename, one.lineno)
    with pytest.warns(UserWarning, match="look"):
        warn("look")
