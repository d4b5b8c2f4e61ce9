"""Writing containers as folders of memory-mapped files.

A `FolderPlan` lists all files of a tree before the first is written, so that an entry that cannot be saved
raises before any change. `write_folder` writes them; `with_leaves` replaces the arrays of a container by the
mapped ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from lite._arrays.dtypes import dtype_name
from lite._arrays.types import Array, host_array, is_array
from lite._files import meta, payload
from lite._files.archive import archive_order, write_archive
from lite._files.blocks import copies, send_by_handle
from lite._files.commit import Listing, listed, replace_tree
from lite._files.keys import file_name
from lite._files.mapping import bytes_of, create_leaf, is_file, placed, source_of, write_file
from lite._files.read import load
from lite._tree.nontensor import MetaData, NonTensorBase, NonTensorStack
from lite._tree.walks import leaves, nodes

if TYPE_CHECKING:
    from concurrent.futures import Future


@dataclass(slots=True)
class FolderPlan:
    """The files to write. Paths are relative to the root and separated by `/`; the root is "".

    Attributes:
        nodes: the folders, parents first, in the order in which containers are visited.
        leaves: path and array of each leaf, in the order in which they are visited.
        texts: path and content of all other files, the `meta.json` of a folder last.
        stacks: path of the `meta.json` of each lazy stack, with its content and the number of parts.
    """

    robust: bool = True
    allow_pickle: bool = False
    checksums: bool = False
    nodes: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    leaves: list[tuple[str, Array]] = field(default_factory=list)
    texts: list[tuple[str, bytes]] = field(default_factory=list)
    stacks: dict[str, tuple[meta.Json, int]] = field(default_factory=dict)

    def add(self, entry: Any, at: str, key: str) -> None:
        """Plan an entry as the folder `at`.

        Raises:
            ValueError: an entry that the format cannot hold.
            TypeError: an object that needs a pickle while pickles are not allowed.
        """
        self.folders.append(at)
        if isinstance(entry, NonTensorBase):
            self._non_tensor(entry, at, key)
        elif hasattr(entry, "_fields"):
            self._tensorclass(entry, at)
        elif entry._parts() is not None:
            self._lazy(entry, at)
        else:
            self._tensordict(entry, at)

    def _tensordict(self, td: Any, at: str) -> None:
        self.nodes.append(at)
        members: dict[str, str] = {}
        taken = {meta.NAME: meta.NAME}
        for key, entry in td._items():
            leaf = type(entry) is np.ndarray or is_array(entry)
            name = file_name(key, ".memmap" if leaf else "", self.robust)
            place = os.path.normcase(name)  # Windows does not tell a from A
            if place in taken:
                raise ValueError(f"the keys {taken[place]!r} and {key!r} would share the file name {name!r}.")
            taken[place] = key
            path = f"{at}/{name}" if at else name
            if leaf:
                array = entry if type(entry) is np.ndarray else host_array(entry, key)
                about = dtype_name(array.dtype), array.shape
                members[key] = (
                    meta.leaf_with(crc32(bytes_of(array)), *about) if self.checksums else meta.leaf(*about)
                )
                self.leaves.append((path, array))
            else:
                members[key] = meta.text_of({"type": type(entry).__name__})
                self.add(entry, path, key)
        self._text(at, meta.NAME, meta.join(members, td.batch_size, td._names))

    def _lazy(self, td: Any, at: str) -> None:
        parts, dim = td._parts()
        if not parts:
            raise ValueError(f"an empty lazy stack cannot be saved (at {at!r}).")
        self.nodes.append(at)
        for i, part in enumerate(parts):
            self.add(part, f"{at}/{i}" if at else str(i), str(i))
        node: meta.Json = {"_type": meta.LAZY_STACK, "stack_dim": dim}
        if td._dim_name is not None:
            node["stack_dim_name"] = td._dim_name
        self._text(at, meta.NAME, meta.dumps(node))
        self.stacks[self.texts[-1][0]] = node, len(parts)

    def _tensorclass(self, entry: Any, at: str) -> None:
        inner = entry._tensordict
        self.add(inner, f"{at}/_tensordict" if at else "_tensordict", "_tensordict")
        present = set(inner._keys())
        absent = {name: None for name in entry._fields if name not in present and name != "_type"}
        self._text(at, meta.NAME, meta.dumps({"_type": str(type(entry)), **absent}))

    def _non_tensor(self, entry: NonTensorBase, at: str, key: str) -> None:
        self.nodes.append(at)
        stacked = isinstance(entry, NonTensorStack)
        value = entry._objects().tolist() if stacked else entry._export()
        node = _stack_node(entry) if isinstance(entry, NonTensorStack) else _data_node(entry)
        try:
            if node is None:
                raise TypeError("JSON has no form")
            text = meta.dumps(node)
        except (TypeError, ValueError, RecursionError):
            content = value if stacked else {"data": value}
            self._text(at, meta.PICKLES[stacked], payload.as_pickle(content, self.allow_pickle, key))
            text = meta.dumps(_stack_pickled(entry) if stacked else _data_pickled(entry))
        self._text(at, meta.NAME, text)

    def _text(self, at: str, name: str, content: bytes) -> None:
        if name == meta.NAME:
            content = meta.sealed(content)
        self.texts.append((f"{at}/{name}" if at else name, content))

    def files(self) -> list[tuple[str, Array | bytes]]:
        """All files by path; empty arrays have none."""
        return [*self.texts, *((path, array) for path, array in self.leaves if array.size)]


def _data_node(entry: NonTensorBase) -> meta.Json | None:
    try:
        plain, tagged = payload.to_json(entry._export())
    except (TypeError, RecursionError):
        return None
    extra = None if tagged is None else {"lite": tagged}
    return {"_type": _type_of(entry), "data": plain, "_is_non_tensor": True, "_metadata": extra}


def _data_pickled(entry: NonTensorBase) -> meta.Json:
    return {"_type": _type_of(entry), "_is_non_tensor": True, "_metadata": None}


def _type_of(entry: NonTensorBase) -> str:
    """The class by its name in tensordict, which cannot read the type of typed metadata."""
    return meta.META_DATA if isinstance(entry, MetaData) else meta.NON_TENSOR_DATA


def _stack_node(entry: NonTensorStack) -> meta.Json | None:
    items = entry._objects()
    try:
        plain, tagged = payload.to_json(items.tolist())
        flat = None if tagged is None else payload.to_json(list(items.flat))[1]
    except (TypeError, RecursionError):
        return None
    node: meta.Json = {"_type": meta.NON_TENSOR_STACK, "stack_dim": 0, "device": None, "data": plain}
    if flat is not None or not items.size or NonTensorStack.from_list(plain)._batch_size != items.shape:
        # Objects may be lists too, so the nesting of lists alone does not determine the batch size.
        node["_lite"] = [{"shape": list(items.shape), "items": flat}]
    return node


def _stack_pickled(entry: NonTensorBase) -> meta.Json:
    return {
        "_type": meta.NON_TENSOR_STACK,
        "stack_dim": 0,
        "device": None,
        "data": meta.PICKLES[1],
        "_lite": [{"shape": list(entry.batch_size), "items": None}],
    }


def write_folder(
    entry: Any, root: str | None, *, like: bool, copy_existing: bool, existsok: bool, robust: bool,
    allow_pickle: bool, checksums: bool, threads: int,
) -> tuple[FolderPlan, list[Array]]:  # fmt: skip
    """Write a container as the folder `root` (None: to shared memory); returns the plan and the mapped
    leaves.

    Raises:
        RuntimeError: leaves are mapped to other files and `copy_existing` is False; a file exists and
            `existsok` is False; a path is a symbolic link.
        ValueError, TypeError: see `FolderPlan.add`.
    """
    if root is None:
        plan = _in_memory(entry)
        arrays = [array for _, array in plan.leaves]
        new = [array for array in arrays if like or source_of(array) is None]
        copied = iter(copies(new, filled=not like, mapped=True))
        return plan, [next(copied) if like or source_of(array) is None else array for array in arrays]
    plan = FolderPlan(robust, allow_pickle, checksums and not like)
    plan.add(entry, "", "")
    kept = _already_there(plan, root, like, copy_existing)

    def fill(stage: str, there: Listing) -> list[Array]:
        if there:
            _check_targets(plan, root, there, existsok, kept)
        return _fill(plan, kept, stage, root, like, threads)

    flat = [path for path, _ in (*plan.leaves, *plan.texts)] if len(plan.folders) == 1 else None
    made = zip(plan.leaves, replace_tree(root, fill, flat), strict=True)
    return plan, [placed(array, f"{root}/{path}") for (path, _), array in made]


def saving(entry: NonTensorBase, folder: str) -> Callable[[], None]:
    """A function that writes objects to the folder of the objects that they replace.

    Raises:
        TypeError: JSON cannot hold an object, and the old objects are not pickled.
        FileNotFoundError: the folder does not exist any more.
    """
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"the folder {folder}, which the objects are mapped to, is gone.")
    pickled = any(os.path.isfile(f"{folder}/{name}") for name in meta.PICKLES)
    plan = FolderPlan(allow_pickle=pickled)
    plan.add(entry, "", os.path.basename(folder))

    def write() -> None:
        replace_tree(folder, lambda stage, _: _fill(plan, set(), stage, folder, False, 0))

    return write


def _in_memory(entry: Any) -> FolderPlan:
    """Write the leaves to shared memory, which needs no file names and no metadata."""
    if isinstance(entry, NonTensorBase):
        return FolderPlan()
    node = getattr(entry, "_tensordict", entry)
    return FolderPlan(leaves=[("", host_array(leaf)) for leaf in leaves(node)])


def _already_there(plan: FolderPlan, root: str, like: bool, copy_existing: bool) -> set[int]:
    """Indices of the leaves that are already mapped to their files."""
    kept = set()
    for i, (path, array) in enumerate(plan.leaves):
        source = source_of(array)
        if source is None or not source.path:
            continue
        if not like and is_file(array, source, f"{root}/{path}"):
            if not getattr(source, "private", False):  # else the file may have other values
                kept.add(i)
        elif not copy_existing:
            raise RuntimeError(
                f"a leaf is mapped to {source.path} already. Pass copy_existing=True to write a "
                f"copy to {root}."
            )
    return kept


def _check_targets(plan: FolderPlan, root: str, there: Listing, existsok: bool, kept: set[int]) -> None:
    """Raise before anything is written if an existing file cannot be replaced."""
    files = [path for i, (path, array) in enumerate(plan.leaves) if array.size and i not in kept]
    files += [path for path, _ in plan.texts]
    known = {"": there}  # by folder: a listing takes as long as a look at four files
    for path, what in (*((path, "folder") for path in plan.folders[1:]), *((path, "file") for path in files)):
        folder, _, name = path.rpartition("/")
        if folder not in known:
            known[folder] = listed(f"{root}/{folder}")
        entry = known[folder].get(name)
        if entry is None:
            continue
        is_there = entry.is_dir if what == "folder" else entry.is_file
        if not is_there(follow_symlinks=False):
            if entry.is_symlink():
                raise RuntimeError(f"refusing to write through the symbolic link {root}/{path}.")
            raise FileExistsError(f"{root}/{path} exists and is not a {what}.")
        if what == "file" and not existsok:
            raise RuntimeError(f"The file {root}/{path} already exists.")


def _fill(plan: FolderPlan, kept: set[int], stage: str, root: str, like: bool, threads: int) -> list[Array]:
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


def _with_count(plan: FolderPlan, root: str, path: str, content: bytes) -> bytes:
    """The `meta.json` of a lazy stack with its length, as the folder may have parts of a longer stack."""
    node, count = plan.stacks.get(path, ({}, 0))
    if not count or not os.path.lexists(f"{root}/{path.removesuffix(meta.NAME)}{count}"):
        return content
    (about,) = node.get("_lite", [{}])
    return meta.sealed(meta.dumps({**node, "_lite": [{**about, "count": count}]}))


def with_leaves(
    entry: Any, arrays: Iterator[Array], folders: Iterator[str], root: str | None, inplace: bool,
    to_cpu: bool = True,
) -> Any:  # fmt: skip
    """The container with its leaves replaced, in the order of the plan; self if `inplace`.

    The traversal is separate, as it also sets the folder of each container, and may work in place.

    Args:
        arrays: the new leaves.
        folders: the folder of each container, relative to `root`.
        to_cpu: set the device of all containers to "cpu".
    """
    rest = (arrays, folders, root, inplace, to_cpu)
    node = getattr(entry, "_tensordict", entry)
    at = next(folders)
    folder = root if root is None or not at else f"{root}/{at}"
    if isinstance(entry, NonTensorBase):
        return (entry if inplace or folder is None else entry._clone(False))._mapped_to(folder)
    stacked = node._parts()
    if stacked is not None:
        parts = [with_leaves(part, *rest) for part in stacked[0]]
        out = node if inplace else node._from_parts(parts)
    else:
        data = {
            key: next(arrays) if is_array(value) else with_leaves(value, *rest)
            for key, value in node._items()
        }
        names = node._names if node._names is None else list(node._names)
        device = "cpu" if to_cpu else node.device
        out = node if inplace else node._make(data, node.batch_size, device, names)
        if inplace:
            node._data, node._device = data, device
    out._source = folder
    if inplace or node is entry:
        return entry if inplace else out
    return entry._wrap_tensordict(out)


SUFFIX = ".tdz"


def save_tree(
    td: Any, prefix: str | os.PathLike[str] | None, threads: int, return_early: bool, archive: bool | None,
    compression: str | int | None, *, inplace: bool = False, like: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """Write a container and return it mapped and locked, or a future of that; see `TensorDict.memmap`."""
    path = None if prefix is None else os.path.abspath(prefix)
    if archive is None:
        archive = path is not None and path.endswith(SUFFIX)
    if not archive and compression is not None:
        raise ValueError("compression is for archives; pass archive=True or a name that ends in .tdz.")
    if archive and path is None:
        raise ValueError("an archive needs a prefix to be written to.")

    def write() -> Any:
        if archive:
            return _save_archive(td, str(path), compression, like=like, **options)
        plan, mapped = write_folder(td, path, like=like, threads=threads, **options)
        folders = repeat("") if path is None else iter(plan.nodes)
        out = with_leaves(td, iter(mapped), folders, path, inplace)
        if path is None and not isinstance(out, NonTensorBase):
            for node in nodes(getattr(out, "_tensordict", out)):
                if node._parts() is None:  # the parts of a lazy stack are sent one by one
                    send_by_handle(type(node))
        return out.lock_()

    return in_background(write) if return_early else write()


def _save_archive(
    td: Any, path: str, compression: str | int | None, like: bool, copy_existing: bool, existsok: bool,
    robust: bool, allow_pickle: bool, checksums: bool,
) -> Any:  # fmt: skip
    if not existsok and os.path.exists(path):
        raise RuntimeError(f"The file {path} already exists.")
    plan = FolderPlan(robust, allow_pickle)
    plan.add(td, "", "")
    files = archive_order(plan.files())
    write_archive(path, ((name, _zeros(file)) for name, file in files) if like else files, compression)
    return load(path, None, "r+" if like else "r", robust, allow_pickle).lock_()


def _zeros(file: Array | bytes) -> Array | bytes:
    return np.zeros(file.shape, file.dtype) if isinstance(file, np.ndarray) else file


def in_background(run: Callable[[], Any]) -> Future[Any]:
    """Run a function in a new thread, and return its future; at once, where no thread starts any more."""
    from concurrent.futures import ThreadPoolExecutor

    from lite.kernels._threads import submit

    pool = ThreadPoolExecutor(1)
    try:
        return submit(pool, run)
    finally:
        pool.shutdown(wait=False)
