"""Files that commands write: pages, and lines that a later run goes on behind.

Where they stand is checked before anything is computed for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_BEGINNING = b'{"line": '  # of each line


def check_file(flag: str, file: str | None, *read: str | None) -> None:
    """Check that a file can be written; None is none.

    Args:
        flag: the option that names the file.
        file: where it will stand.
        read: what the command reads or writes besides.

    Raises:
        FileNotFoundError, IsADirectoryError: there is no such folder, or it is the file.
        ValueError: it is one of these files.
    """
    if file is None:
        return
    if not Path(file).parent.is_dir():
        raise FileNotFoundError(f"{flag} {file}: there is no folder {Path(file).parent}")
    if Path(file).is_dir():
        raise IsADirectoryError(f"{flag} {file} is a folder: give a file in it")
    for name in read:
        if name is not None and _same(name, file):
            raise ValueError(f"{flag} {file} is another file of this command: give one of its own")


def lines_written(output: str | None, command: str) -> list[bytes]:
    """The whole lines that earlier runs of a command wrote; one that was cut off is removed, to be redone.

    Args:
        output: the file, which need not be there.
        command: which has to have written it.

    Raises:
        ValueError: something else wrote the file, which is left as it is.
    """
    if output is None or not Path(output).is_file():  # a device may have no end
        return []
    data = Path(output).read_bytes()
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith(_BEGINNING):
            raise ValueError(
                f"--output {output} has a line ({number}) that `lite {command}` did not write: "
                "give another file."
            )
    if not whole and data and not _BEGINNING.startswith(data[: len(_BEGINNING)]):
        raise ValueError(f"--output {output} was not written by `lite {command}`: give another file.")
    if whole != len(data):
        with open(output, "r+b") as file:
            file.truncate(whole)
    return lines


@contextmanager
def appended(output: str | None, command: str) -> Iterator[TextIO | None]:
    """The file of `lines_written`, open behind its lines; None without one.

    Raises:
        KeyboardInterrupt: as in the block, with a text that says how many lines are there.
    """
    if output is None:
        yield None
        return
    try:
        with open(output, "a", encoding="utf-8") as sink:
            yield sink
    except KeyboardInterrupt:
        count = len(lines_written(output, command))
        raise KeyboardInterrupt(
            f"{count} lines are in {output}, the same command goes on behind them"
        ) from None


def _same(first: str, second: str) -> bool:
    """Whether two names are of one file, which need not be there yet."""
    if os.path.exists(first) and os.path.exists(second):
        return os.path.samefile(first, second)
    return os.path.realpath(first) == os.path.realpath(second)
