"""Rows that are tuples, lists and dicts of arrays, as the TensorDict whose arrays hold them, and back.

The entries have the places of their leaves as keys, so that files lie where torchrl has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lite import TensorDict, stack
from lite._arrays.dtypes import dtype_name, dtype_of
from lite._arrays.types import Shape, host_array, is_array
from lite._files.mapping import map_leaf
from lite._files.meta import shape_of
from lite.data.replay.columns import is_container

MAX_DEPTH = 32


class Tree(NamedTuple):
    """How rows are nested: a tuple, list or dict, and what is at each of its keys, None for a leaf."""

    kind: Any
    items: tuple[tuple[str | int, Tree | None], ...]

    def __str__(self) -> str:
        parts = [str(item or "*") for _, item in self.items]
        if self.kind is dict:
            return "{" + ", ".join(f"{at!r}: {s}" for (at, _), s in zip(self.items, parts, strict=True)) + "}"
        return f"{self.kind.__name__}({', '.join(parts)})"

    def to_json(self) -> Any:
        """For `from_json`; a named tuple becomes a tuple."""
        kind = self.kind.__name__ if self.kind in (dict, list) else "tuple"
        return [kind, [[key, None if item is None else item.to_json()] for key, item in self.items]]

    @classmethod
    def from_json(cls, found: Any, depth: int = 0) -> Tree:
        """The inverse of `to_json`.

        Raises:
            ValueError: anything else.
        """
        try:
            kind, items = found
            kind = {"dict": dict, "list": list, "tuple": tuple}[kind]
            if depth > MAX_DEPTH or not all(type(key) in (str, int) for key, _ in items):
                raise ValueError
            nested = [(key, None if item is None else cls.from_json(item, depth + 1)) for key, item in items]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"rows cannot be nested as {found!r:.100}") from error
        return cls(kind, tuple(nested))

    def like(self, other: Tree) -> bool:
        """Whether the leaves of both have the same places."""
        return set(self._places()) == set(other._places())

    def _places(self) -> Iterator[tuple[str, ...]]:
        for key, nested in self.items:
            if nested is None:
                yield (str(key),)
            else:
                yield from ((str(key), *place) for place in nested._places())


def is_tree(data: Any) -> bool:
    """Whether rows are nested: a dict, or a tuple that holds an array or a container somewhere."""
    return isinstance(data, dict | tuple) and any(
        is_array(item) or is_container(item) or is_tree(item) or (type(item) is list and is_tree(tuple(item)))
        for item in (data.values() if isinstance(data, dict) else data)
    )


def length_of_tree(data: Any) -> int:
    """How many rows there are, of which all leaves have as many.

    Raises:
        TypeError: a leaf without a first dimension.
        RuntimeError: leaves have different numbers.
    """
    sizes = {_size(leaf) for leaf in _leaves(data)}
    if len(sizes) > 1:
        raise RuntimeError(
            f"the arrays of a tuple or dict must have one first dimension, got {sorted(sizes)}."
        )
    return sizes.pop()


def as_table(data: Any, dims: int) -> tuple[TensorDict, Tree]:
    """The rows as a TensorDict, whose batch size is that of the leaves in `dims` dimensions, and their tree.

    Raises:
        TypeError: a leaf is not an array, number or container, or a key is not a string or integer.
        RuntimeError: leaves have different sizes.
        KeyError: two keys are written alike.
    """
    return _table(data, _shape(next(_leaves(data)))[:dims])


def as_rows_of(table: Any, tree: Tree) -> Any:
    """The inverse of `as_table`, for any of its rows."""
    found = [
        table.get(str(key)) if item is None else as_rows_of(table.get(str(key)), item)
        for key, item in tree.items
    ]
    if tree.kind is dict:
        return dict(zip((key for key, _ in tree.items), found, strict=True))
    return tree.kind(*found) if hasattr(tree.kind, "_fields") else tree.kind(found)


def joined(rows: list[Any]) -> Any:
    """Rows, each of which is a tuple or dict, as one whose arrays have a first dimension of rows.

    Raises:
        TypeError: rows are nested differently.
        ValueError: arrays of different shapes.
    """
    tables = [as_table(row, 0) for row in rows]
    first = tables[0][1]
    for _, tree in tables[1:]:
        if tree != first:
            raise TypeError(f"rows must be nested alike, got {first} and {tree}.")
    return as_rows_of(stack([table for table, _ in tables], 0), first)


def mapped(data: Any, function: Callable[[Any], Any]) -> Any:
    """The tree with a function applied to each leaf."""
    if not _is_node(data):
        return function(data)
    if isinstance(data, dict):
        return {key: mapped(item, function) for key, item in data.items()}
    found = [mapped(item, function) for item in data]
    return type(data)(*found) if hasattr(data, "_fields") else type(data)(found)


def leaves_of(table: TensorDict) -> dict[str, Any]:
    """What torchrl notes of each array: its place with points between keys, dtype and shape."""
    return {
        ".".join((key,) if isinstance(key, str) else key): {
            "dtype": dtype_name(leaf.dtype),
            "shape": list(leaf.shape),
        }
        for key, leaf in table.items(True, True)
    }


def load_leaves(folder: Path, leaves: Any) -> TensorDict:
    """The arrays that `leaves_of` is about, mapped, as a table of rows.

    Raises:
        ValueError: names that leave the folder, or files that are missing, too short, or not arrays of rows.
    """
    table = TensorDict()
    if not isinstance(leaves, dict) or not leaves:
        raise ValueError(f"{folder} is damaged or foreign: no arrays.")
    for name, about in leaves.items():
        keys = name.split(".")
        if not isinstance(about, dict) or not all(
            key and not set(key) & {"/", "\\", "\0", ":"} for key in keys
        ):
            raise ValueError(f"{folder} is damaged or foreign: {name!r} cannot be the name of an array.")
        file = folder.joinpath(*keys[:-1], f"{keys[-1]}.memmap")
        if any(
            parent.is_symlink() for parent in file.parents if parent != folder and folder in parent.parents
        ):
            raise ValueError(f"refusing to follow a symbolic link to {file}.")
        try:
            leaf = map_leaf(str(file), dtype_of(about.get("dtype")), shape_of(about.get("shape"), str(file)))
        except FileNotFoundError as error:
            raise ValueError(f"{folder} is damaged: {file} is missing.") from error
        table.set(tuple(keys), leaf)
    sizes = {leaf.shape[:1] for leaf in table.values(True, True)}
    if len(sizes) > 1 or not min(sizes):
        raise ValueError(f"{folder} is damaged or foreign: its arrays begin with {sorted(sizes)}.")
    return table.auto_batch_size_(1)


def _is_node(data: Any) -> bool:
    return isinstance(data, dict | tuple) or type(data) is list


def _leaves(data: Any) -> Any:
    if not _is_node(data):
        yield data
        return
    for item in data.values() if isinstance(data, dict) else data:
        yield from _leaves(item)


def _shape(leaf: Any) -> Shape:
    return tuple(leaf.batch_size) if is_container(leaf) else np.shape(leaf)


def _size(leaf: Any) -> int:
    shape = _shape(leaf)
    if not shape:
        raise TypeError(
            "extend needs elements along a first dimension of each array, got one without; "
            "add(data) stores one element."
        )
    return shape[0]


def _table(data: Any, shape: Shape) -> tuple[TensorDict, Tree]:
    entries: dict[str, Any] = {}
    items: list[tuple[str | int, Tree | None]] = []
    for key, item in data.items() if isinstance(data, dict) else enumerate(data):
        if type(key) not in (str, int):
            raise TypeError(f"keys of rows must be strings or integers, got {key!r}.")
        if str(key) in entries:
            raise KeyError(f"two keys of a row are written {str(key)!r}.")
        nested = None
        if _is_node(item):
            item, nested = _table(item, shape)
        elif not is_container(item):
            item = host_array(item) if is_array(item) else np.asarray(item)
            if item.dtype == object:
                raise TypeError(
                    f"a storage of arrays needs arrays and numbers, got {item!r:.60} at {key!r}; "
                    "ListStorage holds any object."
                )
        if _shape(item)[: len(shape)] != shape:
            raise RuntimeError(f"arrays of one row must begin with {shape}, got {item.shape} at {key!r}.")
        entries[str(key)] = item
        items.append((key, nested))
    kind = dict if isinstance(data, dict) else type(data)
    return TensorDict(entries, batch_size=shape), Tree(kind, tuple(items))
