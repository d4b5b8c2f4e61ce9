"""The prompts of `lite generate`: from arguments, from files, from standard input."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.cli.model import LoadedModel
from lite.cli.output_files import other_columns
from lite.models.batches.rows import encoded_prompt, is_messages

Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class Prompt:
    """One prompt: a text, or the turns of a conversation.

    Attributes:
        text: the text, or the content of the last turn.
        messages: the turns, None for a text.
        id: how its file names it, None if it does not.
        columns: what else its file has of it, for the rows of results.
    """

    text: str
    messages: Messages | None = None
    id: Any = None
    columns: Mapping[str, Any] = field(default_factory=dict)

    def ids(self, model: LoadedModel, args: argparse.Namespace) -> NDArray[np.int64]:
        """Token ids, with the chat template unless `--raw` or there is none."""
        if self.messages is None:
            return encoded_prompt(model.tokenizer, self.text, raw=args.raw, system=args.system).ids
        if args.raw:
            raise ValueError("--raw takes prompts as they are, and 'messages' are not text")
        tools = self.columns.get("tools")
        return encoded_prompt(model.tokenizer, self.messages, system=args.system, tools=tools).ids

    @property
    def record(self) -> dict[str, Any]:
        """The columns of a prompt that are copied to the row of its result."""
        named = {} if self.id is None else {"id": self.id}
        text = {"prompt": self.text} if self.messages is None else {"messages": self.messages}
        return named | text | dict(self.columns)


def read_prompts(args: argparse.Namespace) -> list[Prompt]:
    """The prompts that the arguments name.

    A positional `-` is standard input as one prompt. A file has a prompt in each line, or JSON lines: objects
    with "prompt" (a text) or "messages" (objects with "role" and "content"). It counts as JSON lines if its
    first line is an object.

    Raises:
        ValueError: a prompt is empty, or a line has no prompt; the message names file and line.
        OSError: a file cannot be read.
    """
    prompts = [Prompt(sys.stdin.read() if text == "-" else text) for text in args.prompt]
    for number, prompt in enumerate(prompts, 1):
        _require_text(prompt, args, f"prompt {number}")
    for name in args.file or ():
        prompts += _of_file(name, args)
    return prompts


def _require_text(prompt: Prompt, args: argparse.Namespace, where: str) -> None:
    """Raise ValueError for an empty prompt; with `--raw` the tokens are counted later."""
    if not args.raw and not prompt.text.strip():
        raise ValueError(f"{where} is empty: there is nothing to respond to (--raw takes it as it is)")


def _of_file(name: str, args: argparse.Namespace) -> Iterator[Prompt]:
    if name == "-":
        lines = sys.stdin.read().split("\n")
    else:
        try:
            lines = Path(name).read_text(encoding="utf-8-sig").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} is not text in UTF-8: {error}") from None
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise ValueError(f"{name} has no prompt in it")
    if not isinstance(_parsed(numbered[0][1]), dict):
        yield from (Prompt(line.rstrip("\r")) for _, line in numbered)
        return
    for number, line in numbered:
        prompt = prompt_of(_parsed(line))
        if prompt is None:
            raise ValueError(
                f"{name}, line {number}: expected a JSON object with 'prompt' (a text) or 'messages' "
                f"(role and content each), got {line.strip()[:80]}"
            )
        _require_text(prompt, args, f"{name}, line {number}: the prompt")
        yield prompt


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def with_own_names(row: Any, whole: bool = False) -> Any:
    """A row by the names that commands read; TRL has conversations as "prompt", and a "completion".

    A completion of one message is its content, or with `whole` the messages, as a chat template writes them.
    """
    if not isinstance(row, dict):
        return row
    named: dict[str, Any] = dict(row)
    completion: Any = row.get("completion")
    if is_messages(row.get("prompt")) and row.get("messages") is None:
        named["messages"] = named.pop("prompt")
    is_chat = is_messages(completion)
    if is_chat and not whole and len(completion) == 1:
        completion = completion[0]["content"]
    if (isinstance(completion, str) or (is_chat and whole)) and row.get("response") is None:
        named["response"] = completion
        del named["completion"]
    return named


def prompt_of(value: Any) -> Prompt | None:
    """The prompt of an object of a JSON line; None if it has none. TRL names conversations "prompt", too."""
    if isinstance(value, dict):
        named: dict[str, Any] = {"id": value.get("id"), "columns": other_columns(value)}
        if isinstance(value.get("prompt"), str):
            return Prompt(value["prompt"], **named)
        told = next((value[name] for name in ("messages", "prompt") if is_messages(value.get(name))), None)
        if told is not None:
            said = told[-1]["content"] or ""
            text = said if isinstance(said, str) else "".join(str(part.get("text") or "") for part in said)
            return Prompt(text, told, **named)
    return None
