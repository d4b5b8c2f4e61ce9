"""The lines of the files that `lite learn` reads."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from lite.cli.learning.rewards import BUILT_IN
from lite.cli.prompts import prompt_of, with_own_names
from lite.data.tables.json_lines import json_lines
from lite.models.batches.rows import is_messages, split_messages

Row = Mapping[str, Any]
_RAW_CHAT = "--raw takes prompts as they are, and 'messages' are no text"


def read_rows(name: str, args: argparse.Namespace) -> list[Row]:
    """The objects of JSON lines, checked for what `--method` and `--reward` need.

    Raises:
        ValueError: a line is not such an object; the message names file and line.
        OSError: the file cannot be read.
    """
    rows = []
    with open(name, encoding="utf-8-sig") as file:
        for number, text, value in json_lines(file):
            row = with_own_names(value) if args.method == "sft" else value
            wrong = _wrong(row, args)
            if wrong is not None:
                raise ValueError(f"{name}, line {number}: {wrong}, got {text.strip()[:80]}")
            rows.append(row)
    if not rows:
        raise ValueError(f"{name} has no line to learn from")
    return rows


def _wrong(row: Any, args: argparse.Namespace) -> str | None:
    """The error in a row; None for a valid row."""
    if args.method == "sft":
        wrong = _wrong_response(row)
        return _RAW_CHAT if wrong is None and args.raw and row.get("messages") is not None else wrong
    prompt = prompt_of(row)
    if prompt is None or not (args.raw or prompt.text.strip()):
        return "expected an object with 'prompt' (a text) or 'messages' (role and content each)"
    if args.raw and prompt.messages is not None:
        return _RAW_CHAT
    if args.reward in BUILT_IN and (
        not isinstance(row.get("answer"), str | int | float) or not str(row["answer"]).strip()
    ):
        return f"--reward {args.reward} needs an 'answer' (a text or a number)"
    return None


def _wrong_response(row: Any) -> str | None:
    if isinstance(row, dict):
        prompt, messages, response = (row.get(name) for name in ("prompt", "messages", "response"))
        if is_messages(messages):
            try:
                split_messages(messages, response)  # type: ignore[arg-type]
                return None
            except ValueError as error:
                return str(error)
        if isinstance(prompt, str) and isinstance(response, str):
            return None
    return (
        "expected an object with 'prompt' and 'response' (texts), or 'messages' that end with an"
        " assistant's turn"
    )


def digest(name: str) -> dict[str, str]:
    """How the record of a run names a file."""
    with open(name, "rb") as file:
        return {"path": str(Path(name).absolute()), "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


class Shuffled(Sequence[Any]):
    """Rows without end: each pass has all of them, in an order that follows from the seed and its number.

    So the row of a number is known without those before it.
    """

    def __init__(self, rows: Sequence[Any], seed: int) -> None:
        self._rows, self._seed = rows, seed
        self._pass, self._order = -1, np.zeros(0, np.int64)

    def __len__(self) -> int:
        return 2**62

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        number, place = divmod(at, len(self._rows))
        if number != self._pass:
            self._order = np.random.default_rng([self._seed, number]).permutation(len(self._rows))
            self._pass = number
        return self._rows[self._order[place]]
