"""Text from tokens as they come: what can be printed now, without half a character."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from lite.models import Tokenizer

_UNFINISHED = "\ufffd"  # what decoders make of bytes that are no character, or not one yet
_LONGEST = 3  # bytes of a character that can be there before its last one


class TextStream:
    """Decodes a response token by token; the pieces together are the text of all tokens.

    Bytes that may still become a character are kept back until they have, or cannot any more.

    Args:
        tokenizer: what decodes.
        skip_special_tokens: leave special tokens out.

    Example:
        >>> from lite.models import Tokenizer, embedded_model_path
        >>> tokenizer = Tokenizer.from_pretrained(embedded_model_path())
        >>> text = TextStream(tokenizer)
        >>> "".join([text.push(token) for token in tokenizer.encode("12 + 30")] + [text.end()])
        '12 + 30'
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens
        # Tokens whose text is out and stands before the next: decoders treat the first of a text differently.
        self._context: list[int] = []
        self._waiting: list[int] = []
        self._shown = 0  # characters of the waiting tokens that are out

    def push(self, token: int) -> str:
        """Take the next token; returns what can be printed now, possibly nothing."""
        self._waiting.append(token)
        text = self._text()
        whole = text.rstrip(_UNFINISHED)
        if len(text) - len(whole) > _LONGEST:  # too many to be the beginning of one character
            whole = text[:-_LONGEST]
        piece = whole[self._shown :]
        self._shown += len(piece)
        if text and len(whole) == len(text):
            self._context, self._waiting, self._shown = self._waiting, [], 0
        return piece

    def end(self) -> str:
        """No more tokens come; returns what was kept back."""
        piece = self._text()[self._shown :]
        self._waiting, self._shown = [], 0
        return piece

    def _text(self) -> str:
        """The text of the waiting tokens, as it is after the context."""
        before = self._decode(self._context)
        text = self._decode([*self._context, *self._waiting])
        if text.startswith(before):
            return text[len(before) :]
        # Where bytes stand for characters, one that is no character spoils all bytes next to it.
        return self._decode(self._waiting)

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=self._skip)


def token_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The text that each token adds, special ones included; a dot for one whose bytes are no character yet.

    Example:
        >>> from lite.models import Tokenizer, embedded_model_path
        >>> tokenizer = Tokenizer.from_pretrained(embedded_model_path())
        >>> token_texts(tokenizer, tokenizer.encode("12 + 30"))
        ['1', '2', ' +', ' ', '3', '0']
    """
    stream = TextStream(tokenizer, skip_special_tokens=False)
    texts = [stream.push(token) for token in ids]
    if texts:
        texts[-1] += stream.end()
    return [text or "\u00b7" for text in texts]


def token_namer(tokenizer: Tokenizer) -> Callable[[int], str | int]:
    """A function that gives the text of one token by itself, or the id of one whose bytes are no text.

    Example:
        >>> from lite.models import Tokenizer, embedded_model_path
        >>> tokenizer = Tokenizer.from_pretrained(embedded_model_path())
        >>> [token_namer(tokenizer)(token) for token in tokenizer.encode("12 +")]
        ['1', '2', ' +']
    """

    @cache  # the same few tokens are named again and again
    def name(token: int) -> str | int:
        text = tokenizer.decode([token], skip_special_tokens=False)
        return token if not text or _UNFINISHED in text else text

    return name
