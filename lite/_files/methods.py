"""The methods of TensorDicts, lazy stacks and tensorclasses that write and read files.

`lite` imports this file on the first call of a method; formats other than folders and archives are imported
inside functions, as most programs use none of them.
"""

from __future__ import annotations

import os
from itertools import repeat
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.caller import warn
from lite._arrays.device import is_cpu
from lite._arrays.dtypes import get_default_dtype
from lite._arrays.types import Array, Device, Shape, Size, stored
from lite._convert.from_python import refuse_two_sizes
from lite._files import read
from lite._files.entries import add_leaf
from lite._files.folder import in_background, save_tree, saving, with_leaves
from lite._files.mapping import source_of
from lite._tree.keys import NestedKey
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import Container, T
from lite._tree.walks import leaves

_PathLike = str | os.PathLike[str]
# Suffixes of other file formats, which `save` does not write.
_OTHERS = (".pkl", ".pickle", ".pt", ".pth", ".npy", ".h5", ".hdf5", ".parquet", ".csv", ".json", ".zip")


class MemmapOptions(TypedDict, total=False):
    """The options of `memmap`, for functions that pass them on."""

    num_threads: int
    return_early: bool
    share_non_tensor: bool
    existsok: bool
    robust_key: bool | None
    archive: bool | None
    compression: str | int | None
    atomic: bool
    allow_pickle: bool
    checksums: bool


# -- write --------------------------------------------------------------------------------
def memmap(
    td: Container,
    prefix: _PathLike | None = None,
    copy_existing: bool = False,
    *,
    num_threads: int = 0,
    return_early: bool = False,
    share_non_tensor: bool = False,
    existsok: bool = True,
    robust_key: bool | None = True,
    archive: bool | None = None,
    compression: str | int | None = None,
    atomic: bool = False,
    allow_pickle: bool = False,
    checksums: bool = False,
) -> Any:
    """Write everything to memory-mapped files; returns a locked TensorDict of the mapped arrays.

    tensordict reads the files, and lite reads those of tensordict. They replace older files atomically: a
    reader, also after this process was killed, finds all old files or all new ones. (With LITE_FSYNC=1 in the
    environment, which makes every write wait for the disk, this also holds after a power failure.) Arrays
    mapped earlier keep their values. Files of arrays of removed entries are removed, other files stay.

    lite restores dimension names, tuples, sets and entries named "shape", "device" or "_type". tensordict
    reads the files without those entries, reads tuples and sets as lists, and names as of version 0.15.

    Args:
        prefix: folder to write, created if it is missing; a name that ends in ".tdz" writes an
            archive. None maps unnamed shared memory.
        copy_existing: copy leaves that are already mapped to other files.
        num_threads, share_non_tensor: write that many leaves at a time; accepted for compatibility.
        return_early: return a `concurrent.futures.Future` of the result.
        existsok: whether files of the same names may exist.
        robust_key: escape keys in file names (else a key must be a file name).
        archive: write an archive (default: if `prefix` ends in ".tdz").
        compression: compression of an archive's leaves: None, "deflate", "bzip2" or "lzma". Compressed leaves
            cannot be mapped.
        atomic: accepted for compatibility; all files appear at once in any case.
        allow_pickle: pickle objects that JSON cannot hold, instead of raising.
        checksums: write a checksum of each array into `meta.json`, for `load_memmap(verify=True)`; writes
            in place do not renew it. Archives have checksums in any case.

    Raises:
        TypeError: an object that JSON cannot hold, and `allow_pickle` is False; a device array.
        ValueError: a key or dtype that the format cannot hold.
        RuntimeError: leaves are mapped to other files, a file exists and `existsok` is False, or a path is a
            symbolic link.

    Example:
        >>> import tempfile, numpy as np
        >>> from lite import TensorDict
        >>> folder = tempfile.mkdtemp() + "/td"
        >>> TensorDict({"a": np.arange(3), "n": {"s": "text"}}, [3]).memmap(folder)["a"][0] = 7
        >>> TensorDict.load_memmap(folder)["a"]
        array([7, 1, 2])
    """
    return save_tree(
        td,
        prefix,
        num_threads,
        return_early,
        archive,
        compression,
        copy_existing=copy_existing,
        existsok=existsok,
        robust=robust_key is not False,
        allow_pickle=allow_pickle,
        checksums=checksums,
    )


def memmap_(
    td: Container,
    prefix: _PathLike | None = None,
    copy_existing: bool = False,
    *,
    num_threads: int = 0,
    return_early: bool = False,
    share_non_tensor: bool = False,
    existsok: bool = True,
    robust_key: bool | None = True,
    atomic: bool = False,
    allow_pickle: bool = False,
    checksums: bool = False,
) -> Any:
    """As `memmap`, but self gets the mapped arrays and is locked; returns self."""
    return save_tree(
        td,
        prefix,
        num_threads,
        return_early,
        False,
        None,
        copy_existing=copy_existing,
        existsok=existsok,
        robust=robust_key is not False,
        allow_pickle=allow_pickle,
        checksums=checksums,
        inplace=True,
    )


def memmap_like(
    td: Container,
    prefix: _PathLike | None = None,
    copy_existing: bool = False,
    *,
    existsok: bool = True,
    num_threads: int = 0,
    return_early: bool = False,
    share_non_tensor: bool = False,
    robust_key: bool | None = True,
    archive: bool | None = None,
    allow_pickle: bool = False,
) -> Any:
    """As `memmap`, with zeros in place of the values; the files take no space until written to.

    The arrays of an archive are full of zeros, and writes reach it, as with `load_memmap(mode="r+")`.
    """
    return save_tree(
        td,
        prefix,
        num_threads,
        return_early,
        archive,
        None,
        copy_existing=True,
        existsok=existsok,
        robust=robust_key is not False,
        allow_pickle=allow_pickle,
        checksums=False,
        like=True,
    )


def save(
    td: Container,
    prefix: _PathLike | None = None,
    copy_existing: bool = False,
    **options: Unpack[MemmapOptions],
) -> Any:
    """Write to a folder or archive as `memmap`, or to a file by its suffix: .npz, .safetensors.

    Args:
        prefix: the path; None maps unnamed shared memory.
        copy_existing: see `memmap`.
        options: see `memmap`.

    Returns:
        The mapped TensorDict for folders and archives, else self.

    Warns:
        UserWarning: the name has the suffix of another file format, such as .pkl, but a folder is written.

    Example:
        >>> import tempfile
        >>> from lite import TensorDict
        >>> path = tempfile.mkdtemp() + "/td.npz"
        >>> _ = TensorDict({"a": [1, 2], "n": {"b": 3.0}}).save(path)
        >>> TensorDict.load(path)["n", "b"]
        array(3., dtype=float32)
    """
    from lite._files.flat import save_as

    path = None if prefix is None else os.fspath(prefix)
    if path is not None and not os.path.isdir(path):
        if save_as(td, path, {**options}):
            return td
        if path.endswith(_OTHERS) and not options.get("archive"):
            warn(
                f"save makes a folder of this name: {path!r}. A name that ends in .tdz, .npz or .safetensors "
                "makes a file; pickle.dump, td.to_h5 and td.to_parquet write other formats.",
            )
    return td.memmap(path, copy_existing, **options)


# -- read ----------------------------------------------------------------------------------
def load_memmap(
    cls: type[Any],
    prefix: _PathLike,
    device: Device = None,
    non_blocking: bool = False,
    *,
    out: Any = None,
    robust_key: bool | None = True,
    subpath: NestedKey | None = None,
    mode: str | None = None,
    num_threads: int = 0,
    allow_pickle: bool = False,
    verify: bool = False,
) -> Any:
    """Map what `memmap` wrote, here or in tensordict.

    Files are untrusted: missing, truncated, too long, linked or inconsistent files raise an error, and
    nothing on disk is changed. If a writer is active, this waits for it. The result is locked; writes to its
    arrays reach the files if these are writable.

    Args:
        prefix: folder or archive.
        device: move the arrays there.
        non_blocking: accepted for compatibility.
        out: replace all entries of this TensorDict by the loaded ones.
        robust_key: file names are escaped keys (unescaped names of old versions are found too).
        subpath: load only the nested entry at this key, or path with "/".
        mode: "r" keeps writes to arrays in memory, "r+" makes them reach the files, None does so for folders
            that may be written. For archives see `lite.refresh_archive_checksums`.
        num_threads: accepted for compatibility.
        allow_pickle: unpickle objects that JSON could not hold. Unpickling can run any code.
        verify: read everything and compare it with its checksums: those of an archive, or those that
            `memmap(checksums=True)` wrote to a folder.

    Returns:
        The saved TensorDict, lazy stack, non-tensor data or tensorclass. A tensorclass whose class is
        not known is returned as a TensorDict.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: damaged or foreign files, a symbolic link, an unknown `mode`, or nothing under `subpath`.
        PermissionError: a file may not be written, and `mode` is "r+".
        RuntimeError: pickled objects, and `allow_pickle` is False.

    Example:
        >>> import tempfile
        >>> from lite import TensorDict
        >>> path = tempfile.mkdtemp() + "/td.tdz"
        >>> _ = TensorDict({"a": 1.0, "n": {"b": 2.0}}).memmap(path)
        >>> TensorDict.load_memmap(path, subpath="n")["b"]
        array(2., dtype=float32)
    """
    found = read.load(os.fspath(prefix), subpath, mode, robust_key is not False, allow_pickle, verify)
    if device is not None and hasattr(found, "to"):
        found = found.to(device)
    if out is not None:
        return read.fill(out, found)
    if getattr(found, "_fields", None) is None:
        found = _as_instance(cls, found)
    return found.lock_() if hasattr(found, "lock_") else found


def load(cls: type[Any], prefix: _PathLike, *args: Any, **kwargs: Any) -> Any:
    """Read what `save` wrote: a folder or archive (see `load_memmap`), .npz or .safetensors.

    Args:
        prefix: folder or file.
        args: see `load_memmap`.
        kwargs: see `load_memmap`. Of an archive the checksums are compared unless `verify=False`, or `mode`
            is "r+".

    Raises:
        ImportError: a .safetensors file without the package that reads it.
    """
    from lite._files.flat import load_from

    path = os.fspath(prefix)
    if os.path.isfile(path):
        found = load_from(path)
        if found is not None:
            return _as_instance(cls, found)
        kwargs.setdefault("verify", kwargs.get("mode") != "r+")
    return cls.load_memmap(path, *args, **kwargs)


def _as_instance(cls: type[Any], found: Any) -> Any:
    """A TensorDict, or an instance of the tensorclass whose method was called."""
    wrap = getattr(cls, "from_tensordict", None)
    return found if wrap is None else wrap(found)


def load_memmap_(
    td: T,
    prefix: _PathLike,
    robust_key: bool | None = True,
    *,
    allow_pickle: bool = False,
    mode: str | None = None,
) -> T:
    """Replace the entries of self by those saved at `prefix`; keeps the lock; returns self."""
    node: Any = getattr(td, "_tensordict", td)
    found = read.load(os.fspath(prefix), None, mode, robust_key is not False, allow_pickle)
    locked = node.is_locked
    if locked:
        node.unlock_()
    try:
        read.fill(node, found)
    finally:
        if locked:
            node.lock_()
    return td


def load_(td: T, prefix: _PathLike, *args: Any, **kwargs: Any) -> T:
    """Same as `load_memmap_`."""
    return td.load_memmap_(prefix, *args, **kwargs)


# -- mapped -------------------------------------------------------------------------------
def make_memmap(
    td: Container,
    key: NestedKey,
    shape: Any,
    *,
    dtype: DTypeLike | None = None,
    robust_key: bool | None = True,
) -> Array:
    """Add an entry of zeros to a mapped TensorDict and to its files; returns the mapped array.

    Args:
        key: a new key; nested TensorDicts are made as needed.
        shape: shape of the array, which starts with the batch size.
        dtype: the default float dtype unless given.
        robust_key: see `memmap`.

    Raises:
        RuntimeError: self is not mapped, the key exists in self or in the files, or the files have another
            batch size.

    Example:
        >>> import tempfile
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": [1, 2]}, [2]).memmap(tempfile.mkdtemp() + "/td")
        >>> td.make_memmap(("n", "b"), [2, 3], dtype="int8")[...] = 1
        >>> TensorDict.load_memmap(td.saved_path)["n", "b"].sum()
        np.int64(6)
    """
    size: Shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    kind = np.dtype(get_default_dtype() if dtype is None else dtype)
    like = np.broadcast_to(np.zeros((), kind), size)
    return add_leaf(getattr(td, "_tensordict", td), key, like, False, robust_key is not False)


def make_memmap_from_tensor(
    td: Container,
    key: NestedKey,
    tensor: Any,
    *,
    copy_data: bool = True,
    existsok: bool = True,
    robust_key: bool | None = True,
) -> Array:
    """Add an entry with the shape, dtype and (if `copy_data`) values of an array; see `make_memmap`.

    Args:
        key: a new key.
        tensor: the array.
        copy_data: write its values, else zeros.
        existsok: whether a file of the name, left by a removed entry, may exist.
        robust_key: see `memmap`.

    Raises:
        RuntimeError: as `make_memmap`; or such a file exists and `existsok` is False.
    """
    node = getattr(td, "_tensordict", td)
    return add_leaf(node, key, np.asarray(stored(tensor)), copy_data, robust_key is not False, existsok)


def memmap_refresh_(td: T, *, allow_pickle: bool = False) -> T:
    """Map the files again, as another process may have replaced them or added to them; returns self.

    Raises:
        RuntimeError: self is not mapped to a folder.
    """
    path = _saved_path(td)
    if path is None:
        raise RuntimeError("Cannot refresh a TensorDict that is not memory mapped or has no path associated.")
    return td.load_memmap_(path, allow_pickle=allow_pickle)


NonTensorBase._saving = staticmethod(saving)


def is_memmap(td: Container) -> bool:
    """Whether every array, or its base, lies in a mapped file or shared memory."""
    node: Any = getattr(td, "_tensordict", td)
    found = False
    for array in leaves(node):
        if not isinstance(array, np.ndarray) or (array.size and source_of(array) is None):
            return False
        found = found or array.size > 0
    return found or isinstance(getattr(node, "_source", None), str)


def saved_path(td: Any) -> str:
    """The folder that the arrays are mapped to.

    Raises:
        AttributeError: they are not mapped.
    """
    path = _saved_path(td)
    if path is None:
        raise AttributeError(f"The tensordict has no saved path (memmap={td.is_memmap()}, path=None).")
    return path


def _saved_path(td: Any) -> str | None:
    source = getattr(getattr(td, "_tensordict", td), "_source", None)
    return source if isinstance(source, str) and td.is_memmap() else None


# -- other formats ------------------------------------------------------------------------
def to_h5(td: T, filename: _PathLike, **options: Any) -> T:
    """Write an HDF5 file: groups for nested TensorDicts, datasets for arrays and text; returns self.

    Args:
        filename: file to write; replaces one that is there.
        options: for `h5py.Group.create_dataset` (compression, chunks, ...).

    Raises:
        ImportError: without h5py.
        TypeError: an object other than text.
        ValueError: a key or dtype that HDF5 does not have.
        RuntimeError: a lazy stack whose parts have different keys.
    """
    from lite._files.h5 import write_h5

    write_h5(getattr(td, "_tensordict", td), os.path.abspath(filename), options)
    return td


def from_h5(
    cls: type[Any],
    filename: _PathLike,
    *,
    mode: str = "r",
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: Size = None,
) -> Any:
    """Read an HDF5 file to memory.

    Args:
        filename: file written by `to_h5`, here or in tensordict, or any of groups and datasets.
        mode: only "r".
        auto_batch_size: use the longest leading shape that all entries share.
        batch_dims: cap on the number of batch dimensions found.
        batch_size: batch size of all levels; by default those that `to_h5` stored, or in files of other
            programs the longest leading shape that all entries share.

    Raises:
        ImportError: without h5py.
        TypeError: both `batch_size` and `auto_batch_size` are given.
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
    refuse_two_sizes("from_h5", auto_batch_size, batch_size)
    found = read_h5(os.fspath(filename), () if auto_batch_size else batch_size)
    if auto_batch_size:
        found.auto_batch_size_(batch_dims)
    return _as_instance(cls, found)


# -- one buffer ---------------------------------------------------------------------------
def consolidate(
    td: Container,
    filename: _PathLike | None = None,
    *,
    num_threads: int = 0,
    device: Device = None,
    non_blocking: bool = False,
    inplace: bool = False,
    return_early: bool = False,
    use_buffer: bool = False,
    share_memory: bool = False,
    pin_memory: bool = False,
    metadata: bool = False,
) -> Any:
    """Copy all arrays into one buffer, or one mapped file, and return a locked TensorDict of views of it.

    Args:
        filename: file to write, in tensordict's format; None for memory.
        num_threads: accepted for compatibility, as are `non_blocking`, `use_buffer`, `share_memory`,
            `pin_memory` and `metadata`.
        device: None or "cpu".
        inplace: give self the views, and return it.
        return_early: return a `concurrent.futures.Future` of the result.

    Raises:
        RuntimeError: an object that JSON cannot hold.
        ValueError: a key or dtype that the format cannot hold, or another device.

    Example:
        >>> import tempfile
        >>> from lite import TensorDict
        >>> path = tempfile.mkdtemp() + "/td"
        >>> _ = TensorDict({"a": [1, 2], "s": "x"}, [2]).consolidate(path)
        >>> TensorDict.from_consolidated(path)["a"]
        array([1, 2])
    """
    from lite._files.consolidated import consolidate

    if device is not None and not is_cpu(device):
        raise ValueError(f"consolidate copies to 'cpu' only, got device={device!r}.")

    def run() -> Any:
        path = None if filename is None else os.path.abspath(filename)
        buffer, views = consolidate(td, path)
        out = with_leaves(td, iter(views), repeat(""), None, inplace, to_cpu=path is not None)
        getattr(out, "_tensordict", out)._source = buffer
        return out.lock_()

    return in_background(run) if return_early else run()


def is_consolidated(td: Container) -> bool:
    """Whether self is locked and its arrays are views of one buffer that `consolidate` made."""
    node: Any = getattr(td, "_tensordict", td)
    buffer = getattr(node, "_source", None)
    if not isinstance(buffer, np.ndarray) or not node.is_locked:
        return False
    return all(array.size == 0 or np.may_share_memory(array, buffer) for array in leaves(node))
