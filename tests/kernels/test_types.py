"""Arguments of compiled functions say what they are."""

from __future__ import annotations

import ast
from pathlib import Path

from lite.kernels import _types

KERNELS = Path(_types.__file__).parent


def test_no_argument_of_compiled_code_is_any() -> None:
    untyped, seen = [], 0
    for file in (*KERNELS.glob("cpu/*.py"), *KERNELS.glob("cuda/*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            marks = [ast.unparse(mark) for mark in getattr(node, "decorator_list", ())]
            if (
                isinstance(node, ast.FunctionDef)
                and marks
                and marks[0].startswith(("jit", "kernel", "device"))
            ):
                kinds = {arg.arg: arg.annotation and ast.unparse(arg.annotation) for arg in node.args.args}
                seen += len(kinds)
                untyped += [
                    f"{file.stem}.{node.name}: {name}" for name, kind in kinds.items() if kind == "Any"
                ]
    assert seen > 900
    assert untyped == []
