"""`python .ci/signatures.py` writes tests/signatures.txt: arguments and defaults of what is public.

A line that changes there changes what calls of users mean: it breaks them, and CHANGELOG.md says so.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lite._tree.methods import resolved
from lite.cli.commands import build_parser

PATH = Path(__file__).parents[1] / "tests/signatures.txt"
PACKAGES = (
    *("lite", "lite.nn", "lite.nn.distributions", "lite.nn.functional", "lite.nn.init", "lite.nn.losses"),
    *("lite.nn.values", "lite.optim", "lite.envs", "lite.envs.transforms", "lite.data", "lite.kernels"),
    "lite.models",
)


class Shown:
    """A default as the file shows it: what has no repr of its own by its name or class."""

    def __init__(self, default: Any) -> None:
        text = getattr(default, "__qualname__", repr(default))
        self._text = f"<{type(default).__name__}>" if " at 0x" in text else text

    def __repr__(self) -> str:
        return self._text


def arguments(function: Any, skipped: int = 0) -> str:
    """The arguments after the first `skipped`, without types; "" where none has a default."""
    found = inspect.signature(inspect.unwrap(function))
    parameters = [
        each.replace(
            annotation=each.empty,
            default=each.empty if each.default is each.empty else Shown(each.default),
        )
        for each in list(found.parameters.values())[skipped:]
    ]
    if all(each.default is each.empty for each in parameters):
        return ""
    return str(found.replace(parameters=parameters, return_annotation=found.empty))


def methods(cls: type) -> Iterator[tuple[str, str]]:
    """The constructor, as "", and the methods that a class has of its own, with their arguments."""
    for name, member in vars(cls).items():
        member = resolved(member)
        function = getattr(member, "__func__", member)
        known = name in ("__init__", "__new__", "__call__") or not name.startswith("_")
        if known and inspect.isfunction(function):
            text = arguments(function, 0 if isinstance(member, staticmethod) else 1)
            yield "" if name in ("__init__", "__new__") else f".{name}", text


def signatures() -> Iterator[str]:
    """A line for each public function, constructor and method that has defaults.

    A method that several classes have alike is said once, of TensorDict or the class with the fewest bases.
    """
    modules = [importlib.import_module(package) for package in PACKAGES]
    found = {f"{m.__name__}.{name}": getattr(m, name) for m in modules for name in m.__all__}
    classes = {value: name for name, value in reversed(found.items()) if isinstance(value, type)}
    said = set()
    for cls, name in sorted(
        classes.items(), key=lambda pair: (pair[1] != "lite.TensorDict", len(pair[0].__mro__))
    ):
        private = [
            base for base in cls.__mro__[1:] if base not in classes and base.__module__.startswith("lite.")
        ]
        for method, text in [pair for each in [cls, *private] for pair in methods(each)]:
            alike = (method or name) + text
            if text and alike not in said:
                said.add(alike)
                yield name + method + text
    for name, value in found.items():
        if inspect.isfunction(value) and (text := arguments(value)):
            yield name + text


def options() -> Iterator[str]:
    """What each command takes, with its default."""
    commands = next(each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    for name, parser in commands.choices.items():
        parser.format_help()  # a parser gets its arguments when it is used
        for action in parser._actions:
            if not {"--help", "--debug", "--quiet"} & {*action.option_strings}:
                text = "/".join(action.option_strings) or action.dest
                text += f" ({action.nargs})" if action.nargs is not None else ""
                text += " must be given" if action.required and action.option_strings else ""
                text += f" = {action.default!r}" if action.default is not None else ""
                choices = f" of {', '.join(map(str, action.choices))}" if action.choices else ""
                yield f"lite {name} {text}{choices}"
        for group in parser._mutually_exclusive_groups:
            members = ", ".join(action.option_strings[0] for action in group._group_actions)
            yield f"lite {name}: {'one' if group.required else 'at most one'} of {members}"


def table() -> str:
    """The file."""
    return "".join(f"{line}\n" for line in sorted([*signatures(), *options()]))


if __name__ == "__main__":
    PATH.write_text(table(), encoding="utf-8")
