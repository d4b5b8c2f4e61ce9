"""Lines of code of each part: without docstrings, comments and blank lines."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

PARTS = ("lite", "kernels", "models", "tests", "bench")
ROOT = Path(__file__).parents[1]


def code_lines(source: str) -> int:
    """How many lines of a file hold code."""
    docs: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docs.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(source.splitlines(), 1)
    return sum(number not in docs and line.strip()[:1] not in ("", "#") for number, line in lines)


def main(root: Path) -> None:
    """Print the lines of each part of a checkout, and of each package of the first three."""
    found: Counter[str] = Counter()
    for part in PARTS:
        for file in (root / part).rglob("*.py"):
            if not any(folder.is_symlink() for folder in file.parents if root in folder.parents):
                count = code_lines(file.read_text(encoding="utf-8"))
                found[part] += count
                folder = file.relative_to(root).parts[:-1][:2]
                if part in PARTS[:3] and len(folder) == 2:
                    found["/".join(folder)] += count
    for name, count in sorted(found.items()):
        if count:
            print(f"{count:8,}  {name}")
    print(f"{sum(found[part] for part in PARTS[:3]):8,}  lite, kernels and models")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
