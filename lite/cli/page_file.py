"""Where pages are written: checked before anything is computed for them."""

from __future__ import annotations

import os
from pathlib import Path


def check_page(flag: str, file: str, *read: str | None) -> None:
    """Check that a page can be written.

    Args:
        flag: the option that names the file.
        file: where the page will stand.
        read: what the command reads or writes besides.

    Raises:
        FileNotFoundError, IsADirectoryError: there is no such folder, or it is the file.
        ValueError: it is one of these files.
    """
    if not Path(file).parent.is_dir():
        raise FileNotFoundError(f"{flag} {file}: there is no folder {Path(file).parent}")
    if Path(file).is_dir():
        raise IsADirectoryError(f"{flag} {file} is a folder: give a file in it")
    for name in read:
        if name is not None and _same(name, file):
            raise ValueError(f"{flag} {file} is another file of this command: give one of its own")


def _same(first: str, second: str) -> bool:
    """Whether two names are of one file, which need not be there yet."""
    if os.path.exists(first) and os.path.exists(second):
        return os.path.samefile(first, second)
    return os.path.realpath(first) == os.path.realpath(second)
