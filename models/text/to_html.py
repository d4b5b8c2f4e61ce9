"""Tokens, log-probs and conversations as HTML, for notebooks and pages."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._show.page import escape

# Least probability of each shade, from the palest.
SHADES = (0.9, 0.5, 0.2, 0.05, 0.01, 0.0)
_ALPHAS = (0.0, 0.12, 0.25, 0.4, 0.58, 0.78)
STYLE = (
    ".lite-tokens{line-height:1.9;white-space:pre-wrap;overflow-wrap:anywhere;"
    "font-family:ui-monospace,monospace}"
    ".lite-tokens span{border:1px solid color-mix(in srgb,currentColor 18%,transparent);border-radius:3px;"
    "padding:0 2px;margin:0 1px;unicode-bidi:isolate;display:inline-block;max-width:100%;line-height:1.5;"
    "box-sizing:border-box}"
    + "".join(f".lite-p{i}{{background:rgba(225,70,30,{alpha})}}" for i, alpha in enumerate(_ALPHAS) if alpha)
    + ".lite-note{opacity:.65}.lite-turn{margin:.3em 0;padding:.3em .7em;border-left:.25em solid #999;"
    "white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate}"
    ".lite-user{border-color:#3b7dd8}.lite-assistant{border-color:#2f9e5b}.lite-system,.lite-tool{border-color:#b58a1b}"
    ".lite-role{font-weight:bold;display:block}"
)
_MOST_ROWS, _MOST_TOKENS, _MOST_TURNS, _LONGEST_TEXT = 20, 500, 50, 2000


def shade(log_prob: float) -> int | None:
    """The index in `SHADES` of a log-prob; None for NaN.

    Example:
        >>> shade(0.0), shade(-0.5), shade(float("-inf"))
        (0, 1, 5)
    """
    if math.isnan(log_prob):
        return None
    probability = math.exp(min(log_prob, 0.0))
    return next(i for i, least in enumerate(SHADES) if probability >= least)


def shade_names() -> list[str]:
    """The name of each shade in legends."""
    return [
        f"{least:.0%} and more" if i == 0 else f"{least:.0%} to {SHADES[i - 1]:.0%}"
        for i, least in enumerate(SHADES)
    ]


def chips(
    texts: Sequence[str],
    log_probs: Sequence[float] | None,
    more: Sequence[str] | None = None,
    alternatives: Sequence[Sequence[tuple[str | int, float]]] | None = None,
) -> str:
    """Tokens side by side, the darker the less probable; hovering tells the numbers.

    Args:
        texts: the text of each token.
        log_probs: their log-probs, if known.
        more: further text of each tooltip.
        alternatives: the most probable tokens at each position, texts or ids with their log-probs, if known:
            a line each in the tooltip.
    """
    parts = []
    for i, text in enumerate(texts):
        facts, kind = [f"token {i}"], ""
        if log_probs is not None:
            value = float(log_probs[i])
            if (level := shade(value)) is not None:
                kind = f' class="lite-p{level}"'
            probability = math.exp(min(value, 0.0)) if not math.isnan(value) else math.nan
            facts.append(f"log-prob {value:z.4f}, probability {probability:.2%}")
            facts.append(f"all other tokens {1 - probability:.2%}")
        if more is not None and more[i]:
            facts.append(more[i])
        title = "\n".join([", ".join(facts), *_lines_of(() if alternatives is None else alternatives[i])])
        shown = text.replace("\n", "\u21b5\n")  # makes line breaks visible
        seen = shown.rstrip("\n")
        after = shown[len(seen) :]  # ends the line of the tokens, and not one within the token
        parts.append(f'<span{kind} title="{escape(title)}">{escape(seen)}</span>{after}')
    return f'<div class="lite-tokens">{"".join(parts)}</div>'


def _lines_of(alternatives: Sequence[tuple[str | int, float]]) -> Iterator[str]:
    """A line for each alternative, and one for the remaining probability."""
    left = 1.0
    for token, log_prob in alternatives:
        probability = math.exp(min(log_prob, 0.0)) if not math.isnan(log_prob) else math.nan
        left -= probability
        name = json.dumps(token, ensure_ascii=False) if isinstance(token, str) else f"id {token}"
        yield f"{probability:.2%} {name}"
    if alternatives and not math.isnan(left):
        yield f"{max(left, 0.0):.2%} all tokens that are not listed"


def legend() -> str:
    """The legend of the shades."""
    shades = "".join(f'<span class="lite-p{i}">{escape(name)}</span>' for i, name in enumerate(shade_names()))
    return f'<div class="lite-tokens" style="font-size:80%">probability {shades}</div>'


def tokens_html(kind: str, batch: tuple[int, ...], columns: Mapping[str, Sequence[NDArray[Any]]]) -> str:
    """Rows of token ids, or of log-probs if they are floats: a section for each field.

    Args:
        kind: the name of the class.
        batch: its batch size.
        columns: for each field that is known, its rows: arrays (L,).
    """
    colours = any(row.dtype.kind == "f" for rows in columns.values() for row in rows)
    sections = [legend()] if colours else []
    for name, rows in columns.items():
        sections += _field(name, [len(row) for row in rows], _numbers(rows))
    return _block(f"{kind}, batch_size={batch}", sections or [_note("no field is set")])


def draws_html(sampled: Sequence[NDArray[Any]], top: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> str:
    """What is known of draws: their log-probs, and the most probable tokens in each place.

    Args:
        sampled: for each row the log-probs (L,) of its tokens; none if they are not known.
        top: for each row the most probable ids and their log-probs, (L, n) both; none if not known.
    """
    if not sampled and not top:
        return ""
    sections = [legend()]
    if sampled:
        sections += _field("sampled_log_probs", [len(row) for row in sampled], _numbers(sampled))
    if top:
        lines = (_best(ids[:_MOST_TOKENS], log_probs[:_MOST_TOKENS]) for ids, log_probs in top)
        sections += _field("top_ids, the most probable in each place", [len(ids) for ids, _ in top], lines)
    return _block("Sampling", sections)


def _best(ids: NDArray[Any], log_probs: NDArray[Any]) -> str:
    """The chips of the most probable ids, which come first."""
    texts = [str(best) for best in ids[:, 0].tolist()]
    return chips(texts, log_probs[:, 0].tolist(), None, named(ids, log_probs))


def named(
    ids: Any, log_probs: Any, name: Callable[[int], str | int] = int
) -> list[list[tuple[str | int, float]]]:
    """Alternatives as `chips` takes them, of ids and log-probs (L, n); padding has the id -1 and is left out.

    Example:
        >>> named([[7, -1]], [[-0.5, 0.0]], str)
        [[('7', -0.5)]]
    """
    places = zip(np.asarray(ids).tolist(), np.asarray(log_probs).tolist(), strict=True)
    return [[(name(one), value) for one, value in zip(*place, strict=True) if one >= 0] for place in places]


def _numbers(rows: Sequence[NDArray[Any]]) -> Iterator[str]:
    """The chips of each row of ids or log-probs."""
    for row in rows:
        shown = row[:_MOST_TOKENS].tolist()
        if row.dtype.kind == "f":
            yield chips([f"{value:z.2f}" for value in shown], shown)
        else:
            yield chips([str(value) for value in shown], None)


def _field(name: str, lengths: Sequence[int], lines: Iterable[str]) -> list[str]:
    """The name of a field, and its rows; `lines` is read only for rows that are shown."""
    sections = [f'<div class="lite-role">{escape(name)}</div>']
    for i, (length, line) in enumerate(zip(lengths[:_MOST_ROWS], lines, strict=False)):
        sections.append(f'<div class="lite-note">row {i}, {length} tokens</div>{line}')
        if length > _MOST_TOKENS:
            sections.append(_more(length - _MOST_TOKENS, "tokens"))
    if len(lengths) > _MOST_ROWS:
        sections.append(_more(len(lengths) - _MOST_ROWS, "rows"))
    return sections


def history_html(batch: tuple[int, ...], chats: Any) -> str:
    """Conversations turn by turn.

    Args:
        batch: the batch size.
        chats: what `History.to_chats` gives.
    """
    conversations = list(_conversations(chats, ()))
    sections = []
    for at, turns in conversations[:_MOST_ROWS]:
        if at:
            sections.append(_note(f"conversation {', '.join(map(str, at))}"))
        sections += [_turn(turn) for turn in turns[:_MOST_TURNS] if turn.get("role") != "<none>"]
        if len(turns) > _MOST_TURNS:
            sections.append(_more(len(turns) - _MOST_TURNS, "turns"))
    if len(conversations) > _MOST_ROWS:
        sections.append(_more(len(conversations) - _MOST_ROWS, "conversations"))
    return _block(f"History, batch_size={batch}", sections)


def _conversations(chats: Any, at: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], list[dict[str, Any]]]]:
    """Every conversation with its place in the batch."""
    if isinstance(chats, dict):
        yield at, [chats]
    elif all(isinstance(turn, dict) for turn in chats):
        yield at, chats
    else:
        for i, chat in enumerate(chats):
            yield from _conversations(chat, (*at, i))


def _turn(turn: Mapping[str, Any]) -> str:
    role = str(turn.get("role"))
    kind = f" lite-{role}" if role in ("user", "assistant", "system", "tool") else ""
    parts = [f'<span class="lite-role">{escape(role)}</span>{escape(_text(turn.get("content")))}']
    for name in ("tool_calls", "tool_responses"):
        if turn.get(name) is not None:
            parts.append(f'<span class="lite-note">\n{escape(f"{name}: {_text(turn[name])}")}</span>')
    if turn.get("is_complete") is False:
        parts.append('<span class="lite-note"> (not complete)</span>')
    return f'<div class="lite-turn{kind}">{"".join(parts)}</div>'


def _text(content: Any) -> str:
    if isinstance(content, str):
        text = content
    else:
        try:
            text = json.dumps(content, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            text = repr(content)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}... ({len(text):,} characters)"


def _block(title: str, sections: Sequence[str]) -> str:
    return f"<style>{STYLE}</style><div>{_note(title)}{''.join(sections)}</div>"


def _note(text: str) -> str:
    return f'<div class="lite-note">{escape(text)}</div>'


def _more(count: int, what: str) -> str:
    return _note(f"and {count:,} more {what}")


def numbers_only(rows: Sequence[Any], ndim: int) -> list[NDArray[Any]] | None:
    """Rows as arrays (L,) of ids or log-probs; None if something else was put there.

    Args:
        rows: rows of a field, with or without dimensions before those of a row.
        ndim: the dimensions of a row, (L, n) has two.
    """
    found: list[NDArray[Any]] = []
    for row in rows:
        array = np.asarray(row)
        if array.dtype.kind not in "iuf" or array.ndim < ndim:
            return None
        before, own = array.shape[: array.ndim - ndim], array.shape[array.ndim - ndim :]
        found += list(array.reshape(math.prod(before), *own))
    return found
