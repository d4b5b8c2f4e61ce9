"""Saving and loading as functions, for those who know tensordict's."""

from __future__ import annotations

import os
from typing import Any

from lite._files.mixin import FilesMixin


def save(
    data: FilesMixin, prefix: str | os.PathLike[str], copy_existing: bool = False, **options: Any
) -> Any:
    """Write a TensorDict to a folder or file; see `TensorDict.save`.

    Example:
        >>> import tempfile, lite
        >>> path = tempfile.mkdtemp() + "/td"
        >>> _ = lite.save(lite.TensorDict(a=[1, 2]), path)
        >>> lite.load(path)["a"]
        array([1, 2])
    """
    return data.save(prefix, copy_existing, **options)


def memmap(
    data: FilesMixin,
    prefix: str | os.PathLike[str] | None = None,
    copy_existing: bool = False,
    **options: Any,
) -> Any:
    """Write a TensorDict to files that are mapped; see `TensorDict.memmap`."""
    return data.memmap(prefix, copy_existing, **options)


def load(prefix: str | os.PathLike[str], device: Any = None, **options: Any) -> Any:
    """Read what `save` wrote; see `TensorDict.load`."""
    return _tensordict().load(prefix, device, **options)


def load_memmap(prefix: str | os.PathLike[str], device: Any = None, **options: Any) -> Any:
    """Map what `memmap` wrote; see `TensorDict.load_memmap`."""
    return _tensordict().load_memmap(prefix, device, **options)


def from_h5(filename: str | os.PathLike[str], *, mode: str = "r", batch_size: Any = None) -> Any:
    """Read an HDF5 file; see `TensorDict.from_h5`."""
    return _tensordict().from_h5(filename, mode=mode, batch_size=batch_size)


def _tensordict() -> Any:
    from lite._tensordict import TensorDict

    return TensorDict
