"""Token ids of the prompts and responses in rows of files and tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lite.data.tables.columns import id_row
from lite.kernels._integer import integer
from lite.models.decoder.protocol import Decoder
from lite.models.text.assistant_spans import around_content
from lite.models.text.chat import EncodedChat, encode_messages
from lite.models.text.tokenizer import Tokenizer, encode_after, encode_inside


class Loaded(Protocol):
    """A model and its tokenizer."""

    @property
    def decoder(self) -> Any:
        """The model, a `Decoder`."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""


def encoded_prompt(
    tokenizer: Tokenizer, prompt: str | Sequence[Mapping[str, Any]], *, raw: bool = False,
    system: str | None = None, tools: Any = None,
) -> EncodedChat:  # fmt: skip
    """A prompt and its ids: by the chat template, with the generation prompt, unless `raw` or there is none.

    Args:
        tokenizer: has the template.
        prompt: a text, which becomes one turn of the user, or the turns of a conversation.
        raw: take the text as it is.
        system: a message put before the prompt.
        tools: see `tools_of`.

    Raises:
        ValueError: `tools` are something else, the template refuses the conversation, or it is to be `raw`.
    """
    if isinstance(prompt, str) and (raw or tokenizer.chat_template is None):
        text = prompt if system is None else f"{system}\n{prompt}"
        return EncodedChat(text, np.asarray(tokenizer.encode(text), np.int64), None)
    if raw:
        raise ValueError("raw takes prompts as they are, and messages are not text")
    options: dict[str, Any] = {"add_generation_prompt": True, "tools": tools_of(tools)}
    template = tokenizer.chat_template
    return encode_messages(_turns(prompt, system), tokenizer=tokenizer, chat_template=template, **options)


def _turns(prompt: str | Sequence[Mapping[str, Any]], system: str | None) -> list[Mapping[str, Any]]:
    turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return [*([] if system is None else [{"role": "system", "content": system}]), *turns]


def tools_of(tools: Any) -> list[Any] | None:
    """The tools that a chat template tells of: a list of JSON schemas, or its JSON, as TRL has it.

    Raises:
        ValueError: they are something else.
    """
    if isinstance(tools, str):
        tools = json.loads(tools)
    if not isinstance(tools, list | None):
        raise ValueError(f"tools must be a list of JSON schemas, got {tools!r}")
    return tools


def around_turn(
    model: Loaded, messages: Sequence[Mapping[str, Any]], prompt: str = "", tools: Any = None
) -> tuple[str, list[int]]:
    """The blanks before an assistant's turn after `messages`, and the token ids that end it.

    As the model was trained to write them: what the chat template writes behind `prompt`, the text of
    `messages`, if it is blank; and what it writes behind a content, up to the first token that ends a
    response, or else to the first special token. Without a template or such a token: the tokenizer's end.
    """
    tokenizer = model.tokenizer
    eos = tokenizer.eos_token_id
    fallback = [] if eos is None else [eos]
    if tokenizer.chat_template is None:
        return "", fallback

    def render(turns: Sequence[Mapping[str, Any]], **options: Any) -> str:
        return tokenizer.apply_chat_template(turns, tools=tools_of(tools), tokenize=False, **options)

    try:
        before, behind = around_content(render, messages)
        tail = encode_inside(tokenizer, behind)
    except ValueError:  # the template refuses or changes the turn of the assistant
        return "", fallback
    lead = before.removeprefix(prompt)
    if lead.strip():
        lead = ""
    added = tokenizer.backend.get_added_tokens_decoder()
    ends = {*fallback, *(model.decoder.config.eos_token_ids if model.decoder.config else ())}
    special = {index for index, token in added.items() if token.special}
    for wanted in (ends, special):
        if (at := next((i for i, index in enumerate(tail) if index in wanted), None)) is not None:
            return lead, tail[: at + 1]
    return lead, fallback


def cut_prompt(
    ids: NDArray[np.int64], start: int, keep: int | None, room: int | None
) -> tuple[NDArray[np.int64], int]:
    """A row without the first tokens of a long prompt, and the length of what is left of the prompt.

    Args:
        ids: ids of the prompt, and of a response behind it.
        start: how many are the prompt's.
        keep: most tokens of the prompt, which are its last; None keeps all, -1 as many as fit, at least one.
        room: most tokens of the row; None is not a limit.

    Example:
        >>> cut_prompt(np.arange(6), 4, -1, 5)
        (array([1, 2, 3, 4, 5]), 3)
    """
    if keep == -1:
        keep = None if room is None else max(room - (len(ids) - start), 1)
    gone = 0 if keep is None else max(start - keep, 0)
    return ids[gone:], start - gone


def prompt_for(
    decoder: Decoder, ids: NDArray[np.int64], keep: int | None, new: int | None
) -> NDArray[np.int64]:
    """Ids that the decoder takes: by `cut_prompt`, with room for so many `new` tokens behind it."""
    most = decoder.context_length
    room = None if most is None else most - (new or 0)
    if keep == -1 and room is not None and room < 1:
        raise ValueError(f"max_new_tokens={new} leaves no room for a prompt: the model's context is {most}")
    return decoder.check_ids(cut_prompt(ids, len(ids), keep, room)[0])


def check_keep(keep: int | None) -> int | None:
    """The argument `truncate_prompt_tokens`: ValueError unless it is None, -1 or at least 1."""
    if keep not in (None, -1):
        integer("truncate_prompt_tokens", keep, least=1)
    return keep


def is_messages(value: Any) -> bool:
    """Whether a value is a conversation: a non-empty list of dicts with a role and a content.

    A content is a text, or a list of parts with a "type" each, or None beside "tool_calls".
    """
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(turn, dict) and isinstance(turn.get("role"), str) and _has_content(turn)
            for turn in value
        )
    )


def _has_content(turn: Mapping[str, Any]) -> bool:
    content = turn.get("content")
    if isinstance(content, list):
        return bool(content) and all(isinstance(part, dict) and "type" in part for part in content)
    return isinstance(content, str) or (content is None and bool(turn.get("tool_calls")))


def is_answered(record: Mapping[str, Any]) -> bool:
    """Whether a record has a prompt and its response as texts."""
    return isinstance(record.get("prompt"), str) and isinstance(record.get("response"), str)


def split_messages(messages: list[dict[str, Any]], response: str | None) -> tuple[list[dict[str, Any]], str]:
    """The turns before a response, and the response: the given one, or else the assistant's last turn.

    Raises:
        ValueError: there is no response, it is not a text alone, or the given one differs from the last turn.
    """
    if messages[-1]["role"] != "assistant":
        if response is None:
            raise ValueError("messages must end with an assistant's turn, or have a 'response' beside them")
        return messages, response
    if messages[-1].get("tool_calls") or not isinstance(messages[-1]["content"], str):
        raise ValueError(
            "messages end with a turn that calls tools, or has parts: give a 'response' in its place, the"
            " text as the model writes it"
        )
    if response not in (None, messages[-1]["content"]):
        raise ValueError("messages end with an assistant's turn, and 'response' is another one")
    return messages[:-1], messages[-1]["content"]


def row_of(
    model: Loaded, record: Mapping[str, Any], raw: bool, system: str | None = None
) -> tuple[NDArray[np.int64], int]:
    """Prompt and response ids in one row, and the length of the prompt.

    Args:
        model: gives the tokenizer and its templates.
        record: token ids "prompt_ids" and "response_ids"; or "messages" that end with an assistant's turn, or
            without it and a "response", and "tools" beside them; or the texts "prompt" and "response"; or a
            "text" without them, whose first token is the prompt.
        raw: encode the prompt without a chat template.
        system: a message put before the prompt, but not before token ids.

    Raises:
        ValueError: the prompt or the response has no token, the messages end with another response, or are
            to be taken `raw`.
    """
    if all(record.get(name) is not None for name in ("prompt_ids", "response_ids")):
        given, answer = id_row(record["prompt_ids"]), id_row(record["response_ids"])
        if not len(given):
            raise ValueError("prompt_ids must have a token")
        return np.concatenate([given, answer]), len(given)
    tokenizer = model.tokenizer
    if record.get("messages") is None and not is_answered(record):
        ids = np.asarray(tokenizer.encode(record["text"]), np.int64)
        if len(ids) < 2:
            raise ValueError("the text has no token to score behind its first")
        return ids, 1
    before: Any
    if record.get("messages") is not None:
        before, text = split_messages(record["messages"], record.get("response"))
        prompt = encoded_prompt(tokenizer, before, raw=raw, system=system, tools=record.get("tools"))
    else:
        before, text = record["prompt"], record["response"]
        prompt = encoded_prompt(tokenizer, before, raw=raw, system=system)
    # The end of the turn is a part of a chat response, and is scored, too.
    turns = _turns(before, system)
    lead, end = ("", []) if raw else around_turn(model, turns, prompt.text, record.get("tools"))
    lead *= not text.startswith(lead)
    gone, response = encode_after(tokenizer, prompt.text, prompt.ids, lead + text)
    if gone >= len(prompt.ids):
        gone, response = 0, encode_inside(tokenizer, lead + text)
    start = len(prompt.ids) - gone
    if not (response or end):
        raise ValueError("the response has no token to score")
    if not start:
        raise ValueError("the prompt has no token to come before it")
    return np.concatenate([prompt.ids[:start], np.asarray([*response, *end], np.int64)]), start
