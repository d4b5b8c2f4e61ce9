"""Byte-level BPE in Python, for where the tokenizers package has no wheel: a browser.

`Tokenizer` and `AddedToken` have those parts of that package which `lite.models.text.tokenizer` calls, with
the same ids and offsets. They read a tokenizer.json that splits texts as GPT-2 does, digits apart or not:
that of the embedded model is one. Any other rule is refused by name.
"""

from __future__ import annotations

import heapq
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lite.kernels._install import install

# GPT-2's expression. As `re` has no classes of Unicode's categories, it reads texts in which one ASCII
# character stands for all other letters, one for numbers, one for white space and one for all else.
_WORDS = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII)
_DIGITS = {True: re.compile(r"[0-9]|[^0-9]+"), False: re.compile(r"[0-9]+|[^0-9]+")}
# The characters that stand for bytes: themselves where they can be seen, and others in turn.
_SEEN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_UNSEEN = [byte for byte in range(256) if byte not in _SEEN]
_CHARS = {byte: chr(byte) for byte in _SEEN} | {byte: chr(256 + i) for i, byte in enumerate(_UNSEEN)}
_BYTES = {char: byte for byte, char in _CHARS.items()}


class _Alike(dict[int, str]):
    """The ASCII character that stands for another, for `str.translate`."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        kind = "\t" if char.isspace() else {"L": "a", "N": "0"}.get(unicodedata.category(char)[0], "!")
        return self.setdefault(code, char if char.isascii() else kind)


_ALIKE = _Alike()


@dataclass(frozen=True, kw_only=True)
class AddedToken:
    """A text that is one token wherever it stands."""

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


@dataclass(frozen=True)
class Encoding:
    """The ids of a text, and where in it the characters of each begin and end."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class Tokenizer:
    """A byte-level BPE.

    Args:
        rules: what a tokenizer.json says.

    Raises:
        ImportError: the rules are others, and need the tokenizers package.
        ValueError: they are malformed.

    Example:
        >>> from lite.models import embedded_model_path
        >>> tokenizer = Tokenizer.from_str((embedded_model_path() / "tokenizer.json").read_text("utf-8"))
        >>> tokenizer.encode("What is 12?").offsets
        [(0, 4), (4, 7), (7, 8), (8, 9), (9, 10), (10, 11)]
    """

    def __init__(self, rules: Mapping[str, Any]) -> None:
        model = rules.get("model")
        if not isinstance(model, dict):
            raise ValueError("it has no model")
        self._rules, self._splits = rules, _splits(rules, model)
        self._ids: dict[str, int] = dict(model.get("vocab") or {})
        if not all(type(index) is int and index >= 0 for index in self._ids.values()):
            raise ValueError("ids of its vocabulary must be integers that are not negative")
        if missing := [char for char in _CHARS.values() if char not in self._ids]:
            raise ValueError(f"its vocabulary lacks {len(missing)} of the 256 bytes, {missing[0]!r} first")
        self._merges: dict[tuple[int, int], tuple[int, int]] = {}
        for rank, merge in enumerate(model.get("merges") or ()):
            parts = merge.split(" ") if isinstance(merge, str) else merge
            if not isinstance(parts, list) or len(parts) != 2 or "".join(parts) not in self._ids:
                raise ValueError(f"merge {rank} must be two texts that make a token, got {merge!r}")
            left, right = (self._ids[part] for part in parts)
            self._merges[left, right] = rank, self._ids["".join(parts)]
        self._added: dict[str, AddedToken] = {}
        self.encode_special_tokens = False
        for entry in rules.get("added_tokens") or ():
            self._ids.setdefault(entry["content"], entry["id"])
            self.add_tokens([AddedToken(**{k: v for k, v in entry.items() if k != "id"})])

    @classmethod
    def from_str(cls, source: str) -> Tokenizer:
        """The tokenizer of a tokenizer.json."""
        rules = json.loads(source)
        try:
            return cls(rules)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"an entry is missing or of another type: {error!r}") from None

    def to_str(self) -> str:
        """A tokenizer.json."""
        added = [{"id": self._ids[token.content], **asdict(token)} for token in self._added.values()]
        return json.dumps({**self._rules, "added_tokens": added})

    def no_padding(self) -> None:
        """Nothing: it never pads."""

    def no_truncation(self) -> None:
        """Nothing: it never truncates."""

    def add_tokens(self, tokens: Sequence[AddedToken]) -> None:
        """Make texts tokens; new ones get the next ids."""
        for token in tokens:
            if token.single_word or token.lstrip or token.rstrip:
                raise _foreign(f"the added token {token.content!r}")
            self._ids.setdefault(token.content, len(self._ids))
            self._added[token.content] = token
        self._tokens = {index: token for token, index in self._ids.items()}

    add_special_tokens = add_tokens

    def get_vocab(self) -> dict[str, int]:
        """The id of each token."""
        return dict(self._ids)

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """The number of tokens, the added ones included."""
        return len(self._ids)

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        """The added tokens by their ids."""
        return {self._ids[text]: token for text, token in self._added.items()}

    def token_to_id(self, token: str) -> int | None:
        """The id of a token."""
        return self._ids.get(token)

    def id_to_token(self, index: int) -> str | None:
        """The token of an id."""
        return self._tokens.get(index)

    def encode(self, text: str, add_special_tokens: bool = True) -> Encoding:
        """The tokens of a text. There is no rule that adds any, whatever `add_special_tokens` is."""
        found = list(self._encoded(text))
        return Encoding([index for index, _, _ in found], [(start, end) for _, start, end in found])

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = True) -> list[Encoding]:
        """The tokens of several."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens, with a replacement character for bytes that are not UTF-8."""
        tokens = [token for index in ids if (token := self._tokens.get(index)) is not None]
        if skip_special_tokens:
            tokens = [t for t in tokens if not (t in self._added and self._added[t].special)]
        parts = [bytes(map(_BYTES.__getitem__, t)) if set(t) <= _BYTES.keys() else t.encode() for t in tokens]
        return b"".join(parts).decode("utf-8", "replace")

    def decode_batch(self, rows: Sequence[Sequence[int]], skip_special_tokens: bool = True) -> list[str]:
        """The texts of several rows."""
        return [self.decode(row, skip_special_tokens) for row in rows]

    def _encoded(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Each id with where it begins and ends."""
        whole = [t for t in self._added if not (self.encode_special_tokens and self._added[t].special)]
        longest_first = "|".join(re.escape(token) for token in sorted(whole, key=len, reverse=True))
        alike, start = text.translate(_ALIKE), 0
        for match in re.finditer(longest_first, text) if whole else ():
            yield from self._of_words(text, alike, start, match.start())
            yield self._ids[match[0]], *match.span()
            start = match.end()
        yield from self._of_words(text, alike, start, len(text))

    def _of_words(self, text: str, alike: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        spans = [(start, end)]
        for split in self._splits:
            spans = [match.span() for span in spans for match in split.finditer(alike, *span)]
        for first, last in spans:
            # which character each byte of the word is of
            owners = [i for i in range(first, last) for _ in text[i].encode()]
            ids = [self._ids[_CHARS[byte]] for byte in text[first:last].encode()]
            for index, begin, after in self._merged(ids):
                yield index, owners[begin], owners[after - 1] + 1

    def _merged(self, ids: list[int]) -> Iterator[tuple[int, int, int]]:
        """The tokens of bytes: merges are applied in the order of the list, the leftmost place first."""
        tokens: list[int | None] = [*ids]
        before, after = list(range(-1, len(ids) - 1)), list(range(1, len(ids) + 1))
        heap: list[tuple[int, int, int]] = []

        def look(i: int) -> None:
            if i >= 0 and after[i] < len(tokens):
                merge = self._merges.get((tokens[i], tokens[after[i]]))  # type: ignore[arg-type]
                if merge is not None:
                    heapq.heappush(heap, (merge[0], i, merge[1]))

        for i in range(len(ids)):
            look(i)
        while heap:
            _, i, merged = heapq.heappop(heap)
            j = after[i]
            if j == len(tokens) or self._merges.get((tokens[i], tokens[j]), (0, -1))[1] != merged:  # type: ignore[arg-type]
                continue  # one of the two has become part of another token
            tokens[i], tokens[j], after[i] = merged, None, after[j]
            if after[i] < len(tokens):
                before[after[i]] = i
            look(before[i])
            look(i)
        return ((token, i, after[i]) for i, token in enumerate(tokens) if token is not None)


def _splits(rules: Mapping[str, Any], model: Mapping[str, Any]) -> list[re.Pattern[str]]:
    """The splitter of texts into words, one expression after the other; ImportError for other rules."""
    for name in ("normalizer", "post_processor"):
        if rules.get(name) is not None:
            raise _foreign(f"its {name} {_kind(rules[name])}")
    if _kind(rules.get("decoder")) != "ByteLevel":
        raise _foreign(f"its decoder {_kind(rules.get('decoder'))}")
    options = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
    if _kind(model) != "BPE" or any(model.get(name) for name in options):
        raise _foreign(f"its model {_kind(model)}")
    rule: Any = rules.get("pre_tokenizer")
    *digits, last = rule["pretokenizers"] if _kind(rule) == "Sequence" else [rule]
    if _kind(last) != "ByteLevel" or last.get("add_prefix_space") or not last.get("use_regex", True):
        raise _foreign(f"its pre_tokenizer {_kind(last)}")
    for each in digits:
        if _kind(each) != "Digits":
            raise _foreign(f"its pre_tokenizer {_kind(each)}")
    return [*(_DIGITS[bool(each.get("individual_digits"))] for each in digits), _WORDS]


def _kind(rule: Any) -> Any:
    return rule.get("type") if isinstance(rule, dict) else rule


def _foreign(what: str) -> ImportError:
    return ImportError(f"{what} needs the tokenizers package: {install('llm')}")
