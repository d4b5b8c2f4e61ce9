"""Output files of commands: pages, and rows to which a later run appends.

Their paths are checked before anything is computed.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lite._files.commit import append
from lite._files.system import lock_file
from lite.kernels import DrawDetails

_BEGINNING = b'{"line": '  # of each line
_LONGEST = 160  # characters of a value in an error
# What commands read of a row and write into it.
_OWN = frozenset(
    ("line", "sample", "run", "id", "prompt", "messages", "response", "prompt_ids", "response_ids")
    + ("logprobs", "log_prob", "mean_log_prob", "tokens", "finish_reason", "score")
    + tuple(field.name for field in dataclasses.fields(DrawDetails))
)


def check_file(flag: str, file: str | None, *read: str | None) -> None:
    """Check that a file can be written; nothing is checked for None.

    Args:
        flag: the option that names the file.
        file: its path.
        read: the other files that the command reads or writes.

    Raises:
        FileNotFoundError: the folder of the file does not exist.
        IsADirectoryError: the path is a folder.
        ValueError: the path is one of these files.
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


def other_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of an input row that no command reads or writes; rows of the output keep them."""
    return {name: value for name, value in row.items() if name not in _OWN}


def rows_written(
    output: str | None, run: Mapping[str, Any], expected: Iterator[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The rows that earlier runs of a command wrote, without a last row that was cut off.

    Args:
        output: the file, which need not exist.
        run: all that a row depends on: "command" and its options by name. The first row records it. Of a
            mapping with "sha256" only the hash is compared.
        expected: the input's columns of each row of this run, in order. Only as many as exist are taken.

    Yields:
        The rows.

    Raises:
        ValueError: another command wrote the file, or this one with other options or another input; the
            message names what differs, with both values. The file is left as it is.
    """
    if output is None or not Path(output).is_file():  # a device may have no end
        return
    with open(output, "rb") as file:
        for number, line in enumerate(file, 1):
            row = _row(line)
            if row is None:
                raise ValueError(
                    f"--output {output} has a line ({number}) that `lite {run['command']}` did not write: "
                    "give another file."
                )
            if not line.endswith(b"\n"):
                break
            made = row.pop("run", None)
            if number == 1:
                check_run(output, made, run)
            _check_row(output, number, row, next(expected, None))
            yield row


@contextmanager
def appended(
    output: str | None, run: Mapping[str, Any], done: int
) -> Iterator[Callable[[Mapping[str, Any]], None] | None]:
    """A function that appends a row after those of `rows_written`; None without a file.

    The file is locked for other commands until the block ends. A row that was cut off is removed.

    Args:
        output: the file.
        run: the record of the first row; see `rows_written`.
        done: the number of rows that exist.

    Raises:
        ValueError: another command writes to the file, or has done so since `rows_written` read it.
        OSError: a row cannot be written, such as on a full disk; the error names the file.
        KeyboardInterrupt: the block was interrupted; the text has the number of rows.
    """
    if output is None:
        yield None
        return
    count = done

    def write(row: Mapping[str, Any]) -> None:
        nonlocal count
        first = {} if count else {"run": run}
        append(sink, f"{json.dumps({'line': row['line'], **first, **row})}\n".encode(), output)
        count += 1

    try:
        with open(output, "ab", buffering=0) as sink:
            if Path(output).is_file():  # all commands share a device
                if not lock_file(sink.fileno()):
                    raise ValueError(f"--output {output}: another command writes there now")
                rows, size = _whole_rows(output)
                if rows != done:
                    raise ValueError(f"--output {output}: another command has written there meanwhile")
                sink.truncate(size)
            yield write
    except KeyboardInterrupt:
        if Path(output).is_file():  # the interrupt may have come between a row and its count
            count, _ = _whole_rows(output)
        raise KeyboardInterrupt(
            f"{count} lines are in {output}, the same command goes on behind them"
        ) from None


def _whole_rows(output: str) -> tuple[int, int]:
    """The number of whole rows of a file, and their size in bytes."""
    rows = size = 0
    with open(output, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                rows, size = rows + 1, size + len(line)
    return rows, size


def check_run(output: str, then: Any, now: Mapping[str, Any], kind: str = "file") -> None:
    """Check that an earlier run had the settings of this one, which is going to continue it.

    Args:
        output: the file or folder that it wrote.
        then: the settings that it recorded.
        now: the settings of this run; see `rows_written`.
        kind: "file" or "folder".

    Raises:
        ValueError: the settings differ; the message names the first that does, with both values.
    """
    if not isinstance(then, dict):
        raise ValueError(
            f"--output {output} does not say in its first line what made it, so that nothing can go on "
            f"behind it: give another {kind}."
        )
    now = json.loads(json.dumps(now))  # as the file has it
    told = [
        f"{name} was {_shown_value(then.get(name))} and is {_shown_value(now.get(name))}"
        for name in {**now, **then}
        if _compared(then.get(name)) != _compared(now.get(name))
    ]
    if told:
        raise ValueError(f"--output {output} was made otherwise: {'; '.join(told)}. Give another {kind}.")


def _row(line: bytes) -> dict[str, Any] | None:
    """The row of a line, empty if the line was cut off; None if it is not a row."""
    if not line.endswith(b"\n"):
        return {} if line.startswith(_BEGINNING[: len(line)]) else None
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and "line" in row else None


def _compared(value: Any) -> Any:
    return value["sha256"] if isinstance(value, dict) and "sha256" in value else value


def _shown_value(value: Any) -> str:
    return "not given" if value is None else _short(value)


def _check_row(output: str, number: int, row: Mapping[str, Any], expected: Mapping[str, Any] | None) -> None:
    where = f"--output {output}, line {number}: "
    if expected is None:
        raise ValueError(f"{where}the input has {number - 1} rows: give another file.")
    for name, value in expected.items():
        if row.get(name) != value and json.dumps(row.get(name)) != json.dumps(value):  # NaN is not NaN
            raise ValueError(
                f"{where}{name} is {_short(row.get(name))}, and {_short(value)} in the input: "
                "give another file."
            )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _same(first: str, second: str) -> bool:
    """Whether two paths are of one file, which need not exist."""
    if os.path.exists(first) and os.path.exists(second):
        return os.path.samefile(first, second)
    return os.path.realpath(first) == os.path.realpath(second)
