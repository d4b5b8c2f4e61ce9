"""Adding an entry to a memory-mapped TensorDict and to its files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from lite._arrays.dtypes import dtype_name
from lite._arrays.types import Array, Path
from lite._files import meta
from lite._files.blocks import copies
from lite._files.commit import Listing, replace_tree
from lite._files.keys import file_name
from lite._files.mapping import create_leaf, placed, read_file, write_file
from lite._tree.keys import require_path
from lite._tree.lock import lock_nested
from lite._tree.values import fit_leaf

_NODE = meta.text_of({"type": "TensorDict"})


def add_leaf(td: Any, key: Any, like: Array, filled: bool, robust: bool, existsok: bool = True) -> Array:
    """Create a mapped leaf of the shape and dtype of `like`, with its values if `filled`; returns the leaf.

    Args:
        existsok: whether a file of the name, left by a removed entry, may exist.

    Raises:
        RuntimeError: td is not mapped, the key exists in td or in its files, or the files have another batch
            size.
    """
    path = require_path(key)
    if td._parts() is not None:
        raise RuntimeError("a lazy stack cannot get a mapped entry: its rows live in the files of its parts.")
    if not hasattr(td, "_source") or not td.is_memmap():  # a view is mapped, but has no folder
        raise RuntimeError("Can only make a memmap tensor within a memory-mapped tensordict.")
    if td._get_entry(path) is not None:
        raise RuntimeError(
            f"The key {path[-1]} already exists within the target tensordict. Delete that entry before "
            "overwriting it."
        )
    node, missing = _deepest(td, path[:-1])
    fit_leaf(like, node.batch_size)
    rest = (*missing, path[-1])
    if node._source is None:
        (leaf,) = copies([like], filled=filled, mapped=True)
    else:
        leaf = _Addition(node, rest, like, filled, robust, existsok).write()
    for name in missing:
        child = node._with({})
        child._source = None if node._source is None else f"{node._source}/{file_name(name, '', robust)}"
        node._data[name] = child
        lock_nested(child, node)
        node = child
    node._data[rest[-1]] = leaf
    return leaf


def _deepest(td: Any, path: Path) -> tuple[Any, Path]:
    """The last existing container on a path, and the keys after it."""
    for n, key in enumerate(path):
        entry = td._get_entry(key)
        if entry is None:
            return td, path[n:]
        child = td._as_node(entry)
        if child is None or child._parts() is not None:
            raise RuntimeError(
                f"the entry {key!r} is a {type(entry).__name__}; nothing can be added below it."
            )
        td = child
    return td, ()


class _Addition:
    """The changes on disk: the `meta.json` of a folder, and new folders and the new leaf inside of it."""

    def __init__(
        self, node: Any, path: Path, like: Array, filled: bool, robust: bool, existsok: bool
    ) -> None:
        self._node, self._path, self._like = node, path, like
        self._filled, self._existsok = filled, existsok
        self._folders = [file_name(key, "", robust) for key in path[:-1]]
        self._file = file_name(path[-1], ".memmap", robust)
        self._member = meta.leaf(dtype_name(like.dtype), like.shape)

    def write(self) -> Array:
        array = replace_tree(self._node._source, self._fill)
        return placed(array, "/".join([self._node._source, *self._folders, self._file]))

    def _fill(self, stage: str, there: Listing) -> Array:
        root, size, names = self._node._source, self._node.batch_size, self._node._names
        entries, found = self._entries(root, size)
        last = len(self._path) - 1
        for n, key in enumerate(self._path):
            member = _NODE if n < last else self._member
            content = meta.join({**entries, key: member}, size, found)
            write_file(f"{stage}/{meta.NAME}", meta.sealed(content))
            if n < last:
                entries, found = {}, names
                stage, root = f"{stage}/{self._folders[n]}", f"{root}/{self._folders[n]}"
                if os.path.islink(root):
                    raise RuntimeError(f"refusing to write through the symbolic link {root}.")
                os.mkdir(stage)
        target = f"{root}/{self._file}"
        if os.path.islink(target):
            raise RuntimeError(f"refusing to write through the symbolic link {target}.")
        if not self._existsok and os.path.exists(target):
            raise RuntimeError(f"The file {target} already exists.")
        if not self._like.size:
            return np.empty(self._like.shape, self._like.dtype)
        return create_leaf(f"{stage}/{self._file}", self._like, target, self._filled)

    def _entries(self, root: str, size: tuple[int, ...]) -> tuple[dict[str, str], Any]:
        """The current entries in the files, including those that other processes added."""
        where = f"{root}/{meta.NAME}"
        node = meta.loads(read_file(where, meta.MAX_BYTES), where)
        entries, names = meta.split(node, where)
        if self._path[0] in entries:
            raise RuntimeError(
                f"The key {self._path[0]} already exists in {root}: another process has added it. Call "
                "memmap_refresh_() first."
            )
        if tuple(node.get("shape") or ()) != size:
            raise RuntimeError(
                f"{root} has been replaced by a tensordict of shape {node.get('shape')}, this one has "
                f"{list(size)}; call memmap_refresh_() first."
            )
        return {key: meta.text_of(member) for key, member in entries.items()}, names
