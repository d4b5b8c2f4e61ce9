"""`lite bench`: the benchmarks of a checkout on this machine; `bench/machine_report.py` has what it does."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

import lite
from lite.cli.progress import say


def run(args: argparse.Namespace) -> int:
    """Time the groups of cases that are named, or all; print a table or JSON; write a page for `--plot`."""
    _report().run(args, partial(say, args))
    return 0


def _report() -> ModuleType:
    """A file of the folder of benchmarks, which is not part of an installed package."""
    root = Path(lite.__file__).resolve().parents[1]
    if not (root / "bench" / "machine_report.py").is_file() or not (root / "pyproject.toml").is_file():
        raise FileNotFoundError(
            "the benchmarks are in a checkout of the project and not in the installed package: in a checkout,"
            ' run pip install -e ".[llm]", then lite bench'
        )
    folder = str(root / "bench")
    sys.path.insert(0, folder)
    try:
        return import_module("machine_report")
    finally:
        sys.path.remove(folder)
