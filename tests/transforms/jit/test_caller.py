"""The line of the caller's code in messages."""

from pathlib import Path

import numpy as np

from lite._transforms.jit.caller import caller_line


def test_the_innermost_line_outside_of_lite_and_numpy() -> None:
    asked = np.frompyfunc(lambda _: caller_line(), 1, 1)
    assert f"({Path(__file__)}, line 11: " in asked(np.zeros(1))[0]
    here: dict[str, object] = {"caller_line": caller_line}
    exec("line = caller_line()", here)
    assert here["line"] == f' ({__file__}, line 14: exec("line = caller_line()", here))'
