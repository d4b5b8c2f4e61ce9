"""Values of JSON lines, each with its number, and the errors that name the file and the line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, TextIO


class JsonLine(NamedTuple):
    """A line that is not blank: its number from 1, its text and its value."""

    number: int
    text: str
    value: Any


def json_lines(file: TextIO, longest: int = -1) -> Iterator[JsonLine]:
    """Read a file of JSON lines; blank lines only count.

    Args:
        file: a text file; its `name` stands in the messages.
        longest: a line has fewer characters than this; -1 takes any.

    Raises:
        ValueError: a line is too long or not JSON, or the file is not text in UTF-8.
    """
    name, number = getattr(file, "name", "<stdin>"), 0
    while text := _line(file, name, longest):
        number += 1
        if len(text) == longest:
            raise ValueError(f"{name}, line {number}: longer than {longest} characters")
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{name}, line {number}: not JSON ({error})") from None
        yield JsonLine(number, text, value)


def _line(file: TextIO, name: object, longest: int) -> str:
    try:
        return file.readline(longest)
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not text in UTF-8: {error}") from None
