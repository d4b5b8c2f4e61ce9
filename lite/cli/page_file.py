"""Where pages are written: checked before anything is computed for them."""

from __future__ import annotations

import os
from pathlib import Path


def check_page(flag: str, file: str, *read: str | None) -> None:
    """Check that a page can be written.

    Args:
        flag: the option that names the file.
        file: where the page will stand.
        read: what the command reads, and must not be written over.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: the file is one that is read.
    """
    if not Path(file).parent.is_dir():
        raise FileNotFoundError(f"{flag} {file}: there is no folder {Path(file).parent}")
    for name in read:
        if (
            name is not None
            and os.path.exists(file)
            and os.path.exists(name)
            and os.path.samefile(name, file)
        ):
            raise ValueError(f"{flag} {file} is what is read: give another file")
