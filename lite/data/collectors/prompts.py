"""Prompts for a language model, from a list, a file or an iterator, by their numbers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from lite import TensorDictBase
from lite.data.tables.json_lines import json_lines

MAX_LINE = 2**26
"""Characters of a line of a file that are too many."""

_NAMES = ("prompt_ids", "messages", "prompt")


class Prompt(NamedTuple):
    """One prompt.

    Attributes:
        value: a text, a list of messages, a row of token ids, or a TensorDict with what the policy reads.
        fields: all other fields of the prompt, by name.
    """

    value: Any
    fields: Mapping[str, Any]


class Prompts:
    """Prompts in order, without end where they can be read again.

    Args:
        given: the path of a file of JSON lines; a sequence, which restarts after its end, as files do; or
            any iterable, which ends. Items (and lines) are texts, or mappings with one of "prompt_ids",
            "messages" and "prompt" and any other fields; in Python also lists of messages, rows of ids and
            TensorDicts.

    Attributes:
        position: how many have been taken.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: there are no prompts.
        TypeError: `given` cannot be iterated over.
    """

    def __init__(self, given: str | os.PathLike[str] | Iterable[Any]) -> None:
        self._path = Path(given) if isinstance(given, (str, os.PathLike)) else None
        self._given: Any = given
        if self._path is not None and not self._path.is_file():
            raise FileNotFoundError(f"prompts: there is no file {str(self._path)!r}")
        if self._path is None and not isinstance(given, Iterable):
            raise TypeError(f"prompts must be a path or an iterable, got {type(given).__name__}")
        if isinstance(given, Sequence) and not isinstance(given, str) and not given:
            raise ValueError("prompts must hold at least one prompt")
        self.position = 0
        self._read = 0  # items that the iterator has given
        self._ahead: list[Any] = []  # taken from it, to be given again
        self._items = self._endless()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_items": None}  # a generator, which `__setstate__` makes again

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._items = self._endless(self._read)

    def take(self, count: int) -> list[Prompt]:
        """The next prompts, fewer where they end.

        Raises:
            ValueError, TypeError: an item is not a prompt. No prompt is used up then.
        """
        fresh = count - len(self._ahead)
        if fresh > 0:
            new = list(islice(self._items, fresh))
            self._read += len(new)
            self._ahead += new
        prompts = [_prompt(item, self.position + i) for i, item in enumerate(self._ahead[:count])]
        del self._ahead[:count]
        self.position += len(prompts)
        return prompts

    def give_back(self, prompts: Sequence[Prompt]) -> None:
        """Return the last prompts, which come next again."""
        self._ahead[:0] = [{"prompt": prompt.value, **prompt.fields} for prompt in prompts]
        self.position -= len(prompts)

    def seek(self, position: int) -> None:
        """Continue after this number of prompts.

        Raises:
            ValueError: an iterator is beyond that, or ends before.
        """
        if position == self.position:
            return
        if isinstance(self._given, Iterator) and self._read > position:
            raise ValueError(
                f"prompts are an iterator that has given {self._read} already, and cannot go back to"
                f" {position}: make it again"
            )
        if not isinstance(self._given, Iterator):
            self._items, self._read = self._endless(position), position
        else:
            skipped = sum(1 for _ in islice(self._items, position - self._read))
            self._read += skipped
            if self._read < position:
                raise ValueError(f"prompts end after {self._read}, and {position} were taken before")
        self._ahead.clear()
        self.position = position

    def _endless(self, start: int = 0) -> Iterator[Any]:
        if isinstance(self._given, Iterator):
            yield from self._given
        elif isinstance(self._given, Sequence) and self._path is None:
            while True:
                yield self._given[start % len(self._given)]
                start += 1
        else:
            yield from self._again(start)

    def _again(self, start: int) -> Iterator[Any]:
        """The items of a source after the first ones; the source is read from its beginning in each pass."""
        while True:
            count = 0
            for item in _lines(self._path) if self._path is not None else self._given:
                count += 1
                if start:
                    start -= 1
                else:
                    yield item
            if not count:
                raise ValueError(f"prompts: there is none in {self._path or self._given}")
            start %= count


def _lines(path: Path) -> Iterator[Any]:
    with open(path, encoding="utf-8-sig") as file:
        for number, _, item in json_lines(file, MAX_LINE):
            if not isinstance(item, (str, dict)):
                raise ValueError(
                    f"{path}, line {number}: expected an object or a text, got {type(item).__name__}"
                )
            if isinstance(item, dict):
                _check(item, f"{path}, line {number}")
            yield item


def _check(item: Mapping[str, Any], where: str) -> None:
    """Raise ValueError for a prompt of another type, which could not be told from the line later on."""
    name, value = next(((name, item[name]) for name in _NAMES if item.get(name) is not None), ("", ""))
    kinds = {
        "a list of integers": isinstance(value, list) and all(type(token) is int for token in value),
        "messages (role and content each)": isinstance(value, list)
        and all(isinstance(x, dict) and isinstance(x.get("role"), str) and "content" in x for x in value),
        "a text": isinstance(value, str),
    }
    own = {"prompt_ids": list(kinds)[:1], "messages": list(kinds)[1:2]}.get(name, kinds)
    if not any(kinds[kind] for kind in own):
        raise ValueError(f"{where}: {name!r} must be {' or '.join(own)}, got {repr(value)[:80]}")


def _prompt(item: Any, number: int) -> Prompt:
    if not isinstance(item, Mapping) or isinstance(item, TensorDictBase):
        return Prompt(item, {})
    name = next((name for name in _NAMES if item.get(name) is not None), None)
    if name is None:
        raise ValueError(
            f"prompt {number} must have 'prompt', 'messages' or 'prompt_ids', got {sorted(item)}"
        )
    return Prompt(item[name], {key: value for key, value in item.items() if key not in _NAMES})
