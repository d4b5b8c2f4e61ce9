"""Public names of packages: imported on first use, and classes that name the package as their module.

So importing a package is fast, and pickles, messages and `help` name a module that does not change when files
move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

# The module that defines a class.
written_in: dict[type, str] = {}


def belong_here(package: dict[str, Any]) -> None:
    """Set the module of all classes that a package exports; called at its end with `globals()`.

    Classes of other libraries and classes that a lower package exports do not change.
    """
    home = package["__name__"]
    for name in package["__all__"]:
        value = package.get(name)  # absent for names that are imported on first use
        if not isinstance(value, type) or value in written_in:
            continue
        if value.__module__.startswith(f"{home}."):
            belong_to(home, value)


def belong_to(home: str, *classes: type) -> None:
    """Set the module of classes to a package; called by files that the package imports on first use."""
    for cls in classes:
        written_in[cls] = cls.__module__
        cls.__module__ = home


def import_on_first_use(
    package: dict[str, Any], names: Mapping[str, str], packages: Mapping[str, str] | None = None
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package whose names are imported when they are first used.

    Args:
        package: its `globals()`.
        names: public names, separated by blanks, by the modules that define them, as "replay.trees" of the
            package, and ".specs.base" beside it.
        packages: modules that are attributes, by their names; they are not in `__all__`.
    """
    home, inner = package["__name__"], packages or {}
    module_of = {name: module for module, several in names.items() for name in several.split()}
    public = sorted(module_of, key=lambda name: (not name.isupper(), name[0].islower(), name))

    def get(name: str) -> Any:
        if name in inner:
            return import_module(f".{inner[name]}", home)
        if name not in module_of:
            raise AttributeError(f"module {home!r} has no attribute {name!r}")
        module = f".{module_of[name]}"
        import_module(module.rpartition(".")[0] or ".", home)  # first, or two threads wait for each other
        found = package[name] = getattr(import_module(module, home), name)
        return found

    def directory() -> list[str]:
        loaded = [
            name for name, value in package.items() if isinstance(value, ModuleType) or name[:2] == "__"
        ]
        return sorted({*public, *inner, *loaded})

    return public, get, directory
