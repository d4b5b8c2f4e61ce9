"""The line of the caller's code in messages and warnings."""

import linecache
import warnings
from pathlib import Path

import numpy as np
import pytest

from lite._arrays.caller import caller_line, warn


def test_the_innermost_line_outside_of_lite_and_numpy() -> None:
    asked = np.frompyfunc(lambda _: caller_line(), 1, 1)
    assert f"({Path(__file__)}, line 14: " in asked(np.zeros(1))[0]
    here: dict[str, object] = {"caller_line": caller_line}
    exec("line = caller_line()", here)
    assert here["line"] == f' ({__file__}, line 17: exec("line = caller_line()", here))'


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
