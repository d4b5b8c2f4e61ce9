"""The table in the documentation says which function has which rules."""

import runpy
from pathlib import Path

SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / ".ci/rule_table.py"))


def test_the_table_is_current() -> None:
    assert SCRIPT["PATH"].read_text(encoding="utf-8") == SCRIPT["table"](), "run python .ci/rule_table.py"


def test_the_table_tells_rules_apart() -> None:
    cells = [line.split(" | ") for line in SCRIPT["table"]().splitlines()]
    rows = {row[1]: row[2:] for row in cells if len(row) == 5}
    found = {name: rules for names, rules in rows.items() for name in names.split(", ")}
    assert found["sort"] == found["exp"] == ["rule", "rule", "rule |"]
    assert found["kron"] == ["formula", "formula", "formula |"]
    assert found["argsort"] == ["0", "rule", "rule |"]
    assert found["linalg.pinv"] == ["rule", "rule", "- |"]
    assert found["unique"] == ["-", "loop", "- |"]
