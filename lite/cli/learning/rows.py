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
from lite.models.text.tokenizer import common_start

Row = Mapping[str, Any]
_RAW_CHAT = "--raw takes prompts as they are, and 'messages' are not text"


def read_rows(name: str, args: argparse.Namespace) -> list[Row]:
    """The objects of JSON lines, checked for what `--method` and `--reward` need.

    Raises:
        ValueError: a line is not such an object; the message names file and line.
        OSError: the file cannot be read.
    """
    rows = []
    with open(name, encoding="utf-8-sig") as file:
        for number, text, value in json_lines(file):
            row = with_own_names(value, whole=True) if args.method == "sft" else value
            wrong = _wrong(row, args)
            if wrong is not None:
                raise ValueError(f"{name}, line {number}: {wrong}, got {text.strip()[:80]}")
            rows.append(row)
    if not rows:
        raise ValueError(f"{name} has no line to learn from")
    return rows


def _wrong(row: Any, args: argparse.Namespace) -> str | None:
    """The error in a row; None for a valid row."""
    if args.method != "grpo":
        try:
            (_check_response if args.method == "sft" else _check_pair)(row, args)
        except ValueError as error:
            return str(error)
        return None
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


def _check_response(row: Any, args: argparse.Namespace) -> None:
    """Raise ValueError for a row that `--method sft` cannot learn from."""
    given: dict[str, Any] = row if isinstance(row, dict) else {}
    prompt, response = given.get("prompt"), given.get("response")
    messages: Any = given.get("messages")
    if is_messages(messages) and (response is None or _is_response(response)):
        if args.raw:
            raise ValueError(_RAW_CHAT)
        if isinstance(response, str) or (response is None and args.completion_only_loss):
            split_messages(messages, response)
    elif isinstance(given.get("text"), str) and response is None:
        for flag in ("completion_only_loss", "assistant_only_loss"):
            if getattr(args, flag):
                raise ValueError(f"--{flag.replace('_', '-')}: in a 'text' no response is told apart")
    elif not isinstance(prompt, str) or not isinstance(response, str):
        raise ValueError("expected an object with 'prompt' and 'response' (texts), 'messages', or 'text'")


def _check_pair(row: Any, args: argparse.Namespace) -> None:
    """Raise ValueError for a row that `--method dpo` cannot learn from."""
    given: dict[str, Any] = row if isinstance(row, dict) else {}
    pair = pair_of(given)
    if args.raw and not all(isinstance(part, str) for part in pair):
        raise ValueError(_RAW_CHAT)
    if not args.raw and isinstance(pair[0], str) and given.get("prompt") is None:
        raise ValueError(
            "'chosen' and 'rejected' are texts without a 'prompt': --raw takes their common start"
        )


def _is_response(value: Any) -> bool:
    return isinstance(value, str) or is_messages(value)


def pair_of(row: Row) -> tuple[Any, Any, Any]:
    """The prompt of a row of `--method dpo`, and the chosen and the rejected response: texts, or messages.

    Where the responses begin alike and no prompt of their kind is beside them, that is it, as TRL has it.

    Raises:
        ValueError: they are something else; the message says what was expected.
    """
    prompt = row.get("prompt") if row.get("messages") is None else row["messages"]
    chosen: Any = row.get("chosen")
    rejected: Any = row.get("rejected")
    texts = isinstance(chosen, str) and isinstance(rejected, str)
    if texts and isinstance(prompt, str):
        return prompt, chosen, rejected
    if is_messages(prompt) and _is_response(chosen) and _is_response(rejected):
        return prompt, chosen, rejected
    chats = is_messages(chosen) and is_messages(rejected)
    if not chats and not (texts and prompt is None):
        raise ValueError("expected an object with 'prompt', 'chosen' and 'rejected' (texts, or messages)")
    common = common_start(chosen, rejected)
    if common == min(len(chosen), len(rejected)):
        raise ValueError("'chosen' and 'rejected' are equal, or one is the beginning of the other")
    if texts and chosen[:common].endswith(" "):
        common -= 1  # the blank begins the tokens of a word
    if not common:
        raise ValueError("'chosen' and 'rejected' begin otherwise, and there is no 'prompt' beside them")
    return chosen[:common], chosen[common:], rejected[common:]


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
