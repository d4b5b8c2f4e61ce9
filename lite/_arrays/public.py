"""Sets `__module__` of public classes to the package that exports them.

So pickles, messages and `help` name a module that does not change when files move.
"""

from __future__ import annotations

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
