"""Saving and loading as functions, with tensordict's names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from lite._arrays.types import Device, Size
from lite._convert import tables
from lite._files import archive, consolidated, state_dicts
from lite._files.methods import MemmapOptions
from lite._tree.collection import TensorCollection
from lite._tree.protocol import class_registry


def save(
    data: Any,
    prefix: str | os.PathLike[str] | None = None,
    copy_existing: bool = False,
    **options: Unpack[MemmapOptions],
) -> Any:
    """Write a TensorDict or a state dict to a folder or file; see `TensorDict.save`.

    Args:
        data: a TensorDict; or a dict, such as one of state dicts of modules, optimisers and collectors, which
            `load` gives back as it was: with its numbers, lists and copies of its arrays.
        prefix, copy_existing, **options: as for `TensorDict.save`.

    Raises:
        TypeError: `data` is neither; something in a dict is not an array, TensorDict or plain value; a dict
            is given without `prefix`.

    Example:
        >>> import tempfile, lite
        >>> from lite import nn, optim
        >>> net = nn.Linear(2, 1)
        >>> adam = optim.Adam(net.parameters(), lr=1e-3)
        >>> path = tempfile.mkdtemp() + "/checkpoint.npz"
        >>> _ = lite.save({"net": net.state_dict(), "adam": adam.state_dict(), "frames": 1000}, path)
        >>> state = lite.load(path)
        >>> adam.load_state_dict(state["adam"])
        >>> state["frames"], state["adam"]["param_groups"][0]["lr"]
        (1000, 0.001)
    """
    tree: Any = data
    if not isinstance(data, TensorCollection):
        if not isinstance(data, Mapping):
            raise TypeError(f"data must be a TensorDict or a dict, got {type(data).__name__}.")
        if prefix is None:
            raise TypeError("a dict is saved to a file or folder: prefix must be a path, got None.")
        tree = state_dicts.from_state_dict(data)
    found = tree.save(prefix, copy_existing, **options)
    return found if tree is data else data


def memmap(
    data: Any,
    prefix: str | os.PathLike[str] | None = None,
    copy_existing: bool = False,
    **options: Unpack[MemmapOptions],
) -> Any:
    """Write a TensorDict to files that are mapped; see `TensorDict.memmap`."""
    return data.memmap(prefix, copy_existing, **options)


def load(
    prefix: str | os.PathLike[str], device: Device = None, non_blocking: bool = False, **options: Any
) -> Any:
    """Read what `save` wrote, a TensorDict or a dict; see `TensorDict.load`."""
    found = class_registry.dense.load(prefix, device, non_blocking, **options)
    if not state_dicts.is_state_dict(found):
        return found
    try:
        return state_dicts.to_state_dict(found)
    except ValueError as error:
        raise ValueError(f"{os.fspath(prefix)}: {error}") from None


def load_memmap(
    prefix: str | os.PathLike[str], device: Device = None, non_blocking: bool = False, **options: Any
) -> Any:
    """Map what `memmap` wrote; see `TensorDict.load_memmap`."""
    return class_registry.dense.load_memmap(prefix, device, non_blocking, **options)


def to_safetensors(data: Any, path: str | os.PathLike[str]) -> None:
    """Write a .safetensors file that tensordict reads, too, as of version 0.15.

    Arrays are called by their keys, joined with ".", as in the state dict of a module. `TensorDict.save` also
    writes what has no place here: one object per row, tuples, ragged lazy stacks, equal names.

    Args:
        data: a TensorDict or tensorclass.
        path: the file.

    Raises:
        ImportError: without the package safetensors.
        TypeError: no TensorDict, non-tensor data alone, one object per row, objects that JSON does not keep,
            or a lazy stack whose parts have different keys.
        ValueError: two arrays get one name, or one gets "__metadata__"; a dtype that it has not.
        RuntimeError: a ragged lazy stack.

    Example:
        >>> import tempfile
        >>> from lite import TensorDict, from_safetensors, to_safetensors
        >>> path = tempfile.mkdtemp() + "/td.safetensors"
        >>> to_safetensors(TensorDict({"a": [1, 2], "n": {"s": "text"}}, [2], names=["row"]), path)
        >>> found = from_safetensors(path)
        >>> found["a"], found["n", "s"], found.names
        (array([1, 2]), 'text', ['row'])
    """
    from lite._files.flat import save_for_tensordict

    save_for_tensordict(data, os.fspath(path))


def from_safetensors(path: str | os.PathLike[str], *, device: Device = None) -> Any:
    """Read a .safetensors file: of `to_safetensors`, here or in tensordict, of `save`, or of another program.

    The arrays of another program, such as those of a model, are nested at the dots of their names.
    `TensorDict.load` leaves these flat.

    Args:
        path: the file.
        device: move the arrays there.

    Raises:
        ImportError: without the package safetensors.
        FileNotFoundError: there is no such file.
        ValueError: a damaged or foreign file.

    Example:
        >>> import tempfile
        >>> from lite import from_safetensors, nn, to_safetensors
        >>> path = tempfile.mkdtemp() + "/net.safetensors"
        >>> to_safetensors(nn.TensorDictParams.from_module(nn.Linear(2, 1)), path)
        >>> sorted(from_safetensors(path).keys())
        ['bias', 'weight']
    """
    from lite._files.flat import load_nested

    found = load_nested(os.fspath(path))
    return found if device is None else found.to(device)


def from_h5(
    filename: str | os.PathLike[str],
    *,
    mode: str = "r",
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: Device = None,
    batch_size: Size = None,
) -> Any:
    """Read an HDF5 file, and move the arrays to a device; see `TensorDict.from_h5`."""
    found = class_registry.dense.from_h5(
        filename, mode=mode, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size
    )
    return found if device is None else found.to(device)


def from_consolidated(filename: str | os.PathLike[str]) -> Any:
    """Map a consolidated file; writes to the leaves stay in memory.

    Args:
        filename: file written by `consolidate`, here or in tensordict.

    Returns:
        The TensorDict or lazy stack, with its names, locked; its leaves are views of one buffer.

    Raises:
        ValueError: a damaged or foreign file.
    """
    return consolidated.from_consolidated(filename)


def to_arrow(td: Any) -> Any:
    """A pyarrow table with a column per array and object; nested keys are joined by ".".

    Further dimensions become lists of fixed size, rows of different lengths lists.
    `to_arrow(td).to_pandas()` is a data frame.

    Args:
        td: a TensorDict with a batch dimension.

    Raises:
        ImportError: without pyarrow.
        ValueError: no batch dimension, or a dtype that Arrow does not have.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, to_arrow
        >>> to_arrow(TensorDict({"a": np.arange(2), "n": {"b": np.ones((2, 3))}}, [2])).column_names
        ['a', 'n.b']
    """
    return tables.arrow_table(tables.columns_of(td, ".", "to_arrow"))


def from_arrow(table: Any) -> Any:
    """A TensorDict of the columns of a table, with one batch dimension: its rows.

    The table is pyarrow's, or one that pyarrow takes, such as a data frame of polars or a relation of DuckDB.
    Numbers become arrays, with NaN for a null, times nanoseconds (since 1970), with -2**63 for a null.
    Tensors, and lists of numbers that are all as long, become arrays of several dimensions. Everything else
    becomes objects: lists that differ or have nulls, truth values with nulls, integers beyond 2^53 beside
    nulls. Column names are kept; see `TensorDict.unflatten_keys`.

    Example:
        >>> import pyarrow
        >>> from lite import from_arrow
        >>> from_arrow(pyarrow.table({"a": [1, 2], "s": ["x", "y"]}))["a"]
        array([1, 2])
    """
    return tables.from_arrow(table)


def is_memmap_archive(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file is an archive of a saved TensorDict: a zip file with a `meta.json`.

    Example:
        >>> from lite import is_memmap_archive
        >>> is_memmap_archive("no such file.tdz")
        False
    """
    return archive.is_archive(os.fspath(path))


def pack_memmap(
    prefix: str | os.PathLike[str],
    archive_path: str | os.PathLike[str],
    *,
    compression: str | int | None = None,
    compresslevel: int | None = None,
) -> Path:
    """Pack a saved folder into an archive, and return the archive's path.

    Args:
        prefix: folder written by `TensorDict.memmap`.
        archive_path: file to write, outside of the folder; an existing one is replaced.
        compression: "stored" (default; leaves can be mapped), "deflate", "bzip2", "lzma" or a constant
            of zipfile, for the leaves.
        compresslevel: see `zipfile.ZipFile`.

    Raises:
        ValueError: `prefix` is not a saved folder or has links, `archive_path` lies in it, or the compression
            is unknown.

    Example:
        >>> import tempfile
        >>> from lite import TensorDict, pack_memmap
        >>> folder = tempfile.mkdtemp()
        >>> _ = TensorDict(a=1.0).memmap(f"{folder}/td")
        >>> TensorDict.load_memmap(pack_memmap(f"{folder}/td", f"{folder}/td.tdz"))["a"]
        array(1., dtype=float32)
    """
    return archive.pack(Path(prefix), Path(archive_path), compression, compresslevel)


def unpack_memmap(archive_path: str | os.PathLike[str], prefix: str | os.PathLike[str]) -> Path:
    """Unpack an archive into a folder that `load_memmap` reads, and return the folder's path.

    All files appear at once, as those of `memmap` do, or none.

    Raises:
        ValueError: not an archive, or a damaged one; or an entry that would be written outside of the
            folder, or is a link.
    """
    return archive.unpack(Path(archive_path), Path(prefix))


def refresh_archive_checksums(archive_path: str | os.PathLike[str]) -> Path:
    """Update the checksums of an archive after writes to its leaves with `mode="r+"`.

    `load_memmap` does not compare them; `unzip` and `unpack_memmap` do.

    Raises:
        ValueError: not an archive, or a damaged one.
    """
    return archive.refresh_checksums(Path(archive_path))
