"""Which characters of a rendered conversation its assistants wrote, for templates that do not say so.

A content may occur in the template, in another turn or nowhere, so searching for it finds the wrong place.
Instead the conversation is rendered again with marks around the contents. If the text without the marks is
the same, the text between them is what the template wrote for the content. For tool calls, whose form is
the template's own, the conversation is rendered up to the turn and up to its end.
"""

from __future__ import annotations

import bisect
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Turns = Sequence[Mapping[str, Any]]
Render = Callable[..., str]
"""Renders turns; keyword arguments override the options of the rendering."""


class AssistantSpansError(ValueError):
    """The characters that an assistant wrote cannot be told from those of the template."""


class _Piece(NamedTuple):
    """A text of a turn's content: the turn's number, the part's number (None for the whole), the text."""

    turn: int
    part: int | None
    text: str


def assistant_spans(render: Render, text: str, turns: Turns) -> tuple[tuple[int, int], ...]:
    """The spans of a rendered conversation that its assistants wrote: contents and tool calls.

    Whitespace and reasoning that the template leaves out of a content are in no span, and neither is an
    assistant's turn that it leaves out altogether.

    Args:
        render: renders turns as `text` was rendered, with options overridden by keyword arguments.
        text: the rendered conversation.
        turns: its messages.

    Returns:
        (start, end) of each text, in order.

    Raises:
        AssistantSpansError: there is no exact way: the template writes a content twice or otherwise than it
            is, or what it writes for tool calls has no end of its own.

    Example:
        >>> def render(turns, **options):
        ...     return "".join(f"<{turn['role']}> {turn['content'].strip()}\\n" for turn in turns)
        >>> chat = [{"role": "assistant", "content": " a "}]
        >>> assistant_spans(render, render(chat), chat)
        ((12, 13),)
    """
    finder = _Finder(render, text, turns)
    calling = [i for i, turn in enumerate(turns) if turn.get("tool_calls") and finder.writes_calls(i)]
    said = [piece for piece in _pieces(turns) if turns[piece.turn].get("role") == "assistant"]
    pieces = [piece for piece in said if piece.turn not in calling]
    found = finder.all_at_once(pieces)
    spans = [finder.one_or_turn(piece) for piece in pieces] if found is None else [*found.values()]
    spans += [finder.turn_with_calls(i) for i in calling]
    return tuple(sorted((start, end) for start, end in spans if start < end))


def content_spans(render: Render, text: str, turns: Turns) -> dict[int, tuple[int, int]]:
    """The spans of texts that are contents in a rendered conversation, by the number of the turn.

    Empty contents have none. If the template changes one of the contents, the result is empty.
    """
    texts = [piece for piece in _pieces(turns) if piece.part is None]
    found = _Finder(render, text, turns).all_at_once(texts) or {}
    return {piece.turn: span for piece, span in found.items()}


def around_content(render: Render, turns: Turns) -> tuple[str, str]:
    """The texts before and after the content of an assistant's turn after `turns`.

    Raises:
        ValueError: the template refuses such a conversation, or does not write the content exactly once.
    """
    mark = _mark()
    said = [*turns, {"role": "assistant", "content": mark}]
    parts = render(said, add_generation_prompt=False, continue_final_message=False).split(mark)
    if len(parts) != 2:
        raise AssistantSpansError("the template does not write an assistant's content once, as it is")
    return parts[0], parts[1]


def _pieces(turns: Turns) -> Iterator[_Piece]:
    for i, turn in enumerate(turns):
        content = turn.get("content")
        if isinstance(content, str) and content:
            yield _Piece(i, None, content)
        elif isinstance(content, (list, tuple)):
            for part, value in enumerate(content):
                said = value.get("text") if isinstance(value, Mapping) else None
                if isinstance(said, str) and said:
                    yield _Piece(i, part, said)


def _mark() -> str:
    return f"x{os.urandom(12).hex()}x"


class _Finder:
    """Finds spans in one conversation by renderings."""

    def __init__(self, render: Render, text: str, turns: Turns) -> None:
        self.render = render
        self.text = text
        self.turns = turns

    def all_at_once(self, pieces: Sequence[_Piece]) -> dict[_Piece, tuple[int, int]] | None:
        """The spans of pieces from one rendering; None if the template changes one of them."""
        found = self._all_as({piece: piece.text for piece in pieces})
        if found is None:  # many a template trims
            found = self._all_as({piece: piece.text.strip() for piece in pieces})
        return found

    def _all_as(self, texts: Mapping[_Piece, str]) -> dict[_Piece, tuple[int, int]] | None:
        if not texts:
            return {}
        base = _mark()
        said = [piece for piece, text in texts.items() if text]
        marks = {piece: f"{base}{2 * i}x{texts[piece]}{base}{2 * i + 1}x" for i, piece in enumerate(said)}
        marked = self._with({**texts, **marks})
        between = re.split(f"{base}(\\d+)x", marked or "")
        found = list(map(int, between[1::2]))
        if sorted(found) != list(range(2 * len(said))) or "".join(between[::2]) != self.text:
            return None
        at = dict(zip(found, itertools.accumulate(map(len, between[::2])), strict=False))
        return {piece: (at[2 * i], at[2 * i + 1]) for i, piece in enumerate(said)}

    def one(self, piece: _Piece) -> tuple[int, int]:
        """The span of one piece; the template may cut its ends."""
        said = piece.text
        ends = (len(said.rstrip()), len(said))  # of whitespace alone, either may be left out
        last = next((at for at in ends if self._place(piece, at) is not None), None)
        if last is None:
            if self._with({piece: _mark()}) != self.text:
                raise self._unknown(piece.turn)
            return 0, 0  # the template does not write it at all
        # A mark survives between the first and the last character that the template keeps: bisect both ends.
        first = 0
        if self._place(piece, 0) is None:
            first = bisect.bisect_left(range(last), True, 1, key=lambda i: self._place(piece, i) is not None)
        end = len(said)
        if self._place(piece, end) is None:
            end = last + bisect.bisect_left(
                range(last + 1, end), True, key=lambda i: self._place(piece, i) is None
            )
        kept = said[first:end]
        if kept != said and self._with({piece: kept}) != self.text:
            raise self._unknown(piece.turn)
        start, stop = self._place(piece, first), self._place(piece, end)
        if start is None or stop is None:
            raise self._unknown(piece.turn)
        return start, stop

    def one_or_turn(self, piece: _Piece) -> tuple[int, int]:
        """The span of one piece; for a content that is written in parts, from the first to the last."""
        try:
            return self.one(piece)
        except AssistantSpansError:
            start, end = self.turn_with_calls(piece.turn)
            if self.text[start:end].split() != piece.text.split():  # not to the letter, but for whitespace
                raise
            return start, end

    def _place(self, piece: _Piece, at: int) -> int | None:
        """The position in the text of a position in a piece; None if it is missing or cannot be marked."""
        mark = _mark()
        marked = self._with({piece: piece.text[:at] + mark + piece.text[at:]})
        if marked is None or marked.count(mark) != 1:
            return None
        position = marked.index(mark)
        return position if marked.replace(mark, "") == self.text else None

    def writes_calls(self, turn: int) -> bool:
        """Whether the tool calls of a turn change the text."""
        plain = {name: value for name, value in self.turns[turn].items() if name != "tool_calls"}
        try:
            return self.render([*self.turns[:turn], plain, *self.turns[turn + 1 :]]) != self.text
        except ValueError:
            return True

    def turn_with_calls(self, turn: int) -> tuple[int, int]:
        """The span from the end of the generation prompt to the end of the turn, for a turn with calls."""
        before = self.turns[:turn]
        try:
            prompt = self.render(before, add_generation_prompt=True, continue_final_message=False)
            closed = self.render(
                self.turns[: turn + 1], add_generation_prompt=False, continue_final_message=False
            )
            _, tail = around_content(self.render, before)
        except ValueError:
            raise self._unknown(turn) from None
        start, end = len(prompt), len(closed) - len(tail)
        fits = self.text.startswith(closed) and closed.startswith(prompt) and closed.endswith(tail)
        return (start, end) if fits and start <= end else self._around_calls(turn)

    def _around_calls(self, turn: int) -> tuple[int, int]:
        """The span of a turn with calls, between the text before and after its content if it had no calls.

        Many templates write a turn differently if another one follows, as without an empty thought.
        """
        mark = _mark()
        plain = {name: value for name, value in self.turns[turn].items() if name != "tool_calls"}
        said = [*self.turns[:turn], {**plain, "content": mark}, *self.turns[turn + 1 :]]
        try:
            before, *after = self.render(said).split(mark)
        except ValueError:
            raise self._unknown(turn) from None
        end = len(self.text) - len("".join(after))
        outside = len(after) == 1 and self.text.startswith(before) and self.text.endswith(after[0])
        if not outside or not len(before) <= end <= self._next_content(turn):
            raise self._unknown(turn)
        return len(before), end

    def _next_content(self, turn: int) -> int:
        """The start of the next turn's content, which some templates write into a turn with calls.

        The end of the text for the last turn; -1 where it cannot be told.
        """
        if turn + 1 == len(self.turns):
            return len(self.text)
        said = self.turns[turn + 1].get("content")
        place = self._place(_Piece(turn + 1, None, said), 0) if isinstance(said, str) and said else None
        return -1 if place is None else place

    def _with(self, texts: Mapping[_Piece, str]) -> str | None:
        """The rendering with other texts, None if the template fails on them."""
        turns = [dict(turn) for turn in self.turns]
        for piece, text in texts.items():
            if piece.part is None:
                turns[piece.turn]["content"] = text
            else:
                parts = list(turns[piece.turn]["content"])
                parts[piece.part] = {**parts[piece.part], "text": text}
                turns[piece.turn]["content"] = parts
        try:
            return self.render(turns)
        except ValueError:
            return None

    @staticmethod
    def _unknown(turn: int) -> AssistantSpansError:
        return AssistantSpansError(
            f"cannot tell which characters the assistant wrote in message {turn}: the chat template writes"
            " its content twice, changed or without an end. Use a template with {% generation %} blocks"
        )
