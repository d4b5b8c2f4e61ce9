"""Add an entry to a TensorDict that is mapped, and to its files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from lite._collection import Array
from lite._convert import fit_leaf
from lite._files import meta
from lite._files.commit import finish, locked, new_file, stage_name
from lite._files.dtypes import dtype_name
from lite._files.keys import file_name
from lite._files.mapping import anonymous_leaf, create_leaf, read_file
from lite._keys import Path, require_path


def add_leaf(td: Any, key: Any, like: Array, filled: bool, robust: bool) -> Array:
    """Create a leaf of the shape and dtype of `like`, with its values if `filled`; returns it, mapped.

    Raises:
        RuntimeError: td is not mapped or the key exists.
    """
    path = require_path(key)
    if td._parts() is not None:
        raise RuntimeError("a lazy stack cannot get a mapped entry: its rows live in the files of its parts.")
    if not hasattr(td, "_source") or not td.is_memmap():  # a view is mapped, but no folder is its own
        raise RuntimeError("Can only make a memmap tensor within a memory-mapped tensordict.")
    found = td._get_path(path)
    if found is not None:
        raise RuntimeError(
            f"The key {path[-1]} already exists within the target tensordict. Delete that entry before "
            "overwriting it."
        )
    node = _node(td, path[:-1], robust)
    fit_leaf(like, node.batch_size)
    root = node._source
    if root is None:
        leaf = anonymous_leaf(like, filled)
    else:
        member = meta.leaf(dtype_name(like.dtype), like.shape)
        with locked(root):
            leaf = _create(root, path[-1], like, filled, robust)
            _register(node, root, path[-1], member)
    node._data[path[-1]] = leaf
    return leaf


def _create(root: str, key: str, like: Array, filled: bool, robust: bool) -> Array:
    if not like.size:
        return np.empty(like.shape, like.dtype)
    finish(root)
    target = f"{root}/{file_name(key, '.memmap', robust)}"
    if os.path.islink(target):
        raise RuntimeError(f"refusing to write through the symbolic link {target}.")
    stage = stage_name(f"{root}/")
    leaf = create_leaf(stage, like, target, filled)
    os.replace(stage, target)
    return leaf


def _node(td: Any, path: Path, robust: bool) -> Any:
    """The nested TensorDict at a path, made on the way with its files."""
    for key in path:
        child = td._as_node(td._get_str(key))
        if child is None:
            child = td._blank()
            child._source = None
            if td._source is not None:
                name = file_name(key, "", robust)
                child.memmap_(f"{td._source}/{name}")
                with locked(td._source):
                    _register(td, td._source, key, {"type": "TensorDict"})
            td._data[key] = child
            child._lock(td)
        td = child
    return td


def _register(td: Any, root: str, key: str, member: meta.Json) -> None:
    """Add a member to the node's file; entries that other processes have added since stay."""
    where = f"{root}/{meta.NAME}"
    node = meta.loads(read_file(where, meta.MAX_BYTES), where)
    entries, _ = meta.split(node, where)
    with new_file(where) as file:
        file.write(meta.join({**entries, key: member}, td.batch_size, td._names))
