"""Each package imports only packages below it, wherever the import stands; no files import each other.

Counted are the imports at the top of a file, inside functions and for type checkers alike: what a reader must
know to read a file is all that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = {"lite": "lite", "kernels": "lite.kernels", "models": "lite.models"}

# From the ground up. A module belongs to the longest name that starts its own.
LAYERS = [  # "lite" is its __init__, the public names
    "lite.kernels", "lite._arrays", "lite._tree", "lite._containers", "lite._ops", "lite._convert",
    "lite._files", "lite._processes", "lite._show", "lite._lazy_hooks", "lite._tensordict",
    "lite._constructors", "lite._tensorclass", "lite._transforms", "lite", "lite.specs", "lite.nn.settings",
    "lite.nn._modules", "lite.nn.layers", "lite.nn.functional", "lite.nn.init", "lite.nn.distributions",
    "lite.nn.tensordict_modules", "lite.nn._parameters", "lite.nn.policies", "lite.nn.values",
    "lite.nn.losses", "lite.nn._export", "lite.nn._import", "lite.nn._lora", "lite.nn", "lite.optim",
    "lite.envs", "lite.data.trajectories", "lite.data.tables", "lite.data.replay", "lite.data.values",
    "lite.data.datasets", "lite.data.collectors", "lite.data.logging", "lite.data", "lite.models.graph",
    "lite.models.decoder", "lite.models.learning", "lite.models.comparison", "lite.models.generation",
    "lite.models.text", "lite.models.wrapper", "lite.models.batches", "lite.models.tiny_chat",
    "lite.models", "lite.cli", "lite.__main__",
]  # fmt: skip
RANK = {name: rank for rank, name in enumerate(LAYERS)}

# Imports of a higher package that run on first use of a name.
LAZY_HOOKS = {("lite._tree.protocol", "lite._tensorclass.tensorclass")}


@cache
def modules() -> dict[str, Path]:
    """Every module of the product by its name."""
    found = {}
    for folder, package in FOLDERS.items():
        for file in sorted((ROOT / folder).rglob("*.py")):
            inner = file.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "lite" and inner[0] in ("kernels", "models"):
                continue
            found[".".join((package, *(part for part in inner if part != "__init__")))] = file
    return found


# At the beginning of a line, so also in programs within texts. Parsing 700 files took five seconds.
_IMPORT = re.compile(
    r"^[ \t]*(?:from (lite(?:\.\w+)*) import (\([^)]*\)|[^\n#]*)|import (lite\b[^\n#]*))", re.MULTILINE
)


def imported(file: Path) -> Iterator[str]:
    """Every module of the product that a file imports: at its top, in functions, and for type checkers."""
    for module, names, whole in _IMPORT.findall(file.read_text(encoding="utf-8")):
        for name in re.findall(r"([\w.]+)(?: as \w+)?", re.sub(r"#.*", "", names or whole)):
            inner = f"{module}.{name}" if module else name
            yield inner if inner in modules() or not module else module


@cache
def graph() -> dict[str, frozenset[str]]:
    """Which modules each module imports, without the lazy hooks."""
    return {
        name: frozenset(
            other for other in imported(file) if other != name and (name, other) not in LAZY_HOOKS
        )
        for name, file in modules().items()
    }


def layer(module: str) -> str:
    parts = module.split(".")
    return next(name for n in range(len(parts), 0, -1) if (name := ".".join(parts[:n])) in RANK)


def circles() -> list[list[str]]:
    """Sets of modules that reach each other (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph()[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            circle = stack[at:]
            del stack[at:]
            if len(circle) > 1:
                found.append(sorted(circle))

    for name in graph():
        if name not in index:
            visit(name)
    return found


def test_imports_point_down() -> None:
    up = [
        f"{name} -> {other}"
        for name, others in graph().items()
        for other in sorted(others)
        if RANK[layer(other)] > RANK[layer(name)]
    ]
    assert up == []


def test_no_files_import_each_other() -> None:
    assert circles() == []


def test_every_import_is_of_a_module_that_exists() -> None:
    unknown = {other for others in graph().values() for other in others} - set(modules())
    assert unknown == set()


def test_every_layer_exists() -> None:
    assert [
        name
        for name in LAYERS
        if not any(module == name or module.startswith(f"{name}.") for module in modules())
    ] == []


def test_lazy_hooks_are_used() -> None:
    missing = [hook for hook in LAZY_HOOKS if hook[1] not in set(imported(modules()[hook[0]]))]
    assert missing == []


def test_folders_are_small() -> None:
    full: dict[Path, int] = {}
    for file in modules().values():
        full[file.parent] = full.get(file.parent, 0) + 1
    large = {folder.name: n for folder, n in full.items() if n > 25}
    assert large == {}, "more than 25 files: a family gets a folder of its own, as lite/nn/losses/offline"


def test_long_files_say_why() -> None:
    sources = {name: file.read_text(encoding="utf-8") for name, file in modules().items()}
    long = {name for name, source in sources.items() if source.count("\n") > 600}
    assert [name for name in sorted(long) if "600 lines" not in sources[name].split('"""')[1]] == []
