"""Write containers as folders of mapped files: `memmap` and its relatives."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

import numpy as np

from lite._arrays.types import Array, is_array, raw
from lite._files import meta
from lite._files.commit import replace_tree
from lite._files.mapping import anonymous_leaf, create_leaf, is_file, source_of, write_file
from lite._files.plan import Plan
from lite._tree.nontensor import NonTensorBase


def write_folder(
    entry: Any,
    root: str | None,
    *,
    like: bool,
    copy_existing: bool,
    existsok: bool,
    robust: bool,
    allow_pickle: bool,
    threads: int,
) -> tuple[Plan, list[Array]]:
    """Write a container as the folder `root` (None: to shared memory); gives its mapped leaves.

    Raises:
        RuntimeError: leaves are mapped to other files already and `copy_existing` is False; a file is in
            the way and `existsok` is False; a path is a symbolic link.
        ValueError, TypeError: see `Plan.add`.
    """
    plan = Plan(robust, allow_pickle)
    if root is None:
        _visit(entry, plan)
        return plan, [
            array if source_of(array) is not None and not like else anonymous_leaf(array, not like)
            for _, array in plan.leaves
        ]
    plan.add(entry, "", "")
    kept = _already_there(plan, root, like, copy_existing)

    def fill(stage: str, exists: bool) -> list[Array]:
        if exists:
            _check_targets(plan, root, existsok, kept)
        return _fill(plan, kept, stage, root, like, threads)

    return plan, replace_tree(root, fill)


def _visit(entry: Any, plan: Plan) -> None:
    """The leaves alone, for which no names or types of files matter."""
    if is_array(entry):
        array = raw(entry)
        if not isinstance(array, np.ndarray):
            raise TypeError("an array is on a device; move it first: td.to('cpu').")
        plan.leaves.append(("", array))
    elif not isinstance(entry, NonTensorBase):
        node = getattr(entry, "_tensordict", entry)
        stacked = node._parts()
        plan.nodes.append("")
        for child in [child for _, child in node._items()] if stacked is None else stacked[0]:
            _visit(child, plan)


def _already_there(plan: Plan, root: str, like: bool, copy_existing: bool) -> set[int]:
    """The leaves whose file is the one to be written; they stay as they are."""
    kept = set()
    for i, (path, array) in enumerate(plan.leaves):
        source = source_of(array)
        if source is None or not source.path:
            continue
        if not like and is_file(array, source, f"{root}/{path}"):
            kept.add(i)
        elif not copy_existing:
            raise RuntimeError(
                f"a leaf is mapped to {source.path} already. Pass copy_existing=True to write a "
                f"copy to {root}."
            )
    return kept


def _check_targets(plan: Plan, root: str, existsok: bool, kept: set[int]) -> None:
    """Raise before anything is written if something that is there cannot be replaced."""
    for path in plan.folders[1:]:
        mode = _mode(f"{root}/{path}")
        if stat.S_ISLNK(mode):
            raise RuntimeError(f"refusing to write through the symbolic link {root}/{path}.")
        if mode and not stat.S_ISDIR(mode):
            raise FileExistsError(f"{root}/{path} exists and is not a folder.")
    leaves = [path for i, (path, array) in enumerate(plan.leaves) if array.size and i not in kept]
    for path in [*leaves, *(path for path, _ in plan.texts)]:
        mode = _mode(f"{root}/{path}")
        if stat.S_ISLNK(mode):
            raise RuntimeError(f"refusing to write through the symbolic link {root}/{path}.")
        if mode and not stat.S_ISREG(mode):
            raise FileExistsError(f"{root}/{path} exists and is not a file.")
        if mode and not existsok:
            raise RuntimeError(f"The file {root}/{path} already exists.")


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _fill(plan: Plan, kept: set[int], stage: str, root: str, like: bool, threads: int) -> list[Array]:
    for path in plan.folders[1:]:
        os.mkdir(f"{stage}/{path}")

    def leaf(i: int) -> Array:
        path, array = plan.leaves[i]
        if i in kept:
            return array
        if not array.size:
            return np.empty(array.shape, array.dtype)
        return create_leaf(f"{stage}/{path}", array, f"{root}/{path}", not like)

    if threads > 1:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(threads) as pool:
            mapped = list(pool.map(leaf, range(len(plan.leaves))))
    else:
        mapped = [leaf(i) for i in range(len(plan.leaves))]
    for path, planned in plan.texts:
        write_file(f"{stage}/{path}", _with_count(plan, root, path, planned))
    return mapped


def _with_count(plan: Plan, root: str, path: str, content: bytes) -> bytes:
    """The file of a lazy stack that replaces a longer one says how many parts count."""
    node, count = plan.stacks.get(path, ({}, 0))
    if not count or not os.path.lexists(f"{root}/{path.removesuffix(meta.NAME)}{count}"):
        return content
    (about,) = node.get("_lite", [{}])
    return meta.dumps({**node, "_lite": [{**about, "count": count}]})


def with_leaves(
    entry: Any,
    leaves: Iterator[Array],
    nodes: Iterator[str],
    root: str | None,
    inplace: bool,
    to_cpu: bool = True,
) -> Any:
    """The container with its leaves replaced in the order they were planned; itself if `inplace`.

    Args:
        nodes: the folder of each container below `root`.
        to_cpu: bind the containers to the device "cpu".
    """
    if isinstance(entry, NonTensorBase):
        return entry
    rest = (leaves, nodes, root, inplace, to_cpu)
    node = getattr(entry, "_tensordict", entry)
    at = next(nodes)
    stacked = node._parts()
    if stacked is not None:
        parts = [with_leaves(part, *rest) for part in stacked[0]]
        out = node if inplace else node._from_parts(parts)
    else:
        data = {
            key: next(leaves) if is_array(value) else with_leaves(value, *rest)
            for key, value in node._items()
        }
        names = node._names if node._names is None else list(node._names)
        device = "cpu" if to_cpu else node.device
        out = node if inplace else node._make(data, node.batch_size, device, names)
        if inplace:
            node._data, node._device = data, device
    out._source = root if root is None or not at else f"{root}/{at}"
    if inplace or node is entry:
        return entry if inplace else out
    return entry._wrap_tensordict(out)
