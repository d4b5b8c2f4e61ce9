"""Token ids of the rows that `lite learn` reads, and which of them learn."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.cli.learning.rows import Row, pair_of
from lite.models.batches.rows import Loaded, encoded_prompt, is_messages, row_of, tools_of
from lite.models.text.chat import encode_messages
from lite.models.text.tokenizer import common_start

Turns = list[dict[str, Any]]


class Lesson(NamedTuple):
    """A row of tokens.

    Attributes:
        ids: int64 (L,).
        said: bool (L,), True for tokens that learn.
    """

    ids: NDArray[np.int64]
    said: NDArray[np.bool_]


def sft_lesson(model: Loaded, row: Row, args: argparse.Namespace) -> Lesson:
    """The tokens of a row of `--method sft`: a text, a conversation, or a prompt and its response.

    Of a response it alone learns, and of the others all tokens, as TRL's SFTTrainer has it;
    `--completion-only-loss` and `--assistant-only-loss` say otherwise.

    Raises:
        ValueError: the chat template refuses the conversation; no token would learn.
    """
    messages, response = row.get("messages"), row.get("response")
    prompt: Any = messages if is_messages(messages) else row.get("prompt")
    if response is not None or args.completion_only_loss:
        whole = args.completion_only_loss is False
        return _answered(model, row, prompt, response, args, args.assistant_only_loss, whole)
    if is_messages(messages):
        return _lesson(*_chat(model, row, messages, args, args.assistant_only_loss))
    return _lesson(_ended(model, model.tokenizer.encode(row["text"]), row["text"]), None)


def dpo_lessons(model: Loaded, row: Row, args: argparse.Namespace) -> tuple[Lesson, Lesson]:
    """The tokens of the chosen and of the rejected response of a row of `--method dpo`.

    Both learn from the token on in which one of them begins, as with TRL's DPOTrainer.

    Raises:
        ValueError: the chat template refuses a conversation; no token would learn.
    """
    prompt, *responses = pair_of(row)
    chosen, rejected = (_answered(model, row, prompt, text, args) for text in responses)
    first = min(chosen.said.argmax(), rejected.said.argmax())
    chosen.said[first:] = rejected.said[first:] = True
    return chosen, rejected


def _answered(
    model: Loaded, row: Row, prompt: str | Turns, response: str | Turns | None, args: argparse.Namespace,
    assistant_only: bool = False, whole: bool = False,
) -> Lesson:  # fmt: skip
    """A prompt and a response, which learns; with `whole`, both do."""
    if isinstance(response, list):
        turns = [*prompt, *response] if isinstance(prompt, list) else response
        ids, learns = _chat(model, row, turns, args, assistant_only)
        before, tools = turns[: -len(response)], row.get("tools")
        start = common_start(
            encoded_prompt(model.tokenizer, before, system=args.system, tools=tools).ids, ids
        )
    else:
        named = {"messages" if isinstance(prompt, list) else "prompt": prompt, "response": response}
        ids, start = row_of(model, {**named, "tools": row.get("tools")}, args.raw, args.system)
        if args.raw:
            ids = _ended(model, ids, str(response))
        learns, whole = None, whole and not assistant_only
    known = np.arange(len(ids)) >= (0 if whole else start)
    return _lesson(ids, known if learns is None else known & learns)


def _chat(
    model: Loaded, row: Row, turns: Any, args: argparse.Namespace, assistant_only: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Token ids of a whole conversation, and which of them assistants said; None for all."""
    tokenizer, config = model.tokenizer, model.decoder.config
    options: dict[str, Any] = {}
    if assistant_only:
        ends = {tokenizer.eos_token_id, *(config.eos_token_ids if config else ())} - {None}
        options = {"mask": True, "end_ids": ends}
    chat = encode_messages(
        [*_system(args), *turns],
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
        tools=tools_of(row.get("tools")),
        **options,
    )
    return chat.ids, chat.assistant_mask


def _system(args: argparse.Namespace) -> Turns:
    return [] if args.system is None else [{"role": "system", "content": args.system}]


def _ended(model: Loaded, ids: Any, text: str) -> NDArray[np.int64]:
    """Token ids of a text, with the end of the sequence behind it if the text does not write that itself."""
    tokenizer = model.tokenizer
    end = tokenizer.eos_token
    missing = [] if end is None or text.endswith(end) else [tokenizer.eos_token_id]
    return np.asarray([*ids, *missing], np.int64)


def _lesson(ids: NDArray[np.int64], learns: NDArray[np.bool_] | None) -> Lesson:
    said = np.ones(len(ids), bool) if learns is None else learns.copy()
    said[:1] = False  # nothing comes before it
    if not said.any():
        raise ValueError("no token of it would learn")
    return Lesson(ids, said)
