"""The texts of single tokens, for pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from lite.models import Tokenizer
from lite.models.text.streaming import UNFINISHED, TextStream


def token_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The text that each token adds, also special ones; a dot for one whose bytes are not a character yet.

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
    """A function that gives the text of one token by itself, or the id of one whose bytes are not text.

    Example:
        >>> from lite.models import Tokenizer, embedded_model_path
        >>> tokenizer = Tokenizer.from_pretrained(embedded_model_path())
        >>> [token_namer(tokenizer)(token) for token in tokenizer.encode("12 +")]
        ['1', '2', ' +']
    """

    @cache  # the same few tokens are named again and again
    def name(token: int) -> str | int:
        text = tokenizer.decode([token], skip_special_tokens=False)
        return token if not text or UNFINISHED in text else text

    return name
