"""Tables in docstrings of what is to be tested: below each row the tests, or the reason to have none."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]


def table(text: str) -> dict[str, list[str]]:
    """The lines below each row."""
    rows: dict[str, list[str]] = {}
    row = ""
    for line in text.partition("| tests or reason\n")[2].splitlines():
        if not line or line.startswith("# "):
            continue
        if line.startswith("    | "):
            rows[row].append(line.removeprefix("    | "))
            continue
        row = line
        assert re.match(r"\w+ ", row), f"neither a row nor what belongs to one: {row!r}"
        assert row not in rows, f"{row} is there twice"
        rows[row] = []
    return rows


@cache
def defined_in(path: str) -> frozenset[str]:
    """Names of the test functions and methods of a file."""
    tree = ast.parse((TESTS / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def check_row(row: str, lines: list[str]) -> None:
    """Fail unless a row has tests that are there, or a reason to have none."""
    items = [item for item in lines if not (item.startswith("(") and item.endswith(")"))]
    assert items, f"{row} has neither tests nor a reason"
    if items[0].startswith("none: "):
        assert len(items) == 1, f"{row} has tests and a reason to have none"
        assert items[0].removeprefix("none: ").strip()
        return
    for test in items:
        path, _, name = test.partition("::")
        assert name.startswith("test_"), f"{row}: {test!r} is no test"
        assert name in defined_in(path), f"{row}: there is no {test}"
    assert len(set(items)) == len(items), f"{row} names a test twice"
