"""Turn rendered conversations back into messages: the inverses of the built-in chat templates.

Every parser takes the rendered text and returns messages as dicts with "role", "content" and
"is_complete" (False for a turn whose end was not written), and where found "tool_calls" and
"tool_responses". Content is stripped of surrounding whitespace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from lite.models.text.builtin_templates import custom_parser

Messages = list[dict[str, Any]]

_CHATML_END = re.compile(r"<\|im_end\|>|<\|endoftext\|>")
_TOOL_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
_TOOL_RESPONSE = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)
_LLAMA_TURN = re.compile(
    r"<\|header_start\|>(\w+)<\|header_end\|>(.*?)(<\|eot\|>|(?=<\|header_start\|>)|\Z)", re.DOTALL
)
_LABEL = re.compile(r"(?:\A|(?<=[\n>]))(User|Assistant):")
_ANGLE_TOKEN = r"<[^<>\s]+>"


def parse_chat(text: str, name: str, *, eos_token: str | None = None) -> Messages:
    """The messages of a conversation rendered with the template called ``name``.

    Args:
        text: The rendered conversation.
        name: A built-in template's name, or one registered with a parser.
        eos_token: The token that ends dialogpt turns, by default ``<|endoftext|>``.

    Raises:
        NotImplementedError: There is no parser for that template.
        RuntimeError: No message was found.

    Example:
        >>> parse_chat("<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\nHe", "chatml_format")[1]
        {'role': 'assistant', 'content': 'He', 'is_complete': False}
    """
    parser = custom_parser(name) or _BUILT_IN.get(name)
    if parser is None:
        raise NotImplementedError(
            f"no parser for the chat template {name!r}; parsers exist for {sorted(_BUILT_IN)} and for"
            " templates registered by add_chat_template(..., inverse_parser=...)"
        )
    if name == "dialogpt" and parser is _dialogpt:
        messages = _dialogpt(text, eos_token or "<|endoftext|>")
    else:
        messages = parser(text)
    if not messages:
        what = "Couldn't parse Llama format" if name == "llama" else "Couldn't get a single item out of text"
        raise RuntimeError(f"{what} {text[:200]!r} (as {name})")
    return messages


def _message(role: str, content: str, is_complete: bool) -> dict[str, Any]:
    return {"role": role, "content": content.strip(), "is_complete": is_complete}


def with_tools(message: dict[str, Any]) -> dict[str, Any]:
    """Add the tool calls and responses found in the content, which keeps their text."""
    calls = [call for block in _TOOL_CALL.findall(message["content"]) if (call := _call(block))]
    responses = [block.strip() for block in _TOOL_RESPONSE.findall(message["content"])]
    if calls:
        message["tool_calls"] = calls
    if responses:
        message["tool_responses"] = responses
    return message


def without_spelled_calls(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message without "tool_calls" if they are those that `with_tools` reads from its content.

    A template that writes both the content and the calls would write them twice.

    Example:
        >>> text = '<tool_call>\\n{"name": "f"}\\n</tool_call>'
        >>> sorted(without_spelled_calls({"content": text, "tool_calls": [{"name": "f"}]}))
        ['content']
    """
    calls, content = message.get("tool_calls"), message.get("content")
    if (
        not calls
        or not isinstance(content, str)
        or calls != with_tools({"content": content}).get("tool_calls")
    ):
        return message
    return {name: value for name, value in message.items() if name != "tool_calls"}


def _call(block: str) -> dict[str, Any] | None:
    try:
        call = json.loads(block)
    except (ValueError, RecursionError):  # no JSON, or a number of thousands of digits
        return None
    return call if isinstance(call, dict) else None


def _chatml_turns(text: str) -> list[tuple[str, str, bool]]:
    """(role, content, is complete) of every ``<|im_start|>`` turn that has a line break."""
    turns = []
    for piece in text.split("<|im_start|>")[1:]:
        end = _CHATML_END.search(piece)
        header, newline, content = (piece[: end.start()] if end else piece).partition("\n")
        if newline:
            turns.append((header.strip(), content, end is not None))
    return turns


def _chatml(text: str) -> Messages:
    return [with_tools(_message(*turn)) for turn in _chatml_turns(text)]


def _qwen(text: str) -> Messages:
    # an empty open turn is the generation prompt
    return [with_tools(_message(*turn)) for turn in _chatml_turns(text) if turn[2] or turn[1]]


def _llama(text: str) -> Messages:
    return [
        _message(match[1], match[2], match[3] == "<|eot|>")
        for match in _LLAMA_TURN.finditer(text)
        if match[2].strip()
    ]


def _labelled(text: str) -> list[tuple[str, str]]:
    """(role, raw content) of "User:" and "Assistant:" segments; text before the first is the system's."""
    labels = list(_LABEL.finditer(text))
    if not labels:
        return []
    head = text[: labels[0].start()]
    segments = [("system", head)] if head.strip() else []
    for label, following in zip(labels, [*labels[1:], None], strict=True):
        end = following.start() if following else len(text)
        segments.append((label[1].lower(), text[label.end() : end]))
    if segments[-1][0] == "assistant" and not segments[-1][1].strip():
        segments.pop()  # a generation prompt, not a turn
    return segments


def _falcon(text: str) -> Messages:
    segments = _labelled(text)
    last = len(segments) - 1
    return [
        _message(role, content, i < last or role != "assistant" or content.endswith("\n"))
        for i, (role, content) in enumerate(segments)
    ]


def _deepseek(text: str) -> Messages:
    segments = _labelled(re.sub(rf"\A\s*{_ANGLE_TOKEN}", "", text))
    messages = []
    for i, (role, content) in enumerate(segments):
        body = re.sub(rf"{_ANGLE_TOKEN}\s*\Z", "", content) if role == "assistant" else content
        open_end = role == "assistant" and i == len(segments) - 1 and body == content
        messages.append(_message(role, body, not open_end))
    return messages


def _dialogpt(text: str, eos_token: str) -> Messages:
    """Turns alternate between user and assistant, each ended by the end token."""
    *turns, rest = text.split(eos_token)
    roles = ("user", "assistant")
    messages = [_message(roles[i % 2], turn, True) for i, turn in enumerate(turns)]
    if rest.strip():
        messages.append(_message(roles[len(turns) % 2], rest, False))
    return messages


_BUILT_IN: dict[str, Callable[..., Messages]] = {
    "chatml_format": _chatml, "qwen": _qwen, "llama": _llama, "deepseek": _deepseek, "falcon": _falcon,
    "dialogpt": _dialogpt,
}  # fmt: skip
