"""Public classes belong to the package that exports them, wherever they are written.

So pickles, messages and `help` name a place that stays when files move.
"""

from __future__ import annotations

from typing import Any

# The module in whose file a class stands.
written_in: dict[type, str] = {}


def belong_here(package: dict[str, Any]) -> None:
    """Make the classes that a package exports its own; called at its end with `globals()`.

    Classes of other libraries, and those that a package below exports already, stay what they are.
    """
    home = package["__name__"]
    for name in package["__all__"]:
        value = package.get(name)  # none for what is imported on first use
        if not isinstance(value, type) or value in written_in:
            continue
        if value.__module__.startswith(f"{home}."):
            belong_to(home, value)


def belong_to(home: str, *classes: type) -> None:
    """Make classes a package's own; called by their file where the package imports it on first use."""
    for cls in classes:
        written_in[cls] = cls.__module__
        cls.__module__ = home
