"""Render conversations with the Jinja chat templates that models ship.

Templates come with models, so they are untrusted: they run in `template_sandbox`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lite._arrays.caller import warn
from lite.kernels._install import install, needed

MAX_RENDERED_CHARS = 1 << 24
# names of one thing, the first that is there wins
_REASONING = ("reasoning_content", "thinking", "reasoning")


class Rendered(NamedTuple):
    """A rendered conversation.

    Attributes:
        text: The text to encode (without adding special tokens: the template wrote them).
        spans: Character ranges (start, end) of ``text`` inside ``{% generation %}`` blocks, in order.
        turns: Of each turn of an assistant, if that was asked for: where the generation prompt ends, where
            the content ends, where what the template writes behind it does, and whether the turn is complete.
        controls: Where contents of others than assistants spell special tokens, if that was asked for.
    """

    text: str
    spans: tuple[tuple[int, int], ...]
    turns: tuple[tuple[int, int, int, bool], ...] = ()
    controls: tuple[tuple[int, int], ...] = ()


def render_chat(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    documents: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = False,
    continue_final_message: bool = False,
    max_chars: int = MAX_RENDERED_CHARS,
    **variables: Any,
) -> Rendered:
    """Render one conversation.

    Templates see ``messages``, ``tools``, ``documents``, ``add_generation_prompt`` and the
    ``variables`` (special tokens, say), the functions ``raise_exception`` and ``strftime_now``, a
    ``tojson`` that keeps non-ASCII characters, loop controls, and ``{% generation %}`` blocks. As with
    transformers, fields of messages that are None are not there, and reasoning has each of the names that
    templates know. A content whose parts are all texts is one text to a template that does not read parts.

    Args:
        template: Jinja source.
        messages: Messages with at least "role" and "content".
        tools: JSON schemas of functions, as dicts.
        documents: Documents, for templates that take them: dicts with "title" and "text".
        add_generation_prompt: Let the template end with an assistant header.
        continue_final_message: Cut the text right after the last message's content, so that a
            model continues it.
        max_chars: Longest result allowed.
        **variables: Further template variables.

    Raises:
        ValueError: The template is malformed, fails, refuses the conversation, builds too much or takes
            longer than ten seconds; or a tool is not a dict.
        TypeError: A message or a document is not a dict.
        ImportError: The jinja2 package is missing.

    Example:
        >>> source = "{% for m in messages %}> {% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
        >>> render_chat(source, [{"role": "assistant", "content": "Hi"}])
        Rendered(text='> Hi', spans=((2, 4),), turns=(), controls=())
    """
    if add_generation_prompt and continue_final_message:
        raise ValueError("add_generation_prompt and continue_final_message exclude each other")
    for message in messages:
        if not isinstance(message, Mapping):
            raise TypeError(f"messages must be dicts with 'role' and 'content', got {message!r} in them")
    for tool in tools or ():
        if not isinstance(tool, Mapping):
            raise ValueError(f"tools must be JSON schemas (dicts), got {type(tool).__name__} in them")
    for document in documents or ():
        if not isinstance(document, Mapping):
            raise TypeError(f"documents must be dicts with 'title' and 'text', got {type(document).__name__}")
    # Random marks, removed below, say where blocks began and ended: unlike counting what was
    # written so far, that also works inside macros, captures and filters.
    mark = os.urandom(16).hex()
    turns = [_as_seen(message) for message in messages]
    if any(isinstance(turn.get("content"), list | tuple) for turn in turns) and not _reads_parts(template):
        turns = [_joined(turn) for turn in turns]
    if continue_final_message:
        turns = _mark_end(turns, f"{mark}!")
    context = {
        **variables,
        "messages": turns,
        "tools": tools,
        "documents": documents,
        "add_generation_prompt": add_generation_prompt,
    }
    text = _rendered(template, context, mark, max_chars)
    if continue_final_message:
        text, found, _ = text.partition(f"{mark}!")
        if not found:
            raise ValueError("continue_final_message: the template does not write the last message's content")
    return _take_spans(text, mark)


def warn_of_dropped(template: str, turns: Sequence[Mapping[str, Any]], **given: Any) -> None:
    """Warn of ``tools``, ``documents`` and tool calls that are given to a template that never writes them."""
    calls = any(turn.get("tool_calls") for turn in turns)
    for name, value in {**given, "tool_calls": calls}.items():
        if value and not _writes(template, name):
            warn(f"the chat template does not write {name}: the model will not see them")


@functools.lru_cache(maxsize=64)
def _writes(template: str, name: str) -> bool:
    """Whether a template writes something else where there are tools, documents or tool calls."""
    chat = [{"role": "system", "content": "a"}, {"role": "user", "content": "a"}]
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    probe = {
        "tools": {"type": "function", "function": _PROBE},
        "documents": {"title": "a", "text": "b"},
        "tool_calls": call,
    }
    special: dict[str, Any] = {"bos_token": "", "eos_token": "", "add_generation_prompt": True}

    def said(turns: Any, value: Any) -> str | None:
        given = {name: value}
        if name == "tool_calls":
            turns, given = [*turns[:-1], {**turns[-1], name: value}], {}
        try:
            return render_chat(template, turns, **given, **special).text
        except ValueError:
            return None

    chats = [chat, chat[1:]]
    if name == "tool_calls":
        chats = [[*turns, {"role": "assistant", **own}] for turns in chats for own in ({"content": ""}, {})]
    pairs = [(said(turns, None), said(turns, [probe[name]])) for turns in chats]
    # a template that takes none of the conversations looks at more than there is
    return any(plain != other for plain, other in pairs) or pairs == [(None, None)] * len(pairs)


_PROBE = {"name": "f", "description": "f", "parameters": {"type": "object", "properties": {}, "required": []}}


def _as_seen(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as templates see it."""
    turn = {name: value for name, value in message.items() if value is not None}
    said = [turn[name] for name in _REASONING if name in turn]
    return {"thinking": said[0], **turn, "reasoning_content": said[0]} if said else turn


def _rendered(template: str, context: Mapping[str, Any], mark: str, max_chars: int) -> str:
    sandbox = needed("lite.models.text.template_sandbox", "chat templates need jinja2", install("llm"))
    text: str = sandbox.render(template, context, mark, max_chars)
    return text


@functools.lru_cache(maxsize=64)
def _reads_parts(template: str) -> bool:
    """Whether a template writes parts of a content; others fail, write Python's list of them or nothing."""

    def said(content: Any) -> str | None:
        context = {"messages": [{"role": "user", "content": content}], "add_generation_prompt": True}
        try:
            return _rendered(template, {**context, "bos_token": "", "eos_token": ""}, "", MAX_RENDERED_CHARS)
        except ValueError:
            return None

    parts = said([{"type": "text", "text": "a part"}]) or ""
    return said("a") is None or ("a part" in parts and "{'type': 'text'" not in parts)


def _joined(turn: dict[str, Any]) -> dict[str, Any]:
    """A message whose content is one text, if all of its parts are texts."""
    parts = turn.get("content")
    if not isinstance(parts, list | tuple) or not all(
        isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)
        for part in parts
    ):
        return turn
    return {**turn, "content": "".join([part["text"] for part in parts])}


def _mark_end(messages: list[dict[str, Any]], mark: str) -> list[dict[str, Any]]:
    if not messages:
        raise ValueError("continue_final_message needs at least one message")
    content = messages[-1].get("content")
    if isinstance(content, str):
        last: Any = content + mark
    elif isinstance(content, (list, tuple)) and any(isinstance(p, Mapping) and "text" in p for p in content):
        parts = [dict(part) for part in content]
        index = max(i for i, part in enumerate(parts) if "text" in part)
        parts[index]["text"] += mark
        last = parts
    else:
        raise ValueError("continue_final_message needs a last message with text")
    return [*messages[:-1], {**messages[-1], "content": last}]


def _take_spans(text: str, mark: str) -> Rendered:
    pieces = text.split(mark)
    out = [pieces[0]]
    spans: list[tuple[int, int]] = []
    position, depth, start = len(pieces[0]), 0, 0
    for piece in pieces[1:]:
        opens, body = piece[:1] == "(", piece[1:]
        if opens:
            start = position if depth == 0 else start
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0 and position > start:
                spans.append((start, position))
        out.append(body)
        position += len(body)
    if depth and position > start:  # a block cut open by continue_final_message
        spans.append((start, position))
    return Rendered("".join(out), tuple(spans))
