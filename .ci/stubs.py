"""`python .ci/stubs.py` writes the stubs of packages that import their names on first use, for type checkers.

Without them a name would be `Any` to mypy, pyright and editors. They are written from the tables `_NAMES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

PACKAGES = ["lite", "lite.nn", "lite.data", "lite.envs", "lite.models"]
PACKAGES += ["lite.nn.losses", "lite.nn.values", "lite.envs.transforms"]
HEAD = '"""Written by `python .ci/stubs.py`."""\n\n'


def imports(package: str) -> Iterator[str]:
    """An import of each public name, and of the modules that are attributes."""
    module = importlib.import_module(package)
    for file, names in module._NAMES.items():
        where = resolve_name(f".{file}", package)
        yield from (f"from {where} import {name} as {name}\n" for name in names.split())
    parts = sorted(getattr(module, "_PACKAGES", ()))
    yield from (f"from {package} import {name} as {name}\n" for name in parts)
    if hasattr(module, "__version__"):
        yield "\n__version__: str\n"


def stubs() -> Iterator[tuple[Path, str]]:
    """The file of each stub, and what it holds."""
    for package in PACKAGES:
        path = Path(str(importlib.import_module(package).__file__))
        yield path.with_suffix(".pyi"), HEAD + "".join(imports(package))


if __name__ == "__main__":
    for path, text in stubs():
        path.write_text(text, encoding="utf-8")
