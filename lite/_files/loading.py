"""The methods of TensorDicts, lazy stacks and tensorclasses that read files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from lite._tree.protocol import Container, T
from lite._tree.walks import leaves

_PathLike = str | os.PathLike[str]


def load_memmap(
    cls: type[Any],
    prefix: _PathLike,
    device: Any = None,
    non_blocking: bool = False,
    *,
    out: Any = None,
    robust_key: bool | None = True,
    subpath: Any = None,
    mode: str = "r",
    num_threads: int = 0,
    allow_pickle: bool = False,
) -> Any:
    """Map what `memmap` wrote, here or in tensordict.

    Files are checked, not trusted: what is missing, cut off, too long, linked or inconsistent raises
    an error, and nothing on disk is changed. While a writer is at work this waits for it. The result
    is locked; writes to its arrays go to the files where these are writable.

    Args:
        prefix: folder or archive.
        device: move the arrays there.
        non_blocking: accepted for compatibility.
        out: fill this TensorDict: its entries become the loaded ones, others are removed.
        robust_key: file names are escaped keys (names as old versions wrote them are found too).
        subpath: load only the nested entry at this key, or path with "/".
        mode: "r+" lets writes to an archive's arrays reach the file; otherwise they stay in memory.
            Folders are always writable. See `lite.refresh_archive_checksums`.
        num_threads: accepted for compatibility.
        allow_pickle: unpickle objects that JSON could not hold. Unpickling can run any code.

    Returns:
        The saved TensorDict, lazy stack, non-tensor data or tensorclass. A tensorclass whose class is
        not known comes back as a TensorDict.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: damaged or foreign files, a symbolic link, or nothing under `subpath`.
        RuntimeError: pickled objects, and `allow_pickle` is False.

    Example:
        >>> import tempfile
        >>> from lite import TensorDict
        >>> path = tempfile.mkdtemp() + "/td.tdz"
        >>> _ = TensorDict({"a": 1.0, "n": {"b": 2.0}}).memmap(path)
        >>> TensorDict.load_memmap(path, subpath="n")["b"]
        array(2., dtype=float32)
    """
    from lite._files.fill import fill
    from lite._files.load import load

    found = load(os.fspath(prefix), subpath, mode, robust_key is not False, allow_pickle)
    if device is not None and hasattr(found, "to"):
        found = found.to(device)
    if out is not None:
        return fill(out, found)
    wrap = getattr(cls, "from_tensordict", None)
    if wrap is not None and getattr(found, "_fields", None) is None:
        found = wrap(found)
    return found.lock_() if hasattr(found, "lock_") else found


def load(cls: type[Any], prefix: _PathLike, *args: Any, **kwargs: Any) -> Any:
    """Read what `save` wrote: a folder or archive (see `load_memmap`), .npz or .safetensors.

    Args:
        prefix: folder or file.
        args: see `load_memmap`.
        kwargs: see `load_memmap`.

    Raises:
        ImportError: a .safetensors file without the package that reads it.
    """
    from lite._files.flat import load_from

    path = os.fspath(prefix)
    if os.path.isfile(path):
        found = load_from(path)
        if found is not None:
            wrap = getattr(cls, "from_tensordict", None)
            return found if wrap is None else wrap(found)
    return cls.load_memmap(path, *args, **kwargs)


def load_memmap_(
    td: T, prefix: _PathLike, robust_key: bool | None = True, *, allow_pickle: bool = False
) -> T:
    """Make the entries of self those saved at `prefix`; locked again if it was; returns self."""
    from lite._files.fill import fill
    from lite._files.load import load

    node: Any = getattr(td, "_tensordict", td)
    found = load(os.fspath(prefix), None, "r", robust_key is not False, allow_pickle)
    locked = node.is_locked
    if locked:
        node.unlock_()
    try:
        fill(node, found)
    finally:
        if locked:
            node.lock_()
    return td


def load_(td: T, prefix: _PathLike, *args: Any, **kwargs: Any) -> T:
    """Same as `load_memmap_`."""
    return td.load_memmap_(prefix, *args, **kwargs)


def memmap_refresh_(td: T, *, allow_pickle: bool = False) -> T:
    """Map the files anew, which another process may have replaced or added to; returns self.

    Raises:
        RuntimeError: self is not mapped to a folder.
    """
    path = _saved_path(td)
    if path is None:
        raise RuntimeError("Cannot refresh a TensorDict that is not memory mapped or has no path associated.")
    return td.load_memmap_(path, allow_pickle=allow_pickle)


def is_memmap(td: Container) -> bool:
    """Whether every array lies in a mapped file (or shared memory); views of such arrays do, too."""
    from lite._files.mapping import source_of

    node: Any = getattr(td, "_tensordict", td)
    found = False
    for array in leaves(node):
        if not isinstance(array, np.ndarray) or (array.size and source_of(array) is None):
            return False
        found = found or array.size > 0
    return found or (node._locked and isinstance(getattr(node, "_source", None), str))


def saved_path(td: Any) -> str:
    """The folder that the arrays are mapped to.

    Raises:
        AttributeError: they are not.
    """
    path = _saved_path(td)
    if path is None:
        raise AttributeError(f"The tensordict has no saved path (memmap={td.is_memmap()}, path=None).")
    return path


def from_h5(
    cls: type[Any],
    filename: _PathLike,
    *,
    mode: str = "r",
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: Any = None,
) -> Any:
    """Read an HDF5 file to memory.

    Args:
        filename: file written by `to_h5`, here or in tensordict, or any of groups and datasets.
        mode: only "r".
        auto_batch_size: use the longest leading shape that all entries share.
        batch_dims: cap on the number of batch dimensions found.
        batch_size: of all levels; None for what `to_h5` has noted, else `()`.

    Raises:
        ImportError: without h5py.
        ValueError: a damaged file, or one with links.

    Example:
        >>> import tempfile
        >>> from lite import TensorDict
        >>> path = tempfile.mkdtemp() + "/td.h5"
        >>> _ = TensorDict({"a": [1, 2], "n": {"s": "x"}}, [2]).to_h5(path)
        >>> TensorDict.from_h5(path)["n", "s"]
        'x'
    """
    from lite._files.h5 import read_h5

    if mode != "r":
        raise ValueError(f"from_h5 reads to memory: mode must be 'r', got {mode!r}.")
    if auto_batch_size and batch_size is not None:
        raise ValueError("auto_batch_size and batch_size exclude each other.")
    found = read_h5(os.fspath(filename), () if auto_batch_size else batch_size)
    if auto_batch_size:
        found.auto_batch_size_(batch_dims)
    wrap = getattr(cls, "from_tensordict", None)
    return found if wrap is None else wrap(found)


def from_consolidated(cls: type[Any], filename: _PathLike) -> Any:
    """Map a file that `consolidate` wrote, here or in tensordict; see `lite.from_consolidated`."""
    from lite._files.consolidated import from_consolidated

    return from_consolidated(filename)


def _saved_path(td: Any) -> str | None:
    source = getattr(getattr(td, "_tensordict", td), "_source", None)
    return source if isinstance(source, str) and td.is_memmap() else None
