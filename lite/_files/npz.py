"""NumPy's .npz: a zip file of .npy files, with the description as one more array."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.lib import format as npy

from lite._arrays.types import Array
from lite._files.commit import new_file

_DESCRIPTION = "%lite"
# What NumPy and zipfile raise for damaged files; the last for arrays that say they are huge.
_DAMAGE = (
    OSError, EOFError, LookupError, TypeError, AttributeError, ValueError, RuntimeError, SyntaxError,
    zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, MemoryError,
)  # fmt: skip


def write(path: str, arrays: dict[str, Array], description: str) -> None:
    """Write arrays and their description; `np.load` reads the file."""
    text = np.frombuffer(description.encode(), np.uint8)
    names = _entry_names([*arrays])
    with new_file(path) as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, array in [*zip(names, arrays.values(), strict=True), (_DESCRIPTION, text)]:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                npy.write_array(out, _plain(array), allow_pickle=False)


def _entry_names(names: list[str]) -> list[str]:
    # zipfile ends a name at a NUL, and the description has a name of its own.
    return [name.replace("%", "%25").replace("\0", "%00") for name in names]


def _plain(array: Array) -> Array:
    """The same bytes in a dtype that .npy files know."""
    return array if array.dtype.isbuiltin != 2 else array.view(f"u{array.dtype.itemsize}")


def read(path: str) -> tuple[dict[str, Array], str | None]:
    """Arrays and description (None in a file that something else wrote).

    Raises:
        ValueError: no .npz file, a damaged one, or one with pickled objects.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            found: dict[str, Any] = {name: archive[name] for name in archive.files}
    except _DAMAGE as error:
        raise ValueError(f"{path} is damaged or foreign: {error}") from error
    text = found.pop(_DESCRIPTION, None)
    if text is None:
        return found, None
    arrays = {name.replace("%00", "\0").replace("%25", "%"): array for name, array in found.items()}
    return arrays, text.tobytes().decode()
