"""Which keys of a source an update takes."""

from __future__ import annotations

from typing import Any

from lite._arrays.types import Path
from lite._tree.protocol import Container


def key_list(keys: Any) -> list[Any]:
    return [keys] if isinstance(keys, str) else list(keys)


def only(source: Any, keys: list[Any]) -> Any:
    """The chosen direct entries of a source; None if a key says more than that."""
    dense = isinstance(source, Container) and source._parts() is None
    if not (dense or type(source) is dict) or {*map(type, keys), *map(type, source.keys())} != {str}:
        return None
    return {key: value for key, value in source.items() if key in keys}


def below(chosen: list[Path] | None, path: Path) -> list[Path] | None:
    """What is chosen below a path: None for all of it, no items for nothing."""
    rest = [c[len(path) :] for c in chosen or () if c[: len(path)] == path[: len(c)]]
    return None if chosen is None or () in rest else rest
