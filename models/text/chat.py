"""Messages to text and token ids and back, by chat templates; used by `History` and the wrappers."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite._arrays.caller import warn
from lite.models.text.assistant_spans import (
    AssistantSpansError,
    Render,
    Turns,
    around_content,
    assistant_spans,
    content_spans,
)
from lite.models.text.builtin_templates import (
    BUILT_IN,
    family_match,
    find_chat_template,
    has_generation_block,
    keyword_match,
)
from lite.models.text.parsers import parse_chat, without_spelled_calls
from lite.models.text.template_rendering import Rendered, render_chat, warn_of_dropped

MAX_SECONDS = 10.0  # of the thread's processor time; after them no conversation is rendered again
_processor_time = getattr(time, "thread_time", time.process_time)  # browsers have no thread_time
PLACEHOLDER_ROLE = "<none>"
"""Role of the turns that fill up rows of fewer turns; they are never rendered."""


class EncodedChat(NamedTuple):
    """A rendered conversation and its tokens.

    Attributes:
        text: the rendered text.
        ids: int64 (L,).
        assistant_mask: bool (L,), True for tokens that the assistant wrote; None if not requested.
    """

    text: str
    ids: NDArray[np.int64]
    assistant_mask: NDArray[np.bool_] | None


def render_messages(
    messages: Turns,
    *,
    tokenizer: Any = None,
    chat_template: str | None = None,
    chat_template_name: str | None = None,
    spans: bool = False,
    specials: re.Pattern[str] | None = None,
    probe: bool = False,
    **options: Any,
) -> Rendered:
    """Render one conversation with the template chosen by `find_chat_template`.

    Tool calls that a message's content spells out, as it does after parsing, reach the template once.
    With ``spans``, those of a template that has no ``{% generation %}`` blocks are found by
    `assistant_spans`; with them come the turns. With ``specials``, which finds the names of special tokens,
    those that users and tools have written are told. A ``probe`` warns of nothing.

    Raises:
        AssistantSpansError: they cannot be told.
    """
    turns = [
        without_spelled_calls(message) for message in messages if message.get("role") != PLACEHOLDER_ROLE
    ]
    source = find_chat_template(
        tokenizer, name=chat_template_name, source=chat_template, tools=options.get("tools")
    )
    special = getattr(tokenizer, "special_tokens_map", None) or {}
    if not probe:
        warn_of_dropped(source, turns, tools=options.get("tools"), documents=options.get("documents"))

    def render(turns: Turns, **changes: Any) -> Rendered:
        return render_chat(source, turns, **{**special, **options, **changes})

    def text_of(turns: Turns, **changes: Any) -> str:
        return render(turns, **changes).text

    def in_time(turns: Turns, **changes: Any) -> str:
        if _processor_time() > deadline:
            raise TimeoutError
        return text_of(turns, **changes)

    deadline = _processor_time() + MAX_SECONDS
    text, found, *_ = render(turns)
    controls = () if specials is None else _controls(text_of, text, turns, specials)
    if not spans:
        return Rendered(text, found, controls=controls)
    try:
        if not found and not has_generation_block(source):
            found = assistant_spans(in_time, text, turns)
        return Rendered(text, found, _written_turns(in_time, text, found, turns), controls)
    except TimeoutError:
        raise AssistantSpansError(
            f"cannot tell what the assistant wrote: rendering the {len(turns)} messages again and again takes"
            f" more than {MAX_SECONDS:g} s"
        ) from None


def _controls(
    render: Render, text: str, turns: Turns, specials: re.Pattern[str]
) -> tuple[tuple[int, int], ...]:
    """`Rendered.controls`, found by marks in the contents of a second rendering."""
    base, names = os.urandom(12).hex(), []

    def mark(found: re.Match[str]) -> str:
        names.append(found[0])
        return f"x{base}{len(names) - 1}x"

    def marked(content: Any) -> Any:
        if isinstance(content, str):
            return specials.sub(mark, content)
        if isinstance(content, list | tuple):
            return [marked(part) for part in content]
        if isinstance(content, Mapping) and isinstance(content.get("text"), str):
            return {**content, "text": marked(content["text"])}
        return content

    others = [
        turn if turn.get("role") == "assistant" else {**turn, "content": marked(turn.get("content"))}
        for turn in turns
    ]
    if not names:
        return ()
    try:
        pieces = re.split(f"x{base}(\\d+)x", render(others))
    except ValueError:
        pieces = []
    out, said = [], "".join(pieces[:1])
    for number, rest in zip(pieces[1::2], pieces[2::2], strict=True):
        name = names[int(number)]
        out.append((len(said), len(said) + len(name)))
        said += name + rest
    if said != text:
        warn(
            "a message names special tokens, and the chat template changes its content: they are taken for"
            " control tokens",
        )
        return ()
    return tuple(out)


class _Frame(NamedTuple):
    """What a template writes around an assistant's turn: positions in the text, None if missing.

    Attributes:
        first: the end of the turns before it.
        opened: the end of the generation prompt after those turns.
        before: the end of the text that the template writes before a content.
        tail: the text that it writes after a content.
    """

    first: int
    opened: int | None
    before: int | None
    tail: str

    def moved(self, by: int) -> _Frame:
        opened, before = (None if at is None else at + by for at in (self.opened, self.before))
        return _Frame(self.first + by, opened, before, self.tail)


def _frame(render: Render, text: str, before: Turns) -> _Frame | None:
    """The frame of the turn after `before`, by three renderings; None if `text` differs from them."""
    try:
        opened, closed = (
            render(before, add_generation_prompt=prompt, continue_final_message=False)
            for prompt in (True, False)
        )
        lead, tail = around_content(render, before)
    except ValueError:  # the template refuses to begin or to end there
        return None
    if not text.startswith(closed):
        return None
    places = [len(part) if text.startswith(part) else None for part in (opened, lead)]
    return _Frame(len(closed), places[0], places[1], tail)


def _frames(render: Render, text: str, turns: Turns) -> dict[int, _Frame | None]:
    """The frames of assistants' turns, by number; equal ones are rendered once.

    Alike is what follows the content of a turn by the same text, where the turns since the last user are of
    the same roles and have the same fields, by which templates leave out thoughts.
    """
    found: dict[int, _Frame | None] = {}
    known: dict[Any, _Frame] = {}
    places = content_spans(render, text, turns)
    traits = [(turn.get("role"), *sorted(name for name, value in turn.items() if value)) for turn in turns]
    asked = 0
    for i, turn in enumerate(turns):
        if turn.get("role") == "user":
            asked = i
        if turn.get("role") != "assistant":
            continue
        if i not in places or i - 1 not in places:
            found[i] = _frame(render, text, turns[:i])
            continue
        (_, start), (content, _) = places[i - 1], places[i]
        kind = text[start:content], traits[i - 1], traits[i], frozenset(traits[asked:i])
        if kind in known:
            found[i] = known[kind].moved(content)
            continue
        frame = found[i] = _frame(render, text, turns[:i])
        if frame and start <= frame.first <= max(frame.opened or 0, frame.before or 0) <= content:
            known[kind] = frame.moved(-content)
    return found


def _written_turns(
    render: Render, text: str, spans: Sequence[tuple[int, int]], turns: Turns
) -> tuple[tuple[int, int, int, bool], ...]:
    """`Rendered.turns`, without turns that do not start where the generation prompt ends."""
    frames = _frames(render, text, turns)
    found = [(i, frame) for i, frame in frames.items() if frame is not None]
    out = []
    for at, (i, frame) in enumerate(found):
        later = found[at + 1] if at + 1 < len(found) else None
        stop = len(text) + 1 if later is None else later[1].first
        own = [span for span in spans if frame.first <= span[0] < stop]
        if (later and later[0]) != next((k for k in frames if k > i), None):  # that one's place is not known
            own = _up_to(frame.tail, text, frame.first if frame.opened is None else frame.opened, own)
        begin = own[0][0] if own else frame.before
        if frame.opened is not None:
            begin = frame.opened
        if begin is None:
            continue
        end = own[-1][1] if own else begin if frame.before is None else frame.before
        # a block may hold what ends the turn
        tail, complete = frame.tail, turns[i].get("is_complete") is not False
        inside = (k for k in range(len(tail), 0, -1) if text[:end].endswith(tail[:k], begin))
        end -= next((k for k in inside if text.startswith(tail, end - k)), 0)
        if text.startswith(tail, end):
            out.append((begin, end, end + len(tail), complete))
    return tuple(out)


def _up_to(tail: str, text: str, begin: int, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans up to the end of a turn, which `tail` marks; the first span alone without a tail."""
    kept: list[tuple[int, int]] = []
    for start, end in spans:
        if tail in text[begin:start] if tail else kept:
            break
        kept.append((start, end))
        begin = end - len(tail) if text.endswith(tail, 0, end) else end  # a block may hold what ends the turn
    return kept


def blanks_around_content(**options: Any) -> tuple[str, str]:
    """The whitespace that a template writes before and after a content.

    The model writes these itself. `options` are those of `render_messages`.

    Example:
        >>> [blanks_around_content(chat_template_name=name) for name in ("falcon", "qwen")]
        [(' ', ''), ('', '')]
    """

    def render(turns: Turns, **changes: Any) -> str:
        return render_messages(turns, probe=True, **{**options, **changes}).text

    asked = [{"role": "user", "content": "a"}]
    try:
        prompt = render(asked, add_generation_prompt=True)
        before, behind = around_content(render, asked)
    except ValueError:
        return "", ""
    lead = before.removeprefix(prompt) if before.startswith(prompt) else ""
    blank = behind[: len(behind) - len(behind.lstrip())]
    return "" if lead.strip() else lead, "" if blank == behind else blank


def encode_messages(messages: Turns, *, tokenizer: Any, mask: bool = False, **options: Any) -> EncodedChat:
    """Render one conversation and encode it; the template has written all special tokens."""
    return encode_chats([messages], tokenizer=tokenizer, mask=mask, **options)[0]


def encode_chats(
    chats: Sequence[Turns], *, tokenizer: Any, mask: bool = False, end_ids: Collection[int] = (),
    split_special_tokens: bool = True, **options: Any,
) -> list[EncodedChat]:  # fmt: skip
    """`encode_messages` for several conversations, in one call of the tokenizer.

    With ``end_ids``, which end a response, the mask has all tokens that the model has to write: from the end
    of the generation prompt to the first end id after the content, unless the turn is not complete.
    With ``split_special_tokens``, only the template and assistants write special tokens: in other turns the
    name of one is plain text.

    Raises:
        AssistantSpansError: with ``mask``, the assistant's text cannot be told from the template's.
    """
    if not chats:
        return []
    special = _special_names(tokenizer) if split_special_tokens else {}
    specials = re.compile("|".join(map(re.escape, special.values()))) if special else None
    rendered = [
        render_messages(messages, tokenizer=tokenizer, spans=mask, specials=specials, **options)
        for messages in chats
    ]
    texts = [row.text for row in rendered]
    encoded = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    out = []
    for row, ids, offsets in zip(rendered, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        if row.controls:
            ids, offsets = _spelt_out(tokenizer, row, ids, offsets, special.keys())
        ids = np.asarray(ids, np.int64).reshape(-1)
        said = span_mask(offsets, row.spans) if mask else None
        if said is not None and end_ids:
            _mark_turns(said, ids, offsets, row, end_ids)
        out.append(EncodedChat(row.text, ids, said))
    return out


def _special_names(tokenizer: Any) -> dict[int, str]:
    """The special tokens by id, the longest names first."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    names = {i: token.content for i, token in added.items() if token.special and token.content}
    return dict(sorted(names.items(), key=lambda item: -len(item[1])))


def _spelt_out(
    tokenizer: Any, row: Rendered, ids: Any, offsets: Any, special: Collection[int]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Ids and offsets, with special tokens that users or tools wrote replaced by tokens of plain text."""
    out: list[tuple[int, tuple[int, int]]] = []
    for i, (start, end) in zip(ids, offsets, strict=True):
        if i not in special or not any(start < b and end > a for a, b in row.controls):
            out.append((i, (start, end)))
            continue
        spelt = tokenizer(
            row.text[start:end],
            add_special_tokens=False,
            split_special_tokens=True,
            return_offsets_mapping=True,
        )
        places = [(start + a, start + b) for a, b in spelt["offset_mapping"]]
        out += zip(spelt["input_ids"], places, strict=True)
    return [i for i, _ in out], [place for _, place in out]


def _mark_turns(
    mask: NDArray[np.bool_],
    ids: NDArray[np.int64],
    offsets: Sequence[tuple[int, int]],
    row: Rendered,
    end_ids: Collection[int],
) -> None:
    """Set the mask for the tokens that the model has to write of each turn, and clear it after them.

    Those are the text before the first span, and the end of the turn; between spans others may have written.
    """
    starts = np.asarray(offsets, np.int64).reshape(-1, 2)[:, 0]
    ending = np.isin(ids, list(end_ids))
    leads = (
        (begin, min(next((start for start, stop in row.spans if stop > begin), end), end))
        for begin, end, _, _ in row.turns
    )
    mask |= span_mask(offsets, [(begin, end) for begin, end in leads if begin < end])
    for _, end, stop, complete in row.turns:
        behind = (starts >= end) & (starts < stop)
        found = np.flatnonzero(behind & ending)
        if found.size or not complete:
            mask &= ~behind
        if found.size and complete:
            behind[found[0] + 1 :] = False
            mask |= behind


def span_mask(offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """True for every token whose characters overlap a span, shape (L,)."""
    bounds = np.asarray(offsets, np.int64).reshape(-1, 2)
    mask = np.zeros(len(bounds), np.bool_)
    for start, end in spans:
        mask |= (bounds[:, 0] < end) & (bounds[:, 1] > start)
    return mask


def parser_name(tokenizer: Any, chat_template_name: str | None = None) -> str:
    """The name of the parser for text rendered for a tokenizer.

    A template registered for the tokenizer's name wins; else the built-in parser that inverts the
    tokenizer's own template; else its family's; else ``chatml_format``.
    """
    if chat_template_name is not None:
        return chat_template_name
    if tokenizer is None:
        return "chatml_format"
    family = family_match(tokenizer.name_or_path)
    own = tokenizer.chat_template
    eos = getattr(tokenizer, "eos_token", None)
    found = _inverse_of(own, family, eos) if isinstance(own, str) else None
    return keyword_match(tokenizer.name_or_path) or found or family or "chatml_format"


def parse_response(
    text: str, *, tokenizer: Any = None, chat_template_name: str | None = None
) -> list[dict[str, Any]]:
    """The turns of a response, whether or not it begins with the header of its first turn.

    What a model wrote, or what was cut from a conversation after its prompt, does not: the header stands at
    the end of the prompt.

    Raises:
        NotImplementedError: there is no parser of that name.

    Example:
        >>> parse_response("4<|im_end|>", chat_template_name="chatml_format")
        [{'role': 'assistant', 'content': '4', 'is_complete': True}]
    """
    name = parser_name(tokenizer, chat_template_name)
    eos = getattr(tokenizer, "eos_token", None)
    source = find_chat_template(None, name=name)
    asked = [{"role": "user", "content": "a"}]
    special: dict[str, Any] = {"bos_token": "", "eos_token": eos or "<|endoftext|>"}
    closed, opened = (
        render_chat(source, asked, add_generation_prompt=prompt, **special).text for prompt in (False, True)
    )
    header = opened[len(closed) :].strip()
    lead, found, _ = text.partition(header) if header else ("", "", "")
    if found and lead.strip() in ("", getattr(tokenizer, "bos_token", None)):
        return parse_chat(text, name, eos_token=eos)
    turns = parse_chat(opened + text, name, eos_token=eos)[len(parse_chat(closed, name, eos_token=eos)) :]
    if len(turns) > 1 and not turns[0]["content"] and not turns[0].get("is_complete", True):
        del turns[0]  # the response begins with a turn of another role
    return turns or [{"role": "assistant", "content": "", "is_complete": bool(text.strip())}]


@functools.lru_cache(maxsize=64)
def _inverse_of(template: str, family: str | None, eos_token: str | None) -> str | None:
    probe = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    try:
        text = render_chat(template, probe, bos_token="", eos_token=eos_token or "<|endoftext|>").text
    except ValueError:
        return None
    for name in [family, *BUILT_IN] if family else BUILT_IN:
        try:
            turns = parse_chat(text, name, eos_token=eos_token)
        except RuntimeError:
            continue
        # a template may add a system turn of its own
        said = [
            {"role": turn["role"], "content": turn["content"]} for turn in turns if turn["role"] != "system"
        ]
        if said == probe:
            return name
    return None
