"""Runs a cell of the page in the browser: as a notebook does, what the last line is worth is shown."""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import traceback
from collections.abc import Callable
from typing import Any


class _Told(io.TextIOBase):
    """A file that tells what is written to it, at once."""

    def __init__(self, tell: Callable[[str], Any]) -> None:
        self._tell = tell

    def write(self, text: str) -> int:
        self._tell(text)
        return len(text)


def run(source: str, name: str, tell: Callable[[str], Any]) -> tuple[str, str]:
    """What a cell shows at its end: "nothing", "text", "svg" or "error", and the text of it.

    Args:
        source: the program, in names of its own.
        name: what tracebacks call it.
        tell: is called with what the program prints.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    told = _Told(tell)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        try:
            tree, value = ast.parse(source, name), None
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            if hasattr(value, "_repr_svg_"):
                return "svg", value._repr_svg_()
            return ("nothing", "") if value is None else ("text", repr(value))
        except BaseException as error:  # an exit, too
            trace = error.__traceback__ and error.__traceback__.tb_next  # without this function
            return "error", "".join(traceback.format_exception(type(error), error, trace))
