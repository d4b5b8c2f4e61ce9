"""The annotations of a tensorclass, also as strings (`from __future__ import annotations`).

The names in text may be those of classes that are defined later, of the class itself, or of classes in a
function. So they are looked up when they are needed, and names of functions are noted where they are known.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

UNKNOWN: Any = object()


def annotation_of(cls: type, name: str) -> Any:
    """The type that a field of a tensorclass is annotated with; UNKNOWN if it is not known yet."""
    for base in cls.__mro__:
        annotations = inspect.get_annotations(base)
        if name in annotations:
            # Read by a class of that module, so that names are looked up there.
            namespace = {"__annotations__": {name: annotations[name]}, "__module__": base.__module__}
            known = {**base.__dict__.get("_local_types", {}), base.__name__: base}
            try:
                return typing.get_type_hints(type("Holder", (), namespace), localns=known)[name]
            except (NameError, TypeError, SyntaxError, AttributeError):
                return UNKNOWN
    return UNKNOWN


def local_types(cls: type) -> dict[str, Any]:
    """The names in a class's annotations that are local to the functions in which the class is defined."""
    scope = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    wanted = {
        name
        for annotation in inspect.get_annotations(cls).values()
        for name in _names(annotation)
        if name not in scope and not hasattr(builtins, name)
    }
    found: dict[str, Any] = {}
    frame = sys._getframe(1)
    while frame is not None and wanted:
        if frame.f_globals is scope and frame.f_locals is not scope:
            inside = {name: frame.f_locals[name] for name in wanted if name in frame.f_locals}
            found.update(inside)
            wanted -= inside.keys()
        frame = frame.f_back  # type: ignore[assignment]
    return found


def _names(annotation: object) -> Iterator[str]:
    """The names in the text of an annotation."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if not isinstance(annotation, str):
        for part in typing.get_args(annotation):
            yield from _names(part)
        return
    try:
        tree = ast.parse(annotation, mode="eval")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _names(node.value)


def alternatives(annotation: object) -> list[Any]:
    """The types of a union, None aside; else the annotation alone."""
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return [annotation]
    return [part for part in typing.get_args(annotation) if part is not type(None)]


def is_kind(annotation: object, kind: type) -> bool:
    """Whether an annotation is `kind`, possibly parametrised, possibly `| None`, also if it is text."""
    if isinstance(annotation, str):
        text = annotation.replace(" ", "").removeprefix("Optional[").removesuffix("|None")
        return text.split("[")[0].rstrip("]") == kind.__name__
    options = alternatives(annotation)
    return len(options) == 1 and (options[0] is kind or typing.get_origin(options[0]) is kind)


def is_array_type(annotation: object) -> bool:
    """Whether an annotation names a class of arrays."""
    kind = typing.get_origin(annotation) or annotation
    return isinstance(kind, type) and hasattr(kind, "dtype") and hasattr(kind, "shape")
