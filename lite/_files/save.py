"""Shared code of `memmap` and its variants: writes a folder or an archive, now or in a thread."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from lite._arrays.types import Array
from lite._files.archive import archive_order, write_archive
from lite._files.blocks import send_by_handle
from lite._files.folder import FolderPlan, with_leaves, write_folder
from lite._files.read import load
from lite._tree.nontensor import NonTensorBase
from lite._tree.walks import nodes

if TYPE_CHECKING:
    from concurrent.futures import Future

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
    """Run a function in a new thread, and return its future."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(run)
    finally:
        pool.shutdown(wait=False)
