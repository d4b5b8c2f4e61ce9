"""`python .ci/rule_table.py` writes lite/_transforms/rules/TABLE.md: functions of NumPy and their rules."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from lite._transforms.grad.ufuncs import _METHODS
from lite._transforms.registry import FORMULAS, GRAD, ONNX, VMAP, ZERO_GRADIENT, Registry, name_of
from lite._transforms.rules.ufuncs import UFUNCS

PATH = Path(__file__).parents[1] / "lite/_transforms/rules/TABLE.md"
HEAD = """# Functions of NumPy and their rules

Written by `python .ci/rule_table.py`. *rule*: of its own; *formula*: by other functions that have rules; *0*:
the derivative is zero wherever there is one; *loop*: runs once for each element, with a warning; *-*: is
refused by name. A rule may refuse some arguments.

| file | functions | grad | vmap | ONNX |
|---|---|---|---|---|
"""


def kind(registry: Registry, function: Any, otherwise: str) -> str:
    """Which rule a function has in a table."""
    rule = registry.rules.get(function)
    if rule is None:
        return otherwise
    rule = getattr(rule, "__wrapped__", rule)
    if rule is FORMULAS.get(function):
        return "formula"
    return "-" if getattr(rule, "__annotations__", {}).get("return") == "NoReturn" else "rule"


def row(function: Any) -> tuple[str, str, str, str]:
    """The file of a function, and its three rules."""
    ufunc = UFUNCS.get(function)
    if ufunc is not None:
        operator = "rule" if isinstance(ufunc.onnx, str) else "formula" if ufunc.onnx else "-"
        return "ufuncs", "rule" if ufunc.derivatives else "0", "rule", operator
    tables = (FORMULAS, GRAD.rules, ONNX.rules, VMAP.rules)
    modules = [getattr(table[function], "__module__", "") for table in tables if function in table]
    file = next((m.removeprefix("lite._transforms.rules.") for m in modules if ".rules." in m), "")
    gradient = "0" if function in ZERO_GRADIENT else kind(GRAD, function, "-")
    if isinstance(function, tuple):  # a method of a ufunc, which `vmap` maps as one call
        return file, "rule" if function in _METHODS else gradient, "rule", kind(ONNX, function, "-")
    otherwise = "rule" if isinstance(function, np.ufunc) else "loop"
    return file, gradient, kind(VMAP, function, otherwise), kind(ONNX, function, "-")


def name(function: Any) -> str:
    """What the table calls it: `logaddexp.reduce` for a method of a ufunc."""
    if isinstance(function, tuple):
        return f"{function[0].__name__}.{function[1]}"
    return name_of(function).removeprefix("numpy.")


def table() -> str:
    """The page."""
    functions = {*GRAD.rules, *VMAP.rules, *ONNX.rules, *UFUNCS, *ZERO_GRADIENT}
    of_numpy = [function for function in functions if name_of(function).startswith("numpy.")]
    rows = sorted((row(function), name(function)) for function in of_numpy)
    lines = []
    for (file, *rules), group in groupby(rows, key=lambda pair: pair[0]):
        names = ", ".join(called for _, called in group)
        lines.append(f"| {' | '.join((file, names, *rules))} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    PATH.write_text(table(), encoding="utf-8")
