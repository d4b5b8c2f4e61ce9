"""Streaming of text: tokens are decoded as they come, without incomplete characters."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

UNFINISHED = "\ufffd"  # what decoders make of bytes that are not a character, or not one yet
_LONGEST = 3  # bytes of a character that can be there before its last one


class TextStream:
    """Decodes a response token by token; the pieces together are the text of all tokens.

    Bytes that may be the start of a character are kept back until it is complete or impossible.

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

    def __init__(self, tokenizer: Any, *, skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens
        # Tokens whose text was returned, decoded with the next ones: decoders treat first tokens differently.
        self._context: list[int] = []
        self._waiting: list[int] = []
        self._shown = 0  # characters of the waiting tokens that were returned

    def push(self, token: int) -> str:
        """Take the next token; returns what can be printed now, possibly nothing."""
        self._waiting.append(token)
        text = self._text()
        whole = text.rstrip(UNFINISHED)
        if len(text) - len(whole) > _LONGEST:  # too many to be the beginning of one character
            whole = text[:-_LONGEST]
        piece = whole[self._shown :]
        self._shown += len(piece)
        if text and len(whole) == len(text):
            self._context, self._waiting, self._shown = self._waiting, [], 0
        return piece

    def end(self) -> str:
        """End the text; returns the characters that were kept back."""
        piece = self._text()[self._shown :]
        self._waiting, self._shown = [], 0
        return piece

    def _text(self) -> str:
        """The text of the waiting tokens, as it is after the context."""
        before = self._decode(self._context)
        text = self._decode([*self._context, *self._waiting])
        if text.startswith(before):
            return text[len(before) :]
        # Where bytes stand for characters, one that is not a character spoils all bytes next to it.
        return self._decode(self._waiting)

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=self._skip)


class TextStreamer:
    """Prints a response while `generate` writes it: `generate(..., streamer=TextStreamer(tokenizer))`.

    `put` takes the prompt's ids first, then each token, and `end` comes last, as with the class of this name
    in transformers, whose `generate` takes it, too. Text comes as soon as its characters are whole.

    Args:
        tokenizer: what decodes.
        skip_prompt: leave the prompt out.
        skip_special_tokens: leave special tokens out.

    Source:
        `TextStreamer` of transformers, https://github.com/huggingface/transformers.

    Example:
        >>> from lite.models import *
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> tokenizer = Tokenizer.from_pretrained(embedded_model_path())
        >>> chat = [{"role": "user", "content": "What is 12 + 30?"}]
        >>> ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
        >>> streamer = TextStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
        >>> config = GenerationConfig.from_kwargs({"max_new_tokens": 8}, decoder.config)
        >>> _ = generate(decoder, [ids], config, streamer=streamer)
        42
    """

    def __init__(
        self, tokenizer: Any, skip_prompt: bool = False, *, skip_special_tokens: bool = False
    ) -> None:
        self.tokenizer = tokenizer
        self.skip_prompt = skip_prompt
        self.skip_special_tokens = skip_special_tokens
        self._begin()

    def _begin(self) -> None:
        self._stream = TextStream(self.tokenizer, skip_special_tokens=self.skip_special_tokens)
        self._prompt_is_next = True

    def put(self, value: ArrayLike) -> None:
        """Take token ids, of shape (n,) or (1, n), and hand on the text that is whole.

        Raises:
            ValueError: they are of several rows.
        """
        ids = np.asarray(value)
        if ids.ndim > 1 and ids.shape[0] > 1:
            raise ValueError(f"a TextStreamer takes one response, got ids of shape {ids.shape}")
        is_prompt, self._prompt_is_next = self._prompt_is_next, False
        if not (is_prompt and self.skip_prompt):
            self.on_finalized_text("".join([self._stream.push(token) for token in ids.ravel().tolist()]))

    def end(self) -> None:
        """Hand on the text that was kept back; the next `put` begins another response."""
        text = self._stream.end()
        self._begin()
        self.on_finalized_text(text, stream_end=True)

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        """Print a piece of the text, and at the end a line break; to be overridden by subclasses."""
        print(text, flush=True, end="\n" if stream_end else "")


class TextIteratorStreamer(TextStreamer):
    """A response as an iterator of pieces of its text, while another thread generates it.

    Args:
        tokenizer: as all arguments but the last, for `TextStreamer`.
        timeout: seconds that a piece is waited for; None for any time.

    Raises:
        queue.Empty: from an iteration, after `timeout`.

    Source:
        `TextIteratorStreamer` of transformers.

    Example:
        >>> import threading
        >>> from lite.models import *
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> tokenizer = Tokenizer.from_pretrained(embedded_model_path())
        >>> streamer = TextIteratorStreamer(tokenizer, skip_prompt=True)
        >>> arguments = decoder, [tokenizer.encode("Copy: sun")], GenerationConfig(max_new_tokens=3)
        >>> thread = threading.Thread(target=generate, args=arguments, kwargs={"streamer": streamer})
        >>> thread.start()
        >>> len(list(streamer)) > 1
        True
        >>> thread.join()
    """

    def __init__(
        self,
        tokenizer: Any,
        skip_prompt: bool = False,
        timeout: float | None = None,
        *,
        skip_special_tokens: bool = False,
    ) -> None:
        super().__init__(tokenizer, skip_prompt, skip_special_tokens=skip_special_tokens)
        self.timeout = timeout
        self._pieces: queue.Queue[str | None] = queue.Queue()

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        """Hand a piece to the iterator."""
        self._pieces.put(text)
        if stream_end:
            self._pieces.put(None)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        piece = self._pieces.get(timeout=self.timeout)
        if piece is None:
            raise StopIteration
        return piece
