"""Limits to the rules of a tokenizer.json, which are checked before the tokenizers package reads it.

A dozen rules that each write eight letters for one make 10^10 of one, and a rule may be a few megabytes that
take minutes to read. What rules make of a text is bounded here from what they say, whatever the text is;
tokenizers that ship with models stay far below the limits.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

MAX_GROWTH = 64
"""Characters that the rules of one kind may make of one, beyond what each kind of model does once."""
MAX_WRITTEN = 1 << 12  # characters that rules may put before a text
MAX_RULE_PARTS = 20_000
MAX_RULE_DEPTH = 16
MAX_RULE_CHARS = 1 << 25  # of everything but the model
MAX_ADDED_TOKENS = 1 << 17  # models of speech have 66,000; twice as many take seconds to read
MAX_TEMPLATE_IDS = 1 << 10
MAX_ID = 2**31 - 1

_KINDS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_IDS = ("added_tokens", "post_processor", "padding")
# Rules after the model, which comes last where the tokenizers package writes the file; in its vocabulary such
# names have numbers. An escaped letter counts as such a name, too.
_AFTER_MODEL = re.compile(
    r'"(?:normalizer|pre_tokenizer|post_processor|decoder|added_tokens|padding)"\s*:\s*[\[{]|\\u00[4-7]'
)
_MODEL = re.compile(r'"model"\s*:')
# Longest that one character gets, in characters: that of each Unicode form, of bytes as characters, and of
# a space that becomes a mark and gets one before it.
_FORMS = {"NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "Lowercase": 3, "BertNormalizer": 12}
_MARKS = {"ByteLevel": 4, "Metaspace": 2}


def check_rules(source: str) -> None:
    """Raise ValueError for a tokenizer.json that may take any time or memory to read or to use.

    Args:
        source: the file's text.

    Example:
        >>> rule = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
        >>> check_rules(json.dumps({"normalizer": rule, "model": {}}))
        Traceback (most recent call last):
        ValueError: its normalizer makes up to 1000 characters of one, allowed are 64
    """
    parts = _parts(source)
    added = parts.get("added_tokens")
    if isinstance(added, list) and len(added) > MAX_ADDED_TOKENS:
        raise ValueError(f"it has {len(added)} added tokens, allowed are {MAX_ADDED_TOKENS}")
    for name in (*_KINDS, "added_tokens", "padding"):
        for count, part in enumerate(_walk(parts.get(name))):
            if name in _IDS and isinstance(part, int) and part > MAX_ID:
                raise ValueError(f"ids must be at most {MAX_ID}, got {part} in its {name}")
            if name in _KINDS and count == MAX_RULE_PARTS:
                raise ValueError(f"its {name} has more than {MAX_RULE_PARTS} parts")
    for name in _KINDS:
        _check_growth(name, _rules(parts.get(name)))


def _check_growth(name: str, rules: Iterator[Mapping[str, Any]]) -> None:
    """Refuse rules that may make more than ``factor * n + written`` characters of a text of n.

    Not counted are what a Unicode form makes of characters of the text itself, as its results stay as they
    are, and the first rule of each other kind: these are how models see texts.
    """
    factor, written = 1, 0
    seen: set[str] = set()
    foreign = False  # whether rules have written what a Unicode form may make longer
    for rule in rules:
        kind, times = str(rule.get("type")), 1
        text = _text(rule.get("content" if kind == "Replace" else "prepend"))
        if kind == "Replace":
            times = _replaced(rule.get("pattern"), len(text))
        elif kind == "Prepend":
            written += len(text)
        elif kind in _FORMS and foreign:
            times = _FORMS[kind]
        elif kind == "Precompiled":
            longest = _longest(rule.get("precompiled_charsmap"))
            # what Unicode's own forms write is no longer than this
            times = longest if kind in seen or longest > 64 else 1
        elif kind in _MARKS and kind in seen:
            times = _MARKS[kind]
        elif kind == "TemplateProcessing":
            pieces = max(len(_list(rule.get(part))) for part in ("single", "pair"))
            special = _walk(rule.get("special_tokens"))
            ids = max((len(_list(part.get("ids"))) for part in special if isinstance(part, dict)), default=1)
            _check(name, f"adds up to {pieces * ids} tokens", pieces * ids, MAX_TEMPLATE_IDS)
        factor, written = factor * max(1, times), written * max(1, times)
        foreign |= not text.isascii()
        seen.add(kind)
        _check(name, f"makes up to {factor} characters of one", factor, MAX_GROWTH)
        _check(name, f"writes up to {written} characters itself", written, MAX_WRITTEN)


def _check(name: str, what: str, found: int, most: int) -> None:
    if found > most:
        raise ValueError(f"its {name} {what}, allowed are {most}")


def _parts(source: str) -> dict[str, Any]:
    """The entries of the file before its model, or all if any may follow."""
    model = _MODEL.search(source)
    texts = [source]
    if model is not None and _AFTER_MODEL.search(source, model.end()) is None:
        # Should what was found be no entry of the file, this is not JSON.
        texts.insert(0, source[: model.start()] + '"model": null}')
    for text in texts:
        if len(text) > MAX_RULE_CHARS:
            raise ValueError(f"its rules have more than {MAX_RULE_CHARS} characters, or come after its model")
        try:
            parts = json.loads(text)
        except json.JSONDecodeError as error:
            message = str(error)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        else:
            if isinstance(parts, dict):
                return parts
            message = f"expected an object, got {type(parts).__name__}"
    raise ValueError(f"it is not valid JSON: {message}")


def _walk(value: Any) -> Iterator[Any]:
    """Everything in a rule, without recursion."""
    left = [(value, 0)]
    while left:
        item, depth = left.pop()
        yield item
        if depth > MAX_RULE_DEPTH:
            raise ValueError(f"its rules are nested more than {MAX_RULE_DEPTH} deep")
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        left += [(part, depth + 1) for part in inner]


def _rules(value: Any) -> Iterator[Mapping[str, Any]]:
    """The rules of a sequence in their order; a rule by itself is one."""
    if not isinstance(value, Mapping):
        return
    if value.get("type") != "Sequence":
        yield value
        return
    for inner in value.values():
        for rule in inner if isinstance(inner, list) else ():
            yield from _rules(rule)


def _replaced(pattern: Any, written: int) -> int:
    """Characters that one becomes; an expression may match nothing, before every character."""
    text = pattern.get("String") if isinstance(pattern, Mapping) else None
    if isinstance(text, str) and text:
        return -(-written // len(text))
    return 1 + written


def _longest(charsmap: Any) -> int:
    """The longest text that a Precompiled rule writes: its map, then its texts, each ended by a zero."""
    try:
        blob = base64.b64decode(_text(charsmap), validate=True)
    except ValueError:
        raise ValueError("its Precompiled rule is not base64") from None
    size = int.from_bytes(blob[:4], "little")
    if size > len(blob) - 4 or size % 4:
        raise ValueError(f"its Precompiled rule has {len(blob)} bytes and a map of {size}")
    return max(map(len, blob[4 + size :].split(b"\0")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
